"""OpenHands: four patterns of stuckness among the last events, looked for before each response of the model.

Source: OpenHands/software-agent-sdk, openhands-sdk/openhands/sdk/conversation/{stuck_detector,types}.py at 611629e69.

Rule, over the last `maxEvents` events (each call, each result, each answer without calls) since the user spoke:
- `action-observation`: the last `actionObservation` calls are equal and so are as many results.
- `action-error`: one call over and over with errors, whatever they say. At `actionError` the model is told once; above
  it the agent is stuck.
- `monologue`: the last `monologue` responses are answers without calls.
- `alternating`: of the last `alternatingPattern` calls and results each equals the one before the last.
A stuck agent's run ends, so that the calls of the next response are the first that are denied.

Left out: the thought beside a call, which is part of its identity in the product (a trace holds none: decisions here
are the earliest possible); errors that the agent raises itself are told from those of a tool there, while every error
result counts here; a user message right behind the third error, which keeps the product from saying anything; the loop
of context errors, which the product has not written yet; the places that condensations take among the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, reason, result_digest
from guards.policy import Denial, Nudge, ToolOutcome

_ONE = "an integer >= 1"


class OpenHandsConfig(GuardConfig):
    guard: ClassVar[str] = "peer:openhands"

    stuck_detection: Flag = True
    action_observation: Integer = Field(4, ge=1, description=_ONE)
    action_error: Integer = Field(3, ge=1, description=_ONE)
    monologue: Integer = Field(3, ge=1, description=_ONE)
    alternating_pattern: Integer = Field(6, ge=1, description=_ONE)
    max_events: Integer = Field(20, ge=1, description=_ONE)


@dataclass(frozen=True, slots=True)
class Happened:
    kind: Literal["call", "result", "answer", "nudge"]
    key: Hashable = None
    error: bool = False


@dataclass(slots=True)
class Run:
    """`open`: calls of the response under way without a result."""

    events: deque[Happened]
    open: int = 0

    def last(self, kind: str, count: int) -> list[Happened]:
        """At most `count` events of that kind, latest first."""
        return [event for event in reversed(self.events) if event.kind == kind][:count]


class OpenHands(Peer[Run]):
    name: ClassVar[str] = OpenHandsConfig.guard
    config_type = OpenHandsConfig
    config: OpenHandsConfig

    def fresh(self) -> Run:
        return Run(deque(maxlen=self.config.max_events))

    def respond(self, session: Session[Run], calls: int) -> None:
        seen = session.seen
        seen.open = 0
        found = self._stuck(seen) if self.config.stuck_detection else None
        if found is not None:
            kind, count, limit = found
            session.stop(Denial(kind, count, limit, reason("OpenHands", f"the agent is stuck ({kind})")), told=False)
        if calls == 0:
            seen.events.append(Happened("answer"))

    def judge(self, session: Session[Run], call: Asked) -> Denial | None:
        session.seen.open += 1
        session.seen.events.append(Happened("call", call.key))
        return None

    def settle(self, session: Session[Run], call: Asked, result: ToolOutcome) -> Nudge | None:
        seen, limit = session.seen, self.config.action_error
        seen.open -= 1
        seen.events.append(Happened("result", result_digest(result), result.error))
        if not self.config.stuck_detection or seen.open != 0 or self._errors(seen) != limit:
            return None
        seen.events.append(Happened("nudge"))
        text = f"{call.tool} failed {limit} times in a row with the same arguments. Change them, or do something else."
        return Nudge("action-error", limit, limit, text)

    def _stuck(self, seen: Run) -> tuple[str, int, int] | None:
        config = self.config
        errors, pairs, turns = self._errors(seen), config.action_observation, config.alternating_pattern
        if seen.events and seen.events[-1].kind == "nudge":
            # The product speaks instead of looking for patterns.
            return None
        if _same(seen.last("call", pairs), pairs, 1) and _same(seen.last("result", pairs), pairs, 1):
            return "action-observation", pairs, pairs
        if errors > config.action_error:
            return "action-error", errors, config.action_error
        answers = _answers(seen.events)
        if answers >= config.monologue:
            return "monologue", answers, config.monologue
        if _same(seen.last("call", turns), turns, 2) and _same(seen.last("result", turns), turns, 2):
            return "alternating", turns, turns
        return None

    def _errors(self, seen: Run) -> int:
        """How many of the last results are errors of the last call; counted up to one more than the threshold."""
        most = self.config.action_error + 1
        calls, results = seen.last("call", most), seen.last("result", most)
        streak = 0
        for call, result in zip(calls, results, strict=False):
            if call.key != calls[0].key or not result.error:
                break
            streak += 1
        return streak


def _same(events: Sequence[Happened], count: int, period: int) -> bool:
    """Whether there are `count` events and each equals the one `period` places away."""
    return len(events) == count and all(
        (events[at].key, events[at].error) == (events[at - period].key, events[at - period].error)
        for at in range(period, count)
    )


def _answers(events: Sequence[Happened]) -> int:
    """How many of the last events are answers, what the detector itself said left out."""
    count = 0
    for event in reversed(events):
        if event.kind == "answer":
            count += 1
        elif event.kind != "nudge":
            break
    return count
