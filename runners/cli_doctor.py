"""`tripbench doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runners.cli_models import CacheOption

if TYPE_CHECKING:
    from runners.doctor import Finding


def doctor(
    model: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="Load this model too and check that it runs rightly.")
    ] = None,
    gpu_layers: Annotated[int, typer.Option(help="Layers on a GPU for --model; -1 is all.")] = -1,
    cache: CacheOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print data only.")] = False,
) -> None:
    """Say what this machine has. Ends with 1 where something is missing that tripbench cannot do without."""
    from runners.doctor import examine

    findings = examine(cache)
    if model is not None:
        findings += _model(model, gpu_layers, cache)
    if as_json:
        print(json.dumps([finding.data() for finding in findings], indent=2))
    else:
        for finding in findings:
            print(finding.line())
    if any(finding.status == "missing" and finding.required for finding in findings):
        raise typer.Exit(1)


def _model(model: str, gpu_layers: int, cache: Path | None) -> list[Finding]:
    from runners.gateway.engine_options import EngineOptions
    from runners.gateway.opening import calm_threads
    from runners.models.resolve import resolve

    calm_threads()
    file = resolve(model, cache)
    from runners.selfcheck import examine_model

    return examine_model(file.path, EngineOptions(n_ctx=1024, slots=2, gpu_layers=gpu_layers))
