"""Scripted players in the loop without the harness: the guards' rules hold there too."""

from __future__ import annotations

from pathlib import Path

import pytest

from guards.stack import default_stack
from results.run import load_run
from results.trace import Call, Compaction, Guard, Notice, Result, Step, Trace
from runners.arms import Arm, Mount
from runners.cli import run
from runners.native import NativeRunner
from runners.replay import replay
from runners.spec import EpisodeSpec, Horizon
from scenarios.registry import names, scenario
from tests.runners.dsh_stage import acts, end, of


def play(name: str, actor: str, *guards: str, priming: int = 0) -> Trace:
    made = scenario(name)
    needs = made.needs
    spec = EpisodeSpec(
        name=name,
        scenario=made,
        arm=Arm("stack" if guards else "off", tuple(Mount(guard, "host") for guard in guards)),
        seed=0,
        model=f"actor:{actor}",
        sha256=None,
        actor=actor,
        horizon=Horizon(needs.horizon, needs.horizon_unit),
        priming=priming,
    )
    return NativeRunner(None, default_stack()).run(spec).trace


@pytest.mark.parametrize("name", names())
def test_the_honest_course_succeeds(name: str) -> None:
    trace = play(name, "honest")
    assert (end(trace).reason, end(trace).success) == ("completed", True)
    assert not of(trace, Guard)


@pytest.mark.parametrize(("guard", "first"), [("circuit-breaker", 6), ("loop-guard", 9)])
def test_a_guard_alone_denies_its_first_call(guard: str, first: int) -> None:
    trace = play("search-mirage", "looping", guard)
    denials = [index for _, _, action, index in acts(trace) if action == "deny"]
    assert denials[0] == first
    assert [result.denied_by is not None for result in of(trace, Result)].index(True) == first - 1
    assert end(trace).reason == "horizon"
    assert len(of(trace, Call)) == trace.header.meta["horizon"]


def test_the_full_stack_has_the_sequence_of_the_harness() -> None:
    trace = play("search-mirage", "looping", *(guard.name for guard in default_stack().guards))

    def indices(guard: str, action: str) -> list[int]:
        return [index for name, _, each, index in acts(trace) if (name, each) == (guard, action)]

    assert indices("repeat-reminder", "nudge") == [3, 5, 8]
    assert indices("loop-guard", "nudge") == [4, 5, 9, 10, 11, 12]
    assert indices("circuit-breaker", "deny")[0] == 6
    assert indices("loop-guard", "deny") == []
    assert len(of(trace, Notice)) == 9


def test_the_compaction_breaker_refuses_the_fourth_attempt_and_the_replay_agrees() -> None:
    trace = play("refill-oversized", "looping", "compaction-breaker")
    outcomes = [attempt.outcome for attempt in of(trace, Compaction)]
    assert outcomes[:4] == ["committed", "committed", "committed", "refused"]
    assert [attempt.summary_calls for attempt in of(trace, Compaction)][:4] == [1, 1, 1, 0]
    live = [(action, index) for _, _, action, index in acts(trace)]
    (breaker,) = [policy for policy in default_stack().policies() if policy.name == "compaction-breaker"]
    assert [(each.action, each.index) for each in replay(trace, breaker)] == live


def test_priming_puts_the_looping_course_first() -> None:
    trace = play("search-mirage", "looping", priming=3)
    assert [call.primed for call in of(trace, Call)][:4] == [True, True, True, False]
    assert [step.input_tokens is None for step in of(trace, Step)][:4] == [True, True, True, False]


def test_the_command_writes_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    asked = ["run", "--runner", "native", "--scenario", "search-mirage,poll-queued", "--model", "actor:looping"]
    assert run([*asked, "--model", "actor:honest", "--arms", "off,stack,only:loop-guard", "--out", str(out)]) == 0
    loaded = load_run(out)
    assert {trace.header.meta["runner"] for trace in loaded.traces} == {"native"}
    assert {trace.header.meta["arm"] for trace in loaded.traces} == {"off", "stack", "only:loop-guard"}
    assert (out / "report.html").exists()
    assert not (out / "proof.json").exists()


def test_planes_are_no_arms_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["run", "--runner", "native", "--scenario", "search-mirage", "--model", "actor:looping", "--arms", "host"]
    assert run([*asked, "--out", str(tmp_path / "run")]) == 2
    assert "'host' is no arm of --runner native; use off, stack" in capsys.readouterr().err
