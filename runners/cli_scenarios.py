"""`tripbench scenarios list|show|try|audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from guards.errors import UserError
from runners.cli_models import CacheOption

if TYPE_CHECKING:
    from rich.console import Console

    from scenarios.base import Scenario

app = typer.Typer(help="Tasks with a world and a judge: list, show, try, audit.", rich_markup_mode=None)

JsonOption = Annotated[bool, typer.Option("--json", help="Print data only.")]
SizeOption = Annotated[Literal["small", "default", "large"], typer.Option(help="Size of the task.")]
SeedOption = Annotated[int, typer.Option(metavar="N", help="Variant of the task.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
WIDTH = 150
REST = 3
"""Calls of a looping course that are shown from its onset on."""


@app.command("list")
def list_scenarios(as_json: JsonOption = False) -> None:
    """List the scenarios: what a guard is expected to do there, those of real files (B), calls of the honest course by
    size, and what it is."""
    from scenarios.registry import names

    rows = [_row(name) for name in names()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        calls = "/".join(str(each["honest_calls"]) for each in row["sizes"].values())
        files = "B" if row["harness_tools"] else " "
        print(f"{row['name']:<{width}}  {row['expect']:<5}  {files}  {calls:<10}  {row['summary']}")
    print()
    print("B: real files, worked on with the harness's own tools. Calls of the honest course: small/default/large.")


@app.command("show")
def show_scenario(
    name: NameArgument, size: SizeOption = "default", seed: SeedOption = 0, as_json: JsonOption = False
) -> None:
    """Show a scenario: prompt, tools, needs, and the actors' courses with what each call is worth."""
    from scenarios.registry import scenario

    found = _shown(scenario(name, seed, size))
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['name']} ({found['expect']}): {found['summary']}")
    print(f"Size {found['size']}, seed {found['seed']}. {_needs(found['needs'])}")
    print("\nPrompt:")
    print(f"  {found['prompt']}")
    for path, text in found["files"].items():
        print(f"\nFile {path}: {len(text.splitlines())} lines, {len(text)} characters")
    print("\nTools:" if found["tools"] else "\nTools: none")
    for tool in found["tools"]:
        print(f"  {tool['name']}{' (the harness has its own)' if tool['harness'] else ''}: {tool['description']}")
        for key, schema in tool["parameters"]["properties"].items():
            needed = "" if key in tool["parameters"]["required"] else ", optional"
            about = f": {schema['description']}" if "description" in schema else ""
            print(f"      {key} ({schema.get('type', 'any')}{needed}){about}")
    _print_course("Honest course", found["honest"])
    if found["looping"] is not None:
        _print_course("Looping course", found["looping"])


@app.command("try")
def try_scenario(
    name: NameArgument,
    actor: Annotated[Literal["honest", "looping"] | None, typer.Option(help="A scripted player.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME|PATH", help="A model instead.")] = None,
    arm: Annotated[
        str, typer.Option("--arm", "--arms", metavar="ARM", help="Which guards are mounted; one arm.")
    ] = "off",
    runner: Annotated[
        Literal["native", "dsh"], typer.Option(help="native: a small loop; dsh: the real harness.")
    ] = "native",
    size: SizeOption = "default",
    seed: SeedOption = 0,
    priming: Annotated[int, typer.Option(metavar="K", help="Repeats that stand in the history.")] = 0,
    horizon: Annotated[int | None, typer.Option(help="Tool turns, or attempts in refill scenarios.")] = None,
    stack: Annotated[Path | None, typer.Option(metavar="FILE", help="Guards and their settings (TOML).")] = None,
    decode_mode: Annotated[
        Literal["free", "lazy", "forced"], typer.Option(help="How a model's tool calls are decoded.")
    ] = "lazy",
    sampler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|greedy", help="Over the card's sampler; repeatable. greedy: no randomness, no penalty."
        ),
    ] = None,
    cache: CacheOption = None,
) -> int:
    """Play one episode and watch it call by call: what each call is worth and why, what guards did, and what those that
    are not mounted would have done, each alone.

    Exit status: 0 it was played; 1 it ended in an infrastructure error; 2 bad usage; 130 interrupted.
    """
    if (actor is None) == (model is None):
        raise UserError("say who plays: --actor honest, --actor looping or --model NAME (one of them)")
    from runners.trying import Trial, attempt

    trial = Trial(
        scenario=name,
        model=f"actor:{actor}" if actor is not None else model or "",
        arm=arm,
        runner=runner,
        size=size,
        seed=seed,
        priming=priming,
        horizon=horizon,
        stack=stack,
        decode_mode=decode_mode,
        sampler=tuple(sampler or ()),
        cache=cache,
    )
    trace = attempt(trial, _console())
    return int(any(event.type == "end" and getattr(event, "reason", None) == "error" for event in trace.events))


