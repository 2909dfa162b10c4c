"""The corpus of traces in the real harness: what guards decide there is what the policies decide on the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from guards import registry
from guards.stack import default_stack
from results.trace import Call, Compaction, Guard, Trace
from runners.arms import PLANES, parse_arm
from runners.replay import replay
from tests.harness import guarded
from tests.harness.driver import Rows
from tests.harness.guarded import commands, isolated, preset, row
from tests.runners.corpus_agents import ROWS, CorpusAgents
from tests.runners.corpus_decisions import Row, live, mapped, replayed, settled
from tests.runners.corpus_scenario import CorpusScenario
from tests.runners.corpus_stage import Stage, stage, with_other
from tests.runners.corpus_table import (
    AGENTS,
    DENIED_ELSEWHERE,
    FIRST,
    NOT_PLAYED,
    corpus,
    denied,
    plays,
    scenario,
)
from tests.runners.dsh_stage import cause, end, of

PLAYS = list(plays())


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One runner with the full stack for all that need no other."""
    with stage(tmp_path_factory.mktemp("plugins")) as made:
        yield made


def decided(played: Trace, recorded: Trace, arm: str, on: Stage, first: int | None = None) -> list[Row]:
    """What the guards of the episode decided, once it is equal to what the policies decide on its own trace and on the
    recording; on this the `first` ones, where the episode goes on otherwise then."""
    assert end(played).reason != "error", cause(played)
    rows = live(played, on.arm(arm), on.stack)
    assert rows == replayed(played, on.arm(arm), on.stack)
    expected = replayed(recorded, on.arm(arm), on.stack)
    assert rows[:first] == expected[:first]
    return rows


def test_each_trace_is_played_or_has_a_reason() -> None:
    played = {name for name, _ in PLAYS}
    by_itself = [*NOT_PLAYED, *AGENTS, *DENIED_ELSEWHERE]
    assert Counter([*played, *by_itself]) == Counter(corpus().keys())
    assert len(corpus()) == 70
    assert len(set(PLAYS)) == len(PLAYS)


def test_the_plays_have_decisions_of_each_guard_in_each_plane() -> None:
    stack = default_stack()
    found = Counter(
        (row.by, row.action)
        for name, arm in PLAYS
        for row in replayed(mapped(corpus()[name]), parse_arm(arm, stack), stack)
    )
    for plane in PLANES:
        assert found[f"circuit-breaker@{plane}", "deny"] > 50
        assert found[f"loop-guard@{plane}", "nudge"] > 50
        assert found[f"loop-guard@{plane}", "deny"] > 5
        assert found[f"compaction-breaker@{plane}", "refuse"] > 10
        assert found[f"repeat-reminder@{plane}", "nudge"] > 50


@pytest.mark.parametrize(("name", "arm"), PLAYS, ids=[f"{name}-{arm}" for name, arm in PLAYS])
def test_live_decisions_are_those_of_the_replay(common: Stage, name: str, arm: str) -> None:
    recorded, task = mapped(corpus()[name]), scenario(name)
    played = common.play(task, arm, *task.said)
    first, _ = FIRST.get(name, (None, ""))
    rows = decided(played, recorded, arm, common, first)
    assert asked_again(played, task) == []
    made = [(each.trigger, each.outcome) for each in of(played, Compaction)]
    wanted = [(each.trigger, each.outcome) for each in of(recorded, Compaction)]
    allowed = next((row.index - 1 for row in rows if row.action == "refuse"), len(wanted))
    assert made[:allowed] == wanted[:allowed]
    assert {outcome for _, outcome in made[allowed:]} <= {"refused"}


def asked_again(played: Trace, task: CorpusScenario) -> list[str]:
    """Where the episode is not as it was recorded: the calls, and what those gave that ran."""
    recorded = [call for part in task.stream for step in part.steps for call in step]
    found = settled(played)
    wrong = [] if len(found) == len(recorded) else [f"{len(found)} calls, not {len(recorded)}"]
    for place, (was, (tool, args, text, error, stopped)) in enumerate(zip(recorded, found, strict=False), start=1):
        if (f"mcp__tools__{was.tool}", was.args) != (tool, args):
            wrong.append(f"call {place}: {tool} {args}, not {was.tool} {was.args}")
        if not stopped and (was.outcome.text, was.outcome.error) != (text, error):
            wrong.append(f"call {place} gave {text!r}, not {was.outcome.text!r}")
    return wrong


