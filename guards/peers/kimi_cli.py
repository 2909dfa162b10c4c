"""Kimi CLI: identical calls in a row, three reminders and a forced stop.

Source: MoonshotAI/kimi-cli, src/kimi_cli/soul/toolset.py and config.py at 4a550eff (autumn 2026).

Rule: calls of the same tool with the same arguments, names sorted at every depth, are counted while no other call comes
between. From the thresholds on, each result carries a reminder: gentle, detailed, then to stop all calls and sum up.
From `forceStopThreshold` on the turn is stopped behind that result, which still carries the last reminder, so that the
first denial is that of the next call. Two identical calls of one response run once, and the twin, which is shown a copy
of the result, still counts; a reminder is decided for the first of them. Arguments that did not parse are no call to
the count. A response without calls and a user message clear it.

Left out: the cap of 1,000 steps a turn; calls of tools that the product does not know, which it does not count (a trace
does not say); the compaction rules of its sibling kimi-code.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, reason
from guards.peers.streak import Streak
from guards.policy import Denial, Nudge, ToolOutcome

_SAYS = {
    "gentle": "Look at the results you have before you call again.",
    "detailed": "Change the call, or say what is missing.",
    "stop": "Stop all calls and write a summary in text only.",
}


class KimiCliConfig(GuardConfig):
    guard: ClassVar[str] = "peer:kimi-cli"

    gentle_threshold: Integer = Field(3, ge=1, description="an integer >= 1")
    detailed_threshold: Integer = Field(5, ge=1, description="an integer >= gentleThreshold")
    stop_threshold: Integer = Field(8, ge=1, description="an integer >= detailedThreshold")
    force_stop_threshold: Integer = Field(12, ge=1, description="an integer >= stopThreshold")

    def check(self) -> None:
        tiers = {
            "gentleThreshold": self.gentle_threshold,
            "detailedThreshold": self.detailed_threshold,
            "stopThreshold": self.stop_threshold,
            "forceStopThreshold": self.force_stop_threshold,
        }
        for lower, higher in itertools.pairwise(tiers):
            if tiers[higher] < tiers[lower]:
                self.refuse(higher, tiers[higher], f" ({lower} is {tiers[lower]})")


@dataclass(slots=True)
class Turn:
    """`asked`: the calls of the response under way; `running`: their places in the streak, until they settle."""

    streak: Streak = field(default_factory=Streak)
    asked: set[Hashable] = field(default_factory=set)
    running: dict[Hashable, int] = field(default_factory=dict)


class KimiCli(Peer[Turn]):
    name: ClassVar[str] = KimiCliConfig.guard
    config_type = KimiCliConfig
    config: KimiCliConfig

    def fresh(self) -> Turn:
        return Turn()

    def respond(self, session: Session[Turn], calls: int) -> None:
        seen = session.seen
        if not seen.asked:
            seen.streak = Streak()
        seen.asked.clear()

    def judge(self, session: Session[Turn], call: Asked) -> Denial | None:
        seen = session.seen
        if isinstance(call.args, str):
            return None
        count = seen.streak.add(call.key)
        if call.key not in seen.asked:
            seen.asked.add(call.key)
            seen.running[call.key] = count
        return None

    def settle(self, session: Session[Turn], call: Asked, result: ToolOutcome) -> Nudge | None:
        count = session.seen.running.pop(call.key, 0)
        hard = self.config.force_stop_threshold
        if count >= hard:
            what = f"{call.tool} was called {count} times in a row with the same arguments"
            session.stop(Denial("tool-call-repeat", count, hard, reason("Kimi CLI", what)), told=False)
        tiers = (
            ("stop", self.config.stop_threshold),
            ("detailed", self.config.detailed_threshold),
            ("gentle", self.config.gentle_threshold),
        )
        for kind, limit in tiers:
            if count >= limit:
                text = f"{call.tool} was called {count} times in a row with the same arguments. {_SAYS[kind]}"
                return Nudge(kind, count, limit, text)
        return None
