"""What a guard decides, and the interface of every policy.

A policy is told of one agent's calls in order: `before_call` at each asked call, `after_call` when it has settled. The
calls of a parallel step are all asked before the first of them settles. Its state is kept per agent, never shared,
and a policy never asks the model's opinion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from guards.config import GuardConfig

Trigger = Literal["pressure", "overflow", "manual"]
Outcome = Literal["committed", "nothing", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that must not run. `reason` is what the model is told; `limit` is the threshold that fired."""

    kind: str
    count: int
    limit: int
    reason: str


@dataclass(frozen=True, slots=True)
class Nudge:
    """A notice to stand behind a call's result."""

    kind: str
    count: int
    limit: int
    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A compaction attempt that must not begin."""

    kind: str
    count: int
    limit: int
    reason: str


Decision = Denial | Nudge | Refusal


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What the model is shown for a call: content blocks, a text block being exactly {"type", "text"}.

    `message` is that of an error; None = the texts of the text blocks, joined.
    """

    content: tuple[dict[str, Any], ...]
    error: bool = False
    message: str | None = None

    @property
    def error_message(self) -> str:
        if self.message is not None:
            return self.message
        return "".join(block["text"] for block in self.content if block.get("type") == "text")


class Policy:
    """A guard that never acts; guards override what concerns them."""

    name: ClassVar[str]

    def __init__(self, config: GuardConfig) -> None:
        self.config = config

    def before_call(self, agent: str, tool: str, args: Any, *, counted: bool = True) -> Denial | None:
        """Judges an asked call, and counts it where it is allowed. None = allowed.

        `args` is any JSON value, {} where the model gave none. `counted` False: something else is known to stop the
        call, so that it is judged but does not count as an execution.
        """
        return None

    def after_call(self, agent: str, tool: str, args: Any, result: ToolOutcome, *, executed: bool) -> Nudge | None:
        """A call has settled with what the model is shown. Not to be told of a call that this very policy denied.

        `executed` False: another guard denied it, and `result` is that denial as an error.
        """
        return None

    def model_response(self, agent: str, calls: int) -> None:
        """A response of the model that carries `calls` tool calls, denied or not."""

    def before_compaction(self, agent: str, trigger: Trigger) -> Refusal | None:
        """Judges a compaction attempt, before its first summary. None = allowed."""
        return None

    def after_compaction(self, agent: str, trigger: Trigger, outcome: Outcome) -> None:
        """An attempt that was allowed is over."""

    def user_message(self, agent: str) -> None:
        """A genuine user message, not one that a guard or plugin injected."""

    def reset(self, agent: str) -> None:
        """The guard's own reset command."""