@pytest.mark.parametrize("arm", PLANES)
@pytest.mark.parametrize("name", DENIED_ELSEWHERE)
def test_calls_that_another_guard_denies(tmp_path: Path, name: str, arm: str) -> None:
    trace, task = corpus()[name], scenario(name)
    stopped = denied(trace)
    with stage(tmp_path, with_other(tmp_path, stopped)) as on:
        played = on.play(task, arm)
        decided(played, mapped(trace), arm, on)
    assert asked_again(played, task) == []
    by_other = [place for place, each in enumerate(of_results(played), start=1) if each == f"other@{arm}"]
    assert by_other == list(stopped)


def of_results(trace: Trace) -> list[str | None]:
    """Who denied each call."""
    return [event.denied_by for event in trace.events if event.type == "result"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "arm"), [*((name, "both") for name in AGENTS), (AGENTS[0], "host"), (AGENTS[0], "agent")]
)
def test_agents_have_states_of_their_own(tmp_path: Path, name: str, arm: str) -> None:
    trace = corpus()[name]
    task = CorpusAgents(trace)
    with stage(tmp_path, model=task.backend(), rows=ROWS) as on:
        played = on.play(task, arm, actor=None)
        rows = decided(played, mapped(trace, task.agents), arm, on)
    assert {row.agent for row in rows} <= set(task.agents.values())
    for was, agent in task.agents.items():
        asked = [(tool, args) for tool, args, *_ in settled(played, agent)]
        assert asked == [(tool, args) for tool, args, *_ in settled(mapped(trace), was)]


def test_a_reply_whose_arguments_are_no_object_reaches_no_guard(common: Stage) -> None:
    """Why `string-args-differ` is not played."""
    played = common.play(scenario("string-args-differ"), "host")
    assert "object" in cause(played)
    consulted = {event.guard for event in of(played, Guard) if event.action != "arm"}
    assert consulted <= {"compaction-breaker"}  # which is asked before every step
    assert settled(played) == []


@pytest.mark.parametrize("plane", PLANES)
def test_a_compaction_by_hand(tmp_path: Path, plane: str) -> None:
    """`refill-manual-untripped`: a window that two texts of 4,000 characters fill, and one does not."""
    engine = {
        "thresholdRatio": 0.5,
        "retainRatio": 0.1,
        "headroomTokens": 256,
        "maxTokens": 400,
        "compactionRetries": 0,
    }

    def insert(log: str) -> Rows:
        breaker = row("compaction-breaker", plane, {"eventLog": log, **engine})
        compact = {"id": "command-compact", "name": "@deepseek-ai/dsh-command-compact"}
        rows = [breaker, compact] if plane == "host" else preset(isolated(breaker, compact))
        return [{"id": "commands", "name": "@deepseek-ai/dsh-commands"}, *rows]

    large, small = "printf 'x%.0s' $(seq 4000)", "echo x"
    lines = (large, large, small, "", *[large] * 4)
    done = guarded.play(
        tmp_path,
        commands(*lines),
        insert,
        *["y" * 4000] * 2,
        window=4096,
        without=["compaction-basic"],
        commands=[["/compact"]],
    )
    recorded = corpus()["refill-manual-untripped"]
    acts = guarded.of(done.events, "ev", "trigger", "kind", "count", "limit")
    assert [trigger for ev, trigger, *_ in acts if ev == "attempt"] == [
        each.trigger for each in of(recorded, Compaction)
    ]
    assert len(done.results()) == len(of(recorded, Call))
    begun = [ev for ev, *_ in acts]
    refused = [(begun[:at].count("attempt"), *decision) for at, (ev, _, *decision) in enumerate(acts) if ev == "refuse"]
    policy = registry.build("compaction-breaker")
    assert refused == [(each.index, each.kind, each.count, each.limit) for each in replay(recorded, policy)]
    assert refused
