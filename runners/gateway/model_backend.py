"""A GGUF model as a backend: conversation -> prompt -> tape or engine -> reply."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Literal

from guards.errors import UserError
from runners.gateway.asking import (
    Accepted,
    Answer,
    Ask,
    BackendFailure,
    BadAsk,
    ContextOverflow,
    Delta,
    Event,
    Overloaded,
)
from runners.gateway.card import ModelCard
from runners.gateway.conversation import Reply, Tool, encodable
from runners.gateway.dialects.base import Dialect
from runners.gateway.dialects.registry import dialect
from runners.gateway.dialects.stream import ReplyStream
from runners.gateway.engine import Engine
from runners.gateway.generation import Busy, EngineDead, Generation, Overflow, Request
from runners.gateway.grammar import Grammar
from runners.gateway.running import Ticket
from runners.gateway.tape import Completion, Tape, TapeKey
from runners.gateway.tape_key import prompt_digest
from runners.gateway.template import ChatTemplate

_LONG_PROMPT = 50_000
"""Characters from which on a prompt's tokens are counted off the event loop: a megabyte takes about a second."""


@dataclass(frozen=True)
class _Job:
    """An ask, rendered."""

    ask: Ask
    prompt: str
    key: TapeKey
    grammar: Grammar | None
    tools: tuple[Tool, ...]
    stops: tuple[str, ...]


