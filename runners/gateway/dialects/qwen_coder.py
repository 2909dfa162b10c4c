"""Qwen2.5-Coder, and the Hermes way of calling tools that it was shown: `<tool_call>` around a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from runners.gateway.conversation import Conversation, Tool
from runners.gateway.dialects.base import Dialect, Mode, call_text, chat_messages, openai_tools
from runners.gateway.dialects.call_rules import forced_grammar, lazy_grammar
from runners.gateway.grammar import Grammar
from runners.gateway.template import ChatTemplate


class Hermes(Dialect):
    """Templates that take tools, and models that keep to `<tool_call>` blocks (Hermes, Qwen2.5, Qwen3)."""

    name: ClassVar[str] = "hermes"
    version: ClassVar[int] = 1

    def render(self, template: ChatTemplate, conversation: Conversation) -> str:
        return template.render(chat_messages(conversation), openai_tools(conversation.tools))

    def grammar(self, tools: Sequence[Tool], mode: Mode) -> Grammar | None:
        if not tools:
            return None
        if mode == "forced":
            return forced_grammar(tools, "<tool_call>\n", "\n</tool_call>")
        return lazy_grammar(tools, tagged=True)


class QwenCoder(Hermes):
    """The same template, by models that hardly ever write its tags: they write a call's JSON bare or in a fence.

    Earlier calls are shown as bare JSON, one a line, and not in the template's `<tool_call>` tags. A model that sees
    its replies in a form that is not its own is another agent: shown the tags, Qwen2.5-Coder-1.5B ends its turn with
    an empty reply after two or three calls, whatever the task (measured: `results/published/provocation/tried.md`).
    """

    name: ClassVar[str] = "qwen-coder"
    version: ClassVar[int] = 2

    def render(self, template: ChatTemplate, conversation: Conversation) -> str:
        messages = chat_messages(conversation)
        for message in messages:
            calls = [call_text(**call["function"]) for call in message.pop("tool_calls", ())]
            if calls:
                message["content"] = "\n".join(filter(None, (message["content"], *calls)))
        return template.render(messages, openai_tools(conversation.tools))

    def grammar(self, tools: Sequence[Tool], mode: Mode) -> Grammar | None:
        if mode == "forced" and tools:
            return forced_grammar(tools)
        return super().grammar(tools, mode)
