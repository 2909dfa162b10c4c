"""When each guard first acted, measured from the onset of the loop in the pair's `off` twin.

Only provoked pairs count: those whose twin has a loop of the kind that the guard is there for (`kind_of`). A guard's
first act is its first on the agent that loops; on another agent it is no detection of this loop. Index and delay are
counted among that agent's calls (compaction-breaker: attempts), primed ones included, so that the index is the one
that `tripbench replay` prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from results.episode import Episode
from results.facts import Act
from results.loops import Kind, Loop, first_loop
from results.pairs import Pair

What = Literal["trip", "nudge"]

_NUDGING = ("loop-guard", "repeat-reminder")
_NEVER_TRIPS = ("repeat-reminder",)


@dataclass(frozen=True)
class Delay:
    """How long after the origin a guard acted; negative = before it. None = not known.

    The origin is the onset in the twin, where there is priming the last primed call. `units` are asked calls
    (compaction-breaker: attempts): 0 is the origin itself, so a guard that acts on the first call of the loop has
    delay 0. Turns, tokens and seconds are what the agent spent up to the act less what the twin's agent had spent at
    the onset, the model responses that asked for the two calls included on both sides.
    """

    units: int
    turns: int
    tokens: int | None
    output_tokens: int | None
    seconds: float | None


@dataclass(frozen=True)
class First:
    """The first trip (deny or refuse) or nudge of one guard in one provoked pair.

    `status`: "acted" (at the onset or after), "early" (before the onset), "primed" (on a call of the scripted
    history), "missed" (never; then everything else is None). The last two are set for a refusal only: compaction
    attempts of the agent before the refused one and the summaries they asked for.
    """

    status: Literal["acted", "early", "primed", "missed"]
    act: Act | None = None
    delay: Delay | None = None
    attempts_before: int | None = None
    summary_calls_before: int | None = None


def kind_of(guard: str) -> Kind:
    """The kind of loop that a guard is there for."""
    return "refill" if guard == "compaction-breaker" else "calls"


def mounted(episodes: Iterable[Episode]) -> tuple[tuple[str, str | None], ...]:
    """(guard, plane) of all guards that armed or acted in the episodes, sorted."""
    return tuple(sorted({each for episode in episodes for each in episode.armed}, key=lambda e: (e[0], e[1] or "")))


def expected(guard: str, what: What, episodes: Iterable[Episode]) -> bool:
    """Whether a guard is one that does such a thing: by what is known of ours, for others by whether it ever did."""
    if what == "trip":
        return guard not in _NEVER_TRIPS
    return guard in _NUDGING or any(a.guard == guard and not a.trip for episode in episodes for a in episode.acts)


def provoking_loop(pair: Pair, guard: str) -> Loop | None:
    """The twin's first loop of the guard's kind; None = the pair is not provoked for this guard."""
    return first_loop(pair.off, kind_of(guard))


def first(pair: Pair, loop: Loop, guard: str, plane: str | None, what: What) -> First:
    """The first trip or nudge of a guard in a pair, on the agent of the twin's loop."""
    for act in pair.guarded.acts:
        if (act.guard, act.plane, act.agent, act.trip) == (guard, plane, loop.agent, what == "trip"):
            return _first(pair, loop, act)
    return First("missed")


def outcome(pair: Pair, loop: Loop) -> tuple[int, str | None]:
    """(time, event) of a pair for the cumulative incidence of the first trip by any guard for this kind of loop.

    Events: "trip", "recovered" (the agent left the loop by itself: its first call at or after the onset that is not
    sterile; for refills a completed unit after the onset), "ended" (the agent ended), None = censored at the horizon.
    Time is in asked calls (refills: attempts) from the origin of `Delay`; a trip precedes a recovery of the same
    time.
    """
    guarded, start = pair.guarded, _origin(pair, loop)
    trips = (a for a in guarded.acts if a.trip and a.agent == loop.agent and kind_of(a.guard) == loop.kind)
    tripped = next((act.index for act in trips), None)
    recovered = _recovery(guarded, loop)
    if tripped is not None and (recovered is None or tripped <= recovered):
        return tripped - start, "trip"
    if recovered is not None:
        return recovered - start, "recovered"
    made = guarded.calls_of(loop.agent) if loop.kind == "calls" else guarded.attempts_of(loop.agent)
    end = guarded.ends.get(loop.agent) or guarded.ends[guarded.root]
    return len(made) - start, None if end.reason == "horizon" else "ended"


def _first(pair: Pair, loop: Loop, act: Act) -> First:
    status: Literal["acted", "early", "primed"] = "early" if act.index < loop.onset else "acted"
    guarded, agent = pair.guarded, loop.agent
    about = act.call or act.attempt
    position = about.position if about else act.position
    primed = guarded.last_primed(agent)
    here = guarded.spent(stop=position, agent=agent)
    there = guarded.spent(stop=primed.position, agent=agent) if primed else pair.off.spent(0, loop.position, agent)
    delay = Delay(
        units=act.index - _origin(pair, loop),
        turns=here.turns - there.turns,
        tokens=_less(here.tokens, there.tokens),
        output_tokens=_less(here.output_tokens, there.output_tokens),
        seconds=None if here.seconds is None or there.seconds is None else here.seconds - there.seconds,
    )
    refused = act.action == "refuse"
    return First(
        status="primed" if act.primed else status,
        act=act,
        delay=delay,
        attempts_before=here.attempts if refused else None,
        summary_calls_before=here.summary_calls if refused else None,
    )


def _origin(pair: Pair, loop: Loop) -> int:
    """The index that a delay counts from."""
    primed = pair.guarded.last_primed(loop.agent)
    if primed is None:
        return loop.onset
    if loop.kind == "calls":
        return primed.index
    return sum(each.position < primed.position for each in pair.guarded.attempts_of(loop.agent))


def _recovery(episode: Episode, loop: Loop) -> int | None:
    """The index of the call that left the loop; for refills, of the last attempt before the unit that did."""
    if loop.kind == "calls":
        later = (call for call in episode.calls_of(loop.agent) if call.index >= loop.onset and not call.primed)
        return next((call.index for call in later if call.judged != "sterile"), None)
    attempts = episode.attempts_of(loop.agent)
    onset = next((each for each in attempts if each.index == loop.onset), None)
    mine = (c for c in episode.calls_of(loop.agent) if onset and c.position > onset.position)
    unit = next((call for call in mine if call.unit and call.denied_by is None), None)
    return sum(each.position < unit.position for each in attempts) if unit else None


def _less(mine: int | None, other: int | None) -> int | None:
    return None if mine is None or other is None else mine - other
