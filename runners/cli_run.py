"""`tripbench run`: episodes into a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from runners.cli_models import CacheOption


def run(
    scenarios: Annotated[
        str | None, typer.Option("--scenario", metavar="NAME[:SIZE],...", help="Scenarios, with commas between them.")
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", metavar="NAME|FILE", help="A suite of scenarios, arms and seeds.")
    ] = None,
    runner: Annotated[
        Literal["dsh", "native"],
        typer.Option(help="native: a small loop without the harness; arms off, stack and only:GUARD."),
    ] = "dsh",
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME|PATH|actor:honest|actor:looping",
            help="Who plays; repeatable. Default: the catalogue's default model.",
        ),
    ] = None,
    arms: Annotated[
        str | None, typer.Option(metavar="ARM,...", help="off, stock, null, host, agent, both, only:GUARD@PLANE ...")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N|A..B", help="How many seeds from 0, or which.")] = None,
    size: Annotated[
        Literal["small", "default", "large"], typer.Option(help="Of scenarios that name none.")
    ] = "default",
    horizon: Annotated[int | None, typer.Option(help="Tool turns, or attempts in refill scenarios.")] = None,
    priming: Annotated[int | None, typer.Option(metavar="K", help="Repeats that stand in the history.")] = None,
    stack: Annotated[Path | None, typer.Option(metavar="FILE", help="Guards and their settings (TOML).")] = None,
    harness: Annotated[
        str | None, typer.Option(metavar="VERSION", help="The version that must be installed; another is an error.")
    ] = None,
    decode_mode: Annotated[
        Literal["free", "lazy", "forced"] | None, typer.Option(help="How tool calls are decoded. Default: lazy.")
    ] = None,
    sampler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|greedy", help="Over the card's sampler; repeatable. greedy: no randomness, no penalty."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Default: results/runs/DATE-NAME.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    tape_only: Annotated[
        bool, typer.Option("--tape-only", help="Play the run in --out again from its tape, without a model.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and how long it may take.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Episodes at once. Default: 1, for actors the cores. A model with more than 1 decodes them in one "
            "batch: often faster, but what it says can differ from run to run by rounding."
        ),
    ] = None,
    gpu_layers: Annotated[int | None, typer.Option(help="Layers on a GPU; -1, the default, is all.")] = None,
    wall_limit: Annotated[float, typer.Option(metavar="SECONDS", help="An episode that lasts longer is an error.")] = (
        1800.0
    ),
    cache: CacheOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON on stdout, and nothing else.")
    ] = False,
) -> int:
    """Run episodes in the real harness and write their traces.

    Exit status: 0 done; 1 some episodes ended in an infrastructure error, or a check failed; 2 bad usage; 130
    interrupted, with what was finished kept.
    """
    from runners.asked import Request
    from runners.execution import execute

    return execute(
        Request(
            runner=runner,
            scenarios=scenarios,
            suite=suite,
            models=tuple(models or ()),
            arms=arms,
            seeds=seeds,
            size=size,
            horizon=horizon,
            priming=priming,
            stack=stack,
            harness=harness,
            decode_mode=decode_mode,
            sampler=tuple(sampler or ()),
            out=out,
            resume=resume,
            tape_only=tape_only,
            dry_run=dry_run,
            jobs=jobs,
            gpu_layers=gpu_layers,
            wall_limit=wall_limit,
            cache=cache,
            as_json=as_json,
        )
    )
