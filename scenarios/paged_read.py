"""paged-read: one tool, rising offsets."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, ask
from scenarios.tools import Args

REGISTERS = ("berths", "garden plots", "lockers", "boat sheds", "market stalls", "parking spaces", "practice rooms")
PEOPLE = ("Adler", "Brandt", "Castell", "Dorn", "Ekberg", "Falk", "Grimm", "Hansen", "Ibsen", "Jansen", "Kaspar")
PAGE = 6
"""Entries that one read gives."""


class ReadRegister(Args):
    """Read a register, six entries at a time."""

    tool: ClassVar[str] = "read_register"
    register_name: str = Field(description="Name of the register")
    offset: int = Field(ge=0, description="How many entries to skip, 0 for the beginning")


class ReportEntry(Args):
    """Report the number of the entry that is looked for. It is checked."""

    tool: ClassVar[str] = "report_entry"
    number: int = Field(ge=1, description="Number of the entry")


class PagedRead(Scenario):
    name = "paged-read"
    expect = "quiet"
    summary = "one tool, rising offsets"
    calls = (ReadRegister, ReportEntry)

    @property
    def register(self) -> str:
        return f"{self.draws.pick('register', REGISTERS)} {self.draws.number('year', 1990, 2029)}"

    @property
    def pages(self) -> int:
        return self.by_size(6, 12, 30)

    @property
    def unpaid(self) -> int:
        """Number of the entry, from 1: it stands on the last page."""
        return (self.pages - 1) * PAGE + self.draws.number("unpaid", 1, PAGE)

    def entries(self) -> tuple[str, ...]:
        def entry(number: int) -> str:
            person, fee = self.draws.pick(("person", number), PEOPLE), self.draws.number(("fee", number), 40, 180)
            return f"{number}. {person}, fee {fee}, {'unpaid' if number == self.unpaid else 'paid'}"

        return tuple(entry(number) for number in range(1, self.pages * PAGE + 1))

    @property
    def needs(self) -> Needs:
        return Needs(horizon=max(24, self.pages + 10))

    @property
    def prompt(self) -> str:
        return (
            f"One of the {self.pages * PAGE} entries of the register of {self.register} has not been paid. Read the "
            f'register "{self.register}" from the beginning, {PAGE} entries at a time, until you have found that '
            "entry, then report its number."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        reads = [ask("read_register", register_name=self.register, offset=page * PAGE) for page in range(self.pages)]
        summary = f"- read the register of {self.register} page by page until the unpaid entry, then report its number"
        return Script((*reads, ask("report_entry", number=self.unpaid)), summary=summary)


class _World(World):
    def __init__(self, task: PagedRead) -> None:
        super().__init__(task.calls)
        self._name, self._entries, self._unpaid = task.register, task.entries(), task.unpaid

    def run(self, args: Args, agent: str) -> Outcome:
        if isinstance(args, ReportEntry):
            if args.number == self._unpaid:
                return self.accept("Accepted: this is the unpaid entry.")
            self.learn(agent, ("report", args.number))
            return Outcome("Rejected: this is not the unpaid entry.")
        assert isinstance(args, ReadRegister)
        refused, page = self._refused(args), self._page(args)
        if refused:
            self.learn(agent, refused)
            return Outcome(refused, error=True)
        self.learn(agent, *(("entry", at) for at in page))
        head = f"Entries {page[0] + 1} to {page[-1] + 1} of {len(self._entries)}, next offset: {page[-1] + 1}"
        return Outcome("\n".join((head, *(self._entries[at] for at in page))))

    def worth(self, args: Args, agent: str) -> Verdict:
        if isinstance(args, ReportEntry):
            if args.number == self._unpaid:
                return Verdict("novel", "the unpaid entry", unit=True)
            return self.first(agent, ("report", args.number), "that it is not this one")
        assert isinstance(args, ReadRegister)
        refused = self._refused(args)
        if refused:
            return self.first(agent, refused, "that there is no such page")
        new = sum(not self.knows(agent, ("entry", at)) for at in self._page(args))
        return Verdict("novel", f"{new} new entries") if new else Verdict("sterile", "the agent has these entries")

    def _page(self, args: ReadRegister) -> range:
        return range(args.offset, min(args.offset + PAGE, len(self._entries)))

    def _refused(self, args: ReadRegister) -> str | None:
        if args.register_name.strip() != self._name:
            return "No such register."
        return None if self._page(args) else f"The register has only {len(self._entries)} entries."
