"""`tripbench guards list|show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from guards.registry import About

app = typer.Typer(help="The guards and the detectors of other products: list, show.", rich_markup_mode=None)

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
