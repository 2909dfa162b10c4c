r"""A reversible substitution of volatile values by aliases in text.

A term is replaced only where it stands as a whole name, and by the same rule in both directions, so that what was
hidden can be revealed:

- a path (it begins with `/`) ends where no letter, digit, `_`, `-`, `~`, and no `.` with a name after it, follows:
  `/tmp/ws1` stands in `/tmp/ws1/a` and in `/tmp/ws1.`, but not in `/tmp/ws10`, `/tmp/ws1-old` or `/tmp/ws1.bak`;
- an identifier ends where no letter, digit, `_` or `-` follows;
- neither begins after a letter, digit, `_`, `-`, `.`, `~` or a backslash, except after a JSON escape (`\n`, `\u000a`)
  or a terminal's colour code.

The slashes of a term may be written `\/` (JSON) or `%2F` (a URL), all in one way; what replaces it is then written so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from guards.errors import UserError

_COLOURS = ("", r"\d", r"\d\d", r"\d;\d", r"\d;\d\d", r"\d\d;\d", r"\d\d;\d\d")
_BEGIN = "|".join(
    (
        r"(?<![A-Za-z0-9_.~\-\\])",
        r"(?<=\\[nrtbf])",
        r"(?<=\\u[0-9a-fA-F]{4})",
        *(rf"(?<=\x1b\[{code}[mK])" for code in _COLOURS),
    )
)
_PATH_END = r"(?![A-Za-z0-9_~\-]|\.+[A-Za-z0-9_])"
_NAME_END = r"(?![A-Za-z0-9_\-])"
_SLASH = r"\\*/|%2[Ff]"
_TERM = re.compile(r"/?(?:[A-Za-z0-9._\-]+/)*[A-Za-z0-9._\-]*[A-Za-z0-9_]")


def mark_of(term: str) -> str:
    """The longest piece of a term without a slash: it stands in every spelling of it, and is quickly looked for."""
    return max(term.split("/"), key=len)


def end_of(term: str) -> str:
    """The regular expression of what must follow `term` for it to be a whole name."""
    return _PATH_END if term.startswith("/") else _NAME_END


class Pairs:
    """Values and their aliases. Several spellings of a value may share one alias, which is revealed as the first."""

    def __init__(self) -> None:
        self._alias_of: dict[str, str] = {}
        self._value_of: dict[str, str] = {}
        self._aliases: set[str] = set()
        self._hide = self._reveal = _Substitution({})

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The (value, alias) pairs in the order in which they were added, without those that change nothing."""
        return iter(self._alias_of.items())

    def add(self, what: str, *values: str, alias: str) -> None:
        """Replace each of `values` by `alias` from now on; the first is what the alias is revealed as.

        A value that equals its alias changes nothing and is left out, and so is a pair that is there already. `what`
        names the value in errors.

        Raises UserError where a term would not mean the same in a prompt, a shell command, a URL and JSON, or where a
        text could be read in two ways: a value with two aliases, an alias with two values, and a value or an alias
        that stands as a name within another value or alias.
        """
        new = [value for value in dict.fromkeys(values) if self._alias_of.get(value) != alias]
        for value in new:
            _refuse_odd(what, value, alias)
            self._refuse_ambiguous(what, value, alias)
        if not new:
            return
        self._aliases.add(alias)
        self._alias_of |= {value: alias for value in new if value != alias}
        if alias not in values:
            self._value_of[alias] = values[0]
        self._hide = _Substitution(self._alias_of)
        self._reveal = _Substitution(self._value_of)

    def hide(self, text: str) -> str:
        """The text with every whole value replaced by its alias."""
        return self._hide(text)

    def reveal(self, text: str) -> str:
        """The text with every whole alias replaced by its value."""
        return self._reveal(text)

    def _refuse_ambiguous(self, what: str, value: str, alias: str) -> None:
        if value in self._alias_of:
            raise UserError(f"{what} {value!r} is called {self._alias_of[value]!r} already, so not also {alias!r}")
        if alias in self._aliases:
            raise UserError(f"{what} {value!r} can not be called {alias!r}: another value is called so already")
        if value == alias:
            return
        others = [term for pair in self for term in pair]
        clash = next((term for term in (alias, *others) if _overlap(term, value)), None)
        clash = clash or next((term for term in others if _overlap(term, alias)), None)
        if clash is not None:
            raise UserError(
                f"{what} {value!r}, to be called {alias!r}, can not be told apart from {clash!r}, which is a value or "
                "an alias too: choose names of which none stands in another"
            )


def _refuse_odd(what: str, value: str, alias: str) -> None:
    for term in (value, alias):
        if not _TERM.fullmatch(term):
            raise UserError(
                f"{what} {term!r} would not be read alike in a prompt, a shell command, a URL and JSON: "
                "use letters, digits, '.', '_', '-' and '/' only, and a letter, a digit or '_' at the end"
            )
    if value.startswith("/") != alias.startswith("/"):
        raise UserError(f"{what} {value!r} and its alias {alias!r} must both be absolute paths, or neither")


def _expression(term: str, slash: str | None) -> str:
    """Matches `term` as a whole name. The group named `slash` holds how its slashes are written; None: only as `/`."""
    first, *rest = (re.escape(piece) for piece in term.split("/"))
    if slash is None or not rest:
        return re.escape(term) + end_of(term)
    return f"{first}(?P<{slash}>{_SLASH}){f'(?P={slash})'.join(rest)}{end_of(term)}"


def _overlap(one: str, other: str) -> bool:
    """Whether one of the terms stands as a whole name within the other."""
    pairs = ((one, other), (other, one))
    return any(re.search(f"(?:{_BEGIN}){_expression(term, None)}", text) for term, text in pairs)


class _Substitution:
    """Replaces every key of `table` by its entry; the longest key wins."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._entries: dict[str, tuple[str, str | None]] = {}
        self._marks = {mark_of(term) for term in table}
        branches = []
        for number, (term, entry) in enumerate(sorted(table.items(), key=lambda item: -len(item[0]))):
            slash = f"slash{number}" if "/" in term and "/" in entry else None
            branches.append(f"(?P<term{number}>{_expression(term, slash)})")
            self._entries[f"term{number}"] = (entry, slash)
        self._search = re.compile(f"(?:{_BEGIN})(?:{'|'.join(branches)})") if branches else None
        self._done: dict[str, str] = {}
        """Results: a conversation comes again with every request, and is long."""

    def __call__(self, text: str) -> str:
        if self._search is None or not any(mark in text for mark in self._marks):
            return text
        if text not in self._done:
            self._done[text] = self._search.sub(self._replacement, text)
        return self._done[text]

    def _replacement(self, found: re.Match[str]) -> str:
        entry, slash = self._entries[str(found.lastgroup)]
        return entry.replace("/", found.group(slash)) if slash else entry
