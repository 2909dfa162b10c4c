"""What a guard saved or cost: `off` minus guarded, over whole episodes of the same horizon, the whole agent tree.

Where the twin has a loop of any kind the difference is saved; where it has none the same difference is lost
(metrics.md): work that the guard kept the agent from. A negative figure means that the guarded agent did more. Primed
calls are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from results.episode import Episode
from results.facts import Cost
from results.loops import Loop, first_loop
from results.pairs import Pair

MEASURES = ("calls", "tokens", "output_tokens", "seconds", "summary_calls")
"""Executed calls; model tokens, read and written; those written; model seconds; summaries asked for by compactions."""


@dataclass(frozen=True)
class Saved:
    """One measure of one pair. None = not known on one side."""

    measure: str
    off: float | None
    guarded: float | None
    after_onset: float | None
    """What `off` spent from its onset on, the step of the onset included; None without a loop too."""

    @property
    def difference(self) -> float | None:
        return None if self.off is None or self.guarded is None else self.off - self.guarded

    @property
    def share(self) -> float | None:
        """The difference as a share of what `off` spent after the onset; None where that is nothing."""
        return None if self.difference is None or not self.after_onset else self.difference / self.after_onset


def savings(pair: Pair) -> dict[str, Saved]:
    """Every measure of a pair."""
    loop = first_loop(pair.off)
    off, guarded = pair.off.spent(), pair.guarded.spent()
    after = after_onset(pair.off, loop) if loop else None
    return {
        measure: Saved(
            measure=measure,
            off=getattr(off, measure),
            guarded=getattr(guarded, measure),
            after_onset=getattr(after, measure) if after else None,
        )
        for measure in MEASURES
    }


def after_onset(episode: Episode, loop: Loop) -> Cost:
    """What the whole tree spent from the onset on, the model response that asked for the onset's call included."""
    if loop.kind == "refill":
        return episode.spent(loop.position)
    return episode.spent(episode.step_position(loop.agent, loop.position))
