"""refill-recovering: two rapid refills, then the agent reads in chunks and goes on."""

from __future__ import annotations

from scenarios.base import Needs
from scenarios.course import Course, Script, Turn
from scenarios.minutes import MinutesScenario

LENGTH = 14
"""Lines of an item."""
BLOCK = 2
"""Items that a read without a limit gives: one such read fits beside what a compaction leaves, two do not."""
BLOCKS = 4
"""Blocks that the honest course reads in one turn each. The second is followed by the first compaction, the third and
the fourth by one that comes a single turn after the one before it."""


class RefillRecovering(MinutesScenario):
    """Minutes that are longer than the window, and a tool that gives much at once unless it is told not to."""

    name = "refill-recovering"
    expect = "quiet"
    summary = "two rapid refills, then the agent reads in chunks and goes on"

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_size(12, 16, 24), LENGTH

    @property
    def most(self) -> int:
        return BLOCK * LENGTH

    @property
    def needs(self) -> Needs:
        engine = {"thresholdRatio": 0.48, "retainRatio": 0.02, "headroomTokens": 128, "maxTokens": 600}
        return Needs(horizon=2 * self.shape[0] + 16, window=3584, reply_tokens=200, engine=engine)

    @property
    def prompt(self) -> str:
        minutes = self.minutes()
        return (
            f"The minutes in {minutes.path} have {len(minutes.keywords)} items of {LENGTH} lines each: item 1 begins "
            f"at line 1, item 2 at line {LENGTH + 1}, and so on. For each item one keyword was agreed on. Read the "
            "minutes from the beginning to the end and report the agreed keyword of each item."
        )

    def honest(self) -> Course:
        """Reads blocks and reports what the block before held in the same turn, then item by item."""
        items, turns = len(self.minutes().keywords), list[Turn]()
        for start in range(0, BLOCK * BLOCKS, BLOCK):
            turns.append(Turn(calls=(*self._reports(start - BLOCK, start), self._read(start))))
        turns.append(Turn(calls=self._reports(BLOCK * (BLOCKS - 1), BLOCK * BLOCKS)))
        for item in range(BLOCK * BLOCKS, items):
            turns.append(Turn(calls=(self._read(item, LENGTH),)))
            turns.append(Turn(calls=self._reports(item, item + 1)))
        return Script(tuple(turns), summary=f"- report the agreed keyword of each item of {self.minutes().path}")

    def _read(self, item: int, limit: int = 0) -> tuple[str, dict[str, object]]:
        args = {"path": self.minutes().path, "offset": item * LENGTH + 1}
        return "read_log", args | ({"limit": limit} if limit else {})

    def _reports(self, start: int, stop: int) -> tuple[tuple[str, dict[str, object]], ...]:
        words = self.minutes().keywords
        return tuple(("report_keyword", {"item": at + 1, "keyword": words[at]}) for at in range(max(start, 0), stop))
