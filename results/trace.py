"""The trace format, version 1: what one episode is, line by line.

One episode is one file, `NAME.trace.jsonl` or `NAME.trace.jsonl.zst`: UTF-8, one JSON object a line, lines split at
"\\n" only. Every runner writes it, every importer produces it, every analysis reads nothing else. A line holds what
`JSON.parse` accepts; deep nesting and lone surrogates (as escapes) are allowed, and unknown fields are kept.

Line 1 is the header:

    {"trace": 1, "episode": STR, "scenario": STR|null, "source": STR, "meta": {...}}

`source` says in words where the episode comes from; `meta` is free. Our own runs put there `size`, `arm`, `stack`
(digest or null), `seed`, `model` {name, sha256}, `actor`, `harness` {name, version}, `runner`, `horizon`,
`horizon_unit`, `priming`, `decode_mode`, `sampler`, `tape` (digest or null) and `expect`.

Every later line is an event: `type`, `agent` (STR, default "root"; one agent is one session), `t` (seconds since the
episode began, of a monotonic clock; may be absent) and the fields of its type:

    user        text                          a genuine user message
    notice      text, source                  a message injected by a plugin or guard
    step        n, calls, input_tokens, output_tokens, seconds, finish, tape_key, prompt_digest, primed
                                              one model response; `calls` = tool calls in it; `seconds` = model seconds
    call        id, step, tool, args, primed  a tool call that the model asked for, in the model's order; `args` is the
                                              parsed value, or a string where the model's JSON did not parse; absent: {}
    result      id, content, error, denied_by what the model was shown; `content` is a STR or a list of blocks, and a
                                              STR is one text block; absent: empty; `denied_by` names the guard that
                                              stopped the call ("circuit-breaker@host"), null = the call ran
    compaction  trigger, outcome, plane, summary_calls, tokens_before, tokens_after, seconds
                                              one compaction attempt, however many summaries it asked for
    guard       guard, plane, action, call, kind, count, limit, reason
                                              what a guard did
    label       call, class, why, unit        the oracle's judgement of an asked call, after the events, one a call in
                                              the order of the calls; `unit`: this call completed a unit of the task
    spawn       child, purpose                this agent started another agent
    end         reason, success               the agent's end

    trigger  pressure, overflow, manual          outcome  committed, nothing, failed, refused
    action   arm, consulted, nudge, deny, refuse, announce, incident, reset
    class    novel, needed, requested, sterile
    reason   completed, horizon, stopped, blocked, overflow, max_tokens, error (of an `end`)

Order is causal: a call precedes its result; the parallel calls of one step stand as call, call, result, result. A
result belongs to the latest unsettled call with that id of the same agent. In `content` a text block is exactly
{"type", "text"}, other blocks keep the order of their keys. An unknown `type` is kept and warned about; anything else
that breaks these rules makes the line malformed.

Fields that may be absent are those with a default below. The records are written by hand because the validation
library in use refuses lone surrogates, which models do write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from guards.json_text import dump, parse
from results.trace_fields import (
    Block,
    Entry,
    LineError,
    anything,
    blocks,
    boolean,
    checked,
    entries,
    integer,
    number,
    object_,
    one_of,
    or_null,
    string,
)

__all__ = [
    "EVENTS",
    "VERSION",
    "Action",
    "Block",
    "Call",
    "Compaction",
    "End",
    "Event",
    "Guard",
    "Header",
    "Judged",
    "Label",
    "LineError",
    "Notice",
    "Outcome",
    "Reason",
    "Result",
    "Spawn",
    "Step",
    "Trace",
    "Trigger",
    "Unknown",
    "User",
    "blocks",
    "event_of",
    "header_of",
    "line_of",
]

VERSION = 1

Trigger = Literal["pressure", "overflow", "manual"]
Outcome = Literal["committed", "nothing", "failed", "refused"]
Action = Literal["arm", "consulted", "nudge", "deny", "refuse", "announce", "incident", "reset"]
Judged = Literal["novel", "needed", "requested", "sterile"]
Reason = Literal["completed", "horizon", "stopped", "blocked", "overflow", "max_tokens", "error"]


@dataclass(frozen=True, slots=True)
class Header:
    """Line 1 of a trace. `scenario` is None for an episode that no scenario of ours made."""

    trace: int = field(default=VERSION, kw_only=True, metadata=checked(integer))
    episode: str = field(metadata=checked(string))
    scenario: str | None = field(default=None, metadata=checked(or_null(string)))
    source: str = field(default="", metadata=checked(string))
    meta: dict[str, Any] = field(default_factory=dict, metadata=checked(object_))
    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, slots=True)
class Event:
    """What every event has. `t` is in seconds since the episode began, None = not recorded; `extra`: unknown fields."""

    type: ClassVar[str]
    agent: str = field(default="root", kw_only=True, metadata=checked(string))
    t: float | None = field(default=None, kw_only=True, metadata=checked(or_null(number)))
    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, slots=True)
class User(Event):
    """A genuine user message."""

    type: ClassVar[str] = "user"
    text: str = field(metadata=checked(string))


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """A message injected by a plugin or guard, named by `source`; None = not known."""

    type: ClassVar[str] = "notice"
    text: str = field(metadata=checked(string))
    source: str | None = field(default=None, metadata=checked(or_null(string)))


@dataclass(frozen=True, slots=True)
class Step(Event):
    """A model response. None = not known; `seconds` are model seconds, `calls` the number of its tool calls."""

    type: ClassVar[str] = "step"
    n: int = field(metadata=checked(integer))
    calls: int = field(metadata=checked(integer))
    input_tokens: int | None = field(default=None, metadata=checked(or_null(integer)))
    output_tokens: int | None = field(default=None, metadata=checked(or_null(integer)))
    seconds: float | None = field(default=None, metadata=checked(or_null(number)))
    finish: str | None = field(default=None, metadata=checked(or_null(string)))
    tape_key: str | None = field(default=None, metadata=checked(or_null(string)))
    prompt_digest: str | None = field(default=None, metadata=checked(or_null(string)))
    primed: bool = field(default=False, metadata=checked(boolean))


@dataclass(frozen=True, slots=True)
class Call(Event):
    """An asked call. `step` is the `n` of its step, None = not known; `args` is any JSON value."""

    type: ClassVar[str] = "call"
    id: str = field(metadata=checked(string))
    step: int | None = field(metadata=checked(or_null(integer), absent=None))
    tool: str = field(metadata=checked(string))
    args: Any = field(default_factory=dict, metadata=checked(anything))
    primed: bool = field(default=False, metadata=checked(boolean))


@dataclass(frozen=True, slots=True)
class Result(Event):
    """What the model was shown for a call; `denied_by` None = the call ran."""

    type: ClassVar[str] = "result"
    id: str = field(metadata=checked(string))
    content: tuple[Block, ...] = field(default=(), metadata=checked(blocks))
    error: bool = field(default=False, metadata=checked(boolean))
    denied_by: str | None = field(default=None, metadata=checked(or_null(string)))

    @property
    def text(self) -> str:
        """The texts of the text blocks, joined with nothing between."""
        return "".join(block["text"] for block in self.content if block.get("type") == "text")


@dataclass(frozen=True, slots=True)
class Compaction(Event):
    """A compaction attempt. Plane, tokens and seconds None = not known."""

    type: ClassVar[str] = "compaction"
    trigger: Trigger = field(metadata=checked(one_of(Trigger), absent="pressure"))
    outcome: Outcome = field(metadata=checked(one_of(Outcome)))
    plane: str | None = field(default=None, metadata=checked(or_null(string)))
    summary_calls: int | None = field(default=None, metadata=checked(or_null(integer)))
    tokens_before: int | None = field(default=None, metadata=checked(or_null(integer)))
    tokens_after: int | None = field(default=None, metadata=checked(or_null(integer)))
    seconds: float | None = field(default=None, metadata=checked(or_null(number)))


@dataclass(frozen=True, slots=True)
class Guard(Event):
    """What a guard did; `call` is a call's id, None = not about one; plane None = none or not known."""

    type: ClassVar[str] = "guard"
    guard: str = field(metadata=checked(string))
    plane: str | None = field(metadata=checked(or_null(string), absent=None))
    action: Action = field(metadata=checked(one_of(Action)))
    call: str | None = field(default=None, metadata=checked(or_null(string)))
    kind: str | None = field(default=None, metadata=checked(or_null(string)))
    count: int | None = field(default=None, metadata=checked(or_null(integer)))
    limit: int | None = field(default=None, metadata=checked(or_null(integer)))
    reason: str | None = field(default=None, metadata=checked(or_null(string)))


