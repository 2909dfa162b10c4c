"""Who started whom: from the recorder's line to the agent's number, and to the trace's event."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from results.trace import Call, Event, Result, Spawn
from runners.harness.assemble import Inconsistent, assemble
from runners.harness.attest import Failure, joined
from runners.harness.composition import PRESET
from runners.harness.control import Control
from runners.harness.eventlog import EventLog, Line
from runners.harness.telling import told
from runners.spec import Horizon
from scenarios.delegated_loop import DelegatedLoop
from scenarios.mcp_server import WorldServer
from tests.runners.harness.log_lines import CHILD, ROOT, Ask, Log

OTHER = "session-other"
START, SECOND = Ask("s1", "subagent"), Ask("s2", "subagent")


def started(call: str, child: str) -> Line:
    return {"ev": "spawn", "agent": ROOT, "call": call, "child": child, "purpose": f"Task of {child}"}


def numbered(child: str, ordinal: int) -> Line:
    return {"ev": "number", "agent": child, "ordinal": ordinal}


def begun(*asks: Ask) -> Log:
    """A root's reply, its calls begun."""
    log = Log().said("Do it.").event("step/start", turn=1).reply(*asks)
    for ask in asks:
        log.event("tool/call", callId=ask.id, name=ask.tool, arguments=ask.args)
    return log


def events(lines: list[Line]) -> list[Event]:
    return assemble(lines, engines=("host",), reminders=(), stopped_by="horizon")


def test_the_call_that_started_an_agent_is_followed_by_the_spawn() -> None:
    log = begun(START)
    log.lines.append(started("s1", CHILD))
    log.settle(START)
    child = Log(CHILD, 1).said("Go.").step(Ask("c1")).end()
    found = events([*log.lines, *child.lines])
    spawn = Spawn(child="agent-1", purpose=f"Task of {CHILD}")
    at = found.index(spawn)
    assert isinstance(found[at - 1], Call)
    assert isinstance(found[at + 1], Result)
    # A purpose may name what differs from run to run.
    assert told([spawn], lambda text: text.replace(CHILD, "agent-1")) == [
        Spawn(child="agent-1", purpose="Task of agent-1")
    ]


def test_agents_have_the_numbers_of_their_calls_whether_or_not_they_ever_ask() -> None:
    log = begun(START, SECOND)
    # They were made in the other order, and none of them was ever answered.
    log.lines += [{"ev": "agent", "agent": CHILD, "parent": ROOT}, {"ev": "agent", "agent": OTHER, "parent": ROOT}]
    log.lines += [started("s1", OTHER), started("s2", CHILD), numbered(OTHER, 1), numbered(CHILD, 2)]
    spawns = [event for event in events(log.lines) if isinstance(event, Spawn)]
    assert [(spawn.child, spawn.purpose) for spawn in spawns] == [
        ("agent-1", f"Task of {OTHER}"),
        ("agent-2", f"Task of {CHILD}"),
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([started("nothing", CHILD)], "'nothing' started an agent, and is no call that waits"),
        ([started("s1", CHILD), numbered(CHILD, 2), *Log(CHILD, 1).reply().lines], "is agent 2 and agent 1"),
        ([started("s1", CHILD), numbered(CHILD, 1), numbered(OTHER, 1)], "sessions share a number"),
    ],
)
def test_a_contradiction_is_no_trace(lines: list[Line], says: str) -> None:
    with pytest.raises(Inconsistent, match=says):
        events([*begun(START).lines, *lines])


# -- the runner's say --------------------------------------------------------------------------------------------------


class Table:
    """A control, its log, and the recorder's questions put to it."""

    def __init__(self, folder: Path) -> None:
        task = DelegatedLoop()
        self.log = EventLog(folder / "events.jsonl")
        self.log.path.touch()
        self.control = Control(
            log=self.log,
            finished=lambda: False,
            server=WorldServer(task.world(), task.tools),
            horizon=Horizon(9, "tool turns"),
            planes=("host",),
            attest=lambda live, lines: [],
            joined=joined,
        )

    def ask(self, agent: str, **more: Any) -> dict[str, Any]:
        return asyncio.run(self.control.control({"at": "pre-step", "agent": agent, "turn": 1, "step": 1, **more}))


def test_a_child_has_its_number_in_the_log_before_its_first_step(tmp_path: Path) -> None:
    table = Table(tmp_path)
    asked: list[tuple[str, str]] = []
    table.control.number = lambda child, call: asked.append((child, call)) or len(asked)  # type: ignore[func-returns-value]
    for line in (started("s1", OTHER), started("s2", CHILD)):
        table.log.append(line)
    assert table.ask(CHILD) == {"go": True, "why": None}
    assert asked == [(OTHER, "s1"), (CHILD, "s2")]
    assert table.log.update() == [numbered(OTHER, 1), numbered(CHILD, 2)]
    table.ask(OTHER)
    assert len(asked) == 2


def test_a_start_that_nobody_asked_for_ends_it(tmp_path: Path) -> None:
    table = Table(tmp_path)

    def unknown(child: str, call: str) -> int:
        raise LookupError("no such call was sent")

    table.control.number = unknown
    table.log.append(started("s1", CHILD))
    assert table.ask(CHILD) == {"go": False, "why": "error"}
    assert [str(failure) for failure in table.control.failures] == [
        "gateway: the call 's1' started an agent: no such call was sent"
    ]


def test_a_child_outside_the_preset_ends_it(tmp_path: Path) -> None:
    table = Table(tmp_path)
    assert table.ask(ROOT, live={"preset": PRESET}) == {"go": True, "why": None}
    assert table.ask(CHILD, live={"preset": PRESET}) == {"go": True, "why": None}
    assert table.ask(OTHER, live={"preset": None}) == {"go": False, "why": "error"}
    cause = f"the subagent {OTHER} has not joined the preset '{PRESET}' but none"
    assert table.control.failures == [Failure("scaffold", "agent", cause)]
