"""relist-directory: the same listing call while files arrive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Reaction, Turn, ask
from scenarios.tools import Args

SENDERS = ("harbour", "brewery", "museum", "hospital", "sawmill", "observatory", "bakery", "library", "quarry")
KINDS = ("readings", "invoices", "pictures", "letters", "plans", "tables", "reports", "labels")
LOOKS = 2
"""Listings for each file that arrives: the first of them shows it, the other shows nothing new."""


class ListDirectory(Args):
    """List the files in a directory, with their sizes."""

    tool: ClassVar[str] = "list_directory"
    path: str = Field(description="Path of the directory")


class ConfirmDelivery(Args):
    """Confirm that a delivery is complete. Its seal is checked."""

    tool: ClassVar[str] = "confirm_delivery"
    seal: str = Field(description="The seal of the delivery")


class RelistDirectory(Scenario):
    name = "relist-directory"
    expect = "quiet"
    summary = "the same listing call while files arrive"
    calls = (ListDirectory, ConfirmDelivery)

    @property
    def folder(self) -> str:
        return f"incoming/{self.draws.pick('sender', SENDERS)}"

    @property
    def parts(self) -> tuple[str, ...]:
        """The lines of the listing, in the order in which the files arrive."""
        kind, numbers = self.draws.pick("kind", KINDS), range(1, self.by_size(3, 6, 12) + 1)
        return tuple(f"{kind}-{at:02d}.dat  {self.draws.number(('size', at), 2000, 90_000)} bytes" for at in numbers)

    @property
    def done(self) -> int:
        """The tick from which the seal is there."""
        return LOOKS * len(self.parts)

    @property
    def needs(self) -> Needs:
        return Needs(horizon=max(24, self.done + 10))

    @property
    def prompt(self) -> str:
        return (
            f"The {self.draws.pick('sender', SENDERS)} is sending {len(self.parts)} files into {self.folder}. The "
            "transfer goes on a little each time that you look, and not every look shows a new file. List the "
            "directory until the file with the seal is there (seal-CODE.txt), then confirm the delivery with the code "
            "of the seal."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        def choose(results: Sequence[Outcome]) -> Turn:
            text = results[0].text if results else ""
            seal = re.search(r"seal-(\w+)\.txt", text)
            if text.startswith("Accepted"):
                return Turn(text="The delivery is confirmed.")
            return ask("confirm_delivery", seal=seal[1]) if seal else ask("list_directory", path=self.folder)

        return Reaction(choose, summary=f"- list {self.folder} until the seal is there, then confirm the delivery")


class _World(World):
    def __init__(self, task: RelistDirectory) -> None:
        super().__init__(task.calls)
        self._folder, self._seal, self._done = task.folder, task.draws.code("seal"), task.done
        self._files = (*task.parts, f"seal-{self._seal}.txt  6 bytes")

    def run(self, args: Args, agent: str) -> Outcome:
        fact = self._fact(args)
        if fact == "right seal":
            return self.accept("Accepted: the delivery is complete.")
        self.learn(agent, fact)
        if fact == "no such directory":
            return Outcome("No such directory.", error=True)
        if fact == "wrong seal":
            return Outcome("Rejected: this is not the seal of the delivery.")
        return Outcome("\n".join((f"{self._folder}:", *self._files[: self._there()])))

    def worth(self, args: Args, agent: str) -> Verdict:
        fact = self._fact(args)
        if fact == "right seal":
            return Verdict("novel", "the right seal", unit=True)
        if fact == self._there() and self.ticks < self._done and self.knows(agent, fact):
            return Verdict("needed", "the transfer goes on with each look")
        return self.first(agent, fact, f"of this: {fact if isinstance(fact, str) else f'{fact} files have arrived'}")

    def _there(self) -> int:
        """How many files have arrived; the seal is the last."""
        return min(1 + self.ticks // LOOKS, len(self._files))

    def _fact(self, args: Args) -> str | int:
        """What the call tells now: how many files there are, or an answer in words."""
        assert isinstance(args, ListDirectory | ConfirmDelivery)
        if isinstance(args, ConfirmDelivery):
            right = self.ticks >= self._done and args.seal.strip() == self._seal
            return "right seal" if right else "wrong seal"
        mine = args.path.strip().removeprefix("./").rstrip("/") == self._folder
        return self._there() if mine else "no such directory"
