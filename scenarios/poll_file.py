"""poll-file: a log file that grows by one tick per settled call; the agent reads it until the last line appears."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Reaction, Turn, ask
from scenarios.tools import Args
from scenarios.workspace import Edit, FilesWorld, Read

LOG, NOTE, OPEN = "build.log", "release.txt", "PENDING"
BEGUN = 3
"""Lines that are there before the first call."""
PARTS = ("kernel", "parser", "printer", "editor", "viewer", "index", "mailer", "player", "clock", "map", "shell")
STEPS = ("compiled {part} without a warning", "linked {part}", "packed {part}", "checked {part}: all in order")


class PollFile(Scenario):
    """Real files and the harness's own tools. The log is complete after so many calls; one line comes with each."""

    name = "poll-file"
    expect = "quiet"
    summary = "a log file that grows by one tick per settled call; the agent reads it until the last line appears"
    calls = ()
    stand_ins = (Read, Edit)

    @property
    def done(self) -> int:
        """The tick from which the last line is there."""
        return self.by_size(4, 8, 16)

    @property
    def release(self) -> str:
        return self.draws.code("release")

    @property
    def product(self) -> str:
        major, minor = self.draws.number("major", 1, 9), self.draws.number("minor", 0, 30)
        return f"{self.draws.pick('product', PARTS)}-{major}.{minor}"

    def log(self, ticks: int) -> str:
        """The log after so many ticks."""
        lines = [f"build of {self.product} started"]
        for at in range(1, BEGUN + self.done - 1):
            lines.append(self.draws.pick(("step", at), STEPS).format(part=self.draws.pick(("part", at), PARTS)))
        lines.append(f"build finished, release code {self.release}")
        stamped = [f"{1 + at // 60:02d}:{at % 60:02d} {line}" for at, line in enumerate(lines)]
        return "".join(f"{line}\n" for line in stamped[: BEGUN + ticks])

    @property
    def files(self) -> Mapping[str, str]:
        return {LOG: self.log(0), NOTE: f"product {self.product}\nrelease code {OPEN}\n"}

    @property
    def needs(self) -> Needs:
        return Needs(horizon=max(24, self.done + 10), harness_tools=("read", "edit"))

    @property
    def prompt(self) -> str:
        return (
            f"The build of {self.product} writes {LOG}; a new line comes with each of your calls. Read {LOG} again and "
            f"again until its last line says that the build is finished. Then edit {NOTE}: replace {OPEN} with the "
            "release code from that line."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        def choose(results: Sequence[Outcome]) -> Turn:
            text = results[0].text if results else ""
            code = re.search(r"release code (\w+)", text)
            if code:
                return ask("edit", file_path=NOTE, old_string=OPEN, new_string=code[1])
            if NOTE in text:
                return Turn(text="The release code is entered.")
            return ask("read", file_path=LOG)

        return Reaction(choose, summary=f"- read {LOG} until the build is finished, then enter its code in {NOTE}")


class _World(FilesWorld):
    growing = frozenset({LOG})

    def __init__(self, task: PollFile) -> None:
        super().__init__(task.files, task.stand_ins)
        self._task = task

    def missing(self) -> int:
        lines = (self.files[NOTE] or "").split("\n")
        return int(f"release code {self._task.release}" not in lines)

    def worth(self, args: Args, agent: str) -> Verdict:
        verdict = super().worth(args, agent)
        waits = isinstance(args, Read) and self._path(args.file_path) == LOG and self.ticks < self._task.done
        return Verdict("needed", "the log goes on with each call") if waits and verdict.judged == "sterile" else verdict

    def command(self, command: str) -> Outcome | None:
        return None

    def ran(self, command: str) -> None:
        pass

    def run(self, args: Args, agent: str) -> Outcome:
        outcome = super().run(args, agent)
        self._move(self.ticks + 1)
        return outcome

    def settled(self, tool: str, args: Any, text: str) -> Mapping[str, str]:
        super().settled(tool, args, text)
        self._move(self.ticks)
        return {} if self.finished else {LOG: self._task.log(self.ticks)}

    def _move(self, ticks: int) -> None:
        self.finished = self.success
        self.files[LOG] = self._task.log(ticks)
