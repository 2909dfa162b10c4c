"""`tripbench replay`: what guards would have decided on recorded episodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guards.errors import UserError

if TYPE_CHECKING:
    from guards.stack_policy import StackPolicy
    from runners.replay import Replayed

_COLUMNS = ("episode", "agent", "guard", "action", "kind", "call", "index", "count", "limit")


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Traces, .trace.jsonl or .trace.jsonl.zst.")],
    guard: Annotated[str | None, typer.Option("--guard", metavar="NAME", help="One guard alone.")] = None,
    preset: Annotated[str | None, typer.Option("--preset", metavar="P", help="Fills keys before --set.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the guard; the value is JSON, or else a text."),
    ] = None,
    stack: Annotated[Path | None, typer.Option("--stack", metavar="STACK.toml", help="A stack of guards.")] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a decision and nothing else.")] = False,
) -> None:
    """Feed recorded events to guards and print every decision, in the order of the events.

    All files are read before anything is printed, so that a bad one prints no decision at all.
    """
    from results.trace_calls import link
    from results.trace_file import read_trace
    from runners.replay import replay as decisions

    fresh = _guards(guard, preset, settings or [], stack)
    found: list[Replayed] = []
    warnings: list[str] = []
    skipped = 0
    for file in files:
        trace = read_trace(file, lenient=lenient)
        calls = link(trace.events)
        warnings += [*trace.warnings, *(f"{file}: {warning}" for warning in calls.warnings)]
        skipped += trace.skipped
        found += decisions(trace, fresh(), calls)
    for warning in warnings:
        print(_printable(f"tripbench: warning: {warning}"), file=sys.stderr)
    if skipped:
        print(f"tripbench: warning: {skipped} malformed lines skipped", file=sys.stderr)
    if as_json:
        for each in found:
            print(json.dumps(each.row()))
        return
    _print_table(found, len(files))


def _guards(
    guard: str | None, preset: str | None, settings: list[str], stack: Path | None
) -> Callable[[], StackPolicy]:
    """Makes fresh guards for each trace. What is wrong with them is found here, before a file is read."""
    from guards import registry
    from guards.stack import load_stack
    from guards.stack_policy import StackPolicy

    if (guard is None) == (stack is None):
        raise UserError("replay takes either --guard NAME or --stack STACK.toml")
    if guard is not None:
        keys = dict(_setting(each) for each in settings)
        registry.build(guard, preset, keys)
        return lambda: StackPolicy([registry.build(guard, preset, keys)])
    if preset is not None or settings:
        raise UserError("--preset and --set are for --guard; a stack's file has keys of its own")
    assert stack is not None
    loaded = load_stack(stack)
    loaded.policies()
    return lambda: StackPolicy(loaded.policies())


def _setting(given: str) -> tuple[str, Any]:
    from guards.json_text import parse

    key, equals, value = given.partition("=")
    if not equals or not key:
        raise UserError(f"--set takes KEY=VALUE, not {given!r}")
    try:
        return key, parse(value)
    except ValueError:
        return key, value


def _print_table(found: list[Replayed], episodes: int) -> None:
    rows = [[_printable(str("-" if value is None else value)) for value in each.row().values()] for each in found]
    if rows:
        table = [[column.upper() for column in _COLUMNS], *rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
        for row in table:
            cells = (
                cell.rjust(width) if column in ("index", "count", "limit") else cell.ljust(width)
                for cell, width, column in zip(row, widths, _COLUMNS, strict=True)
            )
            print("  ".join(cells).rstrip())
    print(f"{len(found)} decision{'' if len(found) == 1 else 's'} in {episodes} trace{'' if episodes == 1 else 's'}")


def _printable(text: str) -> str:
    """The text with escapes for what a terminal would take for a command, or could not show."""
    encoding = sys.stdout.encoding or "utf-8"
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown.encode(encoding, "backslashreplace").decode(encoding)
