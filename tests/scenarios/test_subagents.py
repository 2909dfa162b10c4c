"""Delegation: whose turn it is, what a delegation is worth, and the two scenarios played without the harness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.stack import default_stack
from results.episode import Episode
from results.loops import loops
from results.trace import Call, End, Guard, Notice, Result, Spawn, Trace, User
from runners.arms import Arm, Mount
from runners.native import NativeRunner
from runners.replay import replay
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import CLOSED, Scenario, Size
from scenarios.course import Course, Script, Tree, Turn, ask, course_of
from scenarios.delegated_loop import DelegatedLoop
from scenarios.delegation import STARTED
from scenarios.order import Order
from scenarios.parallel_agents import READINGS, ParallelAgents
from scenarios.play import play
from tests.runners.dsh_stage import end, of

# -- whose turn it is --------------------------------------------------------------------------------------------------


def test_one_agent_alone_always_goes_on_until_it_is_done():
    order = Order()
    assert [order.next() for _ in range(3)] == ["root"] * 3
    order.done("root")
    assert order.next() is None
    order.woken("root")
    assert order.next() == "root"


def test_a_parent_waits_for_its_children_which_take_turns():
    order = Order()
    assert order.next() == "root"
    for child in "abc":
        order.started(child, "root")
    assert [order.next() for _ in range(7)] == [*"abcabca"]
    order.done("b")
    assert [order.next() for _ in range(3)] == ["c", "a", "c"]
    order.done("a")
    assert order.next() == "c"
    order.started("d", "c")
    # The child of a child: both parents wait, and who has taken fewer steps comes first.
    assert [order.next() for _ in range(2)] == ["d", "d"]
    order.done("d")
    order.done("c")
    assert order.waiting() == ("root",)
    assert order.next() == "root"


def ancestors(parents: dict[str, str | None], name: str) -> list[str]:
    parent = parents[name]
    return [] if parent is None else [parent, *ancestors(parents, parent)]


@given(st.lists(st.sampled_from(["next", "start", "done"]), max_size=40))
def test_whoever_goes_next_waits_for_nobody_and_has_taken_no_more_steps_than_any_other(moves: list[str]):
    order, steps, at = Order(), {"root": 0}, "root"
    parents: dict[str, str | None] = {"root": None}
    for number, move in enumerate(moves):
        if move == "start":
            parents[f"a{number}"], steps[f"a{number}"] = at, 0
            order.started(f"a{number}", at)
        elif move == "done" and at in order.waiting():
            order.done(at)
        else:
            waiting = order.waiting()
            above = {name for each in waiting for name in ancestors(parents, each)}
            free = [name for name in waiting if name not in above]
            chosen = order.next()
            assert (chosen is None) == (not waiting)
            if chosen is not None:
                assert chosen == min(free, key=lambda name: steps[name])
                steps[chosen] += 1
                at = chosen


# -- courses of a tree -------------------------------------------------------------------------------------------------


def test_each_agent_has_its_own_course():
    tree = Tree(Script((ask("a"),), summary="root"), (Script((ask("b"),)), Script((ask("c"),))))
    calls = [course_of(tree, agent).turn(0, ()).calls for agent in range(4)]
    assert calls == [(("a", {}),), (("b", {}),), (("c", {}),), ()]
    assert course_of(tree, 0).summary == tree.summary == "root"
    assert course_of(Script((ask("a"),)), 1).turn(0, ()).calls == ()


def test_a_primed_episode_begins_with_the_dispatch_and_the_child_s_repeats():
    task = DelegatedLoop(3)
    root, child = task.primed(4)
    assert [turn.calls[0][0] for turn in root] == ["subagent"]
    assert [turn.calls[0] for turn in child] == [("web_search", {"query": task.question})] * 4


# -- what a delegation is worth ----------------------------------------------------------------------------------------


def test_a_task_is_worth_giving_once_or_as_often_as_it_is_due():
    one, three = DelegatedLoop().world(), ParallelAgents().world()
    for world, worths in ((one, ["novel", "sterile"]), (three, ["novel", "needed", "needed", "sterile"])):
        task = {"description": "Same", "prompt": "The same task"}
        for number, worth in enumerate(worths):
            assert world.judge("root", "subagent", task).judged == worth
            # In other words for display it is the same task.
            task = {**task, "description": f"Again {number}"}
            assert world.call("subagent", task).text == STARTED
        assert world.judge("root", "subagent", {**task, "prompt": "Another"}).judged == "novel"
        assert world.ticks == 0


def test_a_subagent_starts_none_and_that_counts_for_nothing():
    world = DelegatedLoop().world()
    task = {"description": "x", "prompt": "y"}
    assert world.judge("agent-1", "subagent", task).judged == "novel"
    world.call("subagent", task, "agent-1")
    assert world.judge("agent-1", "subagent", {**task, "prompt": "z"}).judged == "sterile"
    assert world.judge("agent-2", "subagent", task).judged == "novel"
    assert world.judge("root", "subagent", task).judged == "novel"


def test_a_message_is_worth_sending_once_to_each():
    world = DelegatedLoop().world()
    message = {"agent_id": "session-root", "message": "Found nothing."}
    assert world.judge("agent-1", "send_message", message).judged == "novel"
    world.call("send_message", message, "agent-1")
    assert world.judge("agent-1", "send_message", message).judged == "sterile"
    assert world.judge("agent-2", "send_message", message).judged == "novel"
    assert world.judge("agent-1", "send_message", {**message, "message": "More"}).judged == "novel"


def test_delegation_ends_with_the_task():
    world = DelegatedLoop().world()
    world.call("web_search", {"query": "complete list of all printed works"})
    assert world.call("report_unanswerable", {"source": "Complete list of printed works"}).text.startswith("Accepted")
    assert (world.finished, world.success) == (True, True)
    assert world.call("subagent", {"description": "x", "prompt": "y"}).text == CLOSED
    assert world.judge("root", "subagent", {"description": "x", "prompt": "y"}).judged == "sterile"


# -- parallel-agents' world --------------------------------------------------------------------------------------------


def test_three_readings_are_needed_of_each_inspector_and_a_fourth_is_not():
    task = ParallelAgents(5)
    world = task.world()
    for agent in ("agent-1", "agent-2"):
        judged = []
        for _ in range(READINGS + 1):
            judged.append(world.judge(agent, "read_gauge", {"gauge": task.gauge}).judged)
            shown = world.call("read_gauge", {"gauge": task.gauge}, agent)
            assert shown.text == f"Gauge {task.gauge}: {task.reading} bar, steady."
        assert judged == ["novel", "needed", "needed", "sterile"]


def test_what_is_recorded_must_be_read_and_right():
    task = ParallelAgents(5, "small")
    world = task.world()

    def record(inspector: str, reading: str) -> str:
        return world.call("record_reading", {"inspector": inspector, "reading": reading}).text

    assert record("A", task.reading) == "Rejected: the readings have not been taken yet."
    for _ in range(READINGS):
        world.call("read_gauge", {"gauge": task.gauge})
    assert world.call("read_gauge", {"gauge": "G1"}).text == "Rejected: there is no such gauge."
    assert record("A", "9.9") == "Rejected: this is not what the gauge shows."
    assert record("C", task.reading) == "Rejected: no such inspector is still to record."
    assert world.judge("root", "record_reading", {"inspector": "A", "reading": task.reading}).unit
    assert record("inspector A", f"{task.reading} bar") == "Recorded: inspector A."
    assert record("A", task.reading) == "Rejected: no such inspector is still to record."
    assert record("B", task.reading) == "Rejected: the readings have not been taken yet."
    assert world.call("close_inspection", {}).text == "Rejected: not recorded yet: B."
    for _ in range(READINGS):
        world.call("read_gauge", {"gauge": task.gauge})
    assert record("B", task.reading) == "Recorded: B."
    assert world.call("close_inspection", {}).text.startswith("Accepted")


# -- without the harness -----------------------------------------------------------------------------------------------


def native(task: Scenario, actor: str, *guards: str, priming: int = 0, horizon: int | None = None) -> Trace:
    spec = EpisodeSpec(
        name=task.name,
        scenario=task,
        arm=Arm("stack" if guards else "off", tuple(Mount(guard, "host") for guard in guards)),
        seed=task.seed,
        model=f"actor:{actor}",
        sha256=None,
        actor=actor,
        horizon=Horizon(horizon or task.needs.horizon, "tool turns"),
        priming=priming,
    )
    return NativeRunner(None, default_stack()).run(spec).trace


def asked(trace: Trace) -> list[tuple[str, str]]:
    return [(call.agent, call.tool) for call in of(trace, Call)]


@pytest.mark.parametrize("size", ["small", "default", "large"])
@pytest.mark.parametrize(
    ("kind", "actor"), [(DelegatedLoop, "honest"), (DelegatedLoop, "looping"), (ParallelAgents, "honest")]
)
def test_the_native_runner_plays_what_the_course_says(kind: type[Scenario], actor: str, size: Size):
    task = kind(2, size)
    course = task.honest() if actor == "honest" else task.looping()
    assert course is not None
    plain, run = play(task, course), native(task, actor)
    # The runner stops where the task is solved.
    assert asked(run) == asked(plain)
    assert [(spawn.child, spawn.purpose) for spawn in of(run, Spawn)] == [
        (spawn.child, spawn.purpose) for spawn in of(plain, Spawn)
    ]
    assert (end(run).reason, end(run).success) == (end(plain).reason, end(plain).success)


def test_the_loop_is_the_child_s_and_so_is_the_denial():
    trace = native(DelegatedLoop(), "looping", "circuit-breaker", horizon=12)
    denied = [(result.agent, result.denied_by) for result in of(trace, Result) if result.denied_by]
    assert denied == [("agent-1", "circuit-breaker@native")] * 6
    assert len(of(trace, Call)) == 12
    assert [(event.agent, event.reason) for event in of(trace, End)] == [("root", "horizon"), ("agent-1", "horizon")]
    (loop,) = loops(Episode(native(DelegatedLoop(), "looping", horizon=12)))
    assert (loop.agent, loop.onset, loop.length) == ("agent-1", 2, 10)
    (breaker,) = (policy for policy in default_stack().policies() if policy.name == "circuit-breaker")
    assert [(each.agent, each.index) for each in replay(trace, breaker)] == [("agent-1", at) for at in range(6, 12)]


def test_nothing_leaks_between_agents():
    trace = native(ParallelAgents(), "honest", *(guard.name for guard in default_stack().guards))
    assert end(trace).success is True
    acts = [(event.agent, event.guard, event.action, event.count) for event in of(trace, Guard)]
    assert acts == [(f"agent-{number}", "repeat-reminder", "nudge", 3) for number in (1, 2, 3)]


def test_primed_turns_are_the_child_s():
    trace = native(DelegatedLoop(), "looping", priming=3, horizon=7)
    assert [(call.agent, call.primed) for call in of(trace, Call)] == [
        ("root", True),
        *[("agent-1", True)] * 3,
        *[("agent-1", False)] * 3,
    ]


class Staged(ParallelAgents):
    """With a course of the test's own."""

    course: Course

    def honest(self) -> Course:
        return self.course


