"""refill-oversized: one oversized read refills the context right after each compaction."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, Turn, ask
from scenarios.tools import Args

TABLES = ("customers", "invoices", "shipments", "readings", "contracts", "deliveries", "payments", "members")
STEPS = (
    "worker {worker} has read the next block of {table} and found nothing unusual in it",
    "worker {worker} has written its block of {table} and goes on with the one after it",
    "worker {worker} rebuilds the index of {table}, which takes a little longer tonight",
    "worker {worker} skipped some rows of {table} that were there already from last night",
)


class ReadLog(Args):
    """Read a log, all of it."""

    tool: ClassVar[str] = "read_log"
    log: str = Field(description="Name of the log")


class RaiseAlarm(Args):
    """Raise the alarm when a worker of the import has died. It is checked."""

    tool: ClassVar[str] = "raise_alarm"
    worker: int = Field(description="Number of the worker that died")
    block: int = Field(description="Number of the block that was lost")


class RefillOversized(Scenario):
    name = "refill-oversized"
    expect = "trip"
    summary = "one oversized read refills the context right after each compaction"
    calls = (ReadLog, RaiseAlarm)
    died = 20
    """The line that tells which worker died."""

    @property
    def log(self) -> str:
        return f"import-{self.draws.pick('table', TABLES)}"

    @property
    def failed(self) -> int:
        return self.draws.number("failed", 2, 8)

    def lines(self) -> tuple[str, ...]:
        table = self.draws.pick("table", TABLES)
        waiting = f"waiting for worker {self.failed} before the import can finish"
        made = [f"import of {table} started with 9 workers"]
        for at in range(1, self.by_size(34, 36, 42)):
            worker = self.draws.number(("worker", at), 1, 8)
            if at == self.died:
                made.append(f"worker {self.failed} was killed by signal 9, its block {at} is lost")
            elif at > self.died and at % 3 == 0:
                made.append(waiting)
            else:
                worker += at > self.died and worker == self.failed
                made.append(self.draws.pick(("step", at), STEPS).format(worker=worker, table=table))
        return tuple(f"02:{10 + at:02d} {text}" for at, text in enumerate((*made, waiting)))

    @property
    def needs(self) -> Needs:
        engine = {"thresholdRatio": 0.49, "retainRatio": 0.02, "headroomTokens": 128, "maxTokens": 600}
        return Needs(horizon=10, horizon_unit="compaction attempts", window=3584, reply_tokens=64, engine=engine)

    @property
    def prompt(self) -> str:
        return (
            f"The nightly import writes the log {self.log}. Read the log, and read it again until its last line says "
            "that the import is finished."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        alarm = ask("raise_alarm", worker=self.failed, block=self.died)
        return Script((ask("read_log", log=self.log), alarm))

    def looping(self) -> Course:
        again = Turn("The line is not there yet.", (("read_log", {"log": self.log}),))
        # As long as a small model's: the next reading must go over the threshold.
        noted = "\n- ".join((*self.lines()[:18], "the last line was not there yet; read the log again"))
        return Script((), after=again, summary=f"- {noted}")


class _World(World):
    def __init__(self, task: RefillOversized) -> None:
        super().__init__(task.calls)
        self._lines, self._log, self._truth = task.lines(), task.log, (task.failed, task.died)

    def run(self, args: Args, agent: str) -> Outcome:
        self.learn(agent, fact := self._fact(args))
        if isinstance(args, ReadLog):
            return Outcome("\n".join(self._lines)) if fact else Outcome("No such log.", error=True)
        if fact == self._truth:
            return self.accept("Accepted: the import is started anew.")
        return Outcome("Rejected: the log does not say so.")

    def worth(self, args: Args, agent: str) -> Verdict:
        fact = self._fact(args)
        if fact == self._truth:
            return Verdict("novel", "what failed", unit=True)
        return self.first(agent, fact, "this, and the log never changes")

    def _fact(self, args: Args) -> Hashable:
        """What the call tells: whether there is such a log and all of it, or whether this is what failed."""
        assert isinstance(args, ReadLog | RaiseAlarm)
        if isinstance(args, ReadLog):
            return args.log.strip().rpartition("/")[2].removesuffix(".log") == self._log
        return (args.worker, args.block)
