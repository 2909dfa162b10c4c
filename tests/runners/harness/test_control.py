"""The runner's say before each step: what is attested, what is counted, and what ends an episode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.harness.attest import Failure
from runners.harness.control import MOST_CALLS_A_TURN, MOST_TOKENS_A_TURN, Control, RecordedWorld
from runners.harness.eventlog import EventLog
from runners.harness.watch import WorkspaceWatch
from runners.spec import Horizon
from scenarios.base import HorizonUnit
from scenarios.mcp_server import WorldServer
from scenarios.registry import scenario
from scenarios.search_mirage import SearchMirage
from scenarios.workspace import FilesWorld
from tests.runners.harness.log_lines import CHILD, ROOT, Ask, Log

TURNS: HorizonUnit = "tool turns"
ATTEMPTS: HorizonUnit = "compaction attempts"
GO: dict[str, Any] = {"go": True, "why": None}


class Table:
    """A control with its log and world, and the recorder's questions put to it."""

    def __init__(self, folder: Path, count: int = 5, unit: HorizonUnit = TURNS, attest: Any = None) -> None:
        made = SearchMirage(0)
        folder.mkdir(parents=True, exist_ok=True)
        self.log = EventLog(folder / "events.jsonl")
        self.log.path.write_bytes(b"")
        self.world = RecordedWorld(made.world(), self.log)
        self.control = Control(
            log=self.log,
            finished=lambda: self.world.finished,
            server=WorldServer(self.world, made.tools),
            horizon=Horizon(count, unit),
            planes=("host",),
            attest=attest or (lambda live, lines: []),
        )

    def happens(self, log: Log) -> None:
        for line in log.lines:
            self.log.append(line)

    def solve(self) -> None:
        """Plays the honest course to its end."""
        course = SearchMirage(0).honest()
        for step in range(3):
            for tool, args in course.turn(step, ()).calls:
                self.world.call(tool, args)

    def ask(self, **more: Any) -> dict[str, Any]:
        question = {"at": "pre-step", "agent": ROOT, "turn": 1, "step": 1, **more}
        return asyncio.run(self.control.control(question))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_it_goes_on(table: Table) -> None:
    assert table.ask(live={}) == GO
    table.happens(Log().step(Ask("a")))
    assert table.ask() == GO
    assert table.control.stopped_by is None


# -- attestation -----------------------------------------------------------------------------------------------------


def test_what_is_live_is_attested_once_with_what_the_log_holds(tmp_path: Path) -> None:
    asked: list[tuple[Any, list[Any]]] = []
    table = Table(tmp_path, attest=lambda live, lines: asked.append((live, list(lines))) or [])
    table.happens(Log().add("up", plane="host"))
    assert table.ask(live={"pid": 7}) == GO
    assert table.ask(live={"pid": 7}, agent=CHILD) == GO
    assert asked == [({"pid": 7}, [{"ev": "up", "agent": ROOT, "plane": "host"}])]


def test_what_is_not_live_ends_it(tmp_path: Path) -> None:
    failure = Failure("loop-guard", "agent", "it is not there")
    table = Table(tmp_path, attest=lambda live, lines: [failure])
    assert table.ask(live={}) == {"go": False, "why": "error"}
    assert table.ask() == {"go": False, "why": "error"}
    assert table.control.failures == [failure]


# -- what ends it ----------------------------------------------------------------------------------------------------


def steps(count: int, *calls: str, **more: Any) -> Log:
    log = Log()
    for number in range(count):
        log.step(*(Ask(f"{call}{number}") for call in calls), **more)
    return log


def compactions(count: int) -> Log:
    log = Log()
    for _ in range(count):
        log.compact().event("step/start")
    return log


@pytest.mark.parametrize(
    ("unit", "count", "happened", "goes"),
    [
        (TURNS, 5, steps(4, "a"), True),
        (TURNS, 5, steps(5, "a"), False),
        (TURNS, 5, steps(5), True),
        (TURNS, 5, steps(5, "a", primed=True), False),
        (TURNS, 5, compactions(4), True),
        (TURNS, 5, compactions(5), False),
        (TURNS, 2, steps(1, *"abcdefgh"), True),
        (TURNS, 2, steps(1, *"abcdefghijklmnop"), False),
        (TURNS, 2, steps(1, output_tokens=2 * MOST_TOKENS_A_TURN - 1), True),
        (TURNS, 2, steps(1, output_tokens=2 * MOST_TOKENS_A_TURN), False),
        (TURNS, 2, Log().event("compaction/start", turn=1).answer(8, compaction=True, output_tokens=9999), True),
        (ATTEMPTS, 2, compactions(1), True),
        (ATTEMPTS, 2, compactions(2), False),
        (ATTEMPTS, 2, steps(19, "a"), True),
        (ATTEMPTS, 2, steps(20, "a"), False),
        (ATTEMPTS, 1, steps(1, output_tokens=10 * MOST_TOKENS_A_TURN), False),
    ],
)
def test_the_horizon(tmp_path: Path, unit: HorizonUnit, count: int, happened: Log, goes: bool) -> None:
    table = Table(tmp_path, count, unit)
    table.happens(happened)
    assert table.ask() == ({"go": True, "why": None} if goes else {"go": False, "why": "horizon"})


def test_an_attempt_counts_when_it_is_over(tmp_path: Path) -> None:
    table = Table(tmp_path, 1, ATTEMPTS)
    table.happens(Log().attempt())
    assert table.ask() == GO
    table.happens(Log().settled())
    assert table.ask() == {"go": False, "why": "horizon"}


