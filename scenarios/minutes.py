"""What the refill scenarios share: minutes of a long meeting, read by lines, and one keyword to report an item."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pydantic import Field

from scenarios.base import Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, Turn, ask
from scenarios.tools import Args

WINDOW = 2560
"""Tokens: what one compaction leaves and one read of some 1,300 fit below the threshold, two such reads do not."""
ENGINE: Mapping[str, float] = {"thresholdRatio": 0.8, "retainRatio": 0.02, "headroomTokens": 128, "maxTokens": 200}

TOPICS = (
    *("storage", "lighting", "parking", "catering", "signage", "heating", "cleaning", "the archive", "the garden"),
    *("the lifts", "training", "visitors", "recycling", "the workshop", "deliveries", "the reading room", "printing"),
    *("the roof", "the cellar", "ventilation", "keys", "the front desk", "furniture", "noise", "bicycles", "the fence"),
    *("the kitchen", "cables", "the west wing", "insurance", "the timetable", "painting"),
)
WORDS = (
    *("amber", "basil", "cedar", "dahlia", "ember", "falcon", "garnet", "hazel", "indigo", "jasper", "kestrel"),
    *("laurel", "maple", "nectar", "orchid", "pebble", "quartz", "raven", "saffron", "thistle", "umber", "velvet"),
    *("willow", "yarrow", "zephyr", "acorn", "birch", "copper", "damson", "elder", "flint", "ginger", "heron"),
)
BODIES = ("board", "house", "committee", "council", "assembly", "tenants")
MONTHS = ("january", "march", "april", "june", "september", "november")
PEOPLE = ("Anders", "Beatrix", "Conrad", "Delia", "Emeric", "Flora", "Gustav", "Helene", "Ivo", "Judith")
SAID = (
    "{person} said that the present arrangement works well enough as long as nobody is away for a longer time",
    "{person} reminded everyone that the same thing had been discussed before and that little came of it then",
    "{person} would rather wait for the offer of the other company before anything is put down in writing",
    "{person} had asked around and found that most people would welcome a change but not before the summer",
    "{person} warned that the work would take longer than planned if the usual people are not asked in time",
    "{person} thought that the costs can be shared with the neighbours if somebody talks to them early enough",
    "{person} showed two pictures of how others have solved it and passed them around the table for a while",
    "{person} asked whether the rules allow it at all, and nobody was quite sure what the last version says",
)
PROPOSED = "{person} first proposed the keyword {word} for this item, but it was felt to be too close to another one"
AGREED = "After some talk everybody agreed on the keyword {word} for this item, and {person} will see to the rest"


class ReadLog(Args):
    """Read a text file, all of it or some lines. Lines are counted from 1."""

    tool: ClassVar[str] = "read_log"
    path: str = Field(description="Path of the file")
    offset: int = Field(default=1, ge=1, description="First line to read")
    limit: int = Field(default=0, ge=0, description="How many lines to read, 0 for all up to the end")


class ReportKeyword(Args):
    """Report the agreed keyword of one item of the minutes. It is checked."""

    tool: ClassVar[str] = "report_keyword"
    item: int = Field(ge=1, description="Number of the item")
    keyword: str = Field(description="The keyword that was agreed on")


@dataclass(frozen=True)
class Minutes:
    """A file of items of `length` lines each; `keywords` by item."""

    path: str
    lines: tuple[str, ...]
    keywords: tuple[str, ...]
    length: int


class MinutesScenario(Scenario):
    """Minutes whose keywords are to be reported, item by item."""

    calls = (ReadLog, ReportKeyword)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """How many items, and lines of each (4 or more)."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The most lines that one read gives."""

    def minutes(self) -> Minutes:
        return self._minutes

    @cached_property
    def _minutes(self) -> Minutes:
        draws = self.draws
        items, length = self.shape
        topics = draws.some("topics", TOPICS, items)
        words = draws.some("words", WORDS, items + 1)
        lines: list[str] = []
        for item in range(items):
            people = draws.some(("people", item), PEOPLE, 2)
            said = [SAID[(draws.rank("said", item) + at) % len(SAID)] for at in range(length - 3)]
            body = [text.format(person=draws.pick((item, at), PEOPLE)) for at, text in enumerate(said)]
            proposed = PROPOSED.format(person=people[0], word=words[(item + 1) % len(words)])
            agreed = AGREED.format(person=people[1], word=words[item])
            half = draws.number(("half", item), 1, len(body))
            lines += [f"Item {item + 1}: {topics[item]}", *body[:half], proposed, *body[half:], agreed]
        name = f"{draws.pick('file', BODIES)}-{draws.pick('month', MONTHS)}"
        return Minutes(f"minutes/{name}.txt", tuple(lines), words[:items], length)

    def world(self) -> World:
        return _World(self.minutes(), self.most, self.calls)

    def honest(self) -> Course:
        """Reads one item, reports its keyword, goes on."""
        minutes, turns = self.minutes(), list[Turn]()
        for at, word in enumerate(minutes.keywords):
            turns.append(ask("read_log", path=minutes.path, offset=at * minutes.length + 1, limit=minutes.length))
            turns.append(ask("report_keyword", item=at + 1, keyword=word))
        return Script(tuple(turns), summary=f"- report the agreed keyword of each item of {minutes.path}, item by item")


