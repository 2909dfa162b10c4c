"""Subagents in the real harness, scripted players: loops and counts are each agent's own, and runs are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from guards.policy import Policy
from guards.stack import load_stack
from results.episode import Episode
from results.loops import loops
from results.trace import Call, End, Event, Guard, Notice, Result, Spawn, Step, Trace, User
from runners.dsh import DshRunner
from runners.replay import replay
from scenarios.base import Scenario
from scenarios.course import Course, Script, Tree, Turn, ask
from scenarios.delegated_loop import DelegatedLoop
from scenarios.parallel_agents import ParallelAgents
from tests.runners.dsh_stage import end, of, spec, staged

CHILDREN = ("agent-1", "agent-2", "agent-3")
Acts = list[tuple[str, str, str | None, str, int]]


@pytest.fixture(scope="module")
def runner() -> Iterator[DshRunner]:
    # A busy machine is no reason to fail: a hang is.
    with staged(wall_seconds=600.0) as (made, _, _):
        yield made


@pytest.fixture(scope="module")
def off(runner: DshRunner) -> Trace:
    """parallel-agents without a guard."""
    return play(runner, ParallelAgents(), "off", "honest")


def play(runner: DshRunner, task: Scenario, arm: str, actor: str, *, horizon: int | None = None) -> Trace:
    return runner.run(spec(task, arm, actor, horizon=horizon)).trace


def acts(trace: Trace, *guards: str) -> Acts:
    """(agent, guard, plane, action, index among the agent's calls) of every nudge and denial."""
    seen: dict[str, list[str]] = {}
    found: Acts = []
    for event in trace.events:
        if isinstance(event, Call):
            seen.setdefault(event.agent, []).append(event.id)
        elif isinstance(event, Guard) and event.action in ("nudge", "deny") and (not guards or event.guard in guards):
            assert event.call is not None
            index = seen[event.agent].index(event.call) + 1
            found.append((event.agent, event.guard, event.plane, event.action, index))
    return found


def of_agent(trace: Trace, agent: str) -> list[Event]:
    return [event for event in trace.events if event.agent == agent]


def prompts(trace: Trace) -> list[tuple[str, int, str | None]]:
    return [(step.agent, step.n, step.prompt_digest) for step in of(trace, Step)]


def policy(folder: Path, guard: str) -> Policy:
    """A guard alone, at its defaults."""
    file = folder / "stack.toml"
    file.write_text(f'[[guard]]\nname = "{guard}"\n')
    return load_stack(file).policies()[0]


# -- delegated-loop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plane", ["host", "agent"])
@pytest.mark.parametrize(("guard", "first"), [("circuit-breaker", 6), ("loop-guard", 9)])
def test_a_guard_acts_on_the_child_and_leaves_the_root_alone(
    runner: DshRunner, tmp_path: Path, guard: str, first: int, plane: str
) -> None:
    trace = play(runner, DelegatedLoop(), f"only:{guard}@{plane}", "looping", horizon=12)
    denials = [act for act in acts(trace) if act[3] == "deny"]
    assert denials == [("agent-1", guard, plane, "deny", at) for at in range(first, 12)]
    denied = [result for result in of(trace, Result) if result.denied_by is not None]
    assert {(result.agent, result.denied_by) for result in denied} == {("agent-1", f"{guard}@{plane}")}
    # One dispatch and eleven searches: the horizon counts the whole tree.
    assert [call.tool for call in of(trace, Call)] == ["subagent", *["mcp__tools__web_search"] * 11]
    assert [(event.agent, event.reason) for event in of(trace, End)] == [("root", "horizon"), ("agent-1", "horizon")]
    # Replayed, the trace gives the same decisions, nudges included.
    live = [(agent, action, index) for agent, _, _, action, index in acts(trace)]
    assert [(each.agent, each.action, each.index) for each in replay(trace, policy(tmp_path, guard))] == live


def test_the_loop_is_the_child_s(runner: DshRunner) -> None:
    trace = play(runner, DelegatedLoop(), "off", "looping", horizon=8)
    (loop,) = loops(Episode(trace))
    assert (loop.agent, loop.onset, loop.length, loop.ended) == ("agent-1", 2, 6, "horizon")
    assert of(trace, Spawn) == [Spawn(t=of(trace, Spawn)[0].t, child="agent-1", purpose="Find the year")]
    assert [result.text for result in of(trace, Result) if result.agent == "root"] == ["started subagent agent-1"]


def test_the_child_finds_the_honest_way_out(runner: DshRunner) -> None:
    trace = play(runner, DelegatedLoop(), "host", "honest")
    assert (end(trace).reason, end(trace).success) == ("completed", True)
    assert acts(trace) == []
    assert [call.tool.removeprefix("mcp__tools__") for call in of(trace, Call)] == [
        *("subagent", "web_search", "web_search", "report_unanswerable")
    ]


def test_a_primed_episode_begins_within_the_child_s_loop(runner: DshRunner) -> None:
    made = spec(DelegatedLoop(), "only:circuit-breaker@agent", "looping", horizon=8)
    trace = runner.run(type(made)(**{**vars(made), "priming": 4})).trace
    assert [(call.agent, call.primed) for call in of(trace, Call)] == [
        ("root", True),
        *[("agent-1", True)] * 4,
        *[("agent-1", False)] * 3,
    ]
    # Primed calls count for guards as any other.
    assert acts(trace) == [("agent-1", "circuit-breaker", "agent", "deny", at) for at in (6, 7)]


# -- parallel-agents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arm", "planes"), [("off", ()), ("stock", ("host",)), ("host", ("host",)), ("agent", ("agent",)), ("both", ())]
)
def test_nothing_leaks_between_agents_that_make_the_same_calls(
    runner: DshRunner, off: Trace, arm: str, planes: Sequence[str]
) -> None:
    trace = off if arm == "off" else play(runner, ParallelAgents(), arm, "honest")
    assert (end(trace).reason, end(trace).success) == ("completed", True)
    assert not any(result.denied_by or result.error for result in of(trace, Result))
    reads = [(call.agent, call.args) for call in of(trace, Call) if call.tool.endswith("read_gauge")]
    # One after the other, three times around: nine equal calls in a row for a guard that counts over agents.
    assert reads == [(agent, {"gauge": ParallelAgents().gauge}) for agent in CHILDREN * 3]
    planes = ("agent", "host") if arm == "both" else planes
    # Each agent's third equal call is its own third, and the reminder's first threshold.
    assert acts(trace) == [(agent, "repeat-reminder", plane, "nudge", 3) for agent in CHILDREN for plane in planes]
    assert {event.count for event in of(trace, Guard) if event.action == "nudge"} <= {3}


