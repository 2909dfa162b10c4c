"""An episode as the gateway knows it: its settings, its agents, and what each model response was."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runners.gateway.aliases import AliasMap
from runners.gateway.asking import Answer, DecodeMode, Occurrences
from runners.gateway.conversation import (
    Conversation,
    Message,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from runners.gateway.sampler import Sampler

SPAWN_TOOLS = ("subagent", "subagent_fork")
"""DeepSeek Harness' tools that start another agent; their argument `prompt` begins the child's first message."""

KEPT_STEPS = 10_000


class EpisodeSettings(BaseModel):
    """What decides an episode's completions beside its prompts, and what must not reach a prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(default=0, ge=0)
    """Seed index: the sampling seeds derive from it through the tape keys."""
    decode_mode: DecodeMode = "lazy"
    sampler: Sampler | None = None
    """None takes the model's recommended one."""
    window: int | None = Field(default=None, ge=64)
    """Most tokens of prompt and completion together; None is the server's."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Caps what a request asks for; None does not."""
    root_session: str | None = None
    """The session id of the root agent; None takes the first that comes."""
    workspace: str | None = None
    """Absolute path that prompts show as `/workspace`; None hides none."""
    home: str | None = None
    volatile: dict[str, str] = Field(default_factory=dict)
    """Further values that must not reach a prompt, with what stands in their place."""
    request_sampler: bool = False
    """Whether a request may set temperature, top_p and top_k for itself."""


@dataclass(frozen=True)
class Step:
    """One model response. `agent` and `step` are ordinals from 0; seconds are those stored with the completion."""

    agent: int
    step: int
    session: str | None
    compaction: bool
    calls: int
    input_tokens: int
    output_tokens: int
    prefill_seconds: float
    decode_seconds: float
    finish: str
    tape_key: str | None
    prompt_digest: str | None
    decoded: bool


class Roster:
    """The agents of an episode, by ordinal: the root is 0, the others are numbered in the order in which spawn calls
    were made (by replies, then by calls within a reply), not in the order in which they happen to ask first.

    A child is known by its first message, which begins with the prompt of the call that started it: the harness runs
    parallel spawns at once, so the order of arrival is a race.
    """

    def __init__(self, root_session: str | None) -> None:
        self._ordinals: dict[str, int] = {}
        self._root = root_session
        self._spawns: list[tuple[str, bool]] = []
        """Prompts of spawn calls in order, and whether the child is known."""

    def ordinal(self, session: str | None, conversation: Conversation) -> int:
        """The agent of a request by its session id; None is the root."""
        if session is None:
            return 0
        if session in self._ordinals:
            return self._ordinals[session]
        if session == self._root or (self._root is None and not self._ordinals):
            self._ordinals[session] = 0
            return 0
        first = next((part.text for part in conversation.messages[0].parts if isinstance(part, Text)), "")
        for at, (prompt, known) in enumerate(self._spawns):
            if not known and prompt and first.startswith(prompt):
                self._spawns[at] = (prompt, True)
                self._ordinals[session] = at + 1
                return at + 1
        self._spawns.append((first, True))
        self._ordinals[session] = len(self._spawns)
        return len(self._spawns)

    def replied(self, answer: Answer) -> None:
        """Notes the spawn calls of a reply, with prompts as the harness will see them."""
        for call in answer.reply.calls:
            prompt = call.arguments.get("prompt")
            if call.name in SPAWN_TOOLS and isinstance(prompt, str):
                self._spawns.append((prompt, False))


class Episode:
    """The state of one episode while it runs. Lives on the server's event loop; nothing here blocks."""

    def __init__(self, name: str, settings: EpisodeSettings) -> None:
        self.name = name
        self.settings = settings
        self.occurrences = Occurrences()
        self.aliases = AliasMap(
            workspace=settings.workspace,
            home=settings.home,
            root_session=settings.root_session,
            extra=settings.volatile,
        )
        self.roster = Roster(settings.root_session)
        self.steps: deque[Step] = deque(maxlen=KEPT_STEPS)
        self.failure: str | None = None
        """Why this episode can not be trusted any more; None as long as it can."""
        self._next: dict[int, int] = {}

    def begin(self, agent: int, *, compaction: bool) -> int:
        """The ordinal of the agent's next step; summaries for a compaction have that of the step they precede."""
        step = self._next.get(agent, 0)
        if not compaction:
            self._next[agent] = step + 1
        return step

    def abandon(self, agent: int, step: int) -> None:
        """Gives a step's ordinal back when nothing came of it, so that asking again gives equal ids."""
        if self._next.get(agent) == step + 1:
            self._next[agent] = step

    def call_ids(self, agent: int, step: int, count: int) -> tuple[str, ...]:
        """Tool-call ids: made of agent, step and index, so that they are equal in every run."""
        return tuple(f"toolu_{agent}_{step}_{index}" for index in range(count))

    def hide(self, conversation: Conversation) -> Conversation:
        """The conversation with aliases in place of everything volatile. Raises VolatileLeft where some is left."""
        hidden = Conversation(
            self.aliases.hide(conversation.system),
            tuple(Message(m.role, tuple(self._hide(m.parts))) for m in conversation.messages),
            tuple(Tool(t.name, self.aliases.hide(t.description), t.schema) for t in conversation.tools),
        )
        self.aliases.check(hidden)
        return hidden

    def _hide(self, parts: Iterable[Part]) -> Iterable[Part]:
        hide = self.aliases.hide
        for part in parts:
            match part:
                case Text(text):
                    yield Text(hide(text))
                case Thinking(text):
                    yield Thinking(hide(text))
                case ToolCall(identifier, name, arguments):
                    yield ToolCall(identifier, name, self.aliases.hide_json(arguments))
                case ToolResult(identifier, text, error):
                    yield ToolResult(identifier, hide(text), error)

    def summary(self) -> dict[str, Any]:
        """For `GET /e/EPISODE`: settings, steps, failure."""
        return {
            "episode": self.name,
            "settings": self.settings.model_dump(mode="json"),
            "failure": self.failure,
            "steps": [vars(step) for step in self.steps],
        }
