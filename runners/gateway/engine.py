"""The inference engine: several sequences in one llama.cpp context, decoded together.

One thread owns the context. Each of its steps runs one batch: a token for every sequence that generates, and what
room is left for the prompts of those that begin (continuous batching). What a finished request computed stays in the
KV cells as a prefix for later ones until the cells are needed (`placement`). A request is admitted only when the
cells that it can need at most are free or can be freed, so that no batch ever fails for want of cells; until then it
waits in line, and past `queue` waiting ones it is refused.

`deterministic` runs one request at a time and reuses prefixes only at multiples of the batch size, so that every
token is computed in a batch of the same shape as without any reuse: a completion is then a function of its request
alone. Without it, the shape of the batches moves logits by rounding (by up to 0.8 in quantised models on a CPU), and
can turn a near tie.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np

from guards.errors import UserError
from runners.gateway.engine_options import EngineOptions
from runners.gateway.generation import (
    Busy,
    Cancelled,
    EngineDead,
    Finish,
    Generation,
    Listener,
    Overflow,
    Request,
)
from runners.gateway.llama import Model
from runners.gateway.memory import open_memory
from runners.gateway.running import Running, Ticket, Waiter
from runners.gateway.sampling import TokenSampler

_LOG = logging.getLogger(__name__)


class Engine:
    """See the module. Raises UserError where the model can not be loaded with these options."""

    def __init__(self, path: Path, options: EngineOptions) -> None:
        self.model = Model(path, gpu_layers=options.gpu_layers)
        self.options = options
        if options.n_ctx > self.model.n_ctx_train:
            trained = self.model.n_ctx_train
            self.model.close()
            raise UserError(
                f"{path.name}: --n-ctx {options.n_ctx} is more than the model's context of {trained} tokens; "
                f"give at most that, or a model with a larger one"
            )
        slots = 1 if options.deterministic else options.slots
        self.threads = options.threads or len(os.sched_getaffinity(0))
        try:
            memory = open_memory(self.model, options, slots=slots, threads=self.threads)
        except BaseException:
            self.model.close()
            raise
        self._context, self._book, self._placement = memory.context, memory.book, memory.placement
        self._slots = slots
        self._running: list[Running] = []
        self._waiting: deque[Ticket] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._forget = False
        self._error: BaseException | None = None
        self.decoded = 0
        """Generated tokens that were put through the model, over all requests."""
        self._thread = threading.Thread(target=self._main, name="engine", daemon=True)
        self._thread.start()

    # -- asked from any thread ---------------------------------------------------------------------------------

    def submit(self, request: Request, listener: Listener) -> Ticket:
        """Queues a request; its events come on the engine's thread.

        Raises Overflow (the prompt leaves no room for one token), Busy, or EngineDead.
        """
        if not request.prompt or request.max_tokens < 1:
            raise ValueError("a request has at least one prompt token and one token to generate")
        if len(request.prompt) >= self.options.n_ctx:
            raise Overflow(len(request.prompt), self.options.n_ctx)
        ticket = Ticket(request, listener, _wake=self._wake)
        with self._wake:
            if self._closing or self._error is not None:
                raise EngineDead(self._epitaph())
            if len(self._waiting) >= self.options.queue:
                raise Busy(f"{len(self._waiting)} requests are waiting")
            self._waiting.append(ticket)
            self._wake.notify()
        return ticket

    def complete(self, request: Request) -> Generation:
        """Submits, waits and returns. Raises what `submit` raises, or the error that ended the request."""
        waiter = Waiter()
        self.submit(request, waiter)
        return waiter.result()

    @property
    def alive(self) -> bool:
        return self._error is None and not self._closing

    @property
    def active(self) -> int:
        """Requests in slots."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def used_cells(self) -> int:
        """KV cells in use, cached prefixes included."""
        return self._book.used

    def state_bytes(self) -> int:
        """Size of llama.cpp's own state, which grows with each used cell; only while no request is running."""
        return self._context.state_bytes()

    def forget(self) -> None:
        """Drops all cached prefixes once no request is running; returns when that is done."""
        with self._wake:
            self._forget = True
            self._wake.notify()
            self._wake.wait_for(lambda: not self._forget or not self.alive)

    def close(self) -> None:
        """Ends the thread, fails what is running or waiting, frees the model. Closing twice does nothing."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self._context.close()
        self.model.close()

    def _epitaph(self) -> str:
        return "the engine is closed" if self._error is None else f"the engine died: {self._error}"

    # -- the engine's thread -----------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while self._next():
                self._step()
        except BaseException as error:
            _LOG.exception("engine died")
            self._error = error
        with self._wake:
            left = [running.ticket for running in self._running] + list(self._waiting)
            for running in self._running:
                running.sampler.close()
            self._running.clear()
            self._waiting.clear()
            self._wake.notify_all()
        for ticket in left:
            # Whatever one listener does, the others hear of it.
            with contextlib.suppress(Exception):
                ticket.listener.failed(EngineDead(self._epitaph()))

    def _next(self) -> bool:
        """Waits for work, drops what was cancelled and admits what fits; False when the engine shall end."""
        with self._wake:
            while True:
                if self._closing:
                    return False
                gone = [ticket for ticket in self._waiting if ticket.cancelled]
                for ticket in gone:
                    self._waiting.remove(ticket)
                stopped = [running for running in self._running if running.ticket.cancelled]
                if gone or stopped or self._running or self._waiting:
                    break
                if self._forget:
                    self._placement.forget()
                    self._forget = False
                    self._wake.notify_all()
                self._wake.wait()
        for running in stopped:
            self._leave(running)
        for ticket in gone + [running.ticket for running in stopped]:
            ticket.listener.failed(Cancelled())
        while self._waiting and len(self._running) < self._slots and self._admit(self._waiting[0]):
            with self._wake:
                self._waiting.popleft()
        return True

    def _admit(self, ticket: Ticket) -> bool:
        request = ticket.request
        prompt = np.asarray(request.prompt, np.int32)
        limit = min(request.max_tokens, self.options.n_ctx - len(prompt))
        placed = self._placement.place(
            prompt,
            limit,
            active=[running.seq for running in self._running],
            reserved=sum(running.outstanding for running in self._running),
        )
        if placed is None:
            return False
        seq, reused = placed
        try:
            sampler = TokenSampler(
                self.model,
                request.sampler,
                request.seed,
                context=self.options.n_ctx,
                history=request.prompt,
                grammar=request.grammar,
            )
        except Exception as error:
            self._placement.release(seq, reused)
            ticket.listener.failed(error)
            return True
        self._running.append(Running(ticket, seq, reused, limit, sampler))
        return True

    def _leave(self, running: Running) -> None:
        running.sampler.close()
        self._running.remove(running)
        self._placement.release(running.seq, running.filled)

    def _step(self) -> None:
        self._fill()
        if not self._context.filled:
            return
        total = self._context.filled
        began = time.perf_counter()
        self._context.decode()
        self._context.synchronize()
        seconds = time.perf_counter() - began
        for running in list(self._running):
            share = seconds * running.batched / total
            if running.generating:
                running.decode_seconds += share
                self.decoded += running.batched
            elif running.batched:
                running.prefill_seconds += share
                running.filled += running.batched
                self._placement.filled(running.seq, running.prompt, running.filled)
            if running.logits_at is not None:
                self._sample(running, running.logits_at)

    def _fill(self) -> None:
        """Puts the next batch together: one token for each that generates, then pieces of prompts."""
        context, book = self._context, self._book
        for running in self._running:
            running.batched, running.logits_at = 0, None
            if running.generating:
                token = np.array(running.tokens[-1:], np.int32)
                running.logits_at = context.add(running.seq, token, book.length(running.seq), logits=True)
                book.append(running.seq, token)
                running.batched = 1
        # What room is left is shared evenly, so that a short prompt does not wait for the whole of a long one.
        filling = sorted((r for r in self._running if not r.generating), key=lambda r: len(r.prompt) - r.filled)
        for at_turn, running in enumerate(filling):
            share = -(-context.room // (len(filling) - at_turn))
            end = self._placement.chunk_end(len(running.prompt), running.filled, share)
            if end == running.filled:
                continue
            last = end == len(running.prompt)
            tokens = running.prompt[running.filled : end]
            at = context.add(running.seq, tokens, running.filled, logits=last)
            book.append(running.seq, tokens)
            running.logits_at = at if last else None
            running.batched = len(tokens)

    def _sample(self, running: Running, at: int) -> None:
        request = running.ticket.request
        began = time.perf_counter()
        try:
            logits = self._context.logits(at)
            if request.keep_logits and running.first_logits is None:
                running.first_logits = logits.copy()
            token = running.sampler.sample(logits)
        except Exception as error:
            self._leave(running)
            running.ticket.listener.failed(error)
            return
        running.tokens.append(token)
        running.decode_seconds += time.perf_counter() - began
        finish: Finish | None = None
        if self.model.ends(token):
            finish = "stop"
        else:
            delta = running.assembler.feed(self.model.piece(token))
            if delta:
                running.ticket.listener.text(delta)
            if running.assembler.stop is not None:
                finish = "stop"
            elif len(running.tokens) >= running.limit:
                finish = "length" if running.limit == request.max_tokens else "context"
        if finish is None:
            return
        rest = running.assembler.finish()
        if rest:
            running.ticket.listener.text(rest)
        self._leave(running)
        running.ticket.listener.done(
            Generation(
                tokens=tuple(running.tokens),
                text=running.assembler.text,
                finish=finish,
                stop=running.assembler.stop,
                prompt_tokens=len(running.prompt),
                reused_tokens=running.reused,
                prefill_seconds=running.prefill_seconds,
                decode_seconds=running.decode_seconds,
                first_logits=running.first_logits,
            )
        )