class _World(World):
    def __init__(self, minutes: Minutes, most: int, calls: Sequence[type[Args]]) -> None:
        super().__init__(calls)
        self._minutes, self._most = minutes, most
        self._reported: set[int] = set()

    def _span(self, args: ReadLog) -> range:
        """The lines that a read gives, from 0."""
        end = len(self._minutes.lines) if args.limit == 0 else args.offset - 1 + args.limit
        return range(args.offset - 1, min(end, args.offset - 1 + self._most, len(self._minutes.lines)))

    def _refused(self, args: ReadLog, span: range) -> str | None:
        if args.path != self._minutes.path:
            return "No such file."
        return None if span else f"The file has only {len(self._minutes.lines)} lines."

    def run(self, args: Args, agent: str) -> Outcome:
        if isinstance(args, ReadLog):
            return self._read(args, agent)
        assert isinstance(args, ReportKeyword)
        self.learn(agent, self._claim(args))
        if args.item > len(self._minutes.keywords):
            return Outcome(f"There are only {len(self._minutes.keywords)} items.", error=True)
        if args.item in self._reported:
            return Outcome(f"Item {args.item} was reported before.")
        if not self._right(args):
            return Outcome(f"Rejected: this is not the keyword agreed on for item {args.item}. Check the minutes.")
        self._reported.add(args.item)
        left = len(self._minutes.keywords) - len(self._reported)
        return (
            Outcome(f"Item {args.item} recorded, {left} left.")
            if left
            else self.accept("Accepted: all items are recorded.")
        )

    def _read(self, args: ReadLog, agent: str) -> Outcome:
        lines, span = self._minutes.lines, self._span(args)
        refused = self._refused(args, span)
        if refused:
            self.learn(agent, refused)
            return Outcome(refused, error=True)
        self.learn(agent, *(("line", at) for at in span))
        return Outcome(
            "\n".join((f"[lines {span[0] + 1} to {span[-1] + 1} of {len(lines)}]", *(lines[at] for at in span)))
        )

    def worth(self, args: Args, agent: str) -> Verdict:
        if isinstance(args, ReportKeyword):
            if args.item not in self._reported and self._right(args):
                return Verdict("novel", "the item's keyword", unit=True)
            return self.first(agent, self._claim(args), "what becomes of this report")
        assert isinstance(args, ReadLog)
        return self._worth_read(args, agent)

    def _worth_read(self, args: ReadLog, agent: str) -> Verdict:
        span = self._span(args)
        refused = self._refused(args, span)
        if refused:
            return self.first(agent, refused, "that there is no such text")
        new = sum(not self.knows(agent, ("line", at)) for at in span)
        if not new:
            return Verdict("sterile", "the agent has these lines")
        if any(self.knows(agent, ("lost", at)) for at in span):
            return Verdict("needed", "lines that were lost in a compaction")
        return Verdict("novel", f"{new} lines that the agent has not read")

    def compacted(self, agent: str) -> None:
        """What was read is lost; whether the engine kept the last result is not known here."""
        known = [at for at in range(len(self._minutes.lines)) if self.knows(agent, ("line", at))]
        self.learn(agent, *(("lost", at) for at in known))
        self.forget(agent, *(("line", at) for at in known))

    def _right(self, args: ReportKeyword) -> bool:
        words = self._minutes.keywords
        return args.item <= len(words) and args.keyword.strip().lower() == words[args.item - 1]

    def _claim(self, args: ReportKeyword) -> tuple[str, int, str]:
        return ("report", args.item, "" if args.item in self._reported else args.keyword.strip().lower())
