"""What the engine is asked and what it answers: a request, a finished generation, and why there was none."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from runners.gateway.grammar import Grammar
from runners.gateway.llama import Logits
from runners.gateway.sampler import Sampler

Finish = Literal["stop", "length", "context"]
"""`stop`: an end token or a stop string; `length`: `max_tokens` reached; `context`: the window is full."""


@dataclass(frozen=True)
class Request:
    """One generation. `prompt` is not empty; `max_tokens` >= 1 counts sampled tokens, the end token included."""

    prompt: Sequence[int]
    max_tokens: int
    sampler: Sampler = field(default_factory=Sampler)
    seed: int = 0
    grammar: Grammar | None = None
    stops: tuple[str, ...] = ()
    keep_logits: bool = False


@dataclass(frozen=True)
class Generation:
    """A finished generation.

    `tokens` are all sampled ones, the end token included; `text` ends before the end token or stop string. Seconds
    are the request's share of the engine's computing time: each batch's time is divided evenly among its tokens.
    `reused_tokens` of the prompt came from the prefix cache. `first_logits` (n_vocab float32) are those after the
    prompt, where the request asked to keep them.
    """

    tokens: tuple[int, ...]
    text: str
    finish: Finish
    stop: str | None
    prompt_tokens: int
    reused_tokens: int
    prefill_seconds: float
    decode_seconds: float
    first_logits: Logits | None = None


class Overflow(Exception):
    """The prompt does not fit the window: `prompt_tokens` of at most `window` - 1."""

    def __init__(self, prompt_tokens: int, window: int) -> None:
        super().__init__(f"{prompt_tokens} prompt tokens, window {window}")
        self.prompt_tokens = prompt_tokens
        self.window = window


class Busy(Exception):
    """The queue of waiting requests is full."""


class Cancelled(Exception):
    """The request was cancelled by whoever asked."""


class EngineDead(Exception):
    """The engine stopped, by an error or because it was closed; it answers nothing any more."""


class Listener(Protocol):
    """Gets a request's events, on the engine's thread: any number of texts, then exactly one of the two ends."""

    def text(self, delta: str) -> None: ...

    def done(self, generation: Generation) -> None: ...

    def failed(self, error: Exception) -> None: ...


class TextAssembler:
    """Turns token bytes into text: whole UTF-8 characters only, and nothing that may be the start of a stop string."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = stops
        self._sent = 0
        self.text = ""
        self.stop: str | None = None

    def feed(self, piece: bytes) -> str:
        """The text that has become certain; after a stop string was found (`stop` is set), `text` ends before it."""
        return self._emit(self._decoder.decode(piece), last=False)

    def finish(self) -> str:
        """The rest."""
        return self._emit(self._decoder.decode(b"", final=True), last=True)

    def _emit(self, fresh: str, *, last: bool) -> str:
        longest = max((len(stop) for stop in self._stops), default=0)
        seen = max(0, len(self.text) - longest)
        self.text += fresh
        hits = [(at, stop) for stop in self._stops if (at := self.text.find(stop, seen)) >= 0]
        if hits:
            at, self.stop = min(hits)
            self.text = self.text[:at]
            last = True
        certain = len(self.text) if last else len(self.text) - self._withheld()
        delta = self.text[self._sent : certain]
        self._sent = max(self._sent, certain)
        return delta

    def _withheld(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        most = 0
        for stop in self._stops:
            for n in range(min(len(stop) - 1, len(self.text)), most, -1):
                if self.text.endswith(stop[:n]):
                    most = n
                    break
        return most
