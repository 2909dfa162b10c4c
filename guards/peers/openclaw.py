"""OpenClaw: warnings, vetoes and a breaker over the last calls of a run. Off by default.

Source: openclaw/openclaw, src/agents/tool-loop-detection.ts at 00655306d8 (autumn 2026).

Rule: the last `historySize` calls of the run are kept with what came of them. Before a call, in this order: the last
results of this very call, whatever stands between them, are equal `globalCircuitBreakerThreshold` times (veto) or, for
a known poll, `criticalThreshold` times (veto) or `warningThreshold` times (warning); the calls before it alternate
between this call and another, `criticalThreshold` of them with equal results on both sides (veto) or `warningThreshold`
of them (warning), this one counted; for any other call its results are equal `criticalThreshold` times (veto), or it
stands in the history `warningThreshold` times (warning). Known polls are `command_status`, and `process` with the
action `poll` or `log`. A veto denies that call alone and leaves no record, so that it is repeated for as long as the
model calls on; results that other guards give to calls are results. A warning of one kind is given again only when its
count has grown by another `warningThreshold`, and is a nudge here: the product may just log it. A user message begins
a run.

Left out: the detector of unknown tools (10), which reads the product's own error texts; which parts of a result the
product compares for `exec`, its polls and what sends messages (a trace holds what the model is shown, not the details:
here the whole is compared); its reduction of `update_plan`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, reason, result_digest
from guards.policy import Denial, Nudge, ToolOutcome

_ONE = "an integer >= 1"


class OpenClawConfig(GuardConfig):
    guard: ClassVar[str] = "peer:openclaw"

    enabled: Flag = False
    history_size: Integer = Field(30, ge=1, description=_ONE)
    warning_threshold: Integer = Field(10, ge=1, description=_ONE)
    critical_threshold: Integer = Field(20, ge=1, description=_ONE)
    global_circuit_breaker_threshold: Integer = Field(30, ge=1, description=_ONE)
    generic_repeat: Flag = True
    known_poll_no_progress: Flag = True
    ping_pong: Flag = True


@dataclass(slots=True)
class Recorded:
    """`result` None = not settled."""

    key: Hashable
    result: Hashable = None


@dataclass(slots=True)
class Run:
    """`warned`: for each warning given, how many times `warningThreshold` its count held."""

    history: deque[Recorded]
    warned: dict[Hashable, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: str
    count: int
    limit: int
    veto: bool
    about: Hashable = None


class OpenClaw(Peer[Run]):
    name: ClassVar[str] = OpenClawConfig.guard
    config_type = OpenClawConfig
    config: OpenClawConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {"on": {"enabled": True}}

    def fresh(self) -> Run:
        return Run(deque(maxlen=self.config.history_size))

    def judge(self, session: Session[Run], call: Asked) -> Denial | None:
        if not self.config.enabled:
            return None
        seen = session.seen
        verdict = self._verdict(list(seen.history), call)
        if verdict is not None and verdict.veto:
            what = f"{verdict.count} calls like this made no progress ({verdict.kind})"
            return Denial(verdict.kind, verdict.count, verdict.limit, reason("OpenClaw", what))
        if verdict is not None:
            bucket = verdict.count // verdict.limit
            if bucket > seen.warned.get(verdict.about, 0):
                seen.warned[verdict.about] = bucket
                text = f"{verdict.count} calls like this one of {call.tool}: stop if they make no progress."
                session.owe(Nudge(verdict.kind, verdict.count, verdict.limit, text))
        if call.counted:
            seen.history.append(Recorded(call.key))
        return None

    def settle(self, session: Session[Run], call: Asked, result: ToolOutcome) -> Nudge | None:
        if self.config.enabled:
            shown = result_digest(result)
            for record in reversed(session.seen.history):
                if record.key == call.key and record.result is None:
                    record.result = shown
                    break
            else:
                session.seen.history.append(Recorded(call.key, shown))
        return None

    def _verdict(self, history: Sequence[Recorded], call: Asked) -> Verdict | None:
        """The first that applies."""
        config, poll = self.config, _is_poll(call)
        still = _unchanged(history, call.key)
        turns, other, same = _alternation(history, call.key)
        again = sum(record.key == call.key for record in history)
        warn, critical = config.warning_threshold, config.critical_threshold
        breaker = config.global_circuit_breaker_threshold
        polls, pairs, generic = (
            poll and config.known_poll_no_progress,
            config.ping_pong,
            not poll and config.generic_repeat,
        )
        pair = ("ping-pong", frozenset((call.key, other)))
        candidates = (
            (True, Verdict("global-circuit-breaker", still, breaker, True)),
            (polls, Verdict("known-poll-no-progress", still, critical, True)),
            (polls, Verdict("known-poll-no-progress", still, warn, False, ("poll", call.key))),
            (pairs and same, Verdict("ping-pong", turns, critical, True)),
            (pairs, Verdict("ping-pong", turns, warn, False, pair)),
            (generic, Verdict("generic-repeat", still, critical, True)),
            (generic, Verdict("generic-repeat", again, warn, False, ("repeat", call.key))),
        )
        return next((verdict for on, verdict in candidates if on and verdict.count >= verdict.limit), None)


def _is_poll(call: Asked) -> bool:
    action = call.args.get("action") if isinstance(call.args, dict) else None
    return call.tool == "command_status" or (call.tool == "process" and action in ("poll", "log"))


def _unchanged(history: Sequence[Recorded], key: Hashable) -> int:
    """How many of the last results of a call are equal; calls that have not settled are passed over."""
    results = [record.result for record in history if record.key == key and record.result is not None]
    count = 0
    for result in reversed(results):
        if result != results[-1]:
            break
        count += 1
    return count


def _alternation(history: Sequence[Recorded], key: Hashable) -> tuple[int, Hashable, bool]:
    """How many calls alternate at the end, with that of `key`, asked now, as the last; the other; equal results?

    (0, None, False) where none do. The last is True where all results are known and those of each side are equal.
    """
    last = history[-1].key if history else None
    if last is None or key == last or len(history) < 2 or history[-2].key != key:
        return 0, None, False
    tail: list[Recorded] = []
    for at, record in enumerate(reversed(history)):
        if record.key != (last if at % 2 == 0 else key):
            break
        tail.append(record)
    sides = {record.result for record in tail[::2]}, {record.result for record in tail[1::2]}
    same = all(len(side) == 1 and None not in side for side in sides)
    return len(tail) + 1, last, same
