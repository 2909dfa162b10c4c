"""What the event log tells of each session: who it is, what of it is open, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from runners.harness.eventlog import Inconsistent, Line

EndReason = Literal["completed", "horizon", "stopped", "blocked", "overflow", "max_tokens", "error"]
OVERFLOW_CODE = "CONTEXT_WINDOW_EXCEEDED"
_ENDS: dict[str, EndReason] = {"completed": "completed", "max-tokens": "max_tokens"}
_STOPPED: dict[str | None, EndReason] = {"finished": "completed", "horizon": "horizon", "error": "error"}


class Session:
    """What is known of one session so far. `name` is that of its agent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.answers: list[Line] = []
        """The gateway's replies but for summaries; the first `steps` of them have reached the harness."""
        self.due: list[str] = []
        """Ids of the last reply's calls that the harness has not begun yet."""
        self.asked: dict[str, str] = {}
        """Tool by call id, of calls without a result."""
        self.settled: set[str] = set()
        self.denied: dict[str, str] = {}
        self.latest: dict[str, str] = {}
        """The last settled call of each tool."""
        self.keys: dict[str, bytes | None] = {}
        """What is equal for equal calls, by call id, of calls without a result."""
        self.repeats: dict[tuple[str, int], str] = {}
        """Calls settled since the last reply, by tool and how many equal ones in a row they were the last of."""
        self._run: tuple[bytes | None, int] = (None, 0)
        self.reminded: tuple[str, int] | None = None
        self.turn_end: dict[str, Any] | None = None

    def repeated(self, call: str, tool: str) -> None:
        """Counts a call that has settled."""
        key = self.keys.pop(call)
        last, count = self._run
        self._run = (key, count + 1 if key is not None and key == last else 1)
        self.repeats[tool, self._run[1]] = call

    def spoken_to(self) -> None:
        """A user message: what is counted begins anew."""
        self._run = (None, 0)

    @property
    def open_call(self) -> str | None:
        """The first call that has no result yet; None where all have one."""
        return next(iter([*self.asked, *self.due]), None)

    def end(self, stopped_by: str | None) -> tuple[EndReason, str | None]:
        """How it ended, and why where that is infrastructure. The harness' own word for it comes first.

        Raises Inconsistent where it came to an end of its own and something is left over.
        """
        reason, cause = _reason(self.turn_end, stopped_by)
        if self.turn_end is not None and reason != "error":
            if self.open_call is not None:
                raise Inconsistent(f"{self.name}: it ended, and the call {self.open_call!r} has no result")
            if len(self.answers) > self.steps:
                replies = f"the gateway gave {len(self.answers)} replies, the harness had {self.steps}"
                raise Inconsistent(f"{self.name}: {replies}")
        return reason, cause


class Sessions:
    """The sessions of an episode, by id, in the order in which they were first heard of."""

    def __init__(self, lines: Sequence[Line]) -> None:
        """`lines` is the whole log: the gateway's answers in it number the agents, and the runner does where it knows
        which call started which. Raises Inconsistent."""
        self._ordinals = _ordinals(lines)
        self._found: dict[str, Session] = {}
        self._last: dict[str, int] = {}

    def of(self, session: str) -> Session:
        """The session with that id: `root`, or `agent-N` in the order in which agents were started."""
        if session not in self._found:
            # One that the gateway never heard of comes behind all that it did.
            number = self._ordinals.setdefault(session, max(self._ordinals.values(), default=-1) + 1)
            self._found[session] = Session("root" if number == 0 else f"agent-{number}")
        return self._found[session]

    def all(self) -> Sequence[Session]:
        return tuple(self._found.values())

    def follow(self, session: str, seq: int) -> None:
        """Takes the number of the session's next event. Raises Inconsistent where it is none."""
        if seq <= (last := self._last.get(session, -1)):
            raise Inconsistent(f"{session}: its event {seq} stands behind its event {last}")
        self._last[session] = seq


def _ordinals(lines: Sequence[Line]) -> dict[str, int]:
    """The numbers of the sessions. Raises Inconsistent where it gave one twice."""
    found: dict[str, int] = {}
    for line in lines:
        if line["ev"] not in ("answer", "number"):
            continue
        session, number = line.get("agent"), line.get("ordinal")
        if not isinstance(session, str) or not isinstance(number, int):
            raise Inconsistent(f"the gateway answered the agent {number!r} of session {session!r}")
        if found.setdefault(session, number) != number:
            raise Inconsistent(f"session {session} is agent {found[session]} and agent {number}")
    if len(set(found.values())) < len(found):
        raise Inconsistent(f"sessions share a number: {found}")
    return found


def _reason(turn_end: dict[str, Any] | None, stopped_by: str | None) -> tuple[EndReason, str | None]:
    if turn_end is None:
        return ("horizon", None) if stopped_by == "horizon" else ("error", "the session has no end")
    kind = turn_end["kind"]
    if kind in _ENDS:
        return _ENDS[kind], None
    if kind == "blocked":
        return _STOPPED.get(stopped_by, "blocked"), None
    if kind == "error":
        error = turn_end.get("error") or {}
        if error.get("code") == OVERFLOW_CODE:
            return "overflow", None
        return "error", f"{error.get('code')}: {error.get('message')}"
    return "error", f"the turn ended as {kind}: {json.dumps(turn_end)[:200]}"
