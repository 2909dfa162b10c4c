"""Grammar rules of tool calls in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runners.gateway.conversation import Tool
from runners.gateway.dialects.schema_rules import WS, SchemaRules, add_json_rules
from runners.gateway.grammar import Expr, Ref, Repeat, Rules, alt, literal, opt, seq

MAX_CALLS = 8
"""Calls in one reply that a grammar allows: a model that can not stop is stopped here."""

SPACE = r"(?: |\n[ \t]{0,40})?"
"""The rule `ws` as a regular expression, for triggers."""
OPEN_CALL = rf'\{{\{{?{SPACE}"name"{SPACE}:{SPACE}"'
"""A call in JSON has begun: the first key is `name` and its value a string. Fits `loose-call` up to there."""


def add_call_rules(rules: Rules, tools: Sequence[Tool]) -> None:
    """Adds the rules of any JSON, `members` (name and arguments of a call of one of the tools, without the braces),
    `call` (in single braces) and `loose-call` (in single or doubled ones)."""
    add_json_rules(rules)
    branches: list[Expr] = []
    for index, tool in enumerate({tool.name: tool for tool in tools}.values()):
        name = json.dumps(tool.name, ensure_ascii=not _encodable(tool.name))[1:]
        arguments = SchemaRules(rules, tool.schema, f"t{index}").arguments()
        branches.append(seq(literal(name), WS, ",", WS, '"arguments"', WS, ":", WS, arguments))
    rules.add("members", seq('"name"', WS, ":", WS, '"', alt(branches)))
    rules.add("call", seq("{", WS, Ref("members"), WS, "}"))
    rules.add("loose-call", alt((Ref("call"), seq("{{", WS, Ref("members"), WS, "}", opt("}")))))


def several(item: Expr, separator: Expr) -> Expr:
    """Between one and MAX_CALLS items."""
    return seq(item, Repeat(seq(separator, item), 0, MAX_CALLS - 1))


def _encodable(text: str) -> bool:
    return not any(0xD800 <= ord(char) < 0xE000 for char in text)