def test_a_count_over_all_agents_would_have_denied(off: Trace, tmp_path: Path) -> None:
    """The scenario tells the two apart: the same rule acts on the very same calls where it takes all for one agent."""
    # Without the tasks of the children: a user's message sets counts back.
    events = (event for event in off.events if not isinstance(event, User))
    one = Trace(off.header, tuple(replace(event, agent="root") for event in events))
    for guard, at in (("circuit-breaker", [9, 10, 11, 12]), ("loop-guard", [12])):
        stops = [each.index for each in replay(one, policy(tmp_path, guard)) if each.action == "deny"]
        assert stops == at
        assert list(replay(off, policy(tmp_path, guard))) == []


@pytest.mark.parametrize("arm", ["off", "null", "only:loop-guard@agent"])
def test_the_prompts_are_alike_in_every_run_and_arm_until_a_guard_speaks(
    runner: DshRunner, off: Trace, arm: str
) -> None:
    assert prompts(play(runner, ParallelAgents(), arm, "honest")) == prompts(off)


# -- what agents do to each other --------------------------------------------------------------------------------------


class Staged(ParallelAgents):
    """With a course of the test's own."""

    course: Course

    def honest(self) -> Course:
        return self.course


def staged_play(runner: DshRunner, arm: str, root: Course, *children: Course, horizon: int = 30) -> Trace:
    task = Staged()
    task.course = Tree(root, children)
    return play(runner, task, arm, "honest", horizon=horizon)


def timeless(trace: Trace) -> list[Event]:
    return [replace(event, t=None) for event in trace.events]


def starts(*prompts: str) -> Turn:
    return Turn(calls=tuple(("subagent", {"description": f"Task {prompt}", "prompt": prompt}) for prompt in prompts))


