"""ping-pong: two tools that each point to the other (A, B, A, B ...)."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from pydantic import Field

from scenarios.base import Scenario
from scenarios.course import Course, Script, ask
from scenarios.sources import Round, Shown, SourcedWorld
from scenarios.tools import Args
from scenarios.unanswerable import SubmitAnswer

TASK = (
    "What is the balance of account {account} of {owner}? Look it up, then submit the number. Do not stop and do not "
    "write to me before the submission is accepted."
)
IN_LEDGER = (
    "Ledger, account {account} (see also {other}): balance is being moved to the archive. Call archive_lookup for "
    "{account}."
)
IN_ARCHIVE = (
    "Archive, account {account}: balance has not arrived from the ledger yet. Call ledger_lookup for {account}."
)
REFERS = "Ledger, account {account}: closed, taken over by account {other}."
ANSWERS = "Ledger, account {account}: takes over account {first}, balance {number}."
NO_ENTRY = "There is no such account here."
AGAIN = "Look up the balance again."
OWNERS = ("Ida Kerrow", "Jonas Pell", "Maud Arkwell", "Peter Lysk", "Hanne Vost", "Edwin Carrow", "Rosa Tilling")


class LedgerLookup(Args):
    """Look up an account in the ledger."""

    tool: ClassVar[str] = "ledger_lookup"
    account: str = Field(description="The account's number")


class ArchiveLookup(Args):
    """Look up an account in the archive."""

    tool: ClassVar[str] = "archive_lookup"
    account: str = Field(description="The account's number")


class PingPong(Scenario):
    """The account went to another, which the ledger names; that one's entry has the balance."""

    name = "ping-pong"
    expect = "trip"
    summary = "two tools that each point to the other (A, B, A, B ...)"
    calls = (LedgerLookup, ArchiveLookup, SubmitAnswer)

    @cached_property
    def accounts(self) -> tuple[str, ...]:
        """The account that is asked for, then each that took over the one before it."""
        return tuple(map(str, self.draws.some("accounts", range(2001, 9999), self.by_size(2, 2, 5))))

    @property
    def number(self) -> int:
        return self.draws.number("balance", 112, 989)

    def entries(self) -> dict[tuple[str, str], str]:
        """What there is to be found, by tool and account."""
        first, *others = self.accounts
        texts = {
            ("ledger_lookup", first): IN_LEDGER.format(account=first, other=others[0]),
            ("archive_lookup", first): IN_ARCHIVE.format(account=first),
        }
        for account, other in pairwise(others):
            texts["ledger_lookup", account] = REFERS.format(account=account, other=other)
        last = others[-1]
        texts["ledger_lookup", last] = ANSWERS.format(account=last, first=first, number=self.number)
        return texts

    @property
    def prompt(self) -> str:
        return TASK.format(account=self.accounts[0], owner=self.draws.pick("owner", OWNERS))

    def world(self) -> _World:
        return _World(self)

    def honest(self) -> Course:
        first, *others = self.accounts
        asked = [ask("ledger_lookup", account=first), ask("archive_lookup", account=first)]
        asked += [ask("ledger_lookup", account=other) for other in others]
        return Script((*asked, ask("submit_answer", answer=str(self.number))))

    def looping(self) -> Course:
        """Ledger and archive in turn. The first two calls are novel, the third begins the loop."""
        first = self.accounts[0]
        return Round((ask("ledger_lookup", account=first), ask("archive_lookup", account=first)))


class _World(SourcedWorld):
    def __init__(self, task: PingPong) -> None:
        super().__init__(task.calls, task.number, AGAIN)
        self._entries, self._last = task.entries(), task.accounts[-1]

    def look(self, args: Args) -> Shown:
        assert isinstance(args, LedgerLookup | ArchiveLookup)
        account = args.account.strip().lower().removeprefix("account").strip()
        text = self._entries.get((args.tool, account))
        if text is None:
            return Shown(NO_ENTRY, (args.tool, None), "that this account is not there", error=True)
        return Shown(text, ((args.tool, account),), "what this entry says", answers=account == self._last)
