"""Recorded events fed to guards, and what they decide.

Open loop: the model's later behaviour is what was recorded. A call that a replayed guard denies never ran for it, and
its recorded result is not shown to it; a call that something else denied in the recording is judged like any other,
counts for no guard if it is allowed, and its recorded content is an error to guards that look at results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from guards.compaction_breaker import CompactionBreaker
from guards.policy import Decision, Denial, Policy, Refusal, ToolOutcome
from guards.stack_policy import Decided, StackPolicy, denial_outcome
from results.trace import Call, Compaction, Guard, Result, Step, Trace, User
from results.trace_calls import AskedCall, Calls, link


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision and where it fell.

    `index` is the 1-based place of the call among its agent's calls; for a compaction, whose `call` is None, that of
    the attempt among its agent's attempts. `reason` is what the model would be told.
    """

    episode: str
    agent: str
    guard: str
    action: Literal["deny", "nudge", "refuse"]
    kind: str
    call: str | None
    index: int
    count: int
    limit: int
    reason: str

    def row(self) -> dict[str, Any]:
        """The keys of `tripbench replay --json`, in their order."""
        return {
            "episode": self.episode,
            "agent": self.agent,
            "guard": self.guard,
            "action": self.action,
            "kind": self.kind,
            "call": self.call,
            "index": self.index,
            "count": self.count,
            "limit": self.limit,
        }


def replay(trace: Trace, guards: Policy | StackPolicy, calls: Calls | None = None) -> Iterator[Replayed]:
    """Every decision on a trace, in its order; guards of one event in the order of the stack.

    The guards must be fresh. `calls` is `link(trace.events)`, None = linked here.
    """
    stack = guards if isinstance(guards, StackPolicy) else StackPolicy([guards])
    return _Replay(trace, stack, calls or link(trace.events)).decisions()


class _Replay:
    def __init__(self, trace: Trace, stack: StackPolicy, calls: Calls) -> None:
        self._trace = trace
        self._stack = stack
        self._ignored = calls.ignored
        self._asked = calls.by_position()
        self._denied: dict[int, Decided[Denial]] = {}
        self._attempts: dict[str, int] = defaultdict(int)

    def decisions(self) -> Iterator[Replayed]:
        for position, event in enumerate(self._trace.events):
            if position in self._ignored:
                continue
            match event:
                case User():
                    self._stack.user_message(event.agent)
                case Step():
                    self._stack.model_response(event.agent, event.calls)
                case Call():
                    yield from self._call(self._asked[position])
                case Result():
                    yield from self._result(self._asked[position], event)
                case Compaction():
                    yield from self._compaction(event)
                case Guard(guard=CompactionBreaker.name, action="reset"):
                    self._stack.reset(event.agent, event.guard)

    def _call(self, asked: AskedCall) -> Iterator[Replayed]:
        call = asked.call
        denial = self._stack.before_call(call.agent, call.tool, call.args, counted=asked.denied_by is None)
        if denial is not None:
            self._denied[asked.position] = denial
            yield self._replayed("deny", denial, call.agent, call.id, asked.index)

    def _result(self, asked: AskedCall, result: Result) -> Iterator[Replayed]:
        call = asked.call
        denial = self._denied.get(asked.position)
        stopped = result.denied_by is not None
        shown = (
            ToolOutcome(result.content, result.error or stopped) if denial is None else denial_outcome(denial.decision)
        )
        nudges = self._stack.after_call(
            call.agent,
            call.tool,
            call.args,
            shown,
            executed=denial is None and not stopped,
            denied_by=None if denial is None else denial.guard,
        )
        for nudge in nudges:
            yield self._replayed("nudge", nudge, call.agent, call.id, asked.index)

    def _compaction(self, event: Compaction) -> Iterator[Replayed]:
        self._attempts[event.agent] += 1
        refusal = self._stack.before_compaction(event.agent, event.trigger)
        if refusal is None:
            self._stack.after_compaction(event.agent, event.trigger, event.outcome)
        else:
            yield self._replayed("refuse", refusal, event.agent, None, self._attempts[event.agent])

    def _replayed(
        self,
        action: Literal["deny", "nudge", "refuse"],
        decided: Decided[Any],
        agent: str,
        call: str | None,
        index: int,
    ) -> Replayed:
        made: Decision = decided.decision
        reason = made.reason if isinstance(made, Denial | Refusal) else made.text
        episode = self._trace.header.episode
        return Replayed(episode, agent, decided.guard, action, made.kind, call, index, made.count, made.limit, reason)
