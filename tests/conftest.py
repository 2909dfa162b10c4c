"""Fixtures that more than one test module uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from runners.gateway.opening import calm_threads
from tests.tiny_gguf import Arch, write

calm_threads()

# The same examples in every run, however busy the machine is.
settings.register_profile("tripbench", deadline=None, derandomize=True)
settings.load_profile("tripbench")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[Arch, Path]:
    """A tiny random-weight GGUF of each kind of memory."""
    folder = tmp_path_factory.mktemp("tiny")
    archs: tuple[Arch, ...] = ("llama", "mamba", "hybrid", "swa", "encoder", "embedding")
    return {arch: write(folder / f"{arch}.gguf", arch, context_length=2048) for arch in archs}
