"""Qwen2.5-Coder, and the Hermes way of calling tools that it was shown: `<tool_call>` around a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from runners.gateway.conversation import Conversation, Tool
from runners.gateway.dialects.base import Dialect, Mode, chat_messages, openai_tools
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
    """The same template and grammar; a name of its own, since these models take more liberties with it."""

    name: ClassVar[str] = "qwen-coder"
