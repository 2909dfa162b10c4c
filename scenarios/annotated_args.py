"""annotated-args: the tool takes a free-text `description` that the model rewrites on each call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from scenarios.base import Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, Turn, ask
from scenarios.tools import Args
from scenarios.unanswerable import ReportUnanswerable, SubmitAnswer, UnanswerableWorld

HOUSES = (
    *("Water Works", "Harbour Office", "Tram Depot", "City Archive", "Parks Service", "Road Service"),
    "Bridge Office",
)
PLACES = ("Tolmouth", "Verrin", "Askeby", "Lundhaven", "Corvale", "Ostrel Mill", "Penhallow", "Drume")
WANTED = ("duty officer", "night porter", "chief inspector", "lost property desk", "press officer", "head of stores")
OTHERS = ("deputy", "switchboard", "reception", "workshop", "garage", "canteen", "front office")
TEXTS = ("see the {wanted}.", "the {wanted} has the list.", "does not give out extensions, look up the {wanted}.")


class DirectoryLookup(Args):
    """Look up an entry of the telephone directory."""

    tool: ClassVar[str] = "directory_lookup"
    entry: str = Field(description="Name of the entry")
    description: str = Field(description="What you are doing with this call and why, in your own words")


@dataclass(frozen=True)
class _Rewording:
    """The same entry at each step, never described in the same words."""

    entry: str
    summary: str = "- the entry is still to be looked up"

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        description = f"Looking up the {self.entry}, attempt {step + 1}"
        return ask("directory_lookup", entry=self.entry, description=description)


class AnnotatedArgs(Scenario):
    name = "annotated-args"
    expect = "trip"
    summary = "the tool takes a free-text description that the model rewrites on each call"
    calls = (DirectoryLookup, SubmitAnswer, ReportUnanswerable)

    @property
    def wanted(self) -> str:
        return self.draws.pick("wanted", WANTED)

    @property
    def house(self) -> str:
        return f"{self.draws.pick('place', PLACES)} {self.draws.pick('house', HOUSES)}"

    def entries(self) -> dict[str, str]:
        """The directory, by the names of its entries."""
        others = self.draws.some("others", OTHERS, self.by_size(1, 3, 7))
        texts = {each: self.draws.pick(each, TEXTS).format(wanted=self.wanted) for each in others}
        number = self.draws.number("withdrawn", 210, 989)
        wanted = f"extension: being updated, look it up again. See also: {', '.join(texts)}, changes."
        changes = f"extension {number} of the {self.wanted} withdrawn, there will be no other."
        return {self.wanted: wanted, **texts, "changes": changes}

    @property
    def prompt(self) -> str:
        return (
            f"What is the extension of the {self.wanted} of the {self.house}? Look it up in the telephone directory, "
            "then submit it. Do not stop before the submission is accepted."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        return Script(
            (
                ask("directory_lookup", entry=self.wanted, description="Look up the extension"),
                ask("directory_lookup", entry="changes", description="See what became of the extension"),
                ask("report_unanswerable", source="changes"),
            )
        )

    def looping(self) -> Course:
        """The first lookup is novel, the second begins the loop."""
        return _Rewording(self.wanted)


class _World(UnanswerableWorld):
    look_tool = DirectoryLookup.tool

    def __init__(self, task: AnnotatedArgs) -> None:
        super().__init__(task.calls)
        self.truth = "changes"
        self._entries, self._house = task.entries(), task.house

    def look(self, args: Args, agent: str) -> Outcome:
        name = self._name(args)
        self.learn(agent, ("entry", name))
        self.found_truth |= name == "changes"
        none = f"No such entry. Entries: {', '.join(self._entries)}."
        return Outcome(none if name is None else f"{self._house}, {name}: {self._entries[name]}")

    def worth_look(self, args: Args, agent: str) -> Verdict:
        return self.first(agent, ("entry", self._name(args)), "what this entry says")

    def _name(self, args: Args) -> str | None:
        """The first entry whose name stands in what was asked for; None where there is none."""
        assert isinstance(args, DirectoryLookup)
        words = " ".join(args.entry.lower().split())
        return next((name for name in self._entries if name in words), None)
