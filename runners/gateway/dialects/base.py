"""What a dialect is: one model family's way to be shown tools and to write its calls."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Literal

from runners.gateway.conversation import THINK, Conversation, Part, Reply, Text, Thinking, Tool, ToolCall, ToolResult
from runners.gateway.dialects.stream import ReplyStream
from runners.gateway.grammar import Grammar
from runners.gateway.template import ChatTemplate

Mode = Literal["lazy", "forced"]


class Dialect(ABC):
    """Renders conversations for a model and takes its replies apart. Has no state: one instance serves everybody.

    The raw text that `parse` and `stream` take is the reply detokenised with its special tokens written out (they
    carry calls), without the end-of-generation token.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    """Part of every tape key: raised by any change of rendering, parsing or grammars."""
    stops: ClassVar[tuple[str, ...]] = ("<|im_start|>",)
    """Texts that end a reply, beside the model's end-of-generation tokens; not part of the reply."""

    @abstractmethod
    def render(self, template: ChatTemplate, conversation: Conversation) -> str:
        """The whole prompt, with the generation prompt at its end, to be tokenised with special tokens parsed and
        without a BOS token added when the text begins with it. Raises UserError when the template can not do it."""

    @abstractmethod
    def grammar(self, tools: Sequence[Tool], mode: Mode) -> Grammar | None:
        """`lazy`: takes over once a call begins; `forced`: the reply is one or more calls. None without tools."""

    def stream(self, tools: Sequence[Tool], *, thinking: bool = False) -> ReplyStream:
        """A parser for one reply that comes in pieces. `thinking` says that the prompt ends in an open `<think>`."""
        return ReplyStream(tools, thinking=thinking)

    def parse(self, text: str, tools: Sequence[Tool], *, complete: bool, thinking: bool = False) -> Reply:
        """Takes a reply apart. `complete` is False when the token limit cut it: then an unfinished call stays text.

        Without tools there are no calls: everything is text. Never raises, whatever the text.
        """
        stream = self.stream(tools, thinking=thinking)
        stream.feed(text)
        return stream.finish(complete)[1]

    def opens_thinking(self, prompt: str) -> bool:
        """True when a rendered prompt ends inside an open `<think>` span, so that the reply begins with thinking."""
        return prompt.rstrip().endswith(THINK)


def chat_messages(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation in the chat-completions shape that tool-aware templates take.

    Tool results become messages of role `tool`, in their place between the user's texts; calls keep their arguments
    as objects (transformers' convention); thinking is given as `reasoning_content`, which a template may use or not.
    """
    messages: list[dict[str, Any]] = []
    if conversation.system:
        messages.append({"role": "system", "content": conversation.system})
    names: dict[str, str] = {}
    for message in conversation.messages:
        names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
        if message.role == "assistant":
            messages.append(_assistant(message.parts))
            continue
        for is_result, run in groupby(message.parts, key=lambda part: isinstance(part, ToolResult)):
            parts = tuple(run)
            if is_result:
                messages.extend(_result(part, names) for part in parts if isinstance(part, ToolResult))
            else:
                messages.append({"role": message.role, "content": _joined(Text, parts)})
    return messages


def _result(result: ToolResult, names: Mapping[str, str]) -> dict[str, Any]:
    name = names.get(result.call_id, "")
    return {"role": "tool", "tool_call_id": result.call_id, "name": name, "content": result_text(result)}


def result_text(result: ToolResult) -> str:
    """What the model reads of a result. An error that says nothing says "error"; any other text stays as it is."""
    return result.text or ("error" if result.error else "")


def _assistant(parts: Sequence[Part]) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": "assistant", "content": _joined(Text, parts)}
    if thinking := _joined(Thinking, parts):
        entry["reasoning_content"] = thinking
    if calls := [part for part in parts if isinstance(part, ToolCall)]:
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return entry


def _joined(kind: type[Text] | type[Thinking], parts: Sequence[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, kind))


def call_text(name: str, arguments: Any) -> str:
    """A call as one line of bare JSON; `arguments` is any JSON value."""
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def openai_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools in the shape that templates print: `{"type": "function", "function": {...}}`."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
        }
        for tool in tools
    ]
