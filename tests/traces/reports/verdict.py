"""What a guard's decisions on a shape are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from results.trace import Call, Compaction, Trace
from runners.replay import Replayed
from tests.traces.reports.shape import Shape


@dataclass(frozen=True)
class Verdict:
    """The first decision of each kind, None = there is none.

    `stopped` and `nudged`: where that is right. `alarm`: a denied or refused one where it is wrong.
    """

    stopped: Replayed | None
    nudged: Replayed | None
    alarm: Replayed | None

    def text(self) -> str:
        told = [f"{each.action} {each.index}" for each in (self.nudged, self.stopped) if each is not None]
        wrong = [] if self.alarm is None else [f"**{self.alarm.action} {self.alarm.index}**"]
        return ", ".join(told + wrong) or "-"


def judge(shape: Shape, trace: Trace, decisions: Sequence[Replayed]) -> Verdict:
    first = _position(shape, trace, shape.onset)
    last = _position(shape, trace, shape.resumes)

    def right(each: Replayed) -> bool:
        kind = Compaction if each.call is None else Call
        place = _place(trace, each.agent, kind, each.index)
        return first is not None and each.agent == shape.agent and first <= place and (last is None or place < last)

    stops = [each for each in decisions if each.action != "nudge"]
    return Verdict(
        next(filter(right, stops), None),
        next((each for each in decisions if each.action == "nudge"), None),
        next((each for each in stops if not right(each)), None),
    )


def word(shape: Shape, verdict: Verdict) -> str:
    """The verdict in a word or two."""
    if verdict.alarm is not None:
        return "denies what was asked for" if shape.want == "requested" else "false alarm"
    if shape.want != "trip" or verdict.stopped is not None:
        return "right"
    return "missed" if verdict.nudged is None else "only nudged"


def _position(shape: Shape, trace: Trace, index: int | None) -> int | None:
    kind = Compaction if "COMP" in shape.tags else Call
    return None if index is None else _place(trace, shape.agent, kind, index)


def _place(trace: Trace, agent: str, kind: type[Call | Compaction], index: int) -> int:
    """Where the call or attempt stands among the events of the trace."""
    found = [at for at, event in enumerate(trace.events) if isinstance(event, kind) and event.agent == agent]
    return found[index - 1]
