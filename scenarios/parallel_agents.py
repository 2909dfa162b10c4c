"""parallel-agents: several subagents make the same few calls each; nothing may leak between them."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Size, Verdict, World
from scenarios.course import Course, Script, Tree, Turn, ask
from scenarios.delegation import DelegatingWorld, Subagent
from scenarios.tools import Args

READINGS = 3  # of each inspector; the gauge holds, so the same call gives the same each time


class ReadGauge(Args):
    """Read a gauge."""

    tool: ClassVar[str] = "read_gauge"
    gauge: str = Field(description="Number of the gauge")


class RecordReading(Args):
    """Record what an inspector has read, once he has taken all his readings."""

    tool: ClassVar[str] = "record_reading"
    inspector: str = Field(description="Letter of the inspector")
    reading: str = Field(description="The reading, such as 1.5")


class CloseInspection(Args):
    """Close the inspection. All inspectors must have recorded their reading."""

    tool: ClassVar[str] = "close_inspection"


class ParallelAgents(Scenario):
    name = "parallel-agents"
    expect = "quiet"
    summary = "several subagents make the same few calls each; nothing may leak between them"
    calls = (ReadGauge, RecordReading, CloseInspection)
    stand_ins = (Subagent,)

    def __init__(self, seed: int = 0, size: Size = "default") -> None:
        super().__init__(seed, size)
        self.letters = "ABCDE"[: self.by_size(2, 3, 5)]
        self.gauge = f"G{self.draws.number('gauge', 100, 989)}"
        self.reading = f"{self.draws.number('bar', 1, 8)}.{self.draws.number('tenth', 1, 9)}"

    def task(self, letter: str) -> str:
        return (
            f"You are inspector {letter}. Read the gauge {self.gauge} three times with read_gauge, to see that it "
            "holds, then record the reading with record_reading."
        )

    @property
    def prompt(self) -> str:
        return (
            f"Start a subagent for each of the inspectors {', '.join(self.letters)}, with his own letter in the task:\n"
            f"{self.task('A')}\nWhen all of them have finished, close the inspection with close_inspection."
        )

    @property
    def needs(self) -> Needs:
        return Needs(subagents=True, horizon=self.by_size(18, 26, 42))

    def world(self) -> World:
        return DelegatingWorld(_World(self), due=len(self.letters))

    def honest(self) -> Course:
        starts = [{"description": f"Inspector {each}", "prompt": self.task(each)} for each in self.letters]
        read = (ask("read_gauge", gauge=self.gauge),) * READINGS
        records = [ask("record_reading", inspector=each, reading=self.reading) for each in self.letters]
        root = Script((Turn(calls=tuple(("subagent", args) for args in starts)), ask("close_inspection")))
        return Tree(root, tuple(Script((*read, record)) for record in records))


class _World(World):
    def __init__(self, task: ParallelAgents) -> None:
        super().__init__(task.calls)
        self._task, self._open, self._taken = task, list(task.letters), Counter[str]()

    def run(self, args: Args, agent: str) -> Outcome:
        wrong = self._wrong(args)
        if wrong is not None:
            self.learn(agent, wrong)
            return Outcome(f"Rejected: {wrong}.")
        if isinstance(args, ReadGauge):
            self._taken[agent] += 1
            return Outcome(f"Gauge {args.gauge}: {self._task.reading} bar, steady.")
        if isinstance(args, RecordReading):
            self._open.remove(args.inspector.strip()[-1:])
            return Outcome(f"Recorded: {args.inspector}.")
        return self.accept("Accepted: the inspection is closed.")

    def worth(self, args: Args, agent: str) -> Verdict:
        wrong = self._wrong(args)
        if wrong is not None:
            return self.first(agent, wrong, f"that {wrong}")
        if not isinstance(args, ReadGauge):
            return Verdict("novel", "what the task asks for", unit=True)
        taken = self._taken[agent]
        why = f"each inspector is to take {READINGS} readings, and the agent has taken {taken}"
        return Verdict("sterile" if taken >= READINGS else "needed" if taken else "novel", why)

    def _wrong(self, args: Args) -> str | None:
        """Why a call is refused; None where it is not. It does not depend on who asks."""
        if isinstance(args, ReadGauge):
            return None if args.gauge.strip() == self._task.gauge else "there is no such gauge"
        if not isinstance(args, RecordReading):
            return f"not recorded yet: {', '.join(self._open)}" if self._open else None
        if args.inspector.strip()[-1:] not in self._open:
            return "no such inspector is still to record"
        if args.reading.split()[:1] != [self._task.reading]:
            return "this is not what the gauge shows"
        due = READINGS * (len(self._task.letters) - len(self._open) + 1)
        return None if self._taken.total() >= due else "the readings have not been taken yet"
