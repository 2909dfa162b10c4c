"""Between the wire and whoever answers: one ask, the events of its answer, and the ways it can fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from runners.gateway.conversation import Conversation, Reply
from runners.gateway.sampler import Sampler

DecodeMode = Literal["free", "lazy", "forced"]


class Occurrences:
    """How often each prompt was already answered to each agent of an episode."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], int] = {}

    def of(self, agent: int, prompt: str) -> int:
        """`prompt` is a digest. 0 the first time."""
        return self._seen.get((agent, prompt), 0)

    def answered(self, agent: int, prompt: str) -> None:
        """Counts one complete answer: a request that failed or went away is asked again with the same number."""
        self._seen[agent, prompt] = self.of(agent, prompt) + 1


@dataclass(frozen=True)
class Ask:
    """What one model response is asked for. `conversation` holds nothing volatile any more.

    `agent` and `step` are ordinals from 0 within the episode and the agent; `occurrence` counts earlier equal prompts
    of the same agent and is settled by the backend through `Occurrences`. `compaction` marks a summary that the
    harness asks for: it is decoded free of any grammar and read as text alone. `window` is the most tokens of prompt
    and completion together.
    `only_tool` narrows a `forced` reply to that tool; None allows all.
    """

    episode: str
    agent: int
    session: str | None
    step: int
    conversation: Conversation
    decode_mode: DecodeMode
    max_tokens: int
    window: int
    sampler: Sampler
    seed: int
    stops: tuple[str, ...] = ()
    compaction: bool = False
    only_tool: str | None = None
    occurrences: Occurrences = field(default_factory=Occurrences)


@dataclass(frozen=True)
class Accepted:
    """First event: the ask is valid and will be answered.

    `input_tokens` is the whole prompt's length, `tape_key` the digest that the answer will have; None as in `Answer`.
    """

    input_tokens: int
    tape_key: str | None = None


@dataclass(frozen=True)
class Delta:
    """A piece of visible text or of thinking, never empty."""

    kind: Literal["text", "thinking"]
    text: str


@dataclass(frozen=True)
class Answer:
    """Last event: the whole reply.

    `finish`: `stop`, `stop_string` (which one: `stop`), `length` (token limit or full window). `tape_key` and
    `prompt_digest` are sha256 digests; None where the backend has none. Seconds are those stored with the completion.
    """

    reply: Reply
    finish: Literal["stop", "stop_string", "length"]
    stop: str | None
    input_tokens: int
    output_tokens: int
    prefill_seconds: float
    decode_seconds: float
    tape_key: str | None
    prompt_digest: str | None
    decoded: bool
    """True when this answer was computed now, False when it came from the tape or a script."""
    primed: bool = False
    """True when a script put this reply into the model's mouth, to place it at a known point of the course."""


Event = Accepted | Delta | Answer


class ContextOverflow(Exception):
    """The prompt leaves no room in the window."""

    def __init__(self, input_tokens: int, window: int) -> None:
        super().__init__(f"{input_tokens} tokens, window {window}")
        self.input_tokens = input_tokens
        self.window = window


class BadAsk(Exception):
    """The request can not be served as it is; the text says why. It is the client's mistake."""


class Overloaded(Exception):
    """Too many requests wait."""


class BackendFailure(Exception):
    """The backend can not answer, through no fault of the request: infrastructure, never a model's outcome."""


class Backend(Protocol):
    """A model or an actor. `answer` yields Accepted, any number of Deltas, then one Answer; it raises the errors of
    this module, before Accepted whenever it can. Closing the iterator early cancels the work."""

    name: str
    sampler: Sampler
    """Used where an episode names none."""
    window: int
    """The most tokens that an episode's window can have."""

    def answer(self, ask: Ask) -> AsyncGenerator[Event]: ...

    def healthy(self) -> str | None:
        """None, or what is wrong."""

    def load(self) -> dict[str, int]:
        """What the backend is doing, for `GET /healthz`: counts by name; empty where there is nothing to count."""

    def close(self) -> None: ...
