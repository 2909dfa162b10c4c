"""One reply taken apart as it comes: thinking, visible text, tool calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from runners.gateway.conversation import THINK, THINK_END, Call, Reply, Tool
from runners.gateway.dialects.calls import calls_in
from runners.gateway.dialects.json_scan import JsonScanner

Delta = tuple[Literal["thinking", "text"], str]

_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_LISTED, _LISTED_END = "<tools>", "</tools>"
_FENCE = "```"
_TURN = "<|im_start|>"
_STRAY = ("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>")
_MARKS = (THINK, THINK_END, _CALL, _CALL_END, _LISTED, _LISTED_END, _FENCE, _TURN, *_STRAY)
_ENDS = (_CALL_END, _LISTED_END, _FENCE, _TURN, *_STRAY)
_MARK = re.compile("|".join(map(re.escape, _MARKS)) + r"|[{\[]")
_CODE_MARK = re.compile(rf"{_FENCE}|{_CALL}|[{{\[]")
_PLAIN_MARK = re.compile("|".join(map(re.escape, (THINK, THINK_END, _TURN, *_STRAY))))
_HEAD = r"```[ \t]*[\w+.#-]{0,20}[ \t]*\r?\n?\s*"
_OPENER = re.compile(rf"(?:{_HEAD})?(?:(?:{_CALL}|{_LISTED})\s*(?:{_HEAD})?)?")
_ROLE = re.compile(re.escape(_TURN) + r"([a-z]*)\s?")
_AFTER_CALL = re.compile(r"[\s,;}]*")
_LONGEST = max(map(len, _MARKS))


class _Sink:
    """Text without white space at either end, given out as early as that allows."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._space = ""

    def add(self, piece: str) -> str:
        """Takes a piece and returns what of it (and of earlier white space) is certain."""
        piece = self._space + piece if self.sent else piece.lstrip()
        visible = piece.rstrip()
        self._space = piece[len(visible) :]
        if visible:
            self.sent.append(visible)
        return visible