def test_a_parent_is_told_what_its_children_said_last_and_children_know_their_task_alone():
    task = Staged()
    starts = tuple(("subagent", {"description": name, "prompt": f"Task {name}"}) for name in ("one", "two"))
    children = (Script((ask("read_gauge", gauge=task.gauge),), after=Turn("First.")), Script((), after=Turn("Second.")))
    task.course = Tree(Script((Turn(calls=starts),)), children)
    trace = native(task, "honest")
    told = [(notice.agent, notice.text.split()[0], notice.text.split()[-1]) for notice in of(trace, Notice)]
    assert told == [("root", "agent-2", "Second."), ("root", "agent-1", "First.")]
    assert [(user.agent, user.text) for user in of(trace, User)][1:] == [
        ("agent-1", "Task one"),
        ("agent-2", "Task two"),
    ]
    assert [result.text for result in of(trace, Result)][:2] == ["started subagent agent-1", "started subagent agent-2"]


def test_a_child_can_not_start_another():
    task = Staged()
    start = ask("subagent", description="x", prompt="y")
    task.course = Tree(Script((start,)), (Script((start,)),))
    trace = native(task, "honest")
    assert [(result.agent, result.error) for result in of(trace, Result)] == [("root", False), ("agent-1", True)]
    assert len(of(trace, Spawn)) == 1
