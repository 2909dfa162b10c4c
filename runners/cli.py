"""The command line `tripbench`: one module a group of commands, each imported here and nothing heavy by them.

Exit status: 0 done; 1 a check failed; 2 bad usage or configuration; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from guards.errors import UserError
from runners import (
    cli_doctor,
    cli_guards,
    cli_models,
    cli_provocation,
    cli_replay,
    cli_report,
    cli_run,
    cli_scenarios,
    cli_serve,
)

app = typer.Typer(
    name="tripbench",
    help="Measures loop guards end to end: real GGUF models in the real DeepSeek Harness.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Groups and commands are registered here, one line each.
app.add_typer(cli_models.app, name="models")
app.add_typer(cli_guards.app, name="guards")
app.add_typer(cli_scenarios.app, name="scenarios")
app.command("doctor")(cli_doctor.doctor)
app.command("serve")(cli_serve.serve)
app.command("replay")(cli_replay.replay)
app.command("run")(cli_run.run)
app.command("report")(cli_report.report)
app.command("provocation")(cli_provocation.provocation)


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"tripbench {metadata.version('tripbench')}")
        except metadata.PackageNotFoundError as error:
            raise UserError("tripbench is not installed here, so it has no version; run: make setup") from error
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line (None takes the process's own) and returns its exit status."""
    try:
        status = app(args=arguments, standalone_mode=False)
    except UserError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        status = 130
    except typer.TyperException as error:
        text = " ".join(error.format_message().split()).rstrip(".")
        return _fail(f"{text} (tripbench --help lists what there is)")
    if status == 130:
        print("tripbench: interrupted", file=sys.stderr)
    return status if isinstance(status, int) else 0


def _fail(text: str) -> int:
    print(f"tripbench: error: {text}", file=sys.stderr)
    return 2


def main() -> None:
    """The console command."""
    sys.exit(run())
