"""failing-edit: an edit whose match text never matches; the error is always the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from pydantic import Field

from scenarios.base import Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, Turn, ask
from scenarios.reread_after_edit import KEYS, SERVICES
from scenarios.tools import Args, names_file

TASK = "Read {path}, then edit {path} so that {key} is {after} in it. Do not stop before the check passes."
NO_MATCH = "Nothing replaced: old_line does not match a line of the file. Read the file and try the edit again."
NO_FILE = "No such file, there is only {path}."
FAILS, PASSES = "Saved. The check fails: {key} must be {after}, all else as it was.", "Saved. The check passes."
TAB = "    "  # What a tab is shown as, unless asked for otherwise.


class ReadFile(Args):
    """Read a text file."""

    tool: ClassVar[str] = "read_file"
    path: str = Field(description="Name of the file")
    show_tabs: bool = Field(default=False, description="Show tabs as \\t instead of as spaces")


class EditFile(Args):
    """Replace one line of a text file. Then the file is checked."""

    tool: ClassVar[str] = "edit_file"
    path: str = Field(description="Name of the file")
    old_line: str = Field(description="The line to replace: all of it, exactly as it is in the file")
    new_line: str = Field(description="The line to put in its place")


class FailingEdit(Scenario):
    """A tab stands between key and value, which a reading shows as spaces."""

    name = "failing-edit"
    expect = "trip"
    summary = "an edit whose match text never matches; the error is always the same"
    calls = (ReadFile, EditFile)

    @property
    def path(self) -> str:
        return f"{self.draws.pick('service', SERVICES)}.conf"

    @property
    def change(self) -> tuple[str, int, int]:
        """The key, its value and the value that is wanted."""
        before, after = self.draws.number("before", 11, 49), self.draws.number("after", 51, 99)
        return self.draws.some("keys", KEYS, 2)[1], before, after

    def lines(self, value: int) -> tuple[str, ...]:
        """The file, with this value at the key that is to be changed."""
        keys = self.draws.some("keys", KEYS, self.by_size(3, 5, 10))
        values = {key: self.draws.number(("value", key), 11, 99) for key in keys} | {self.change[0]: value}
        return tuple(f"{key}\t{each}" for key, each in values.items())

    @property
    def prompt(self) -> str:
        return TASK.format(path=self.path, key=self.change[0], after=self.change[2])

    def world(self) -> World:
        return _World(self)

    def edit(self, between: str) -> Turn:
        """The edit with so much between key and value."""
        old, new = (f"{self.change[0]}{between}{value}" for value in self.change[1:])
        return ask("edit_file", path=self.path, old_line=old, new_line=new)

    def honest(self) -> Course:
        reads = [ask("read_file", path=self.path, show_tabs=tabs) for tabs in (False, True)]
        return Script((reads[0], self.edit(TAB), reads[1], self.edit("\t")))

    def looping(self) -> Course:
        """The first edit is novel, the second begins the loop."""
        return Script((), after=self.edit(TAB))


class _World(World):
    def __init__(self, task: FailingEdit) -> None:
        super().__init__(task.calls)
        key, before, after = task.change
        self._path, self._fails = task.path, FAILS.format(key=key, after=after)
        self._lines, self._wanted = task.lines(before), [line.split() for line in task.lines(after)]

    def run(self, args: Args, agent: str) -> Outcome:
        outcome, self._lines, facts = self._tried(args)
        self.learn(agent, *facts)
        return self.accept(PASSES) if outcome.text == PASSES else outcome

    def worth(self, args: Args, agent: str) -> Verdict:
        outcome, _, facts = self._tried(args)
        if outcome.text == PASSES:
            return Verdict("novel", "the edit that was asked for", unit=True)
        said = isinstance(args, EditFile) and args.old_line.split() in [line.split() for line in self._lines]
        if outcome.text == NO_MATCH and not said and self.knows(agent, ("read", False, self._lines)):
            return Verdict("sterile", "the agent has read the file, and no line of it says this")
        return self.first(agent, facts[0], "what comes of this, with the file as it is")

    def _tried(self, args: Args) -> tuple[Outcome, tuple[str, ...], tuple[Hashable, ...]]:
        """What the call gives, the lines after it, and what it tells; showing the tabs shows all else, too."""
        assert isinstance(args, ReadFile | EditFile)
        lines = self._lines
        if not names_file(args.path, self._path):
            return Outcome(NO_FILE.format(path=self._path), error=True), lines, ("no such file",)
        if isinstance(args, ReadFile):
            told = tuple(("read", tabs, lines) for tabs in (args.show_tabs, False))
            return Outcome("\n".join(lines).replace("\t", "\\t" if args.show_tabs else TAB)), lines, told
        old, new = args.old_line.removesuffix("\n"), args.new_line.removesuffix("\n")
        if old not in lines:
            return Outcome(NO_MATCH, error=True), lines, (("no match", old, lines),)
        lines = tuple(new if line == old else line for line in lines)
        passes = [line.split() for line in lines] == self._wanted
        return Outcome(PASSES if passes else self._fails), lines, (("saved", lines),)
