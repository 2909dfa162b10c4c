"""What someone else's plugin did, told from an episode's event log: it writes no lines of its own there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runners.harness.composition import SERVER
from runners.harness.eventlog import Line

_PREFIX = f"mcp__{SERVER}__"
_ERROR = "Error: "
_HARNESS_OWN = {"UNKNOWN_TOOL", "INVALID_ARGS"}
"""Errors by which the harness itself turns a call down."""
_COMPACTION = re.compile(r"^(?:step|context-overflow) compaction failed: (.*?);[^;]*$", re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """The result of a call of one of the world's tools. `index` is the call's place among the log's calls, from 1.

    `given` is what the world said, None where the call never reached it. `error`: the model is shown an error.
    """

    index: int
    call: str
    text: str
    error: bool
    given: str | None


def shown(lines: Sequence[Line]) -> Iterator[Shown]:
    """The results of the world's tools in their order, without those of calls that the harness itself turned down."""
    places: dict[tuple[str, str], tuple[int, str]] = {}
    world: list[Line] = []
    for line in lines:
        if line["ev"] == "world":
            world.append(line)
        elif line["ev"] == "event" and line["type"] == "tool/call":
            places.setdefault((line["agent"], line["data"]["callId"]), (len(places) + 1, line["data"]["name"]))
        elif line["ev"] == "event" and line["type"] == "tool/result":
            message = line["data"]["message"]
            key = line["agent"], message["toolCallId"]
            index, tool = places.pop(key, (0, ""))
            places[key] = index, ""
            code = (line["data"].get("error") or {}).get("code")
            if not tool.startswith(_PREFIX) or code in _HARNESS_OWN:
                continue
            at = next((at for at, each in enumerate(world) if each["tool"] == tool.removeprefix(_PREFIX)), None)
            given = None if at is None else str(world.pop(at)["text"])
            error = bool(message.get("isError"))
            text = "".join(block.get("text", "") for block in message["content"])
            yield Shown(index, key[1], text.removeprefix(_ERROR) if error else text, error, given)


def denial_pattern(lines: Sequence[Line]) -> str | None:
    """A pattern for the texts of all errors of calls that never reached the world, None where there are none. Where
    just one guard that writes no log is mounted, they are its denials."""
    texts = dict.fromkeys(each.text for each in shown(lines) if each.error and each.given is None)
    return rf"\A(?:{'|'.join(map(re.escape, texts))})\Z" if texts else None


@dataclass(frozen=True)
class Broken:
    """A compaction that failed before it began: the engine threw instead. `calls` and `attempts` are how many came
    before it."""

    calls: int
    attempts: int
    text: str


def broken_compactions(lines: Sequence[Line]) -> Iterator[Broken]:
    """From the witness' lines. An engine's own attempts that began and failed are none of these."""
    count: Counter[str] = Counter()
    begun = False
    for line in lines:
        kind = line.get("type") if line["ev"] == "event" else line["ev"]
        if kind == "tool/call":
            count["calls"] += 1
        elif kind == "compaction/start":
            count["attempts"] += 1
            begun = True
        elif kind == "step/start":
            begun = False
        elif kind == "log" and line["level"] == "warn" and (said := _COMPACTION.match(line["text"])):
            if not begun:
                yield Broken(count["calls"], count["attempts"], said[1])
            begun = False


@dataclass(frozen=True)
class Said:
    """A line that a plugin logged."""

    level: Literal["error", "info", "warn", "debug"]
    text: str


def said(lines: Sequence[Line], row: str) -> list[Said]:
    """What the plugin of a row logged, each text once; the witness must have been mounted."""
    found: dict[tuple[Any, str], None] = {}
    for line in lines:
        if line["ev"] == "log" and line["row"] == row:
            found[line["level"], line["text"]] = None
    return [Said(level, text) for level, text in found]
