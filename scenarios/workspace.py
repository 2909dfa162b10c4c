"""Worlds of real files, worked on with the harness's own tools.

In the harness these worlds execute nothing: the harness's tools do, on the files in the workspace. What the judge has
to know of that stands in the trace: before each call the runner records, in the call's field `workspace`, which of the
scenario's files have changed since the call before it, and a digest of them all:

    {"digest": HEX, "changed": {PATH: TEXT or null}}        null: the file is gone, or is no UTF-8 text

and the same in the `workspace` of the root agent's end. `snapshot` makes that record. Where it is missing (there was no
harness), the stand-ins below were what ran, and the judge's own copy of the files is the truth.
"""

from __future__ import annotations

import posixpath
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from guards.json_text import dump
from scenarios.base import Outcome, Verdict, World
from scenarios.tools import Args

Files = Mapping[str, str | None]
"""Text by path, relative to the workspace; None: no such text file."""


class HarnessArgs(Args):
    """Arguments of one of the harness's own tools; what we do not know is the harness's business."""

    model_config = ConfigDict(extra="ignore")


class Read(HarnessArgs):
    """Read a UTF-8 text file and return line-numbered content."""

    tool: ClassVar[str] = "read"
    file_path: str = Field(description="Path to read")
    offset: int = Field(default=1, description="First line to return, from 1")
    limit: int = Field(default=2000, description="How many lines to return at most")


class Edit(HarnessArgs):
    """Edit an existing UTF-8 text file by replacing literal text."""

    tool: ClassVar[str] = "edit"
    file_path: str = Field(description="Path to edit")
    old_string: str = Field(description="Literal text to replace")
    new_string: str = Field(description="Replacement")
    replace_all: bool = Field(default=False, description="Replace all matches; if false there must be exactly one")


class Bash(HarnessArgs):
    """Run commands in a bash shell."""

    tool: ClassVar[str] = "bash"
    command: str = Field(description="The command")


def digest(files: Files) -> str:
    """SHA-256 of the files' paths and texts, in hexadecimal."""
    return sha256(dump(dict(sorted(files.items()))).encode()).hexdigest()


def snapshot(folder: Path, before: Files) -> tuple[dict[str, Any], Files]:
    """The record of what differs in the workspace `folder` from the files `before`, and the files as they are."""
    now = {path: _text(folder / path) for path in before}
    changed = {path: text for path, text in now.items() if text != before[path]}
    return {"digest": digest(now), "changed": changed}, now


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None


