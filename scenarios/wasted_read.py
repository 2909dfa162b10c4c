"""wasted-read: a tool that rejects a repeated read without giving its content again."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from scenarios.base import Outcome, Scenario
from scenarios.course import Course, Script, ask
from scenarios.sources import Round, Shown, SourcedWorld
from scenarios.tools import Args, names_file
from scenarios.unanswerable import SubmitAnswer

TASK = (
    "Which total stands in the last line of {path}? View the file, then submit the number. Do not stop and do not "
    "write to me before the submission is accepted."
)
CUT = "[cut here: {left} more lines. View the file again for the rest.]"
UNCHANGED = "Not shown: {path} has not changed since you viewed it. View the file again if you need the rest."
NO_FILE = "No such file, there is only {path}."
AGAIN = "View the file again, to its last line."
FOLDERS = ("stock", "exports", "depot", "yard", "stores")
GOODS = ("bolts", "hinges", "ropes", "lamps", "planks", "valves", "wheels", "pumps", "tarps", "nails", "pipes")
TAIL = 2
"""Lines at the end that `tail` shows."""


class ViewFile(Args):
    """View a text file. A long file is cut. A file that has not changed is not shown a second time."""

    tool: ClassVar[str] = "view_file"
    path: str = Field(description="Path of the file")
    tail: bool = Field(default=False, description="Show the end of the file instead of its beginning")


class WastedRead(Scenario):
    """The end of the file is shown on request."""

    name = "wasted-read"
    expect = "trip"
    summary = "a tool that rejects a repeated read without giving its content again"
    calls = (ViewFile, SubmitAnswer)

    @property
    def path(self) -> str:
        return f"{self.draws.pick('folder', FOLDERS)}/week-{self.draws.number('week', 10, 52)}.txt"

    @property
    def number(self) -> int:
        return self.draws.number("total", 1102, 9899)

    @property
    def lines(self) -> tuple[str, ...]:
        count = self.by_size(20, 40, 120)
        goods = [f"{self.draws.pick(at, GOODS)} {self.draws.number(('count', at), 2, 98)}" for at in range(count)]
        return (*goods, f"total {self.number}")

    @property
    def shown(self) -> int:
        """How many lines of the beginning are shown."""
        return self.by_size(3, 5, 12)

    @property
    def prompt(self) -> str:
        return TASK.format(path=self.path)

    def world(self) -> SourcedWorld:
        return _World(self)

    def honest(self) -> Course:
        views = (ask("view_file", path=self.path), ask("view_file", path=self.path, tail=True))
        return Script((*views, ask("submit_answer", answer=str(self.number))))

    def looping(self) -> Course:
        """The first view is novel, the second begins the loop."""
        return Round((ask("view_file", path=self.path),))


class _World(SourcedWorld):
    def __init__(self, task: WastedRead) -> None:
        super().__init__(task.calls, task.number, AGAIN)
        self._task = task
        self._viewed: set[bool] = set()

    def run(self, args: Args, agent: str) -> Outcome:
        outcome = super().run(args, agent)
        if isinstance(args, ViewFile) and not outcome.error:
            self._viewed.add(args.tail)
        return outcome

    def look(self, args: Args) -> Shown:
        assert isinstance(args, ViewFile)
        path, lines = self._task.path, self._task.lines
        if not names_file(args.path, path):
            return Shown(NO_FILE.format(path=path), ("no such file",), "that there is no other file", error=True)
        # Who was shown a part knows from the tool's description that it is not shown again.
        withheld = ("withheld", args.tail)
        if args.tail in self._viewed:
            return Shown(UNCHANGED.format(path=path), (withheld,), "what stands there, and that it is not shown again")
        facts = (("part", args.tail), withheld)
        if args.tail:
            return Shown("\n".join(("[...]", *lines[-TAIL:])), facts, "how the file ends", answers=True)
        cut = CUT.format(left=len(lines) - self._task.shown)
        return Shown("\n".join((*lines[: self._task.shown], cut)), facts, "how the file begins")
