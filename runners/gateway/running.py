"""A request on its way through the engine: its ticket, its state in a slot, and a listener that waits for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from runners.gateway.generation import Generation, Listener, Request, TextAssembler
from runners.gateway.llama import Logits, Tokens
from runners.gateway.sampling import TokenSampler


@dataclass(eq=False)
class Ticket:
    """A submitted request. `cancel` may be called from any thread, at any time, more than once."""

    request: Request
    listener: Listener
    cancelled: bool = False
    _wake: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def cancel(self) -> None:
        with self._wake:
            self.cancelled = True
            self._wake.notify()


class Running:
    """A request in a slot."""

    def __init__(self, ticket: Ticket, seq: int, reused: int, limit: int, sampler: TokenSampler) -> None:
        self.ticket = ticket
        self.prompt: Tokens = np.asarray(ticket.request.prompt, np.int32)
        self.seq = seq
        self.reused = reused
        self.filled = reused
        self.limit = limit
        self.sampler = sampler
        self.assembler = TextAssembler(ticket.request.stops)
        self.tokens: list[int] = []
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        self.first_logits: Logits | None = None
        self.batched = 0
        self.logits_at: int | None = None

    @property
    def generating(self) -> bool:
        return self.filled == len(self.prompt)

    @property
    def outstanding(self) -> int:
        """Cells that this request may still need."""
        return len(self.prompt) - self.filled + self.limit - max(0, len(self.tokens) - 1)


class Waiter:
    """A listener that blocks its thread until the end."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._generation: Generation | None = None
        self._failure: Exception | None = None

    def text(self, delta: str) -> None:
        pass

    def done(self, generation: Generation) -> None:
        self._generation = generation
        self._ended.set()

    def failed(self, error: Exception) -> None:
        self._failure = error
        self._ended.set()

    def result(self) -> Generation:
        self._ended.wait()
        if self._generation is not None:
            return self._generation
        assert self._failure is not None
        raise self._failure
