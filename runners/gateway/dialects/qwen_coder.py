"""Qwen2.5-Coder, and the Hermes way of calling tools that it was shown: `<tool_call>` around a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from runners.gateway.conversation import Conversation, Tool
from runners.gateway.dialects.base import Dialect, Mode, chat_messages, openai_tools
from runners.gateway.dialects.call_rules import OPEN_CALL, SPACE, add_call_rules, several
from runners.gateway.dialects.schema_rules import WS
from runners.gateway.grammar import Grammar, Ref, Rules, Terminal, alt, literal, opt, seq
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
        rules = Rules()
        add_call_rules(rules, tools)
        if mode == "forced":
            block = seq("<tool_call>\n", Ref("call"), "\n</tool_call>")
            return Grammar(rules.gbnf(several(block, literal("\n"))))
        block = rules.add("block", seq("<tool_call>", WS, Ref("loose-call"), WS, "</tool_call>"))
        tagged = several(block, WS)
        calls = rules.add("calls", several(Ref("loose-call"), seq(opt(","), WS)))
        array = rules.add("call-array", seq("[", WS, several(Ref("loose-call"), seq(WS, ",", WS)), WS, "]"))
        body = rules.add("body", alt((calls, array)))
        fence = rules.add("fence", seq("```", Terminal("[a-z]{0,10}"), WS, body, WS, "```"))
        return Grammar(
            rules.gbnf(alt((tagged, several(fence, seq(WS, opt("\n"))), body))),
            (
                r"(<tool_call>)",
                rf"(```[a-z]{{0,10}}{SPACE}(?:\[{SPACE})?{OPEN_CALL})",
                rf"(\[{SPACE}{OPEN_CALL})",
                rf"({OPEN_CALL})",
            ),
        )


class QwenCoder(Hermes):
    """The same template and grammar; a name of its own, since these models take more liberties with it."""

    name: ClassVar[str] = "qwen-coder"
