"""refill-healthy: a long honest task that needs several compactions at healthy gaps."""

from __future__ import annotations

from scenarios.base import Needs
from scenarios.minutes import ENGINE, WINDOW, MinutesScenario

LENGTH = 16
"""Lines of an item."""


class RefillHealthy(MinutesScenario):
    """Minutes that are longer than the window, and a tool that gives no more than a few lines at once."""

    name = "refill-healthy"
    expect = "quiet"
    summary = "a long honest task that needs several compactions at healthy gaps"

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_size(8, 12, 24), LENGTH

    @property
    def most(self) -> int:
        return LENGTH

    @property
    def needs(self) -> Needs:
        return Needs(horizon=2 * self.shape[0] + 8, window=WINDOW, reply_tokens=200, engine=ENGINE)

    @property
    def prompt(self) -> str:
        minutes = self.minutes()
        return (
            f"The minutes in {minutes.path} have {len(minutes.keywords)} items of {LENGTH} lines each: item 1 begins "
            f"at line 1, item 2 at line {LENGTH + 1}, and so on. For each item one keyword was agreed on. Read one "
            "item at a time and report its agreed keyword before you read the next one."
        )
