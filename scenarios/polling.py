"""What poll-progress and poll-queued share: a job that moves by one tick per call, and a receipt to hand in."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from scenarios.base import Outcome, Scenario, Verdict, World
from scenarios.course import Course, Reaction, Turn, ask
from scenarios.tools import Args

DATASETS = (
    "orders",
    "invoices",
    "shipments",
    "sensor readings",
    "bookings",
    "returns",
    "subscriptions",
    "stock levels",
)


class JobStatus(Args):
    """Get the current status of a job."""

    tool: ClassVar[str] = "job_status"
    job_id: str = Field(description="The job's id")


class SubmitReceipt(Args):
    """Hand in the receipt code of a completed job. The code is in the status of the job once it is completed."""

    tool: ClassVar[str] = "submit_receipt"
    job_id: str = Field(description="The job's id")
    receipt: str = Field(description="The receipt code")


@dataclass(frozen=True)
class Stand:
    """Where a job stands. `point` tells stands apart; `waits` says why it must be asked for again while it lasts,
    None = it need not."""

    point: Hashable
    text: str
    waits: str | None = None


class PollScenario(Scenario):
    """A job that is done after some polls; its receipt code is known only then."""

    expect = "quiet"
    calls = (JobStatus, SubmitReceipt)

    @property
    def job(self) -> str:
        return f"job-{self.draws.number('job', 1000, 9999)}"

    @property
    def receipt(self) -> str:
        return self.draws.code("receipt")

    @property
    def dataset(self) -> str:
        return self.draws.pick("dataset", DATASETS)

    @abstractmethod
    def stand(self, ticks: int) -> Stand:
        """Where the job stands after so many ticks."""

    @property
    @abstractmethod
    def done(self) -> int:
        """The tick from which the job is completed."""

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        def choose(results: Sequence[Outcome]) -> Turn:
            text = results[0].text if results else ""
            code = re.search(r"Receipt code: (\w+)", text)
            if text.startswith("Accepted"):
                return Turn(text="The receipt was accepted.")
            if code:
                return ask("submit_receipt", job_id=self.job, receipt=code[1])
            return ask("job_status", job_id=self.job)

        return Reaction(choose, summary=f"- wait until {self.job} is completed, then hand in its receipt code")


class _World(World):
    def __init__(self, task: PollScenario) -> None:
        super().__init__(task.calls)
        self._task = task

    def _completed(self) -> bool:
        return self.ticks >= self._task.done

    def _names(self, job_id: str) -> bool:
        """Whether that is the job, with or without what stands before its number."""
        return job_id.strip().removeprefix("job-") == self._task.job.removeprefix("job-")

    def run(self, args: Args, agent: str) -> Outcome:
        assert isinstance(args, JobStatus | SubmitReceipt)
        if not self._names(args.job_id):
            self.learn(agent, "no such job")
            return Outcome("No job with this id.", error=True)
        if isinstance(args, JobStatus):
            stand = self._task.stand(self.ticks)
            self.learn(agent, ("stand", stand.point))
            return Outcome(stand.text)
        if self._completed() and args.receipt.strip() == self._task.receipt:
            return self.accept("Accepted: the receipt is valid.")
        self.learn(agent, self._refusal())
        return Outcome(f"Rejected: {self._refusal()}.")

    def worth(self, args: Args, agent: str) -> Verdict:
        assert isinstance(args, JobStatus | SubmitReceipt)
        if not self._names(args.job_id):
            return self.first(agent, "no such job", "that only the given job exists")
        if isinstance(args, JobStatus):
            stand = self._task.stand(self.ticks)
            if stand.waits and self.knows(agent, ("stand", stand.point)):
                return Verdict("needed", stand.waits)
            return self.first(agent, ("stand", stand.point), "where the job stands")
        if self._completed() and args.receipt.strip() == self._task.receipt:
            return Verdict("novel", "the right receipt", unit=True)
        return self.first(agent, self._refusal(), "that this is refused")

    def _refusal(self) -> str:
        return "this is not the receipt of the job" if self._completed() else "the job is not completed yet"