class FilesWorld(World):
    """A world of files. `call` stands in for the harness's tools; where these ran, `observe` and `settled` are told.

    What an agent knows: the lines of each version of a file that it was shown, and what a command says while the files
    are as they are. Files in `growing` get longer by themselves and change in no other way: their lines are known by
    number alone, and an edit or a command is no other one because they have grown.
    """

    growing: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, files: Mapping[str, str], calls: Iterable[type[Args]]) -> None:
        super().__init__(calls)
        self.files: dict[str, str | None] = dict(files)

    @abstractmethod
    def missing(self) -> int:
        """How much of the task the files do not fulfil yet; 0 is success."""

    @abstractmethod
    def command(self, command: str) -> Outcome | None:
        """What a shell command gives with the files as they are; None: only a real shell knows."""

    @abstractmethod
    def ran(self, command: str) -> None:
        """A shell command was executed with the files as they are."""

    def observe(self, changed: Files) -> None:
        self.files.update(changed)
        self.success = self.missing() == 0

    def settled(self, tool: str, args: Any, text: str) -> Mapping[str, str]:
        kind = self._calls.get(tool)
        parsed = kind.parse(args) if kind is not None else None
        if isinstance(parsed, Args):
            self.ticks += 1
        if isinstance(parsed, Bash) and not self.finished:
            self.ran(parsed.command)
        return {}

    def run(self, args: Args, agent: str) -> Outcome:
        self.learn(agent, *self._facts(args))
        match args:
            case Read():
                return self._read(args)
            case Edit():
                text = self._edited(args)
                if isinstance(text, Outcome):
                    return text
                self.observe({self._path(args.file_path): text})
                return Outcome(f"The file {args.file_path} has been updated successfully.")
            case Bash():
                self.ran(args.command)
                told = self.command(args.command)
                return told or Outcome("This shell does not know the command.", error=True)
        raise TypeError(type(args))

    def worth(self, args: Args, agent: str) -> Verdict:
        if not self.knows(agent, *self._facts(args)):
            return self._progress(args) or Verdict("novel", "not asked before of these files as they are now")
        return Verdict("sterile", "nothing has changed since the agent asked the same")

    def _progress(self, args: Args) -> Verdict | None:
        if isinstance(args, Edit):
            text, path = self._edited(args), self._path(args.file_path)
            if isinstance(text, str):
                before, kept = self.missing(), self.files[path]
                self.files[path] = text
                after, self.files[path] = self.missing(), kept
                if after < before:
                    return Verdict("novel", "fulfils more of the task", unit=True)
        return None

    def _facts(self, args: Args) -> tuple[tuple[object, ...], ...]:
        """What a call tells, with the files as they are."""
        match args:
            case Read():
                path = self._path(args.file_path)
                text = self.files.get(path)
                if text is None:
                    return (("nothing to read", path),)
                lines = text.splitlines()
                start = max(args.offset, 1)
                shown = range(start, min(start + max(args.limit, 0), len(lines) + 1))
                version = None if path in self.growing else digest({path: text})
                return tuple(("line", path, version, at) for at in shown) or (("past the end", path),)
            case Edit():
                result = self._edited(args)
                if isinstance(result, Outcome):
                    return (("edit fails", self._path(args.file_path), args.old_string, self._state(self.files)),)
                return (("files", self._state({**self.files, self._path(args.file_path): result})),)
            case Bash():
                return (("command", args.command.strip(), self._state(self.files)),)
        raise TypeError(type(args))

    def _state(self, files: Files) -> str:
        """A digest of the files that only an agent changes."""
        return digest({path: text for path, text in files.items() if path not in self.growing})

    def _path(self, path: str) -> str:
        """The scenario's path of a path as an agent gives it: relative, or absolute in a workspace anywhere."""
        normal = posixpath.normpath(path.strip())
        if normal.startswith("/"):
            return next((each for each in self.files if normal.endswith(f"/{each}")), normal)
        return normal

    def _read(self, args: Read) -> Outcome:
        text = self.files.get(self._path(args.file_path))
        if text is None:
            return Outcome("No such file.", error=True)
        lines = text.splitlines()
        shown = lines[max(args.offset, 1) - 1 :][: max(args.limit, 0)]
        if not shown:
            return Outcome(f"No lines: the file has {len(lines)}.")
        return Outcome("\n".join(f"{at}\t{line}" for at, line in enumerate(shown, max(args.offset, 1))))

    def _edited(self, args: Edit) -> str | Outcome:
        """The file's text after the edit, or why there is none."""
        text = self.files.get(self._path(args.file_path))
        if text is None:
            return Outcome("No such file.", error=True)
        if not args.old_string or args.old_string == args.new_string:
            return Outcome("old_string and new_string must differ, and old_string must not be empty.", error=True)
        found = text.count(args.old_string)
        if found == 0 or (found > 1 and not args.replace_all):
            return Outcome(f"old_string was found {found} times, it must be found once.", error=True)
        return text.replace(args.old_string, args.new_string)


def executes(command: str, script: str) -> bool:
    """Whether a shell command runs the script, by itself or as a part of a line."""
    name = re.escape(script)
    return (
        re.search(
            rf"(?:^|[;&|(]|\n)\s*(?:(?:/bin/)?(?:ba|da)?sh\s+(?:-\w+\s+)*)?(?:[\w./-]*/)?{name}(?![\w.])", command
        )
        is not None
    )
