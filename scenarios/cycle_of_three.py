"""cycle-of-three: three pages of a handbook, each of which sends the reader to the next, the last to the first."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from pydantic import Field

from scenarios.base import Scenario
from scenarios.course import Course, Script, ask
from scenarios.sources import Round, Shown, SourcedWorld
from scenarios.tools import Args
from scenarios.unanswerable import SubmitAnswer

TASK = (
    "What is the fee for {permit} permit in {town}? It is in the town's handbook: begin at page {page}, follow the "
    "handbook to the page that states the fee, then submit the number. Do not stop before the submission is accepted."
)
FIRST = "Page {page}. Fees.{filler} The fee for {permit} permit is on page {other}."
SECOND = (
    "Page {page}. Permits. Errata: page {errata}.{filler} Rules for {permit} permit. For the fee go to page {other}."
)
THIRD = "Page {page}. Offices.{filler} Pay for {permit} permit here. The amount of the fee is on page {other}."
REFERS = "Page {page}. Errata.{filler} The fee for {permit} permit was corrected, see page {other}."
ANSWERS = "Page {page}. Errata.{filler} The fee for {permit} permit is {number}."
NO_PAGE = "There is no such page. Pages: {pages}."
AGAIN = "Read page {page} again and follow it to the fee."
FILLERS = (
    "Fees are paid in advance.",
    "Permits are not transferable.",
    "Bring the form in two copies.",
    "The counter is closed on Mondays.",
    "Keep the receipt.",
    "Children under ten pay nothing.",
)
PERMITS = ("a stall", "a fishing", "a parking", "a bonfire", "a mooring", "a scaffold", "a busking", "a beekeeping")
TOWNS = ("Tolmouth", "Verrin", "Askeby", "Lundhaven", "Corvale", "Ostrel Mill", "Penhallow", "Drume")


class ReadPage(Args):
    """Read one page of the handbook."""

    tool: ClassVar[str] = "read_page"
    page: int = Field(description="The page's number")


class CycleOfThree(Scenario):
    """The second page names the page of the errata, where the fee is."""

    name = "cycle-of-three"
    expect = "trip"
    summary = "three pages, each of which sends the reader to the next, the last to the first"
    calls = (ReadPage, SubmitAnswer)

    @property
    def number(self) -> int:
        return self.draws.number("fee", 112, 989)

    @property
    def cycle(self) -> tuple[int, ...]:
        """The pages that refer to each other, in the order of reading."""
        return self.draws.some("cycle", range(10, 60), 3)

    @property
    def corrections(self) -> tuple[int, ...]:
        """The pages of the way out, in the order of reading; the last one states the fee."""
        return self.draws.some("corrections", range(61, 99), self.by_size(1, 1, 3))

    def pages(self) -> dict[int, str]:
        steps = list(zip(self.cycle, (FIRST, SECOND, THIRD), (*self.cycle[1:], self.cycle[0]), strict=True))
        steps += [(page, REFERS, other) for page, other in pairwise(self.corrections)]
        steps.append((self.corrections[-1], ANSWERS, 0))
        facts = {"permit": self.draws.pick("permit", PERMITS), "number": self.number, "errata": self.corrections[0]}
        return {
            page: text.format(page=page, other=other, filler=self._filler(page), **facts) for page, text, other in steps
        }

    def _filler(self, page: int) -> str:
        return "".join(f" {text}" for text in self.draws.some(("filler", page), FILLERS, self.by_size(0, 1, 5)))

    @property
    def prompt(self) -> str:
        permit, town = self.draws.pick("permit", PERMITS), self.draws.pick("town", TOWNS)
        return TASK.format(permit=permit, town=town, page=self.cycle[0])

    def world(self) -> SourcedWorld:
        return _World(self)

    def honest(self) -> Course:
        read = [ask("read_page", page=page) for page in (*self.cycle, *self.corrections)]
        return Script((*read, ask("submit_answer", answer=str(self.number))))

    def looping(self) -> Course:
        """Page after page, as each says. The first three calls are novel, the fourth begins the loop."""
        return Round(tuple(ask("read_page", page=page) for page in self.cycle))


class _World(SourcedWorld):
    def __init__(self, task: CycleOfThree) -> None:
        super().__init__(task.calls, task.number, AGAIN.format(page=task.cycle[0]))
        self._pages, self._last = task.pages(), task.corrections[-1]

    def look(self, args: Args) -> Shown:
        assert isinstance(args, ReadPage)
        if args.page not in self._pages:
            none = NO_PAGE.format(pages=", ".join(map(str, sorted(self._pages))))
            return Shown(none, ("no such page",), "which pages there are", error=True)
        what = f"what page {args.page} says"
        return Shown(self._pages[args.page], (("page", args.page),), what, answers=args.page == self._last)