class ModelBackend:
    """Serves one model. Without a tape nothing is stored; without an engine the tape alone answers (`--tape-only`)."""

    def __init__(self, card: ModelCard, engine: Engine | None, tape: Tape | None) -> None:
        if engine is None and tape is None:
            raise ValueError("a model is served by an engine, a tape or both")
        self.card = card
        self.name = card.name
        self.sampler = card.sampler
        self.window = card.window
        self._engine = engine
        self._tape = tape
        self._dialect: Dialect = dialect(card.dialect)
        self._template = ChatTemplate(card.template, card.bos, card.eos, name=card.name)
        if tape is not None and engine is not None:
            tape.put_card(card.sha256, card.model_dump(mode="json"))

    def healthy(self) -> str | None:
        if self._engine is not None and not self._engine.alive:
            return "the engine is dead"
        return None

    def load(self) -> dict[str, int]:
        """`active` and `waiting` requests, `used_cells` (cached prefixes included); empty in tape-only mode."""
        engine = self._engine
        if engine is None:
            return {}
        return {"active": engine.active, "waiting": engine.waiting, "used_cells": engine.used_cells}

    @property
    def engine(self) -> Engine | None:
        """None in tape-only mode."""
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        if self._tape is not None:
            self._tape.close()

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        job = self._render(ask)
        tape, engine = self._tape, self._engine
        stored = await asyncio.to_thread(tape.get, job.key) if tape is not None else None
        if stored is None and engine is None:
            assert tape is not None
            raise tape.miss(job.key, ask.episode, ask.step, job.prompt)
        if stored is not None:
            for event in self._replay(job, stored):
                yield event
            return
        assert engine is not None
        if len(job.prompt) < _LONG_PROMPT:
            tokens = engine.model.tokenize(job.prompt)
        else:
            tokens = await asyncio.to_thread(engine.model.tokenize, job.prompt)
        if len(tokens) >= ask.window:
            if tape is not None:
                await asyncio.to_thread(tape.put, job.key, job.prompt, _overflow(len(tokens)))
            raise ContextOverflow(len(tokens), ask.window)
        async with AsyncExitStack() as stack:
            announced = False
            if tape is not None:
                flight = tape.try_flight(job.key)
                if flight is not None:
                    stack.enter_context(flight)
                else:
                    yield Accepted(len(tokens), job.key.digest())
                    announced = True
                    flight = await stack.enter_async_context(tape.flight_async(job.key))
                # Whoever held the flight before may have stored it.
                stored = flight.stored
            events = self._decode(job, tokens) if stored is None else _async(self._replay(job, stored))
            async with contextlib.aclosing(events):
                async for event in events:
                    if not (announced and isinstance(event, Accepted)):
                        yield event

    def _render(self, ask: Ask) -> _Job:
        tools = ask.conversation.tools
        try:
            prompt = encodable(self._dialect.render(self._template, ask.conversation))
        except UserError as error:
            raise BadAsk(str(error)) from error
        mode = "free" if ask.compaction or not tools else ask.decode_mode
        grammar = None
        if mode != "free":
            callable_ = tuple(tool for tool in tools if ask.only_tool in (None, tool.name))
            grammar = self._dialect.grammar(callable_, mode)
            if grammar is not None and mode == "lazy" and self._dialect.opens_thinking(prompt):
                grammar = replace(grammar, thinking=True)
        stops = (*self._dialect.stops, *ask.stops)
        digest = prompt_digest(prompt)
        card = self.card
        # At temperature 0 nothing is drawn: whoever asks with this prompt, and however often, is answered alike.
        drawn = ask.sampler.temperature > 0
        key = TapeKey(
            model=card.sha256,
            engine=card.engine,
            backend=card.backend,
            n_ctx=ask.window,
            kv_type=card.kv_type,
            deterministic=card.deterministic,
            template=self._template.digest,
            dialect=f"{self._dialect.name}/{self._dialect.version}",
            decode_mode=mode,
            grammar=None if grammar is None else grammar.digest,
            sampler=ask.sampler.model_dump(),
            max_tokens=ask.max_tokens,
            stops=stops,
            prompt=digest,
            seed=ask.seed if drawn else 0,
            agent=ask.agent if drawn else 0,
            occurrence=ask.occurrences.of(ask.agent, digest) if drawn else 0,
        )
        return _Job(ask, prompt, key, grammar, () if ask.compaction else tools, stops)

    def _replay(self, job: _Job, stored: Completion) -> Iterator[Event]:
        if stored.finish == "overflow":
            raise ContextOverflow(stored.prompt_tokens, job.ask.window)
        yield Accepted(stored.prompt_tokens, job.key.digest())
        stream = self._stream(job)
        for kind, text in stream.feed(stored.text):
            yield Delta(kind, text)
        rest, reply = stream.finish(stored.finish == "stop")
        for kind, text in rest:
            yield Delta(kind, text)
        yield self._answer(job, stored, reply, decoded=False)

    async def _decode(self, job: _Job, tokens: list[int]) -> AsyncGenerator[Event]:
        engine = self._engine
        assert engine is not None
        ask = job.ask
        mailbox = _Mailbox(asyncio.get_running_loop())
        limit = min(ask.max_tokens, ask.window - len(tokens))
        request = Request(tokens, limit, ask.sampler, job.key.sampling_seed(), job.grammar, job.stops)
        try:
            ticket: Ticket = engine.submit(request, mailbox)
        except Busy as error:
            raise Overloaded(str(error)) from error
        except Overflow as error:
            raise ContextOverflow(error.prompt_tokens, error.window) from error
        except EngineDead as error:
            raise BackendFailure(str(error)) from error
        try:
            yield Accepted(len(tokens), job.key.digest())
            stream = self._stream(job)
            while True:
                item = await mailbox.next()
                if isinstance(item, str):
                    for kind, text in stream.feed(item):
                        yield Delta(kind, text)
                elif isinstance(item, Generation):
                    break
                else:
                    raise BackendFailure(f"{type(item).__name__}: {item}") from item
        finally:
            ticket.cancel()
        cut = item.finish == "length" and limit < ask.max_tokens
        completion = Completion(
            tokens=item.tokens,
            text=item.text,
            finish="context" if cut else item.finish,
            stop=item.stop,
            prompt_tokens=item.prompt_tokens,
            prefill_seconds=item.prefill_seconds,
            decode_seconds=item.decode_seconds,
            reused_tokens=item.reused_tokens,
        )
        if self._tape is not None:
            completion = await asyncio.to_thread(self._tape.put, job.key, job.prompt, completion)
        rest, reply = stream.finish(completion.finish == "stop")
        for kind, text in rest:
            yield Delta(kind, text)
        yield self._answer(job, completion, reply, decoded=True)

    def _stream(self, job: _Job) -> ReplyStream:
        # A strict grammar has no room for thinking, even where the template opened a span for it.
        thinking = job.key.decode_mode != "forced" and self._dialect.opens_thinking(job.prompt)
        return self._dialect.stream(job.tools, thinking=thinking)

    def _answer(self, job: _Job, completion: Completion, reply: Reply, *, decoded: bool) -> Answer:
        job.ask.occurrences.answered(job.ask.agent, job.key.prompt)
        # A stop string of the dialect's own is an end like the end token; only one that was asked for is named.
        asked = completion.stop is not None and completion.stop in job.ask.stops
        whole: Literal["stop", "stop_string"] = "stop_string" if asked else "stop"
        return Answer(
            reply,
            finish=whole if completion.finish == "stop" else "length",
            stop=completion.stop if asked else None,
            input_tokens=completion.prompt_tokens,
            output_tokens=len(completion.tokens),
            prefill_seconds=completion.prefill_seconds,
            decode_seconds=completion.decode_seconds,
            tape_key=job.key.digest(),
            prompt_digest=job.key.prompt,
            decoded=decoded,
        )


async def _async(events: Iterator[Event]) -> AsyncGenerator[Event]:
    for event in events:
        yield event


def _overflow(tokens: int) -> Completion:
    return Completion(
        tokens=(),
        text="",
        finish="overflow",
        stop=None,
        prompt_tokens=tokens,
        prefill_seconds=0.0,
        decode_seconds=0.0,
    )


class _Mailbox:
    """A listener that hands the engine's events to an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: asyncio.Queue[str | Generation | Exception] = asyncio.Queue()

    async def next(self) -> str | Generation | Exception:
        """A text, then more, then the generation or the error that ended it."""
        return await self._items.get()

    def text(self, delta: str) -> None:
        self._put(delta)

    def done(self, generation: Generation) -> None:
        self._put(generation)

    def failed(self, error: Exception) -> None:
        self._put(error)

    def _put(self, item: str | Generation | Exception) -> None:
        # The loop may be gone when the server was stopped in mid-generation.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