def said(text: str, *before: Turn) -> Course:
    return Script(before, after=Turn(text))


READ = ask("read_gauge", gauge=ParallelAgents().gauge)


def test_a_parent_is_told_of_its_children_s_ends_in_the_step_after_the_one_that_waited(runner: DshRunner) -> None:
    root = Script((starts("one", "two"), Turn("I wait."), READ))
    # The second is done first.
    trace, again = (staged_play(runner, "off", root, said("First.", READ, READ), said("Second.")) for _ in range(2))
    assert timeless(again) == timeless(trace)
    told = [event for event in of(trace, Notice) if event.agent == "root"]
    assert [(notice.source, notice.text.split()[2]) for notice in told] == [
        ("subagent-settled", "agent-2"),
        ("subagent-settled", "agent-1"),
    ]
    assert [notice.text.endswith(last) for notice, last in zip(told, ("Second.", "First."), strict=True)] == [
        True,
        True,
    ]
    mine = [event.type for event in of_agent(trace, "root") if event.type in ("step", "notice", "end")]
    assert mine == ["step", "step", "notice", "notice", "step", "step", "end"]
    assert {event.reason for event in of(trace, End)} == {"completed"}


def test_children_of_equal_tasks_are_told_apart_by_their_calls(runner: DshRunner) -> None:
    each = [said(name, READ, ask("record_reading", inspector=name, reading="?")) for name in "ABC"]
    root = Script((starts("same", "same", "same"),))
    trace, again = (staged_play(runner, "off", root, *each) for _ in range(2))
    assert timeless(again) == timeless(trace)
    records = [(call.agent, call.args["inspector"]) for call in of(trace, Call) if call.tool.endswith("record_reading")]
    assert records == [*zip(CHILDREN, "ABC", strict=True)]
    assert [(spawn.agent, spawn.child) for spawn in of(trace, Spawn)] == [("root", child) for child in CHILDREN]


def test_a_child_writes_to_its_parent_and_is_written_to(runner: DshRunner) -> None:
    root = Script((starts("one"), Turn("I wait."), ask("send_message", agent_id="agent-1", message="Again.")))
    child = Script((READ, ask("send_message", agent_id="session-root", message="It holds."), Turn("Done."), READ))
    trace, again = (staged_play(runner, "off", root, child) for _ in range(2))
    assert timeless(again) == timeless(trace)
    messages = [(notice.agent, notice.text) for notice in of(trace, Notice) if notice.source == "agent-message"]
    assert messages == [
        ("root", "Agent agent-1 sent a message: It holds."),
        ("agent-1", "Agent session-root sent a message: Again."),
    ]
    assert [call.agent for call in of(trace, Call)] == ["root", "agent-1", "agent-1", "root", "agent-1"]
    assert {event.reason for event in of(trace, End)} == {"completed"}


def test_subagents_start_none(runner: DshRunner) -> None:
    trace = staged_play(runner, "off", Script((starts("one"),)), Script((starts("deeper"),)))
    assert [(result.agent, result.error) for result in of(trace, Result)] == [("root", False), ("agent-1", True)]
    assert [spawn.child for spawn in of(trace, Spawn)] == ["agent-1"]


def test_a_denied_dispatch_starts_nobody(runner: DshRunner) -> None:
    trace = staged_play(runner, "only:circuit-breaker@host", Script((), after=starts("one")), horizon=8)
    assert [spawn.child for spawn in of(trace, Spawn)] == [f"agent-{at}" for at in range(1, 6)]
    assert acts(trace) == [("root", "circuit-breaker", "host", "deny", at) for at in (6, 7, 8)]
    assert {event.agent: event.reason for event in of(trace, End)} == {
        "root": "horizon",
        **{f"agent-{at}": "completed" for at in range(1, 6)},
    }


def test_a_child_that_is_never_asked_has_its_number_all_the_same(runner: DshRunner) -> None:
    trace = staged_play(runner, "off", Script((starts("one", "two"),)), horizon=1)
    assert [result.text for result in of(trace, Result)] == ["started subagent agent-1", "started subagent agent-2"]
    assert [spawn.child for spawn in of(trace, Spawn)] == ["agent-1", "agent-2"]
    assert {event.reason for event in of(trace, End)} == {"horizon"}
