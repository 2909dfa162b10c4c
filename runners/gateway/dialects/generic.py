"""Any chat model: tools are explained in the system text, calls are bare JSON objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from runners.gateway.conversation import Conversation, Text, Tool, ToolCall, ToolResult
from runners.gateway.dialects.base import Dialect, Mode, call_text, result_text
from runners.gateway.dialects.call_rules import forced_grammar, lazy_grammar
from runners.gateway.grammar import Grammar
from runners.gateway.template import ChatTemplate, TemplateRefusal

_CONVENTION = """You can use tools. To use one, answer with one JSON object and nothing else:
{"name": "<tool name>", "arguments": {<argument name>: <value>}}
To use several at once, write one such object a line. The results come in the next message. When the task is done, \
answer in plain words.

Tools, one a line, with the JSON schema of their arguments:
"""


class Generic(Dialect):
    """For templates that know no tools (SmolLM2) and for unknown families."""

    name: ClassVar[str] = "generic"
    version: ClassVar[int] = 1

    def render(self, template: ChatTemplate, conversation: Conversation) -> str:
        messages = _plain(conversation)
        try:
            return template.render(messages)
        except TemplateRefusal:
            return template.render(_without_system(messages))

    def grammar(self, tools: Sequence[Tool], mode: Mode) -> Grammar | None:
        if not tools:
            return None
        return forced_grammar(tools) if mode == "forced" else lazy_grammar(tools, tagged=False)


def tools_text(tools: Sequence[Tool]) -> str:
    """How the system text presents the tools."""
    lines = [
        json.dumps({"name": tool.name, "description": tool.description, "arguments": tool.schema}, ensure_ascii=False)
        for tool in tools
    ]
    return _CONVENTION + "\n".join(lines)


def _plain(conversation: Conversation) -> list[dict[str, Any]]:
    """Messages of text only, roles alternating after the system message (neighbours of one role are joined)."""
    system = [conversation.system] if conversation.system else []
    if conversation.tools:
        system.append(tools_text(conversation.tools))
    messages: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in conversation.messages:
        lines: list[str] = []
        for part in message.parts:
            if isinstance(part, Text):
                lines.append(part.text)
            elif isinstance(part, ToolCall):
                names[part.id] = part.name
                lines.append(call_text(part.name, part.arguments))
            elif isinstance(part, ToolResult):
                name = names.get(part.call_id, "the tool")
                lines.append(f"{'Error' if part.error else 'Result'} of {name}:\n{result_text(part)}")
        text = "\n".join(lines)
        if message.role == "system" and not messages:
            system.append(text)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += "\n" + text
        else:
            messages.append({"role": role, "content": text})
    return [{"role": "system", "content": "\n\n".join(system)}, *messages] if system else messages


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The system text at the head of the first user message, the conversation beginning with the user."""
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
    rest = [dict(message) for message in (messages[1:] if system else messages)]
    if not rest or rest[0]["role"] != "user":
        rest.insert(0, {"role": "user", "content": ""})
    if system:
        rest[0]["content"] = f"{system}\n\n{rest[0]['content']}".rstrip()
    return rest
