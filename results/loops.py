"""Loops: what an agent does that leads nowhere, read from labels alone and never from what a guard did.

A loop of calls is 3 or more consecutive sterile calls of one agent that the model chose; primed calls are left out,
so a loop may begin only after them. A loop of refills is 3 or more consecutive automatic compaction attempts of one
agent with no unit of the task completed between them, attempts within the primed part left out; a manual attempt is
the user's and neither counts nor breaks the run. Units are those of the same agent: a child's work does not make its
parent's refills fruitful. Detection figures take loops from the pair's `off` twin only (metrics.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from results.episode import Episode

SHORTEST = 3
"""How many sterile calls or fruitless attempts in a row are a loop."""

Kind = Literal["calls", "refill"]

KINDS: tuple[Kind, ...] = ("calls", "refill")


@dataclass(frozen=True)
class Loop:
    """One loop. `onset` is the index of its first member among the agent's calls or attempts, `length` how many it has.

    `position` and `end_position` are places in the trace: of the onset, and of the event that ended it or, where the
    loop lasts to the agent's end, one past the last event. `ended`: "recovered" (a call of another class, or a unit
    of the task), "ended" (the agent ended), "horizon".
    """

    kind: Kind
    agent: str
    onset: int
    length: int
    position: int
    end_position: int
    ended: Literal["recovered", "ended", "horizon"]


def loops(episode: Episode) -> tuple[Loop, ...]:
    """Every loop of an episode, in the order of their onsets."""
    found = [
        loop for agent in episode.agents for loop in (*_call_loops(episode, agent), *_refill_loops(episode, agent))
    ]
    return tuple(sorted(found, key=lambda loop: (loop.position, loop.kind)))


def first_loop(episode: Episode, kind: Kind | None = None) -> Loop | None:
    """The loop with the earliest onset, of one kind or (None) of any; None where there is none."""
    return next((loop for loop in loops(episode) if kind in (None, loop.kind)), None)


def _call_loops(episode: Episode, agent: str) -> list[Loop]:
    own = [call for call in episode.calls_of(agent) if not call.primed]
    found, start = [], 0
    while start < len(own):
        stop = start
        while stop < len(own) and own[stop].judged == "sterile":
            stop += 1
        if stop - start >= SHORTEST:
            after = own[stop].position if stop < len(own) else None
            found.append(_loop(episode, "calls", agent, own[start].index, stop - start, own[start].position, after))
        start = stop + 1
    return found


def _refill_loops(episode: Episode, agent: str) -> list[Loop]:
    own = [each for each in episode.attempts_of(agent) if not each.primed and each.trigger != "manual"]
    found, start = [], 0
    while start < len(own):
        stop = start + 1
        while stop < len(own) and own[stop].futile:
            stop += 1
        if stop - start >= SHORTEST:
            after = _next_unit(episode, agent, own[stop - 1].position)
            found.append(_loop(episode, "refill", agent, own[start].index, stop - start, own[start].position, after))
        start = stop
    return found


def _next_unit(episode: Episode, agent: str, position: int) -> int | None:
    mine = (call for call in episode.calls_of(agent) if call.position > position)
    return next((call.position for call in mine if call.unit and call.denied_by is None), None)


def _loop(episode: Episode, kind: Kind, agent: str, onset: int, length: int, position: int, after: int | None) -> Loop:
    """A loop that the event at `after` ended; None = it lasted to the agent's end."""
    if after is not None:
        return Loop(kind, agent, onset, length, position, after, "recovered")
    end = episode.ends.get(agent)
    ended: Literal["ended", "horizon"] = "horizon" if end is None or end.reason == "horizon" else "ended"
    return Loop(kind, agent, onset, length, position, len(episode.events), ended)
