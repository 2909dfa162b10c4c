"""The doctor's check of a model, on each kind of memory and on what is no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from guards.errors import UserError
from runners.gateway.engine_options import EngineOptions
from runners.models.resolve import resolve
from runners.selfcheck import examine_model
from tests.tiny_gguf import Arch

OPTIONS = EngineOptions(n_ctx=2048, slots=2)


@pytest.mark.parametrize("arch", ["llama", "mamba", "hybrid", "swa"])
def test_every_kind_of_memory_passes(tiny: dict[Arch, Path], arch: Arch) -> None:
    findings = {finding.part: finding for finding in examine_model(tiny[arch], OPTIONS)}
    assert {finding.status for finding in findings.values()} == {"ok"}
    assert ("snapshots" in findings["model"].text) == (arch != "llama")
    assert findings["model prefix reuse"].details["reused_tokens"] > 700
    assert findings["model speed"].details["decode"] > 0
    assert "north" in findings["model grammar"].text or "south" in findings["model grammar"].text


@pytest.mark.model
def test_a_real_model_passes() -> None:
    model = resolve("smollm2-135m").path
    findings = {finding.part: finding for finding in examine_model(model, OPTIONS)}
    assert {finding.status for finding in findings.values()} == {"ok"}
    assert findings["model prefix reuse"].details["same_token"]


def test_what_is_no_text_model_is_refused(tiny: dict[Arch, Path]) -> None:
    with pytest.raises(UserError, match="not a model that continues text"):
        examine_model(tiny["encoder"], OPTIONS)