@dataclass(frozen=True, slots=True)
class Label(Event):
    """The oracle's judgement of an asked call; `judged` is the file's `class`."""

    type: ClassVar[str] = "label"
    call: str = field(metadata=checked(string))
    judged: Judged = field(metadata=checked(one_of(Judged), name="class"))
    why: str = field(default="", metadata=checked(string))
    unit: bool = field(default=False, metadata=checked(boolean))


@dataclass(frozen=True, slots=True)
class Spawn(Event):
    """The agent started the agent `child`."""

    type: ClassVar[str] = "spawn"
    child: str = field(metadata=checked(string))
    purpose: str | None = field(default=None, metadata=checked(or_null(string)))


@dataclass(frozen=True, slots=True)
class End(Event):
    """An agent's end; `success` None = not known or not asked for."""

    type: ClassVar[str] = "end"
    reason: Reason = field(metadata=checked(one_of(Reason)))
    success: bool | None = field(default=None, metadata=checked(or_null(boolean)))


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """An event of a type, `name`, that this version does not know; its fields stand in `extra`."""

    type: ClassVar[str] = ""
    name: str


EVENTS: dict[str, type[Event]] = {
    event.type: event for event in (User, Notice, Step, Call, Result, Compaction, Guard, Label, Spawn, End)
}


