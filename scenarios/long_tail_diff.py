"""long-tail-diff: results that differ only late in a long output."""

from __future__ import annotations

from functools import cached_property

from scenarios.base import Needs
from scenarios.polling import PollScenario, Stand

SAME = 4000
"""Characters that all outputs of a task have in common, at least."""
SECTIONS = ("source", "target", "charset", "locking", "buffers", "journal", "retries", "encoding", "indexes", "views")


class LongTailDiff(PollScenario):
    """A job's status begins with all of its configuration, and ends with where it stands."""

    name = "long-tail-diff"
    summary = "results that differ only late in a long output"

    @property
    def done(self) -> int:
        return self.by_size(3, 9, 16)

    @property
    def needs(self) -> Needs:
        return Needs(horizon=24, window=self.by_size(8192, 16_384, 24_576))

    @property
    def prompt(self) -> str:
        return (
            f"The copy of the {self.dataset} runs as {self.job}. Its status shows all of the configuration first, and "
            "where the job stands in the very last line. Check the status until the job is completed, then hand in the "
            "receipt code that the last line shows."
        )

    @cached_property
    def head(self) -> str:
        """What every status begins with."""
        lines = [f"{self.job}: configuration"]
        while sum(map(len, lines)) < SAME:
            at = len(lines)
            name = f"{self.draws.pick(('section', at), SECTIONS)}.{at:02d} "
            lines.append(f"{name:.<62} {self.draws.number(('value', at), 1, 9999):>4}")
        return "\n".join(lines)

    def stand(self, ticks: int) -> Stand:
        total = self.draws.number("total", 40, 90) * 100
        if ticks >= self.done:
            return Stand("done", f"{self.head}\ncompleted, {total} of {total} rows. Receipt code: {self.receipt}")
        rows = total * ticks // self.done + self.draws.number(("row", ticks), 0, total // self.done - 1)
        return Stand(ticks, f"{self.head}\nrunning, {rows} of {total} rows")
