"""Grammars that hold a model to valid tool calls, in llama.cpp's GBNF notation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Grammar:
    """A GBNF grammar with the start rule `root`.

    Without triggers it holds from the first token. With triggers the reply is free until one of these regular
    expressions is found in the text so far, tested after every token; the first capture group of the first one that is
    found is where the grammar takes over. A trigger captures only what the grammar accepts, but the token that
    completes it may say more: the engine refuses such a token when the text does not fit (llama.cpp's own lazy sampler
    would abort the process). Triggers are valid for Python and for ECMAScript, as
    `llama_sampler_init_grammar_lazy_patterns` wants them; they begin with a fixed text and repeat nothing without
    bound, since the whole text is searched again at every token.

    What a model writes between `<think>` and `</think>` triggers nothing: it may speak of a call there. `thinking` says
    that the prompt ended in an open span.
    """

    gbnf: str
    triggers: tuple[str, ...] = ()
    thinking: bool = False

    @property
    def digest(self) -> str:
        """sha256 in hex of everything that decides what the grammar allows."""
        return hashlib.sha256(json.dumps([self.gbnf, self.triggers, self.thinking]).encode()).hexdigest()


@dataclass(frozen=True)
class Terminal:
    """GBNF text that refers to no rule and always matches something finite."""

    gbnf: str


@dataclass(frozen=True)
class Ref:
    """A reference to a rule of the same `Rules`."""

    rule: str


@dataclass(frozen=True)
class Seq:
    """One after the other; without items the empty text."""

    items: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Alt:
    """One of them; without items nothing at all matches."""

    items: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Repeat:
    """`item` between `least` and `most` times (both inclusive; None: no upper bound)."""

    item: Expr
    least: int = 0
    most: int | None = None


Expr = Terminal | Ref | Seq | Alt | Repeat


def seq(*items: Expr | str) -> Expr:
    """A sequence; a plain string stands for itself."""
    return Seq(tuple(literal(item) if isinstance(item, str) else item for item in items))


def alt(items: Iterable[Expr]) -> Expr:
    return Alt(tuple(items))


def opt(*items: Expr | str) -> Expr:
    return Repeat(seq(*items), 0, 1)


def literal(text: str) -> Expr:
    """Matches exactly this text."""
    return Terminal('"' + "".join(map(_escaped, text)) + '"') if text else Seq()


class Rules:
    """Named rules on their way to a grammar."""

    def __init__(self) -> None:
        self._rules: dict[str, Expr] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._rules

    def add(self, name: str, expr: Expr) -> Ref:
        """Names an expression; a name given twice gets its later meaning. Names are letters, digits and hyphens."""
        self._rules[name] = expr
        return Ref(name)

    def fresh(self, prefix: str) -> str:
        """A name that is not in use, and reserves it (matching nothing until it is added)."""
        name = f"{prefix}-{len(self._rules)}"
        self._rules[name] = Alt()
        return name

    def productive(self, name: str) -> bool:
        """True when some finite text matches the rule."""
        return name in self._productive()

    def gbnf(self, root: Expr) -> str:
        """The grammar. What can never be finished is cut out, so every state has a way to end.

        Raises ValueError when nothing finite matches `root`.
        """
        finite = self._productive()
        if not _finite(root, finite):
            raise ValueError("nothing finite matches the root rule")
        written: dict[str, str] = {}
        todo = [("root", root)]
        while todo:
            name, expr = todo.pop()
            if name not in written:
                expr = _pruned(expr, finite)
                written[name] = _text(expr, top=True)
                todo.extend((ref, self._rules[ref]) for ref in sorted(_refs(expr), reverse=True))
        return "".join(f"{name} ::= {text}\n" for name, text in written.items())

    def _productive(self) -> set[str]:
        finite: set[str] = set()
        size = -1
        while len(finite) > size:
            size = len(finite)
            for name, expr in self._rules.items():  # at once, so that a chain of rules takes one round
                if name not in finite and _finite(expr, finite):
                    finite.add(name)
        return finite


def _finite(expr: Expr, rules: set[str]) -> bool:
    match expr:
        case Ref(rule):
            return rule in rules
        case Seq(items):
            return all(_finite(item, rules) for item in items)
        case Alt(items):
            return any(_finite(item, rules) for item in items)
        case Repeat(item, least, _):
            return least == 0 or _finite(item, rules)
    return True


def _pruned(expr: Expr, rules: set[str]) -> Expr:
    match expr:
        case Seq(items):
            return Seq(tuple(_pruned(item, rules) for item in items))
        case Alt(items):
            return Alt(tuple(_pruned(item, rules) for item in items if _finite(item, rules)))
        case Repeat(item, least, most):
            return Repeat(_pruned(item, rules), least, most) if _finite(item, rules) else Seq()
    return expr


def _refs(expr: Expr) -> set[str]:
    match expr:
        case Ref(rule):
            return {rule}
        case Seq(items) | Alt(items):
            return {ref for item in items for ref in _refs(item)}
        case Repeat(item, _, _):
            return _refs(item)
    return set()


def _text(expr: Expr, *, top: bool = False) -> str:
    """GBNF text; in parentheses when it could be read wrongly inside another expression."""
    match expr:
        case Terminal(gbnf):
            return gbnf
        case Ref(rule):
            return rule
        case Seq(items):
            parts = [text for item in items if (text := _text(item))]
            return " ".join(parts) if top or len(parts) <= 1 else f"({' '.join(parts)})"
        case Alt(items):
            parts = [_text(item) or '""' for item in items]
            return " | ".join(parts) if top or len(parts) == 1 else f"({' | '.join(parts)})"
        case Repeat(item, least, most):
            counts = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            inner = _text(item)
            return f"{inner}{counts or f'{{{least},{most if most is not None else str()}}}'}" if inner else ""


def _escaped(char: str) -> str:
    code = ord(char)
    if char in '"\\':
        return "\\" + char
    if 0x20 <= code < 0x7F:
        return char
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
