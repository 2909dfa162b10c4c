"""The event log of an episode: one file that the recorder, the guards and the gateway append to, in one total order.

Every line is a JSON object whose `ev` names its kind. The harness' plugins describe theirs in their own files; the
gateway writes `{"ev": "answer", "agent": SESSION, "ordinal": N, "step": ..., "compaction": ...}` before the last bytes
of an answer are sent, so that it stands before everything that the harness does with it.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from guards.json_text import parse
from runners.gateway.episode import Step

Line = dict[str, Any]


class EventLogBroken(Exception):
    """A line of the event log can not be read: infrastructure, never an outcome."""


class Inconsistent(Exception):
    """The log contradicts itself: infrastructure, never an outcome."""


class EventLog:
    """Appends to the log and reads what was appended since the last look; both may be done in any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._lock = threading.Lock()
        self.lines: list[Line] = []
        """All whole lines that were read so far."""

    def answered(self, step: Step) -> None:
        """Appends a model response."""
        self.append({"ev": "answer"} | asdict(step) | {"agent": step.session, "ordinal": step.agent})

    def append(self, line: Line) -> None:
        """Appends a line."""
        data = (json.dumps(line) + "\n").encode()
        # One write with O_APPEND: the harness' process appends to the same file.
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)

    def update(self) -> list[Line]:
        """Reads on; gives the new lines, each to one caller only. Raises EventLogBroken naming the line, and again
        each time after it: nothing behind a broken line is ever read."""
        with self._lock:
            before = len(self.lines)
            self._read_on()
            return self.lines[before:]

    def _read_on(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._read)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return
                try:
                    line = parse(raw.decode())
                except ValueError as error:
                    raise EventLogBroken(f"{self.path.name}: {raw[:80]!r} is no JSON: {error}") from error
                if not isinstance(line, dict) or not isinstance(line.get("ev"), str):
                    raise EventLogBroken(f"{self.path.name}: {raw[:80]!r} has no `ev`")
                self.lines.append(line)
                self._read += len(raw)
