"""What the native runner writes down: the events of an episode, as its trace tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from results import trace as records
from runners.gateway.asking import Answer
from runners.gateway.conversation import Message, Tool
from scenarios.course import Turn

Action = Literal["nudge", "deny", "refuse"]
Attempted = Literal["committed", "failed", "refused"]


@dataclass
class Agent:
    """An agent: the root has number 0, subagents count from 1. `primed` are the turns that it begins with."""

    name: str
    number: int
    prompt: str
    parent: str | None
    tools: tuple[Tool, ...]
    primed: Sequence[Turn]
    messages: list[Message]
    steps: int = 0


class NativeRecord:
    """The events so far, in their order. `watch` is told of each as it happens, None = nobody is."""

    def __init__(self, watch: Callable[[records.Event], None] | None) -> None:
        self.events: list[records.Event] = []
        self._watch = watch

    def tell(self, event: records.Event) -> None:
        self.events.append(event)
        if self._watch is not None:
            self._watch(event)

    def step(self, agent: Agent, answer: Answer) -> None:
        """The agent's step of number `agent.steps`; a primed one costs nothing."""
        primed = answer.primed
        self.tell(
            records.Step(
                agent=agent.name,
                n=agent.steps,
                calls=len(answer.reply.calls),
                input_tokens=None if primed else answer.input_tokens,
                output_tokens=None if primed else answer.output_tokens,
                seconds=None if primed else answer.prefill_seconds + answer.decode_seconds,
                finish=answer.finish,
                tape_key=answer.tape_key,
                prompt_digest=answer.prompt_digest,
                primed=primed,
            )
        )

    def act(self, agent: str, action: Action, guard: str, call: str | None, decision: Any, reason: str) -> None:
        """What a guard did; `call` None is no call's: a refusal."""
        self.tell(
            records.Guard(
                agent=agent,
                guard=guard,
                plane="native",
                action=action,
                call=call,
                kind=decision.kind,
                count=decision.count,
                limit=decision.limit,
                reason=reason,
            )
        )

    def attempt(
        self, agent: Agent, outcome: Attempted, before: int, after: int | None = None, answer: Answer | None = None
    ) -> None:
        """A compaction attempt: tokens of the prompt `before` and `after`, and the summary's `answer`, None = no
        summary came."""
        tokens = {} if answer is None else {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
        self.tell(
            records.Compaction(
                agent=agent.name,
                trigger="pressure",
                outcome=outcome,
                plane="native",
                summary_calls=int(answer is not None),
                tokens_before=before,
                tokens_after=after,
                seconds=0.0 if answer is None else answer.prefill_seconds + answer.decode_seconds,
                extra=tokens,
            )
        )
