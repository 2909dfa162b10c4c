"""Whatever keeps a guard from standing, or the harness from running, ends the episode as an error that says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guards.stack import Stack, StackGuard, load_stack
from results.trace import Guard
from runners.arms import Arm
from runners.harness.composition import Addresses, Composer, Composition, compose
from runners.spec import EpisodeSpec, Interrupted
from scenarios.base import Needs, Outcome, World
from scenarios.search_mirage import SearchMirage
from scenarios.tools import Args
from tests.runners.dsh_stage import cause, end, of, spec, staged
from tests.runners.gateway.serving import wait_for

PLANES = ("host", "agent")


def plugin(folder: Path, text: str) -> Stack:
    """A stack whose circuit-breaker is a plugin with this text."""
    folder.mkdir()
    (folder / "package.json").write_text(
        json.dumps({"name": "dsh-broken", "version": "1.0.0", "type": "module", "exports": "./index.js"})
    )
    (folder / "index.js").write_text(text)
    return Stack("broken", (StackGuard("circuit-breaker", path=folder),))


def failure(stack: Stack, arm: str, composer: Composer = compose, **how: Any) -> str:
    """Why an episode with this stack is no result."""
    with staged(stack, composer=composer, **how) as (runner, _, given):
        trace = runner.run(spec("search-mirage", arm, "looping", given, horizon=4)).trace
    assert not [event for event in of(trace, Guard) if event.action == "deny"]
    return cause(trace)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("throw new Error('it breaks at load')", "it breaks at load"),
        ("export const name = 'x'; export function apply() { throw new Error('it breaks in apply') }", "in apply"),
        ("import x from 'no-such-package'; export function apply() {}", "Cannot find package 'no-such-package'"),
    ],
)
def test_a_plugin_that_does_not_load(tmp_path: Path, plane: str, text: str, why: str) -> None:
    said = failure(plugin(tmp_path / "broken", text), f"only:circuit-breaker@{plane}")
    assert said.startswith(f"circuit-breaker@{plane}: ")
    assert why in said


@pytest.mark.parametrize("plane", PLANES)
def test_a_key_that_the_plugin_does_not_know(plane: str) -> None:
    def misspelt(*given: Any) -> Composition:
        made = compose(*given)
        return replace(made, rows=_edited(made.rows, "circuit-breaker-", lambda row: row["config"].update(windw=3)))

    said = failure(Stack("s", (StackGuard("circuit-breaker"),)), f"only:circuit-breaker@{plane}", misspelt)
    assert said.startswith(f"circuit-breaker@{plane}: ")
    assert 'unknown key "windw"' in said


def test_a_row_that_is_skipped_because_a_name_only_matches() -> None:
    """A patch that means to put a breaker in place of the harness' own engine: the runtime skips it without a word."""

    def replacing(arm: Arm, stack: Stack, needs: Needs, window: int, at: Addresses) -> Composition:
        made = compose(arm, stack, needs, window, at)
        rows = [row for row in made.rows if row.get("id") != "compaction-basic"]
        rows = list(_edited(rows, "compaction-breaker-host", None))
        (breaker,) = (each for each in made.expected if each.guard == "compaction-breaker")
        rows.append({"id": "compaction-basic", "name": breaker.package, "config": {}})
        expected = tuple(replace(each, row="compaction-basic") if each is breaker else each for each in made.expected)
        return replace(made, rows=tuple(rows), expected=expected)

    said = failure(Stack("s", (StackGuard("compaction-breaker"),)), "only:compaction-breaker@host", replacing)
    assert said.startswith("compaction-breaker@host: ")
    assert "skipping" in said


def test_a_preset_that_nobody_joins() -> None:
    def without_joiner(*given: Any) -> Composition:
        made = compose(*given)
        expected = tuple(each for each in made.expected if each.row != "preset-joiner")
        return replace(made, rows=_edited(made.rows, "preset-joiner", None), expected=expected)

    said = failure(Stack("s", (StackGuard("circuit-breaker"),)), "only:circuit-breaker@agent", without_joiner)
    assert said.startswith("circuit-breaker@agent: the agent has not joined the preset 'eval'")


def test_a_guard_that_mounts_and_is_never_asked(tmp_path: Path) -> None:
    """Our own guard's name and `arm` line, and no hook: only that it was never consulted gives it away."""
    ours = Path(str(load_stack.__code__.co_filename)).parent / "plugins" / "circuit-breaker"
    silent = tmp_path / "silent"
    silent.mkdir()
    (silent / "package.json").write_bytes((ours / "package.json").read_bytes())
    (silent / "index.js").write_text(
        "import { appendFileSync } from 'node:fs'\n"
        "export const name = 'silent'\n"
        "export function apply(ctx, { eventLog, plane }) {\n"
        "  const line = { ev: 'arm', guard: 'circuit-breaker', plane, config: {}, pid: process.pid }\n"
        "  appendFileSync(eventLog, JSON.stringify(line) + '\\n')\n"
        "}\n"
    )

    def swapped(*given: Any) -> Composition:
        made = compose(*given)
        packages = {name: silent if folder == ours else folder for name, folder in made.packages.items()}
        return replace(made, packages=packages)

    said = failure(Stack("s", (StackGuard("circuit-breaker"),)), "only:circuit-breaker@host", swapped)
    assert said == "circuit-breaker@host: it is mounted, and was never consulted"


