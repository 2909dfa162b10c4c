"""Episodes without the harness: the same scenarios, model and Python policies in a small loop in this process.

For development, audits and large samples. It has no planes and no subagents, scenarios of files get stand-ins for the
harness' tools, and its prompts are not those of the harness, so its figures never stand beside the harness' own.
Compaction is the harness' in outline: before a step whose prompt is estimated above the threshold, all but the task and
a tail is replaced by a summary that the same model is asked for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from guards.policy import ToolOutcome
from guards.stack import Stack
from guards.stack_policy import StackPolicy, denial_outcome
from results import trace as records
from runners.gateway.actors import as_text, estimate, scripted
from runners.gateway.asking import Answer, Ask, Backend, BackendFailure, ContextOverflow, Occurrences
from runners.gateway.conversation import Conversation, Message, Part, Reply, Text, Tool, ToolCall, ToolResult
from runners.gateway.sampler import Sampler
from runners.player import Player, as_reply
from runners.spec import EpisodeSpec, Interrupted, Played
from scenarios.base import World
from scenarios.judge import judge

SYSTEM = "You are a helpful software engineer assistant."
SUMMARISE = (
    "Summarise the conversation above for yourself, so that the work can go on without it: what the user asked for, "
    "what was found out, what is done and what comes next. Write nothing else."
)
CHECKPOINT = "Summary of the conversation so far:\n"
DEFAULT_WINDOW = 8192
ROOT = "root"
Action = Literal["nudge", "deny", "refuse"]


class NativeRunner:
    """Plays episodes one after the other. `backend` None serves actors alone; `watch` is told of each event but the
    labels as it happens, None = nobody is."""

    def __init__(
        self, backend: Backend | None, stack: Stack, watch: Callable[[records.Event], None] | None = None
    ) -> None:
        self._backend = backend
        self._stack = stack
        self._watch = watch
        self._stop = threading.Event()

    def run(self, spec: EpisodeSpec) -> Played:
        """Plays one episode to its end. Raises Interrupted."""
        return asyncio.run(_Loop(self._backend, self._stack, spec, self._stop, self._watch).play())

    def interrupt(self) -> None:
        """Ends the episodes under way at their next step; may be called from any thread."""
        self._stop.set()


@dataclass
class _State:
    """What the loop knows of the episode. `turns` counts tool turns and attempts, as the horizon does."""

    messages: list[Message]
    events: list[records.Event] = field(default_factory=list)
    steps: int = 0
    turns: int = 0
    attempts: int = 0
    calls: int = 0
    opening: Conversation | None = None


class _Loop:
    def __init__(
        self,
        backend: Backend | None,
        stack: Stack,
        spec: EpisodeSpec,
        stop: threading.Event,
        watch: Callable[[records.Event], None] | None,
    ) -> None:
        self._backend = backend
        self._stop = stop
        self._watch = watch
        self._digest = stack.digest
        self._spec = spec
        self._world: World = spec.scenario.world()
        names = {mount.guard for mount in spec.arm.mounts}
        policies = [policy for policy in stack.policies() if policy.name in names]
        self._guards = StackPolicy(policies)
        self._tools = tuple(
            Tool(each.name, each.description, dict(each.parameters)) for each in spec.scenario.native_tools
        )
        self._occurrences = Occurrences()
        needs = spec.scenario.needs
        self._window = needs.window or DEFAULT_WINDOW
        self._actor = Player.of(spec)
        self._state = _State([Message("user", (Text(spec.scenario.prompt),))])

    async def play(self) -> Played:
        state, spec = self._state, self._spec
        self._tell(records.User(text=spec.scenario.prompt))
        self._guards.user_message(ROOT)
        reason = await self._steps()
        self._tell(records.End(reason=reason))  # type: ignore[arg-type]
        trace = records.Trace(self._header(), tuple(state.events))
        labels, success = judge(spec.scenario, trace)
        ended = (replace(each, success=success) if isinstance(each, records.End) else each for each in trace.events)
        return Played(records.Trace(trace.header, (*ended, *labels)), state.opening)

    async def _steps(self) -> str:
        state, horizon = self._state, self._spec.horizon
        while True:
            counted = state.attempts if horizon.unit == "compaction attempts" else state.turns
            if self._stop.is_set():
                raise Interrupted
            if counted >= horizon.count or state.turns >= horizon.turns:
                return "horizon"
            await self._compact()
            try:
                answer = await self._ask(self._conversation(), compaction=False)
            except ContextOverflow:
                return "overflow"
            self._book(answer)
            if not answer.reply.calls:
                return "max_tokens" if answer.finish == "length" else "completed"
            state.turns += 1
            self._guards.model_response(ROOT, len(answer.reply.calls))
            self._execute(answer.reply)
            if self._world.finished:
                return "completed"

    # -- one step ------------------------------------------------------------------------------------------------

    async def _ask(self, conversation: Conversation, *, compaction: bool) -> Answer:
        spec, state = self._spec, self._state
        sampler = spec.sampler or (self._backend.sampler if self._backend is not None else None)
        needs = spec.scenario.needs
        engine = needs.engine or {}
        ask = Ask(
            episode=spec.name,
            agent=0,
            session=None,
            step=state.steps,
            conversation=conversation,
            decode_mode=spec.decode_mode,
            max_tokens=int(engine.get("maxTokens", 512)) if compaction else needs.reply_tokens,
            window=self._window,
            sampler=sampler or Sampler(),
            seed=spec.seed,
            compaction=compaction,
            occurrences=self._occurrences,
        )
        if state.opening is None:
            state.opening = conversation
        if not compaction and state.steps < spec.priming:
            course = spec.scenario.looping()
            assert course is not None
            events = scripted(ask, as_reply(course.turn(state.steps, ()), conversation), primed=True)
        elif self._actor is not None:
            events = scripted(ask, self._actor.reply(ask))
        else:
            assert self._backend is not None
            events = self._backend.answer(ask)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Answer):
                    return event
        raise BackendFailure("the model ended without an answer")

    def _book(self, answer: Answer) -> None:
        state, primed = self._state, answer.primed
        state.steps += 1
        self._tell(
            records.Step(
                n=state.steps,
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

    def _execute(self, reply: Reply) -> None:
        """One call after the other, each asked and settled before the next, as the harness does it."""
        state = self._state
        primed = state.steps <= self._spec.priming
        asked: list[Part] = [Text(reply.text)] if reply.text else []
        shown: list[Part] = []
        notices: list[Part] = []
        for at, call in enumerate(reply.calls):
            identifier = f"call_{state.steps}_{at}"
            asked.append(ToolCall(identifier, call.name, call.arguments))
            event = records.Call(id=identifier, step=state.steps, tool=call.name, args=call.arguments, primed=primed)
            self._tell(event)
            state.calls += 1
            result, told = self._settle(event)
            shown.append(ToolResult(identifier, result.text, result.error))
            notices += [Text(text) for text in told]
        state.messages.append(Message("assistant", tuple(asked)))
        state.messages.append(Message("user", (*shown, *notices)))

    def _settle(self, call: records.Call) -> tuple[records.Result, list[str]]:
        denied = self._guards.before_call(ROOT, call.tool, call.args)
        if denied is None:
            outcome = self._world.call(call.tool, call.args)
            text = f"Error: {outcome.text}" if outcome.error else outcome.text
            shown = ToolOutcome(({"type": "text", "text": text},), outcome.error, outcome.text)
        else:
            shown = denial_outcome(denied.decision)
            self._act("deny", denied.guard, call.id, denied.decision, denied.decision.reason)
        result = records.Result(
            id=call.id,
            content=records.blocks(list(shown.content)),
            error=shown.error,
            denied_by=None if denied is None else f"{denied.guard}@native",
        )
        self._tell(result)
        told = []
        guard = None if denied is None else denied.guard
        for nudge in self._guards.after_call(
            ROOT, call.tool, call.args, shown, executed=denied is None, denied_by=guard
        ):
            self._act("nudge", nudge.guard, call.id, nudge.decision, nudge.decision.text)
            self._tell(records.Notice(text=nudge.decision.text, source=nudge.guard))
            told.append(nudge.decision.text)
        return result, told

    def _tell(self, event: records.Event) -> None:
        self._state.events.append(event)
        if self._watch is not None:
            self._watch(event)

    def _act(self, action: Action, guard: str, call: str | None, decision: Any, reason: str) -> None:
        self._tell(
            records.Guard(
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

    # -- compaction ----------------------------------------------------------------------------------------------

    async def _compact(self) -> None:
        """Before a step: one attempt where the prompt is above the threshold and there is something to replace."""
        state, needs = self._state, self._spec.scenario.needs
        if needs.engine is None:
            return
        before = estimate(as_text(self._conversation()))
        most = self._window - needs.reply_tokens - int(needs.engine.get("headroomTokens", 0))
        threshold = min(self._window * float(needs.engine.get("thresholdRatio", 0.8)), most)
        if before < threshold or len(state.messages) < 4:
            return
        state.attempts += 1
        state.turns += 1
        refused = self._guards.before_compaction(ROOT, "pressure")
        if refused is not None:
            self._act("refuse", refused.guard, None, refused.decision, refused.decision.reason)
            self._attempt("refused", before, None, None)
            return
        # The last step and its results stay, as the harness never splits them.
        head, tail = state.messages[:-2], state.messages[-2:]
        asking = Conversation(SYSTEM, (*head, Message("user", (Text(SUMMARISE),))), self._tools)
        try:
            answer = await self._ask(asking, compaction=True)
        except ContextOverflow:
            self._attempt("failed", before, None, None)
            return
        summary = Message("user", (Text(self._spec.scenario.prompt), Text(CHECKPOINT + answer.reply.text)))
        shorter = [summary, *tail]
        after = estimate(as_text(self._conversation(shorter)))
        committed = answer.finish != "length" and bool(answer.reply.text.strip()) and after < before
        if committed:
            state.messages = shorter
        self._attempt("committed" if committed else "failed", before, after, answer)

    def _attempt(self, outcome: Any, before: int, after: int | None, answer: Answer | None) -> None:
        if outcome != "refused":
            self._guards.after_compaction(ROOT, "pressure", outcome)
        tokens = {} if answer is None else {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
        self._tell(
            records.Compaction(
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

    # -- what it is called ---------------------------------------------------------------------------------------

    def _conversation(self, messages: Sequence[Message] | None = None) -> Conversation:
        return Conversation(SYSTEM, tuple(messages or self._state.messages), self._tools)

    def _header(self) -> records.Header:
        return self._spec.header(
            runner="native",
            harness=None,
            stack=self._digest,
            recommended=None if self._backend is None else self._backend.sampler,
            window=self._window,
            tape=None,
        )