@dataclass(frozen=True)
class Trace:
    """One episode. `skipped` malformed lines were left out by a lenient reader; `warnings` are for a person to read."""

    header: Header
    events: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)
    skipped: int = field(default=0, compare=False)


def header_of(text: str) -> Header:
    """The header that a line holds. Raises LineError."""
    line = _line(text)
    if "trace" not in line:
        raise LineError('is no header of a trace: "trace" is missing')
    if line["trace"] != VERSION or isinstance(line["trace"], bool):
        raise LineError(f'"trace" must be {VERSION}, the version that this reads, not {dump(line["trace"])[:40]}')
    return Header(**_read(Header, line))


def event_of(text: str) -> Event:
    """The event that a line holds. Raises LineError."""
    line = _line(text)
    if "type" not in line:
        raise LineError('"type" is missing')
    name = line.pop("type")
    if not isinstance(name, str):
        raise LineError('"type" must be a string')
    known = EVENTS.get(name)
    if known is None:
        return Unknown(name, **_read(Unknown, line))
    return known(**_read(known, line))


def line_of(record: Header | Event) -> str:
    """The record's line, without its end. Raises ValueError for a record that no reader would accept."""
    written: dict[str, Any] = {}
    if isinstance(record, Event):
        written["type"] = record.name if isinstance(record, Unknown) else record.type
    for each in _ENTRIES[type(record)]:
        value = each.read(getattr(record, each.attribute))
        if each.name != "t" or value is not None:
            written[each.name] = value
    clash = written.keys() & record.extra.keys()
    if clash:
        raise ValueError(f"{type(record).__name__}.extra holds known fields: {', '.join(sorted(clash))}")
    return dump(written | record.extra)


def _line(text: str) -> dict[str, Any]:
    try:
        value = parse(text)
    except ValueError as error:
        raise LineError(f"is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise LineError("is no JSON object")
    return value


def _read(record: type[Header | Event], line: dict[str, Any]) -> dict[str, Any]:
    """The record's arguments; what `line` holds beyond its fields becomes `extra`."""
    found: dict[str, Any] = {}
    for each in _ENTRIES[record]:
        if each.name in line:
            try:
                found[each.attribute] = each.read(line.pop(each.name))
            except LineError as error:
                raise LineError(f'"{each.name}" {error}') from error
        elif each.required:
            raise LineError(f'"{each.name}" is missing')
        elif each.asked:
            found[each.attribute] = each.absent
    return found | {"extra": line}


_ENTRIES: dict[type[Header | Event], tuple[Entry, ...]] = {
    record: entries(record) for record in (Header, Unknown, *EVENTS.values())
}
