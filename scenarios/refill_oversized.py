"""refill-oversized: one oversized read refills the context right after each compaction."""

from __future__ import annotations

from scenarios.base import Needs
from scenarios.course import Course, Script, Turn
from scenarios.minutes import ENGINE, WINDOW, MinutesScenario


class RefillOversized(MinutesScenario):
    """The whole file takes about half of the window; item by item it is easy."""

    name = "refill-oversized"
    expect = "trip"
    summary = "one oversized read refills the context right after each compaction"

    @property
    def shape(self) -> tuple[int, int]:
        return self.by_size((3, 17), (4, 13), (6, 9))

    @property
    def most(self) -> int:
        return 1000

    @property
    def needs(self) -> Needs:
        return Needs(horizon=10, horizon_unit="compaction attempts", window=WINDOW, reply_tokens=200, engine=ENGINE)

    @property
    def prompt(self) -> str:
        minutes = self.minutes()
        return (
            f"The minutes in {minutes.path} have {len(minutes.keywords)} items. For each item one keyword was agreed "
            "on. Read the minutes and report the agreed keyword of every item. Always check the file before you report."
        )

    def looping(self) -> Course:
        again = Turn("I need to read the minutes.", (("read_log", {"path": self.minutes().path}),))
        return Script((), after=again, summary="- nothing is reported yet; read the minutes again")
