"""The Anthropic Messages format, as far as agents use it: what DeepSeek Harness 0.2.x and the official client speak.

Read: text, thinking, tool_use and tool_result blocks, tools, tool_choice, stop sequences. Fields that mean nothing to
a local model (metadata, cache_control, service_tier, output_config, the harness's own) are ignored; content that would
be silently lost (images, documents, server tools) is refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runners.gateway.asking import Answer, BadAsk
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
    return _encodable(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    if isinstance(message.content, str):
        yield Text(message.content)
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


# -- replies ---------------------------------------------------------------------------------------------------------


def stop_reason(answer: Answer) -> str:
    """`tool_use` whenever there are calls, even where the token limit came after them: clients drop the calls of a
    reply that ends in `max_tokens` (DeepSeek Harness 0.2.1 does)."""
    if answer.reply.calls:
        return "tool_use"
    return {"stop": "end_turn", "stop_string": "stop_sequence", "length": "max_tokens"}[answer.finish]


def content(answer: Answer, call_ids: tuple[str, ...]) -> list[dict[str, Any]]:
    """The reply's blocks, never none: a model that wrote nothing gives one empty text block."""
    reply = answer.reply
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": ""})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for identifier, call in zip(call_ids, reply.calls, strict=True):
        blocks.append({"type": "tool_use", "id": identifier, "name": call.name, "input": call.arguments})
    return blocks or [{"type": "text", "text": ""}]


def usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    """True counts. Nothing is reported as cached: what the engine reuses depends on what ran before."""
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def message(identifier: str, model: str, answer: Answer, call_ids: tuple[str, ...]) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    return {
        "id": identifier,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content(answer, call_ids),
        "stop_reason": stop_reason(answer),
        "stop_sequence": answer.stop if stop_reason(answer) == "stop_sequence" else None,
        "usage": usage(answer.input_tokens, answer.output_tokens),
    }


def body(data: dict[str, Any]) -> bytes:
    """JSON in UTF-8, on one line.

    What a model can write in a call's arguments and no JSON in UTF-8 can hold: a lone surrogate, by its escape, becomes
    U+FFFD; a number that overflows, such as 1e400, becomes the largest one of its sign.
    """
    return _encodable(_json(data)).encode()


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return max(-sys.float_info.max, min(sys.float_info.max, value))
    return value


def sse(data: dict[str, Any]) -> bytes:
    """One server-sent event; its name is the data's type."""
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), body(data))


PING = b": ping\n\n"
"""A comment: keeps clients' idle watchdogs quiet and is no event."""


class MessageStream:
    """Writes one streamed reply. Text leaves in whole words, so that the bytes of a reply are the same whether it is
    being decoded or comes from the tape."""

    def __init__(self, identifier: str, model: str) -> None:
        self._identifier = identifier
        self._model = model
        self._index = -1
        self._open: str | None = None
        self._held = ""

    def start(self, input_tokens: int) -> bytes:
        body: dict[str, Any] = {
            "id": self._identifier,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(input_tokens, 0),
        }
        return sse({"type": "message_start", "message": body})

    def delta(self, kind: Literal["text", "thinking"], text: str) -> bytes:
        """Events for a piece of text; may be none as long as a word is not complete."""
        out = b""
        if self._open != kind:
            out += self._close() + self._begin(kind)
        self._held += text
        cut = max(self._held.rfind(" "), self._held.rfind("\n")) + 1
        return out + self._words(cut)

    def finish(self, answer: Answer, call_ids: tuple[str, ...]) -> bytes:
        """The rest: what is held back, the calls, stop reason and usage."""
        out = self._close()
        for identifier, call in zip(call_ids, answer.reply.calls, strict=True):
            self._index += 1
            block = {"type": "tool_use", "id": identifier, "name": call.name, "input": {}}
            partial = _json(call.arguments)
            out += sse({"type": "content_block_start", "index": self._index, "content_block": block})
            piece = {"type": "input_json_delta", "partial_json": partial}
            out += sse({"type": "content_block_delta", "index": self._index, "delta": piece})
            out += sse({"type": "content_block_stop", "index": self._index})
        if self._index < 0:
            out += self._begin("text") + self._close()
        reason = stop_reason(answer)
        delta = {"stop_reason": reason, "stop_sequence": answer.stop if reason == "stop_sequence" else None}
        counts = usage(answer.input_tokens, answer.output_tokens)
        return out + sse({"type": "message_delta", "delta": delta, "usage": counts}) + sse({"type": "message_stop"})

    def _begin(self, kind: str) -> bytes:
        self._index += 1
        self._open = kind
        block = {"type": kind, kind: ""}
        if kind == "thinking":
            block["signature"] = ""
        return sse({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        out = self._words(len(self._held)) + sse({"type": "content_block_stop", "index": self._index})
        self._open = None
        return out

    def _words(self, end: int) -> bytes:
        """Sends what is held up to `end`, one event a word."""
        ready, self._held = self._held[:end], self._held[end:]
        out = b""
        word = ""
        for at, character in enumerate(ready):
            word += character
            if character in " \n" or at == len(ready) - 1:
                piece = {"type": f"{self._open}_delta", str(self._open): word}
                out += sse({"type": "content_block_delta", "index": self._index, "delta": piece})
                word = ""
        return out


def error(kind: str, text: str) -> dict[str, Any]:
    """The body of an error answer, and the data of an `error` event."""
    return {"type": "error", "error": {"type": kind, "message": text}}


def overflow_text(input_tokens: int, window: int) -> str:
    """What makes DeepSeek Harness compact: it looks for words like these in the message, and not for a status."""
    return f"prompt is too long for this model's context window: {input_tokens} tokens > {window - 1} maximum"
