"""batch-same-tool: forty legitimate calls of one tool with different arguments."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, ask
from scenarios.tools import Args

BOOKS = ("herbal", "atlas", "chronicle", "hymnal", "ledger", "cookbook", "travel diary", "star catalogue", "grammar")
CONVERTED = "Page converted."


class ConvertPage(Args):
    """Convert one scanned page of a book into text."""

    tool: ClassVar[str] = "convert_page"
    book: str = Field(description="Name of the book")
    page: int = Field(ge=1, description="Number of the page")


class BatchSameTool(Scenario):
    """The calls differ in one number, and all but the last are answered alike."""

    name = "batch-same-tool"
    expect = "quiet"
    summary = "forty legitimate calls of one tool with different arguments"
    calls = (ConvertPage,)

    @property
    def book(self) -> str:
        return f"{self.draws.pick('book', BOOKS)} of {self.draws.number('year', 1620, 1890)}"

    @property
    def pages(self) -> int:
        return self.by_size(20, 40, 60)

    @property
    def words(self) -> int:
        return self.draws.number("words", 10_000, 99_999)

    @property
    def needs(self) -> Needs:
        return Needs(horizon=self.pages + 10)

    @property
    def prompt(self) -> str:
        return (
            f'The book "{self.book}" was scanned and has {self.pages} pages. Convert every page into text, from page 1 '
            f"to page {self.pages}, one page at a time."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        pages = tuple(ask("convert_page", book=self.book, page=page) for page in range(1, self.pages + 1))
        return Script(pages, summary=f"- convert the pages 1 to {self.pages} of {self.book}, one after the other")


class _World(World):
    def __init__(self, task: BatchSameTool) -> None:
        super().__init__(task.calls)
        self._book, self._words = task.book, task.words
        self._pages = range(1, task.pages + 1)
        self._done: set[int] = set()

    def run(self, args: Args, agent: str) -> Outcome:
        assert isinstance(args, ConvertPage)
        refused = self._refused(args)
        if refused:
            self.learn(agent, refused)
            return Outcome(refused, error=True)
        if args.page in self._done:
            return Outcome(f"Page {args.page} was converted before.")
        self._done.add(args.page)
        if len(self._done) < len(self._pages):
            return Outcome(CONVERTED)
        return self.accept(f"{CONVERTED} The book is complete: {len(self._pages)} pages, {self._words} words.")

    def worth(self, args: Args, agent: str) -> Verdict:
        assert isinstance(args, ConvertPage)
        refused = self._refused(args)
        if refused:
            return self.first(agent, refused, "that there is no such page")
        if args.page in self._done:
            return Verdict("sterile", "this page was converted before")
        return Verdict("novel", "converts another page", unit=True)

    def _refused(self, args: ConvertPage) -> str | None:
        if args.book.strip() != self._book:
            return "No such book."
        return None if args.page in self._pages else f"The book has only {len(self._pages)} pages."
