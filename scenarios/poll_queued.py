"""poll-queued: a job that answers exactly the same "queued" for N polls, then runs, then is done."""

from __future__ import annotations

from scenarios.base import Needs
from scenarios.polling import PollScenario, Stand

RUNS = 3
"""Polls between the queue and the end."""


class PollQueued(PollScenario):
    name = "poll-queued"
    summary = 'a job that answers exactly the same "queued" for N polls, then runs, then is done'

    @property
    def queued(self) -> int:
        """Equal answers. The largest is longer than any published threshold."""
        return self.by_size(6, 12, 40)

    @property
    def done(self) -> int:
        return self.queued + RUNS

    @property
    def needs(self) -> Needs:
        return Needs(horizon=max(24, self.done + 8))

    @property
    def prompt(self) -> str:
        return (
            f"The export of the {self.dataset} waits in the queue as {self.job}. The queue moves on each time that the "
            "status is asked for. Check the status until the job is completed, then hand in the receipt code that the "
            "status shows."
        )

    def stand(self, ticks: int) -> Stand:
        if ticks < self.queued:
            return Stand("queued", f"{self.job}: queued", waits="the queue moves on by one place with each call")
        if ticks < self.done:
            return Stand(ticks, f"{self.job}: running, part {ticks - self.queued + 1} of {RUNS}")
        return Stand("done", f"{self.job}: completed. Receipt code: {self.receipt}")