def test_the_whole_tree_s_turns_count(tmp_path: Path) -> None:
    table = Table(tmp_path, 3)
    table.happens(steps(2, "a"))
    table.happens(Log(CHILD, 1).step(Ask("x")))
    assert table.ask(agent=CHILD) == {"go": False, "why": "horizon"}
    assert table.ask(agent=ROOT) == {"go": False, "why": "horizon"}


def test_a_solved_task_ends_it(table: Table) -> None:
    table.solve()
    assert table.ask() == {"go": False, "why": "finished"}


def test_an_interrupt_ends_it(table: Table) -> None:
    table.control.interrupt()
    assert table.ask() == {"go": False, "why": "interrupted"}


def test_the_first_reason_stays(table: Table) -> None:
    table.happens(steps(5, "a"))
    assert table.ask() == {"go": False, "why": "horizon"}
    table.solve()
    assert table.ask() == {"go": False, "why": "horizon"}
    assert table.control.stopped_by == "horizon"
    assert not table.control.interrupted


def test_an_interrupt_is_heard_after_another_reason_too(table: Table) -> None:
    """The process is killed with it: nobody knows how that episode would have ended."""
    table.happens(steps(5, "a"))
    assert table.ask() == {"go": False, "why": "horizon"}
    table.control.interrupt()
    assert table.control.interrupted
    assert table.ask() == {"go": False, "why": "interrupted"}


SCRIPT = st.lists(st.sampled_from(["step", "reply", "compact", "refused"]), max_size=12)
MOVES: dict[str, Callable[[Log], Any]] = {
    "step": lambda log: log.step(Ask("a"), Ask("b")),
    "reply": lambda log: log.reply(),
    "compact": lambda log: log.compact().event("step/start"),
    "refused": lambda log: log.attempt("refuse").settled(),
}


@given(SCRIPT, st.lists(st.integers(0, 100), max_size=6), st.integers(1, 8))
def test_it_does_not_matter_when_the_log_is_read(
    tmp_path_factory: pytest.TempPathFactory, script: list[str], cuts: list[int], horizon: int
) -> None:
    log = Log()
    for move in script:
        MOVES[move](log)
    often, once = (Table(tmp_path_factory.mktemp("control"), horizon) for _ in range(2))
    went: list[dict[str, Any]] = []
    at = 0
    for cut in [*sorted(cut for cut in cuts if cut < len(log.lines)), len(log.lines)]:
        for line in log.lines[at:cut]:
            often.log.append(line)
        at = cut
        went.append(often.ask())
    once.happens(log)
    assert once.ask() == went[-1]
    stopped = [answer["go"] for answer in went]
    assert stopped == sorted(stopped, reverse=True)


def test_questions_that_come_together_are_answered_alike(tmp_path: Path) -> None:
    table = Table(tmp_path, 40)
    table.happens(steps(40, "a"))

    async def together() -> list[dict[str, Any]]:
        question = {"at": "pre-step", "agent": ROOT, "turn": 1, "step": 1}
        return await asyncio.gather(*(table.control.control(question) for _ in range(16)))

    assert asyncio.run(together()) == [{"go": False, "why": "horizon"}] * 16


# -- the world -------------------------------------------------------------------------------------------------------


def test_the_world_s_calls_stand_in_the_log_before_the_caller_has_them(table: Table) -> None:
    good = table.world.call("web_search", {"query": "x"})
    bad = table.world.call("web_search", {"question": "x"})
    none = table.world.call("no_such_tool", {})
    assert table.log.update() == [
        {"ev": "world", "tool": tool, "error": outcome.error, "text": outcome.text}
        for tool, outcome in (("web_search", good), ("web_search", bad), ("no_such_tool", none))
    ]
    assert [outcome.error for outcome in (good, bad, none)] == [False, True, True]


def test_the_recorded_world_ends_with_its_own(table: Table) -> None:
    assert not table.world.finished
    table.solve()
    assert table.world.finished


# -- calls of the harness' own tools ---------------------------------------------------------------------------------


def test_files_are_looked_at_before_a_call_and_move_after_it(tmp_path: Path) -> None:
    made = scenario("reread-after-edit")
    inner = made.world()
    assert isinstance(inner, FilesWorld)
    for path, text in made.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    log = EventLog(tmp_path / "events.jsonl")
    log.path.touch()
    control = Control(
        log=log,
        finished=lambda: inner.finished,
        server=WorldServer(RecordedWorld(inner, log), made.tools),
        horizon=Horizon(5, TURNS),
        planes=("host",),
        attest=lambda live, lines: [],
        watch=WorkspaceWatch(inner, tmp_path, log),
    )

    def ask(at: str, **more: Any) -> dict[str, Any]:
        return asyncio.run(control.control({"at": at, "agent": ROOT, "tool": "bash", **more}))

    path = next(iter(made.files))
    assert ask("pre-call", call="c1") == {"go": True}
    (tmp_path / path).write_text("all new")
    assert ask("post-call", call="c1", args={"command": "true"}, text="") == {"go": True}
    assert ask("pre-call", call="c2") == {"go": True}
    log.update()
    first, second = (line for line in log.lines if line["ev"] == "workspace")
    assert (first["call"], first["changed"]) == ("c1", {})
    assert second["call"] == "c2"
    assert second["changed"][path] == "all new"
    assert first["digest"] != second["digest"]
    # A denied call ran nothing: what the world does at a call's end does not happen.
    before = inner.ticks
    log.append({"ev": "deny", "guard": "g", "plane": "host", "agent": ROOT, "call": "c2"})
    assert ask("post-call", call="c2", args={"command": "true"}, text="denied") == {"go": True}
    assert inner.ticks == before


def test_caps_follow_the_horizon() -> None:
    assert Horizon(3, TURNS).turns == 3
    assert Horizon(3, ATTEMPTS).turns == 30
    assert MOST_CALLS_A_TURN == 8
