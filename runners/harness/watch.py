"""The files of a scenario that is worked on with the harness' own tools: what they were before each call, and what
moves by itself.

The recorder tells of each call before it runs and after it settled. Before, the files are looked at and what has
changed goes into the event log as {"ev": "workspace", "call": ID or null, "digest": HEX, "changed": {...}}; after an
executed call the world says which files have moved on, and these are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from results.trace import Call, End, Event
from runners.harness.eventlog import EventLog, Line
from scenarios.workspace import Files, FilesWorld, snapshot


class WorkspaceWatch:
    """Keeps a world of files and the real files in step."""

    def __init__(self, world: FilesWorld, folder: Path, log: EventLog) -> None:
        self._world = world
        self._folder = folder
        self._log = log
        self._files: Files = dict(world.files)

    def look(self, call: str | None) -> None:
        """Records the files before a call; None at the end of the episode."""
        record, self._files = snapshot(self._folder, self._files)
        self._log.append({"ev": "workspace", "call": call, **record})
        self._world.observe(record["changed"])

    def settled(self, tool: str, args: Any, text: str) -> None:
        """An executed call is over: the files that move by themselves do."""
        self._world.observe(snapshot(self._folder, self._files)[0]["changed"])
        moved: Mapping[str, str] = self._world.settled(tool, args, text)
        for path, written in moved.items():
            (self._folder / path).write_text(written, encoding="utf-8")


def with_files(events: Sequence[Event], lines: Sequence[Line]) -> list[Event]:
    """The events with what the log says of the files in the field `workspace` of each call and of the root's end."""
    records = {
        line["call"]: {"digest": line["digest"], "changed": line["changed"]}
        for line in lines
        if line["ev"] == "workspace"
    }
    return [_with(event, records) for event in events]


def _with(event: Event, records: Mapping[str | None, dict[str, Any]]) -> Event:
    key = event.id if isinstance(event, Call) else None
    ends = isinstance(event, End) and event.agent == "root"
    if key not in records or not (isinstance(event, Call) or ends):
        return event
    return replace(event, extra={**event.extra, "workspace": records[key]})