class ReplyStream:
    """A parser of one reply. For every way to cut a text into pieces, the deltas and the reply are the same text.

    What is visible text for certain comes out at once; what may become a call, a marker or a trailing space is held
    back. Rules: `<think>` spans are thinking; a `<tool_call>` in one that is never closed ends it. A `<tool_call>`
    block, a fence or `<tools>` whose content begins with a call, and a call anywhere else in the text are calls; their
    wrapping and stray special tokens vanish. Everything else, an unfinished call included, is text as it was written.
    A turn that the model writes for somebody else (`<|im_start|>user`) ends the reply.
    """

    def __init__(self, tools: Sequence[Tool], *, thinking: bool = False) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._thinking = thinking
        self._raw = ""
        self._at = 0
        self._scanner: JsonScanner | None = None
        self._fence: Literal["none", "code", "calls"] = "none"
        self._plain_block = False
        self._listed = False
        self._after_call = False
        self._over = False
        self._searched = 0
        self._complete = False
        self._closing = False
        """Nothing but white space came since the last call."""
        self._text, self._thought = _Sink(), _Sink()
        self._calls: list[Call] = []
        self._out: list[Delta] = []

    def feed(self, delta: str) -> list[Delta]:
        """Takes the next piece of raw text; returns what became certain."""
        self._raw += delta
        return self._run(final=False)

    def finish(self, complete: bool) -> tuple[list[Delta], Reply]:
        """Ends the reply; returns the rest of the deltas, and all of it. `complete` False: cut by the token limit."""
        self._complete = complete
        deltas = self._run(final=True)
        return deltas, Reply("".join(self._text.sent), "".join(self._thought.sent), tuple(self._calls))

    def _run(self, *, final: bool) -> list[Delta]:
        while self._at < len(self._raw) and self._step(final):
            pass
        if self._scanner is None and self._at:
            self._raw = self._raw[self._at :]
            self._searched = max(0, self._searched - self._at)
            self._at = 0
        out, self._out = self._out, []
        return out

    def _emit(self, end: int) -> None:
        """The raw text up to `end` (exclusive) is text, or thinking."""
        kind: Literal["thinking", "text"] = "thinking" if self._thinking else "text"
        sink = self._thought if self._thinking else self._text
        self._closing = self._closing and end == self._at
        if certain := sink.add(self._raw[self._at : end]):
            self._out.append((kind, certain))
        self._at = end

    def _emit_all_but_partial(self, marks: Sequence[str], final: bool) -> None:
        """Everything is text but for a beginning of one of the marks at the very end."""
        end = len(self._raw)
        if not final:
            for start in range(max(self._at, end - _LONGEST), end):
                if any(mark.startswith(self._raw[start:]) for mark in marks):
                    end = start
                    break
        self._emit(end)

    def _step(self, final: bool) -> bool:
        """Settles the next piece; False when it can not be settled without more text."""
        if self._over:
            self._at = len(self._raw)
            return False
        if self._thinking:
            return self._think(final)
        if self._after_call:
            skip = _AFTER_CALL.match(self._raw, self._at)
            self._at = skip.end() if skip else self._at
            self._after_call = self._at >= len(self._raw)
        pattern = _CODE_MARK if self._fence == "code" else _MARK if self._tools else _PLAIN_MARK
        mark = pattern.search(self._raw, self._at)
        if mark is None and final and self._closing and not self._complete and self._cut_closer():
            self._at = len(self._raw)
            return False
        if mark is None:
            self._emit_all_but_partial(_MARKS, final)
            return False
        self._emit(mark.start())
        return self._mark(mark.group(), final)

    def _cut_closer(self) -> bool:
        """Whether the token limit cut the closing tag of a call: then the tag's beginning vanishes as it would have."""
        rest = self._raw[self._at :]
        return bool(rest) and any(mark.startswith(rest) for mark in (_CALL_END, _LISTED_END, _FENCE))

    def _think(self, final: bool) -> bool:
        """Inside `<think>`. A `<tool_call>` there is thinking when `</think>` follows; when the reply ends without one,
        the model went over to acting and forgot the tag."""
        end = self._raw.find(THINK_END, max(self._at, self._searched - len(THINK_END)))
        call = self._raw.find(_CALL, self._at) if end < 0 and self._tools else -1
        if end >= 0:
            self._emit(end)
            self._at += len(THINK_END)
            self._thinking = False
            return True
        if call < 0:
            self._emit_all_but_partial((THINK_END, _CALL), final)
            return False
        self._emit(call)
        if final and self._complete:
            self._thinking = False
            return True
        if final:
            self._emit(len(self._raw))
        self._searched = len(self._raw)
        return False

    def _mark(self, mark: str, final: bool) -> bool:
        if mark in (_CALL_END, _LISTED_END) or (mark == _FENCE and self._fence != "none"):
            self._closer(mark)
            return True
        if mark in (_FENCE, _CALL, _LISTED, "{", "["):
            return self._opener(mark, final)
        if mark == _TURN:
            role = _ROLE.match(self._raw, self._at)
            if role is None or (role.end() == len(self._raw) and not final):
                return False
            self._over = role.group(1) not in ("", "assistant")
            self._at = role.end()
            return True
        self._thinking = mark == THINK
        self._at += len(mark)
        return True

    def _closer(self, mark: str) -> None:
        """The end of what wrapped a call vanishes with its beginning; a lone `</tool_call>` is a stray token."""
        if mark == _FENCE:
            visible, self._fence = self._fence == "code", "none"
        elif mark == _CALL_END:
            visible, self._plain_block = self._plain_block, False
        else:
            visible, self._listed = not self._listed, False
        if visible:
            self._emit(self._at + len(mark))
        else:
            self._at += len(mark)
            self._after_call = True

    def _opener(self, mark: str, final: bool) -> bool:
        """At a mark that may begin a call: decides whether one follows."""
        opener = _OPENER.match(self._raw, self._at)
        start = opener.end() if opener else self._at
        if self._may_become((_CALL, _LISTED, _FENCE), start, final):
            return False
        if self._raw[start : start + 1] not in ("{", "["):
            self._not_a_call(mark, self._at + len(mark))
            return True
        if self._scanner is None:
            self._scanner = JsonScanner(start)
        scanner = self._scanner
        status = scanner.advance(self._raw, final=final)
        if status == "more" or (status == "failed" and scanner.missing and self._may_become(_ENDS, scanner.at, final)):
            return False
        self._scanner = None
        marked = _CALL in self._raw[self._at : start]
        listed = _LISTED in self._raw[self._at : start]
        fenced = _FENCE in self._raw[self._at : start]
        missing = "" if status == "done" else self._missing(scanner, final)
        whole = [(start, scanner.at, missing)] if status == "done" or missing else []
        for first, end, more in [*whole, *((*span, "") for span in scanner.closed)]:
            if first < self._at or not (calls := self._calls_in(scanner, first, end, more, marked)):
                continue
            if first == start:
                self._at = first
                self._fence = "calls" if fenced else self._fence
                self._listed = self._listed or listed
            else:
                self._emit(first)
            self._calls.extend(calls)
            self._at = end
            self._after_call = self._closing = True
        if self._at < start:
            self._fence = "code" if fenced else self._fence
            self._plain_block = self._plain_block or marked
        if self._at < scanner.at:
            self._after_call = False
            self._emit(scanner.at)
        return True

    def _may_become(self, marks: Sequence[str], start: int, final: bool) -> bool:
        """True while the text from `start` is the beginning of a mark and more may come."""
        rest = self._raw[start : start + _LONGEST]
        return not final and start + len(rest) == len(self._raw) and any(mark.startswith(rest) for mark in marks)

    def _missing(self, scanner: JsonScanner, final: bool) -> str:
        """The closing brackets that a model forgot: where it ended its reply or the call's wrapping without them.

        Not where the token limit cut the reply: nobody knows what would have followed.
        """
        ended = final and self._complete and scanner.at >= len(self._raw)
        return scanner.missing if ended or self._raw.startswith(_ENDS, scanner.at) else ""

    def _calls_in(self, scanner: JsonScanner, first: int, end: int, more: str, marked: bool) -> tuple[Call, ...]:
        try:
            return calls_in(scanner.value(self._raw, first, end, more), self._tools, marked=marked)
        except (ValueError, RecursionError):
            return ()

    def _not_a_call(self, mark: str, end: int) -> None:
        if mark == _FENCE:
            self._fence = "code"
        elif mark == _CALL:
            self._plain_block = True
        self._emit(end)
