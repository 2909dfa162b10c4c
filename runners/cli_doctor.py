"""`tripbench doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from runners.cli_models import CacheOption


def doctor(
    cache: CacheOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print data only.")] = False,
) -> None:
    """Say what this machine has. Ends with 1 where something is missing that tripbench cannot do without."""
    from runners.doctor import examine

    findings = examine(cache)
    if as_json:
        print(json.dumps([finding.data() for finding in findings], indent=2))
    else:
        for finding in findings:
            print(finding.line())
    if any(finding.status == "missing" and finding.required for finding in findings):
        raise typer.Exit(1)