@app.command("audit")
def audit_scenarios(
    size: Annotated[Literal["small", "default", "large", "all"], typer.Option(help="Size of the tasks.")] = "default",
    seeds: Annotated[str, typer.Option(metavar="N|A..B", help="How many seeds from 0, or which.")] = "1",
    as_json: JsonOption = False,
) -> None:
    """Play every actor's course under the default stack, each guard alone and each detector of other products, all at
    their defaults: which honest course is hurt first and where, and when loops are stopped. No model, no harness."""
    from runners.audit import audit
    from runners.audit_tables import data, tables
    from runners.suite_file import parse_seeds
    from scenarios.registry import names

    found = audit(names(), ("small", "default", "large") if size == "all" else (size,), parse_seeds(seeds))
    if as_json:
        print(json.dumps(data(found), indent=2))
        return
    console = _console()
    for at, table in enumerate(tables(found)):
        if at:
            console.print()
        console.print(table)


def _console() -> Console:
    from rich.console import Console

    console = Console()
    # Where there is no terminal, nobody has asked for 80 columns.
    return console if console.is_terminal else Console(width=WIDTH)


# -- what is known of a scenario -------------------------------------------------------------------------------------


def _row(name: str) -> dict[str, Any]:
    from scenarios.registry import scenario

    made = scenario(name)
    sizes: dict[str, Any] = {}
    for size in ("small", "default", "large"):
        of = scenario(name, 0, size)
        sizes[size] = {"horizon": of.needs.horizon, "honest_calls": len(_course(of, "honest")["calls"])}
    return {
        "name": made.name,
        "expect": made.expect,
        "summary": made.summary,
        "harness_tools": list(made.needs.harness_tools),
        "horizon_unit": made.needs.horizon_unit,
        "looping": made.looping() is not None,
        "sizes": sizes,
    }


def _shown(made: Scenario) -> dict[str, Any]:
    from dataclasses import asdict

    own = {tool.name for tool in made.tools}
    return {
        "name": made.name,
        "expect": made.expect,
        "summary": made.summary,
        "size": made.size,
        "seed": made.seed,
        "prompt": made.prompt,
        "files": dict(made.files),
        "tools": [asdict(tool) | {"harness": tool.name not in own} for tool in made.native_tools],
        "needs": asdict(made.needs),
        "honest": _course(made, "honest"),
        "looping": None if made.looping() is None else _course(made, "looping"),
    }


def _course(made: Scenario, course: Literal["honest", "looping"]) -> dict[str, Any]:
    from dataclasses import asdict

    from results.episode import Episode
    from results.loops import loops
    from runners.audit import play

    episode = Episode(play(made, course))
    calls = [
        {
            "agent": call.agent,
            "index": call.index,
            "tool": call.tool,
            "args": call.args,
            "class": call.judged,
            "why": call.why,
            "unit": call.unit,
        }
        for call in episode.calls
    ]
    found = [asdict(loop) for loop in loops(episode)]
    kept = [{key: loop[key] for key in ("kind", "agent", "onset", "length", "ended")} for loop in found]
    attempts = len(episode.attempts)
    return {"calls": calls, "attempts": attempts, "loops": kept, "success": episode.success, "end": episode.end}


def _needs(needs: dict[str, Any]) -> str:
    said = [f"At most {needs['horizon']} {needs['horizon_unit']}, replies of {needs['reply_tokens']} tokens"]
    if needs["window"] is not None:
        said.append(f"a window of {needs['window']} tokens")
    if needs["harness_tools"]:
        said.append(f"the harness's tools {', '.join(needs['harness_tools'])}")
    if needs["engine"] is not None:
        said.append("compaction with " + ", ".join(f"{key} {value}" for key, value in needs["engine"].items()))
    return ", ".join(said) + "."


def _print_course(title: str, course: dict[str, Any]) -> None:
    from guards.json_text import dump
    from runners.screen import plain

    solved = "solved" if course["success"] else "not solved"
    attempts = f", {course['attempts']} compaction attempts" if course["attempts"] else ""
    print(f"\n{title}: {len(course['calls'])} calls{attempts}, ends as {course['end']}, {solved}")
    for loop in course["loops"]:
        unit = "call" if loop["kind"] == "calls" else "compaction attempt"
        print(f"  loop from {unit} {loop['onset']} on ({loop['agent']}, {loop['length']} long)")
    onset = next((loop["onset"] for loop in course["loops"] if loop["kind"] == "calls"), None)
    most = len(course["calls"]) if onset is None else onset + REST - 1
    for call in course["calls"][:most]:
        who = "" if call["agent"] == "root" else f"{call['agent']} "
        print(f"  {who}{call['index']:>3} {plain(call['tool'] + ' ' + dump(call['args']))}")
        print(f"      {call['class']}{' (unit)' if call['unit'] else ''}: {plain(call['why'])}")
    if most < len(course["calls"]):
        print(f"      ... {len(course['calls']) - most} more")
