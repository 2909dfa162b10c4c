"""One episode, as it is planned and as it was played, whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from results.trace import Header, Trace
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

    def header(
        self,
        *,
        runner: str,
        harness: dict[str, str] | None,
        stack: str,
        recommended: Sampler | None,
        window: int,
        tape: str | None,
    ) -> Header:
        """The trace's header. `stack` and `tape` are digests, `window` is in tokens; `recommended` is the model's own
        sampler, used where the episode names none."""
        sampler = self.sampler or recommended
        meta = {
            "size": self.scenario.size,
            "expect": self.scenario.expect,
            "arm": self.arm.name,
            "stack": stack,
            "seed": self.seed,
            "model": {"name": self.model, "sha256": self.sha256},
            "actor": self.actor,
            "harness": harness,
            "runner": runner,
            "horizon": self.horizon.count,
            "horizon_unit": self.horizon.unit,
            "priming": self.priming,
            "decode_mode": self.decode_mode,
            "sampler": None if self.actor is not None or sampler is None else sampler.model_dump(mode="json"),
            "window": window,
            "tape": tape,
        }
        return Header(episode=self.name, scenario=self.scenario.name, source="tripbench", meta=meta)


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
