"""poll-progress: a job whose status changes at every poll until done."""

from __future__ import annotations

from scenarios.polling import PollScenario, Stand

STAGES = ("reading", "sorting", "checking", "writing")


class PollProgress(PollScenario):
    name = "poll-progress"
    summary = "a job whose status changes at every poll until done"

    @property
    def done(self) -> int:
        return self.by_size(5, 10, 20)

    @property
    def prompt(self) -> str:
        return (
            f"The export of the {self.dataset} runs as {self.job}. Check its status until it is completed, then hand "
            "in the receipt code that the status shows."
        )

    def stand(self, ticks: int) -> Stand:
        total = self.draws.number("total", 40, 90) * 100
        if ticks >= self.done:
            return Stand("done", f"{self.job}: completed, {total} of {total} rows. Receipt code: {self.receipt}")
        rows = total * ticks // self.done + self.draws.number(("row", ticks), 0, total // self.done - 1)
        return Stand(ticks, f"{self.job}: running, {STAGES[ticks * len(STAGES) // self.done]}, {rows} of {total} rows")
