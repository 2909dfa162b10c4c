"""The real harness, scripted players: each guard trips where its rules say, in the plane where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from guards.stack import default_stack, load_stack
from results.trace import Call, Compaction, Guard, Notice, Result, Step
from runners.replay import replay
from scenarios.course import Course, Script, ask
from scenarios.refill_oversized import RefillOversized
from tests.runners.dsh_stage import acts, end, of, play

ARM = "only:compaction-breaker@host"


def test_no_guard_acts_in_off_and_the_horizon_ends_it() -> None:
    trace = play("search-mirage", "off", "looping")
    calls = of(trace, Call)
    assert len(calls) == trace.header.meta["horizon"] == 24
    assert all(result.denied_by is None and not result.error for result in of(trace, Result))
    assert not of(trace, Guard)
    assert not of(trace, Notice)
    assert end(trace).reason == "horizon"


@pytest.mark.parametrize("plane", ["host", "agent"])
@pytest.mark.parametrize(("guard", "first"), [("circuit-breaker", 6), ("loop-guard", 9)])
def test_a_guard_alone_denies_its_first_call(guard: str, first: int, plane: str) -> None:
    trace = play("search-mirage", f"only:{guard}@{plane}", "looping", horizon=12)
    denials = [index for _, _, action, index in acts(trace) if action == "deny"]
    assert denials == list(range(first, 13))
    denied = [at + 1 for at, result in enumerate(of(trace, Result)) if result.denied_by == f"{guard}@{plane}"]
    assert denied == denials
    nudges = [index for _, _, action, index in acts(trace) if action == "nudge"]
    assert nudges == ([4, 5, 6, 7] if guard == "loop-guard" else [])
    assert [notice.source for notice in of(trace, Notice)] == ["loop-guard"] * len(nudges)
    assert {(event.guard, event.plane) for event in of(trace, Guard)} == {(guard, plane)}
    actions = [event.action for event in of(trace, Guard)]
    assert actions[:2] == ["arm", "consulted"]


@pytest.mark.parametrize("plane", ["host", "agent"])
def test_the_full_stack_acts_in_the_sequence_of_the_specification(plane: str) -> None:
    trace = play("search-mirage", plane, "looping", horizon=16)
    did = acts(trace)
    assert {where for _, where, _, _ in did} == {plane}

    def indices(guard: str, action: str) -> list[int]:
        return [index for name, _, each, index in did if (name, each) == (guard, action)]

    assert indices("repeat-reminder", "nudge") == [3, 5, 8]
    assert indices("loop-guard", "nudge") == [4, 5, 9, 10, 11, 12]
    assert indices("circuit-breaker", "deny") == list(range(6, 17))
    assert indices("loop-guard", "deny") == []


def test_both_planes_let_the_host_deny_first() -> None:
    trace = play("search-mirage", "both", "looping", horizon=12)
    denials = {(guard, plane) for guard, plane, action, _ in acts(trace) if action == "deny"}
    assert denials == {("circuit-breaker", "host")}
    # The denied calls' results still reach the listeners of both planes.
    nudges = [index for guard, plane, action, index in acts(trace, "loop-guard") if plane == "agent"]
    assert nudges == [4, 5, 9, 10, 11, 12]


def test_the_control_guard_changes_nothing() -> None:
    off = play("search-mirage", "off", "looping", horizon=6)
    null = play("search-mirage", "null", "looping", horizon=6)
    assert acts(null) == []
    assert {(event.plane, event.action) for event in of(null, Guard)} == {
        (plane, action) for plane in ("host", "agent") for action in ("arm", "consulted")
    }
    assert [step.prompt_digest for step in of(null, Step)] == [step.prompt_digest for step in of(off, Step)]
    assert of(null, Result) == [
        Result(agent=each.agent, t=mine.t, id=each.id, content=each.content)
        for each, mine in zip(of(off, Result), of(null, Result), strict=True)
    ]


@pytest.mark.parametrize("plane", ["host", "agent"])
def test_the_compaction_breaker_refuses_the_fourth_attempt(plane: str) -> None:
    trace = play("refill-oversized", f"only:compaction-breaker@{plane}", "looping")
    attempts = of(trace, Compaction)
    assert [attempt.outcome for attempt in attempts[:4]] == ["committed", "committed", "committed", "refused"]
    assert {attempt.plane for attempt in attempts} == {plane}
    for attempt in attempts:
        assert attempt.summary_calls == (0 if attempt.outcome == "refused" else 1)
    # The session goes on for a step before its context overflows, and the section is announced once.
    assert [event.action for event in of(trace, Guard)].count("announce") == 1
    assert end(trace).reason == "overflow"
    refusals = [event for event in of(trace, Guard) if event.action == "refuse"]
    assert (refusals[0].kind, refusals[0].count, refusals[0].limit) == ("rapid-refill", 2, 3)
    assert {event.kind for event in refusals[1:]} <= {"latched"}


def test_without_a_breaker_the_refill_goes_on_to_the_horizon() -> None:
    trace = play("refill-oversized", "off", "looping")
    attempts = of(trace, Compaction)
    assert [attempt.outcome for attempt in attempts] == ["committed"] * trace.header.meta["horizon"]
    assert end(trace).reason == "horizon"


def test_the_literal_variant_refuses_without_pressure(tmp_path: Path) -> None:
    """README, "compaction-breaker as upstream's sample has it": two rapid refills, then a step that needs nothing."""

    class Recovering(RefillOversized):
        def looping(self) -> Course:
            read = ask("read_log", log=self.log)
            small = ask("raise_alarm", worker=1, block=1)
            return Script((read, read, read, read, small, small, small), summary="- read on")

    file = tmp_path / "literal.toml"
    file.write_text('[[guard]]\nname = "compaction-breaker"\npreset = "upstream-literal"\n')
    outcomes = {
        name: [attempt.outcome for attempt in of(play(Recovering(), ARM, "looping", stack=stack), Compaction)]
        for name, stack in (("ours", default_stack()), ("literal", load_stack(file)))
    }
    assert outcomes["ours"] == ["committed"] * 3
    assert outcomes["literal"] == ["committed"] * 3 + ["refused"] * 3


def test_honest_polling_succeeds_and_the_loop_guard_is_silent() -> None:
    trace = play("poll-progress", "only:loop-guard@host", "honest")
    assert end(trace).success is True
    assert acts(trace) == []


def test_the_same_decisions_come_out_of_the_replay(tmp_path: Path) -> None:
    """Live and replayed, for the guards whose rules look at calls and attempts alone."""
    for scenario, guard in (
        ("search-mirage", "circuit-breaker"),
        ("search-mirage", "loop-guard"),
        ("refill-oversized", "compaction-breaker"),
    ):
        file = tmp_path / f"{guard}.toml"
        file.write_text(f'[[guard]]\nname = "{guard}"\n')
        stack = load_stack(file)
        trace = play(scenario, f"only:{guard}@host", "looping", stack=stack)
        live = [(action, index) for _, _, action, index in acts(trace)]
        assert [(each.action, each.index) for each in replay(trace, stack.policies()[0])] == live
        assert live
