"""What ping-pong, cycle-of-three and wasted-read share: a number that stands in one place, to be looked up, then
submitted. It never moves, and a checker accepts it only once it was shown."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from scenarios.base import Outcome, Verdict, World
from scenarios.course import Turn
from scenarios.tools import Args
from scenarios.unanswerable import SubmitAnswer

REJECTED = "Rejected: nothing that was looked up says so. {again}"


@dataclass(frozen=True)
class Shown:
    """What a look-up gives. `facts` are what an agent knows after it; `what` says them and follows the word `learns`.
    `answers`: the number that is wanted stands in it."""

    text: str
    facts: tuple[Hashable, ...]
    what: str
    answers: bool = False
    error: bool = False


@dataclass(frozen=True)
class Round:
    """The same turns over and over."""

    turns: tuple[Turn, ...]
    summary: str = "- the number is still to be looked up"

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        return self.turns[step % len(self.turns)]


class SourcedWorld(World):
    """`again` is what a rejection asks for. Until the number was shown every submission is refused as the same."""

    def __init__(self, calls: Iterable[type[Args]], number: int, again: str) -> None:
        super().__init__(calls)
        self.found = False
        self._number = str(number)
        self._rejected = REJECTED.format(again=again)

    @abstractmethod
    def look(self, args: Args) -> Shown:
        """What a valid call of another tool than the submission gives now; changes nothing."""

    def run(self, args: Args, agent: str) -> Outcome:
        if isinstance(args, SubmitAnswer):
            if self._right(args):
                return self.accept("Accepted: the number is right.")
            self.learn(agent, self._claim(args))
            return Outcome(self._rejected)
        shown = self.look(args)
        self.learn(agent, *shown.facts)
        self.found |= shown.answers
        return Outcome(shown.text, shown.error)

    def worth(self, args: Args, agent: str) -> Verdict:
        if isinstance(args, SubmitAnswer):
            if self._right(args):
                return Verdict("novel", "the right number, looked up before", unit=True)
            return self.first(agent, self._claim(args), "that such an answer is rejected")
        shown = self.look(args)
        if self.knows(agent, *shown.facts):
            return Verdict("sterile", f"the agent was told before {shown.what}, and nothing here ever changes")
        return Verdict("novel", f"the agent learns {shown.what}")

    def _right(self, args: SubmitAnswer) -> bool:
        return self.found and set(re.findall(r"[0-9]+", args.answer)) == {self._number}

    def _claim(self, args: SubmitAnswer) -> tuple[str, str]:
        """A guess tells nothing; once the number was shown, another one that is refused is at least ruled out."""
        return ("rejected", " ".join(args.answer.split()) if self.found else "unsupported")
