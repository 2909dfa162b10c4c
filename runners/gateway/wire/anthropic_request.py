"""The Anthropic Messages format, read: as far as agents use it, which is what DeepSeek Harness 0.2.x and the official
client speak.

Read: text, thinking, tool_use and tool_result blocks, tools, tool_choice, stop sequences. Fields that mean nothing to
a local model (metadata, cache_control, service_tier, output_config, the harness's own) are ignored; content that would
be silently lost (images, documents, server tools) is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.gateway.asking import BadAsk
from runners.gateway.conversation import (
    Conversation,
    Message,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    encodable,
)

MOST_DEPTH = 200
"""Of arrays and objects within each other in a body."""


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class TextBlock(_Wire):
    type: Literal["text"]
    text: str


class ThinkingBlock(_Wire):
    type: Literal["thinking"]
    thinking: str


class RedactedThinkingBlock(_Wire):
    type: Literal["redacted_thinking"]


class ToolUseBlock(_Wire):
    type: Literal["tool_use"]
    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    input: dict[str, Any]


class ToolResultBlock(_Wire):
    type: Literal["tool_result"]
    tool_use_id: str = Field(min_length=1)
    content: str | tuple[TextBlock, ...] = ()
    is_error: bool = False


Block = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock, Field(discriminator="type")
]


class MessageParam(_Wire):
    role: Literal["user", "assistant", "system"]
    content: str | tuple[Block, ...]


class ToolParam(_Wire):
    type: Literal["custom"] | None = None
    name: str = Field(min_length=1, max_length=256)
    description: str = ""
    input_schema: dict[str, Any]


class ToolChoice(_Wire):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None


class MessagesRequest(_Wire):
    """A request body. Raises BadAsk in `read` for whatever does not fit, naming the field."""

    model: str
    messages: tuple[MessageParam, ...] = Field(min_length=1)
    max_tokens: int = Field(ge=1)
    system: str | tuple[TextBlock, ...] = ""
    tools: tuple[ToolParam, ...] = ()
    tool_choice: ToolChoice | None = None
    stop_sequences: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, lt=2**31)

    @classmethod
    def read(cls, body: bytes) -> MessagesRequest:
        """Lone surrogates in the body's texts (JSON can carry them, UTF-8 can not) become U+FFFD."""
        try:
            value = _sound(json.loads(body, parse_constant=_no_constant))
        except (ValueError, RecursionError) as error:
            raise BadAsk(f"the body is not JSON: {error}") from None
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            # Of the errors of a union's branches the deepest is that of the branch that was meant.
            worst = max(error.errors(), key=lambda each: len(each["loc"]))
            raise BadAsk(f"{_where(worst['loc'], value) or 'body'}: {worst['msg']}") from None

    def conversation(self) -> Conversation:
        """The request's conversation. Raises BadAsk where it does not hang together."""
        known: set[str] = set()
        messages = []
        for at, message in enumerate(self.messages):
            parts = tuple(_parts(message, f"messages.{at}", known))
            messages.append(Message(message.role, parts))
        system = self.system if isinstance(self.system, str) else "\n\n".join(block.text for block in self.system)
        names = [tool.name for tool in self.tools]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise BadAsk(f"tools: the name {doubled!r} stands there more than once")
        tools = tuple(Tool(tool.name, tool.description, tool.input_schema) for tool in self.tools)
        return Conversation(system, tuple(messages), self._offered(tools))

    @property
    def forced(self) -> bool:
        """Whether the request demands a tool call (`tool_choice` of type `any` or `tool`)."""
        return self.tool_choice is not None and self.tool_choice.type in ("any", "tool")

    @property
    def only_tool(self) -> str | None:
        """The one tool that `tool_choice` demands; None where it names none."""
        return self.tool_choice.name if self.tool_choice is not None and self.tool_choice.type == "tool" else None

    def _offered(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        choice = self.tool_choice
        if choice is None or choice.type == "auto":
            return tools
        if choice.type == "none":
            return ()
        if not tools:
            raise BadAsk(f"tool_choice: {choice.type!r} without tools")
        if choice.type == "tool" and choice.name is None:
            raise BadAsk("tool_choice.name: is needed with type 'tool'")
        if choice.type == "tool" and choice.name not in {tool.name for tool in tools}:
            raise BadAsk(f"tool_choice: no tool is named {choice.name!r}")
        return tools


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")


def _sound(value: Any, depth: int = 0) -> Any:
    """The value with every text encodable. Raises BadAsk where it is nested too deep for what comes after."""
    if depth == MOST_DEPTH and isinstance(value, dict | list):
        raise BadAsk(f"the body is nested more than {MOST_DEPTH} deep")
    if isinstance(value, dict):
        return {_sound(key): _sound(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_sound(item, depth + 1) for item in value]
    return encodable(value) if isinstance(value, str) else value


def _where(loc: tuple[int | str, ...], body: Any) -> str:
    """The path of an error in the body. pydantic's has the names of union branches in it, which are left out."""
    path: list[str] = []
    here = body
    for at, step in enumerate(loc):
        if isinstance(step, int) if isinstance(here, list) else isinstance(here, dict) and step in here:
            here = here[step]
            path.append(str(step))
        elif isinstance(here, dict) and at == len(loc) - 1:
            path.append(str(step))  # the field that is missing
    return ".".join(path)


def _parts(message: MessageParam, where: str, known: set[str]) -> Iterator[Part]:
    if isinstance(message.content, str) or not message.content:
        yield Text(message.content if isinstance(message.content, str) else "")
        return
    for at, block in enumerate(message.content):
        match block:
            case TextBlock():
                yield Text(block.text)
            case ThinkingBlock():
                yield Thinking(block.thinking)
            case ToolUseBlock():
                if message.role != "assistant":
                    raise BadAsk(f"{where}.content.{at}: tool_use in a message of role {message.role}")
                if block.id in known:
                    raise BadAsk(f"{where}.content.{at}: tool_use id {block.id!r} stands there twice")
                known.add(block.id)
                yield ToolCall(block.id, block.name, block.input)
            case ToolResultBlock():
                if block.tool_use_id not in known:
                    raise BadAsk(f"{where}.content.{at}: no tool_use has the id {block.tool_use_id!r}")
                yield ToolResult(block.tool_use_id, _result_text(block), block.is_error)
            case RedactedThinkingBlock():
                pass


def _result_text(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    return "\n".join(part.text for part in block.content)
