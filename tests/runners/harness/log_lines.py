"""Event logs written by hand, line by line, as the recorder, the guards and the gateway write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runners.harness.eventlog import Line

ROOT, CHILD = "session-root", "session-child"
BREAKER = {"guard": "compaction-breaker", "plane": "host"}


@dataclass(frozen=True)
class Ask:
    """A call and its fate: `ran` and `failed` reach the world, `denied` names the guard and plane that stop it, and an
    `unknown` tool is one that the harness refuses by itself."""

    id: str
    tool: str = "mcp__tools__look"
    args: str = '{"at": 1}'
    fate: str = "ran"
    by: tuple[str, str] = ("circuit-breaker", "host")

    @property
    def shown(self) -> str:
        """The text that the model is shown."""
        return f"{self.fate} {self.id}"


class Log:
    """One session's lines. Events are numbered from `seq` on."""

    def __init__(self, session: str = ROOT, ordinal: int = 0) -> None:
        self.session = session
        self.ordinal = ordinal
        self.lines: list[Line] = []
        self._seq = 0

    def add(self, ev: str, **fields: Any) -> Log:
        self.lines.append({"ev": ev, "agent": self.session, **fields})
        return self

    def event(self, type: str, /, **data: Any) -> Log:
        self._seq += 2  # what the recorder leaves out has numbers too
        return self.add("event", seq=self._seq, type=type, data=data)

    def said(self, text: str, source: str = "user", **about: Any) -> Log:
        """A user message."""
        content = [{"type": "text", "text": text}]
        return self.event("user/message", content=content, source={"kind": source, **about}, role="user", id="m")

    def answer(self, calls: int = 0, *, compaction: bool = False, **more: Any) -> Log:
        """A reply of the gateway."""
        known: dict[str, Any] = {
            "ordinal": self.ordinal,
            "session": self.session,
            "compaction": compaction,
            "calls": calls,
            "input_tokens": 100,
            "output_tokens": 10,
            "prefill_seconds": 0.5,
            "decode_seconds": 0.25,
            "finish": "stop",
            "tape_key": None,
            "prompt_digest": "d",
            "primed": False,
        }
        return self.add("answer", **(known | more))

    def reply(self, *asks: Ask, **more: Any) -> Log:
        """The gateway's reply, and what the harness made of it."""
        blocks = [{"type": "tool-call", "id": ask.id, "name": ask.tool, "arguments": ask.args} for ask in asks]
        message = {"role": "assistant", "content": [{"type": "text", "text": "So."}, *blocks]}
        return self.answer(len(asks), **more).event("assistant/message", message=message)

    def run(self, ask: Ask) -> Log:
        """A call from its beginning to its result."""
        self.event("tool/call", callId=ask.id, name=ask.tool, arguments=ask.args)
        return self.settle(ask)

    def settle(self, ask: Ask) -> Log:
        """What comes between a call and its result, and the result."""
        if ask.fate == "denied":
            guard, plane = ask.by
            told = {"call": ask.id, "kind": "duplicate", "count": 6, "limit": 6, "reason": ask.shown}
            self.add("deny", guard=guard, plane=plane, **told)
        elif ask.fate in ("ran", "failed") and ask.tool.startswith("mcp__tools__"):
            name = ask.tool.removeprefix("mcp__tools__")
            self.lines.append({"ev": "world", "tool": name, "error": ask.fate == "failed", "text": ask.shown})
        failed = ask.fate != "ran"
        content = [{"type": "text", "text": ask.shown}]
        message = {"role": "tool", "toolCallId": ask.id, "content": content, "isError": failed}
        error = {"error": {"name": "ToolNotFoundError", "code": "UNKNOWN_TOOL"}} if ask.fate == "unknown" else {}
        return self.event("tool/result", message=message, **error)

    def step(self, *asks: Ask, **more: Any) -> Log:
        """A whole step: the reply and its calls, one after the other."""
        self.event("step/start", turn=1).reply(*asks, **more)
        for ask in asks:
            self.run(ask)
        return self.event("step/end", turn=1)

    def compact(self, summaries: int = 1, error: str | None = None, *, turn: int | None = 1) -> Log:
        """One compaction of an engine; its last summary counts unless it failed."""
        self.event("compaction/start", turn=turn)
        self.add("meter", at="compaction/start", tokens=900)
        for _ in range(summaries):
            self.answer(compaction=True)
        if error is None:
            self.event("compaction/summary").said("so far", "compact-checkpoint")
            self.event("compaction/end", turn=turn)
        else:
            self.event("compaction/end", turn=turn, error=error)
        return self.add("meter", at="compaction/end", tokens=300)

    def attempt(self, verdict: str = "allow", trigger: str = "pressure", plane: str = "host") -> Log:
        """Where a compaction-breaker's attempt begins."""
        breaker = BREAKER | {"plane": plane}
        self.add("attempt", **breaker, trigger=trigger, verdict=verdict, rapid=False)
        if verdict == "refuse":
            self.add("refuse", **breaker, call=None, kind="rapid-refill", count=2, limit=3, reason="enough")
        return self

    def settled(self, plane: str = "host", *, replaced: bool = True) -> Log:
        """Where it ends."""
        return self.add("settled", **(BREAKER | {"plane": plane}), trigger="pressure", replaced=replaced, error=None)

    def end(self, kind: str = "completed", **more: Any) -> Log:
        """The turn's end."""
        return self.event("turn/end", turn=1, reason={"kind": kind, **more})


def merged(choices: Sequence[bool], *logs: Log) -> list[Line]:
    """The lines of two logs in one; a choice says whether the second's next line comes before the first's."""
    left = [iter(log.lines) for log in logs]
    found: list[Line] = []
    for second in choices:
        _take(left[1 if second else 0], found)
    for rest in left:
        found += rest
    return found


def timed(lines: Sequence[Line]) -> list[Line]:
    """With the recorder's clock on its own lines: 1 s a line."""
    return [
        line | ({"ms": 1000.0 * at} if line["ev"] in ("event", "meter", "agent") else {})
        for at, line in enumerate(lines)
    ]


def text(lines: Sequence[Line]) -> str:
    """As the file holds them."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def _take(lines: Iterator[Line], found: list[Line]) -> None:
    line = next(lines, None)
    if line is not None:
        found.append(line)