def test_a_runtime_that_dies_at_boot() -> None:
    dies = (sys.executable, "-c", "import sys; sys.exit('no luck today' if '--dump-config' not in sys.argv else 0)")
    assert "no luck today" in failure(Stack("s", (StackGuard("circuit-breaker"),)), "host", command=dies)


def test_a_runtime_that_hangs(tmp_path: Path) -> None:
    text = "export function apply(ctx) { ctx.on('tools/pre-execute', () => new Promise(() => {})) }"
    said = failure(plugin(tmp_path / "hangs", text), "only:circuit-breaker@host", wall_seconds=4.0)
    assert said.startswith("runtime: wall limit: the episode did not end in 4 s")


def test_an_mcp_server_that_is_not_there() -> None:
    def elsewhere(arm: Arm, stack: Stack, needs: Needs, window: int, at: Addresses) -> Composition:
        return compose(arm, stack, needs, window, replace(at, mcp="http://127.0.0.1:1/mcp"))

    said = failure(Stack("s", (StackGuard("circuit-breaker"),)), "host", elsewhere)
    assert said.startswith("world@host: ")


def test_an_mcp_server_that_goes_away() -> None:
    with staged() as (runner, house, given):

        class Leaving(_Mirage):
            def during(self) -> None:
                for guest in house._gateway._guests.values():
                    guest._server = None  # type: ignore[attr-defined]

        trace = runner.run(_spec(Leaving(), given)).trace
    assert "never reached the world" in cause(trace)


def test_a_gateway_that_goes_away() -> None:
    with staged() as (runner, house, given):

        class Ending(_Mirage):
            def during(self) -> None:
                house._server.stop()

        trace = runner.run(_spec(Ending(), given)).trace
    assert "gateway" in cause(trace)


def test_a_failed_episode_leaves_its_log_and_stderr(tmp_path: Path) -> None:
    stack = plugin(tmp_path / "broken", "throw new Error('it breaks at load')")
    failure(stack, "only:circuit-breaker@host", kept=tmp_path / "kept")
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == [
        "search-mirage.only-circuit-breaker-host.looping.s0.events.jsonl",
        "search-mirage.only-circuit-breaker-host.looping.s0.stderr.txt",
    ]
    assert "it breaks at load" in (tmp_path / "kept" / names[1]).read_text()


# -- parts -----------------------------------------------------------------------------------------------------------


class _Mirage(SearchMirage):
    """The mirage with something that happens in the midst of its third call."""

    def __init__(self) -> None:
        super().__init__(0)

    def during(self) -> None:
        raise NotImplementedError

    def world(self) -> World:
        return _Between(super().world(), self.during)


class _Between(World):
    def __init__(self, world: World, during: Any) -> None:
        super().__init__(())
        self._world, self._during, self._number = world, during, 0

    def call(self, tool: str, args: Any, agent: str = "root") -> Outcome:
        self._number += 1
        if self._number == 3:
            self._during()
        return self._world.call(tool, args, agent)

    def run(self, args: Args, agent: str) -> Outcome:
        return self._world.run(args, agent)

    def worth(self, args: Args, agent: str) -> Any:
        return self._world.worth(args, agent)


def _spec(made: _Mirage, stack: Stack) -> EpisodeSpec:
    return spec(made, "off", "looping", stack, horizon=6)


def _edited(rows: Sequence[dict[str, Any]], prefix: str, edit: Any) -> Any:
    """The rows with those whose id begins so edited, at any depth; removed where `edit` is None."""
    kept = []
    for row in rows:
        if str(row.get("id", "")).startswith(prefix):
            if edit is None:
                continue
            edit(row)
        for key in ("insert", "plugins"):
            if key in row:
                row[key] = list(_edited(row[key], prefix, edit))
        config = row.get("config")
        if isinstance(config, dict) and "plugins" in config:
            config["plugins"] = list(_edited(config["plugins"], prefix, edit))
        elif isinstance(config, list):
            row["config"] = list(_edited(config, prefix, edit))
        kept.append(row)
    return tuple(kept)


def test_an_interrupt_while_the_runtime_winds_down_is_no_result_at_all() -> None:
    """Its horizon has stopped the episode already, and the kill comes before the runtime has ended by itself."""
    with staged() as (runner, _, given), ThreadPoolExecutor(1) as pool:
        playing = pool.submit(runner.run, spec("search-mirage", "off", "looping", given, horizon=2))
        wait_for(lambda: any(control.stopped_by for control, _ in [*runner._live.values()]) or playing.done())
        runner.interrupt()
        try:
            trace = playing.result().trace
        except Interrupted:
            return
    # It was over before the interrupt came.
    assert end(trace).reason == "horizon"
