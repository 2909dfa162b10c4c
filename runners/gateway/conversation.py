"""What every wire format is read into and every dialect is rendered from: one conversation, one reply.

The wire modules know HTTP and no model; the dialects know models and no HTTP; both meet here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


THINK, THINK_END = "<think>", "</think>"
"""What models write around their thinking."""


@dataclass(frozen=True)
class Tool:
    """A tool that the model may call; `schema` is the JSON schema of its arguments object."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Text:
    """Visible text."""

    text: str


@dataclass(frozen=True)
class Thinking:
    """Reasoning text (`<think>` spans), without the tags."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call that the model made. `arguments` is the JSON value, an object in any valid call."""

    id: str
    name: str
    arguments: Json


@dataclass(frozen=True)
class ToolResult:
    """What came back from the call with that id; `text` is the result's text blocks joined."""

    call_id: str
    text: str
    error: bool = False


Part = Text | Thinking | ToolCall | ToolResult


@dataclass(frozen=True)
class Message:
    """One turn. Tool results stand in user messages, as in the Anthropic format; dialects move them where a
    template wants them."""

    role: Literal["user", "assistant", "system"]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Conversation:
    """Everything that a model is asked to continue. `system` is empty where there is none."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True)
class Call:
    """A tool call as a dialect found it in a reply; it has no id yet."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A model's text, taken apart. `text` and `thinking` are empty where there was none."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = field(default=())


def encodable(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD: JSON can carry one, UTF-8 can not."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
