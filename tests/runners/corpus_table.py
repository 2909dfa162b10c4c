"""How each trace of the corpus is played in the real harness, and which of them are not, and why."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from guards.stack import default_stack
from results.trace import Compaction, Result, Trace
from results.trace_file import read_trace
from runners.arms import PLANES, parse_arm
from tests.runners.corpus_decisions import mapped, replayed
from tests.runners.corpus_scenario import CorpusScenario, Overflowing, Refilling, parts

FOLDER = Path(__file__).resolve().parents[1] / "traces"

NOT_PLAYED = {
    "ids-reused": "its searches have no result: in a session that goes on every call gets one, and its id is the only "
    "one of its kind",
    "string-args-differ": "its arguments are no JSON object: the harness's adapter refuses such a reply whole, and no "
    "guard is asked (see test_a_reply_whose_arguments_are_no_object_reaches_no_guard)",
    "R83-fresh-session": "its two agents are two sessions of a user: an episode has one, and its subagents (see "
    "test_agents_have_states_of_their_own)",
    "refill-manual-untripped": "it is played by itself, without the runner, whose episodes end when a session is idle: "
    "see test_a_compaction_by_hand",
}
"""The traces that are not played as an episode, with the reason."""

AGENTS = ("R47-in-a-subagent", "R81-three-agents", "subagents-same-3")
DENIED_ELSEWHERE = ("R67-batch-denied", "denied-elsewhere-12")
"""Another guard stands before ours in these, and denies what was denied in the recording."""

FIRST = {
    "R83-new-prompt": (2, "once it has tripped, pressure stays: there are attempts where the recording has none"),
    "R93-overflow-again": (1, "a refused overflow ends the turn: what comes next is the user's to say"),
}
"""Of which only so many decisions are those of the recording, because the course leaves it then; with the reason."""

LOOP_GUARD = (
    *("R03-search-again", "R15-empty-page", "R17-open-fails", "R43-prefixed-name"),
    *("identical-search-30", "user-message-resets"),
)
"""Some of those where the loop-guard alone acts otherwise than behind the circuit-breaker."""


@cache
def corpus() -> dict[str, Trace]:
    """All traces, by name."""
    return {path.name.partition(".")[0]: read_trace(path) for path in sorted(FOLDER.rglob("*.trace.jsonl"))}


def compacts(trace: Trace) -> bool:
    """Whether attempts to compact are recorded. The compaction-breaker is alone then: to the others it matters that
    results are heavy where the recording's are not."""
    return any(isinstance(event, Compaction) for event in trace.events)


def denied(trace: Trace) -> dict[int, str]:
    """The places of the calls that were denied in a recording of one agent, with what was said."""
    results = [event for event in trace.events if isinstance(event, Result)]
    return {place: event.content[0]["text"] for place, event in enumerate(results, start=1) if event.denied_by}


def scenario(name: str) -> CorpusScenario:
    """Of a trace of one agent."""
    stream = parts(corpus()[name])
    if name == "R93-overflow-again":
        return Overflowing(stream[: FIRST[name][0] + 4])
    if name == "R89-compaction-fails":
        return Refilling(stream, summary="what there was. " * 12_000)
    return Refilling(stream) if compacts(corpus()[name]) else CorpusScenario(stream)


def plays() -> Iterator[tuple[str, str]]:
    """Traces of one agent and the arms that they are played in.

    Where a guard stops something: each plane, and of the many patterns of reports every other in the one and in the
    other. Where none does: both planes at once, as each is asked all there is to ask.
    """
    acting = 0
    for name, trace in corpus().items():
        if name in (*NOT_PLAYED, *AGENTS, *DENIED_ELSEWHERE):
            continue
        if not compacts(trace) and not stops(trace):
            yield name, "both"
            continue
        planes = PLANES
        if name.startswith("R"):
            planes, acting = (PLANES[acting % 2],), acting + 1
        for plane in planes:
            yield name, f"only:compaction-breaker@{plane}" if compacts(trace) else plane
    for at, name in enumerate(LOOP_GUARD):
        yield name, f"only:loop-guard@{PLANES[at % 2]}"
    for plane in PLANES:
        yield "identical-search-30", f"only:circuit-breaker@{plane}"
        yield "identical-search-30", f"only:repeat-reminder@{plane}"
        yield "refill-default-trip", plane
    yield "identical-search-30", "both"
    yield "user-message-resets", "both"


def stops(trace: Trace) -> bool:
    """Whether a guard of the full stack denies or refuses something of it."""
    stack = default_stack()
    return any(row.action != "nudge" for row in replayed(mapped(trace), parse_arm("host", stack), stack))
