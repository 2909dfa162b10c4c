"""What guards did to calls that were right: counts of one guarded episode, by the class of what was stopped or nudged.

A false positive is a deny of a novel or needed call, or a refusal of an attempt that was not futile (a unit of the
task was completed since the agent's attempt before): the same rule, by task state. Anywhere, in `trip` scenarios too.
A denied `requested` call is its own class. Of sterile calls and futile attempts that were stopped, those at or after
the onset of the twin's loop of that kind and agent are inside a loop (in a quiet scenario: a true trip in quiet), the
others are "elsewhere". After the point of divergence the two histories are no longer the same, so "inside" can not
mean more than "not before the onset". Without a twin nothing is known of loops, and sterile ones are in no column.
Primed calls and attempts are the script's and are left out of everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from results.episode import Episode
from results.facts import Act, Asked, Attempt
from results.loops import Kind, loops
from results.pairs import Pair
from results.stats import mcnemar

CLASSES = ("novel", "needed", "requested", "sterile-in-loop", "sterile-elsewhere")
ATTEMPT_CLASSES = ("productive", "futile-in-loop", "futile-elsewhere")

Guard = tuple[str, str | None]


@dataclass(frozen=True)
class Count:
    """`hit` of `asked` calls or attempts of one class."""

    hit: int
    asked: int


def sorts(episode: Episode, off: Episode | None) -> dict[int, str]:
    """The class of every call and attempt that the model made, by position; `off` is the twin, None = there is none."""
    found = {}
    for call in episode.calls:
        if not call.primed:
            found[call.position] = (
                _place(call, off, "calls", "sterile") if call.judged == "sterile" else str(call.judged)
            )
    for attempt in episode.attempts:
        if not attempt.primed and attempt.trigger != "manual":
            found[attempt.position] = _place(attempt, off, "refill", "futile") if attempt.futile else "productive"
    return found


def stopped(episode: Episode, off: Episode | None, guard: Guard | None = None) -> dict[str, Count]:
    """Denied calls and refused attempts by class, of all guards or (`guard`) of one."""
    return _counts(episode, off, (act for act in episode.acts if act.trip), guard)


def nudged(episode: Episode, off: Episode | None, guard: Guard | None = None) -> dict[str, Count]:
    """Nudged calls by class: a call counts once, however many guards had something to say about it."""
    return _counts(episode, off, (act for act in episode.acts if not act.trip), guard)


def false_positives(counts: dict[str, Count]) -> int:
    """Stopped or nudged calls and attempts that a guard must leave alone."""
    return counts["novel"].hit + counts["needed"].hit + counts["productive"].hit


@dataclass(frozen=True)
class Harm:
    """Tasks lost and won by an arm, over pairs whose success is known on both sides.

    `failed` of `succeeded_twins` pairs, whose twin succeeded, failed under guards (b); `rescued` of `failed_twins`
    succeeded (c). `p` is the exact McNemar p value; None where no twin succeeded: harm is not measurable with this
    model.
    """

    succeeded_twins: int
    failed: int
    failed_twins: int
    rescued: int

    @property
    def p(self) -> float | None:
        return mcnemar(self.failed, self.rescued) if self.succeeded_twins else None


def harm(pairs: Iterable[Pair]) -> Harm:
    """The harm and the rescues over pairs."""
    known = [(bool(p.off.success), bool(p.guarded.success)) for p in pairs if judged(p.off) and judged(p.guarded)]
    return Harm(
        succeeded_twins=sum(off for off, _ in known),
        failed=sum(off and not guarded for off, guarded in known),
        failed_twins=sum(not off for off, _ in known),
        rescued=sum(guarded and not off for off, guarded in known),
    )


def judged(episode: Episode) -> bool:
    """Whether it is known if the task was solved."""
    return episode.success is not None


def _counts(episode: Episode, off: Episode | None, acts: Iterable[Act], guard: Guard | None) -> dict[str, Count]:
    classes = sorts(episode, off)
    hit = set()
    for act in acts:
        about = act.call or act.attempt
        if about is not None and guard in (None, (act.guard, act.plane)):
            hit.add(about.position)
    return {
        name: Count(
            hit=sum(classes.get(position) == name for position in hit),
            asked=sum(each == name for each in classes.values()),
        )
        for name in (*CLASSES, *ATTEMPT_CLASSES)
    }


def _place(about: Asked | Attempt, off: Episode | None, kind: Kind, name: str) -> str:
    """Where a sterile call or futile attempt stands to the twin's first loop of its agent."""
    if off is None:
        return f"{name}-unpaired"
    onset = next((loop.onset for loop in loops(off) if (loop.kind, loop.agent) == (kind, about.agent)), None)
    return f"{name}-in-loop" if onset is not None and about.index >= onset else f"{name}-elsewhere"
