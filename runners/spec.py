"""One episode, as it is planned and as it was played, whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from results.trace import Trace
from runners.arms import Arm
from runners.gateway.asking import DecodeMode
from runners.gateway.conversation import Conversation
from runners.gateway.sampler import Sampler
from scenarios.base import HorizonUnit, Scenario


@dataclass(frozen=True)
class Horizon:
    """Where an episode is cut off. Tool turns count over the whole agent tree, and compaction attempts with them; with
    the unit `compaction attempts` only these count, and tool turns are capped at ten times as many."""

    count: int
    unit: HorizonUnit

    @property
    def turns(self) -> int:
        """Most tool turns."""
        return self.count if self.unit == "tool turns" else 10 * self.count


@dataclass(frozen=True)
class EpisodeSpec:
    """One episode. `name` is unique in a run; `actor` None is the model named by `model`, whose `sha256` is None for
    actors. `sampler` None is the model's recommended one. `priming` repeats stand in the history at the start."""

    name: str
    scenario: Scenario
    arm: Arm
    seed: int
    model: str
    sha256: str | None
    actor: str | None
    horizon: Horizon
    priming: int = 0
    decode_mode: DecodeMode = "lazy"
    sampler: Sampler | None = None


@dataclass(frozen=True)
class Played:
    """An episode's trace, and what its root agent was first asked with; None where it never asked."""

    trace: Trace
    opening: Conversation | None


class Runner(Protocol):
    """Plays episodes, several at once where they are asked for from several threads."""

    def run(self, spec: EpisodeSpec) -> Played:
        """Plays one episode to its end. Raises Interrupted."""

    def interrupt(self) -> None:
        """Ends every episode under way and lets none begin; may be called from any thread."""


class Interrupted(Exception):
    """The episode was stopped from outside: it has no trace."""
