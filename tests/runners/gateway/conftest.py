"""The byte vocabulary that grammar tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.gateway.dialects.llama_grammar import ByteVocabulary
from tests.tiny_gguf import Arch


@pytest.fixture(scope="session")
def vocabulary(tiny: dict[Arch, Path]) -> ByteVocabulary:
    return ByteVocabulary(tiny["llama"])
