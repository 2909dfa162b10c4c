"""`tripbench guards list|show|check`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guards.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from guards.registry import About
    from runners.harness.guard_check import Act, Checked, InPlane, Played

app = typer.Typer(
    help="The guards and the detectors of other products: list, show; check PATH tries a plugin.", rich_markup_mode=None
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print data only.")]


@app.command("list")
def list_guards(as_json: JsonOption = False) -> None:
    """List the guards: ours, in the order of the full stack, then those of other products, for replay alone."""
    from guards import registry

    known = [registry.describe(name) for name in (*registry.names(), *registry.peer_names())]
    if as_json:
        skipped = [{"name": name, "skipped": why} for name, why in registry.skipped().items()]
        print(json.dumps([*map(_row, known), *skipped], indent=2))
        return
    width = max(len(each.name) for each in known)
    for each in known:
        print(f"{each.name:<{width}}  {each.summary}")
    print()
    print("Not replayed:")
    for name, why in registry.skipped().items():
        print(f"{name:<{width}}  {why}")


@app.command("show")
def show_guard(name: Annotated[str, typer.Argument(metavar="NAME")], as_json: JsonOption = False) -> None:
    """Show a guard: where its rule comes from, its keys with defaults and what is allowed, its presets."""
    from guards import registry

    known = registry.describe(name)
    if as_json:
        print(json.dumps(_row(known), indent=2))
        return
    print(known.about)
    print()
    print(f"Name: {known.name}")
    print(f"From: {known.source}")
    print("Presets:" if known.presets else "Presets: none")
    for preset, keys in known.presets.items():
        print(f"  {preset}: {', '.join(f'{key}={_text(value)}' for key, value in keys.items())}")
    print("Keys:" if known.keys else "Keys: none")
    for key in known.keys:
        print(f"  {key.name} = {_text(key.default)}")
        print(f"      {key.allowed}")


@app.command("check")
def check_plugin(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder of a DSH plugin.")],
    config: Annotated[
        str | None, typer.Option("--config", metavar="JSON", help="The plugin's keys, as a JSON object.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One key, over --config; the value is JSON, or else a text."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Mount a DSH plugin in the real harness, once in each plane, and print what it does to known courses.

    Exit status: 0 it armed in one plane at least, and does not fail there; 1 it is no plugin, does not load, or fails;
    2 bad usage.
    """
    from runners.gateway.opening import calm_threads
    from runners.harness.guard_check import check
    from runners.harness.layout import Scratch

    keys = _keys(config, settings or [])
    if not path.exists():
        raise UserError(f"{path}: there is no such folder; name that of a DSH plugin")
    calm_threads()
    scratch = Scratch()
    try:
        done = check(path, keys, scratch)
    finally:
        scratch.remove()
    if as_json:
        print(json.dumps(done.data(), indent=2))
    else:
        for line in _check_lines(done):
            print(line)
    if done.problem is not None:
        print(f"tripbench: error: {done.problem}", file=sys.stderr)
        return 1
    return 0


def _keys(config: str | None, settings: Sequence[str]) -> dict[str, Any]:
    from guards.json_text import parse
    from runners.cli_replay import _setting

    try:
        keys = {} if config is None else parse(config)
    except ValueError as error:
        raise UserError(f"--config: no JSON: {error}") from error
    if not isinstance(keys, dict):
        raise UserError(f"--config takes a JSON object of the plugin's keys, not {config}")
    return keys | dict(_setting(each) for each in settings)


def _check_lines(done: Checked) -> Iterator[str]:
    """What was found out, for people; nothing where a problem came before all of it."""
    from runners.harness.guard_check import COURSES
    from runners.harness.guard_check_survey import ranges

    seen = done.surveyed
    if seen is None:
        return
    kind = "a compaction engine" if seen.engine else "a plugin"
    yield f"{seen.name} {seen.version or '(no version)'}: {kind}, in the harness {done.harness}"
    wanted = ranges(seen.requires) or "nothing declared"
    yield f"harness versions: {wanted}"
    if seen.unmet:
        yield f"  OUTSIDE of {ranges(seen.unmet)}: the harness would disable it; mounted here by an exception"
    yield f"imports: {', '.join(specifier for specifier, _ in seen.imports) or 'none'}"
    for specifier, why in seen.imports:
        if why is not None:
            yield f"  NOT RESOLVED: {specifier}: {why}"
    for plane in done.planes:
        yield from _plane_lines(plane)
    if done.planes:
        yield ""
        yield from (f"{course.name}: {course.says} ({course.scenario})" for course in COURSES)


def _plane_lines(plane: InPlane) -> Iterator[str]:
    told = {True: ", consulted", False: ", never consulted", None: ""}[plane.consulted]
    yield ""
    yield f"{plane.plane} plane: {f'armed{told}' if plane.armed else f'NOT armed: {plane.cause}'}"
    for each in plane.logged:
        yield f"  logged ({each.level}): {_short(each.text)}"
    for played in plane.courses:
        yield from _course_lines(played)


def _course_lines(played: Played) -> Iterator[str]:
    compacted = f", {played.attempts} compaction attempts ({played.committed} committed)" if played.attempts else ""
    yield f"  {played.course}: {played.calls} calls{compacted}, end: {played.end}"
    if played.failure is not None:
        yield f"    FAILED: {_short(played.failure)}"
    silent = True
    for what, acts in (
        ("denied call", played.denied),
        ("other result than the world's at call", played.altered),
        ("nudged behind call", played.nudged),
        ("message injected behind call", () if played.nudged else played.noticed),
        ("refused compaction attempt", played.refused),
    ):
        if acts:
            silent = False
            yield f"    {what} {_places(acts)}: {_short(acts[0].text)}"
    if silent and played.failure is None:
        yield "    did nothing"


def _places(acts: Sequence[Act]) -> str:
    """Indices with runs drawn together: `4-7, 9`."""
    found: list[list[int]] = []
    for index in dict.fromkeys(act.index for act in acts):
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _short(text: str) -> str:
    from runners.cli_replay import _printable

    line = " ".join(text.split())
    return _printable(line if len(line) <= 160 else f"{line[:157]}...")


def _row(known: About) -> dict[str, Any]:
    return {
        "name": known.name,
        "peer": known.peer,
        "summary": known.summary,
        "source": known.source,
        "about": known.about,
        "presets": known.presets,
        "keys": [{"key": key.name, "default": key.default, "allowed": key.allowed} for key in known.keys],
    }


def _text(value: Any) -> str:
    from guards.json_text import dump

    return "(not set)" if value is None else dump(value)
