"""Grammars of tool calls in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runners.gateway.conversation import Tool
from runners.gateway.dialects.schema_rules import WS, SchemaRules, add_json_rules
from runners.gateway.grammar import Expr, Grammar, Ref, Repeat, Rules, Terminal, alt, literal, opt, seq

MAX_CALLS = 8
"""Calls in one reply that a grammar allows: a model that can not stop is stopped here."""

SPACE = r"(?: |\n[ \t]{0,40})?"
"""The rule `ws` as a regular expression, for triggers."""
_OPEN_CALL = rf'\{{\{{?{SPACE}"name"{SPACE}:{SPACE}"'
"""A call in JSON has begun: the first key is `name` and its value a string. Fits `loose-call` up to there."""
_OPEN_BODY = rf"(?:\[{SPACE})?{_OPEN_CALL}"


def forced_grammar(tools: Sequence[Tool], before: str = "", after: str = "") -> Grammar:
    """The reply is one or more calls, one a line, each between `before` and `after`."""
    rules = Rules()
    _add_calls(rules, tools)
    # A line break may end the reply too: a model that has written one must not be driven into another call.
    return Grammar(rules.gbnf(seq(_several(seq(before, Ref("call"), after), literal("\n")), opt("\n"))))


def lazy_grammar(tools: Sequence[Tool], *, tagged: bool) -> Grammar:
    """Takes over where JSON whose first key is `name` begins (bare, in a list, in a fence), and with `tagged` at
    `<tool_call>` and where such JSON begins in `<tools>`; from there only calls, their closers and the end."""
    rules = Rules()
    _add_calls(rules, tools)
    calls = rules.add("calls", _several(Ref("loose-call"), seq(opt(","), WS)))
    array = rules.add("call-array", seq("[", WS, _several(Ref("loose-call"), seq(WS, ",", WS)), WS, "]"))
    body = rules.add("body", alt((calls, array)))
    fence = rules.add("fence", seq("```", Terminal("[a-z]{0,10}"), WS, body, WS, "```"))
    forms = [_several(fence, seq(WS, opt("\n"))), body]
    triggers = [rf"(```[a-z]{{0,10}}{SPACE}{_OPEN_BODY})", rf"(\[{SPACE}{_OPEN_CALL})", rf"({_OPEN_CALL})"]
    if tagged:
        block = rules.add("block", seq("<tool_call>", WS, Ref("loose-call"), WS, "</tool_call>"))
        forms = [_several(block, WS), rules.add("listed", seq("<tools>", WS, body, WS, "</tools>")), *forms]
        triggers = ["(<tool_call>)", rf"(<tools>{SPACE}{_OPEN_BODY})", *triggers]
    return Grammar(rules.gbnf(seq(alt(forms), WS)), tuple(triggers))


def _add_calls(rules: Rules, tools: Sequence[Tool]) -> None:
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


def _several(item: Expr, separator: Expr) -> Expr:
    """Between one and MAX_CALLS items."""
    return seq(item, Repeat(seq(separator, item), 0, MAX_CALLS - 1))


def _encodable(text: str) -> bool:
    return not any(0xD800 <= ord(char) < 0xE000 for char in text)
