"""The matrix of a run: which episodes, in which order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guards.errors import UserError
from guards.stack import Stack
from runners.arms import Arm, parse_arms
from runners.gateway.asking import DecodeMode
from runners.gateway.sampler import Sampler
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import Scenario, Size
from scenarios.registry import scenario

ACTORS = ("honest", "looping")
ACTOR_PREFIX = "actor:"
CARD = "card"
"""Name of the sampler that the model's card recommends."""
GREEDY = "greedy"
"""Name of the sampler with temperature 0 and nothing else, whatever the card recommends."""


@dataclass(frozen=True)
class Player:
    """Who plays. `actor` None is the model of that name; `sampler` is what its card recommends, None for actors."""

    name: str
    sha256: str | None
    actor: str | None
    sampler: Sampler | None


@dataclass(frozen=True)
class Mode:
    """How a model decodes. `settings` are laid over the card's sampler; None takes it as it is."""

    decode_mode: DecodeMode = "lazy"
    settings: Mapping[str, Any] | None = None
    seeds: int | None = None
    """How many of the run's seeds, from the first; None = all."""

    @property
    def label(self) -> str:
        """As it stands in episodes' names."""
        if not self.settings:
            return f"{self.decode_mode}-{CARD}"
        if dict(self.settings) == {"temperature": 0.0}:
            return f"{self.decode_mode}-t0"
        if dict(self.settings) == greedy():
            return f"{self.decode_mode}-{GREEDY}"
        given = "-".join(f"{key}{value}" for key, value in sorted(self.settings.items()))
        return f"{self.decode_mode}-{_safe(given)}"


def greedy() -> dict[str, Any]:
    """The settings that `GREEDY` stands for: all of them, so that no penalty of a card is left."""
    return Sampler(temperature=0.0).model_dump()


@dataclass(frozen=True)
class Matrix:
    """What a run is made of, as it was asked for. `horizon` None is each scenario's own."""

    scenarios: tuple[tuple[str, Size], ...]
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    modes: tuple[Mode, ...] = (Mode(settings={"temperature": 0.0}),)
    priming: int = 0
    horizon: int | None = None


def plan(matrix: Matrix, stack: Stack, player: Player, *, native: bool = False) -> tuple[EpisodeSpec, ...]:
    """The episodes of one player. Those of one pair stand together, `off` first, so that the tape holds their common
    history when the other arms come. A looping actor plays only where the scenario has its course, and actors play
    each episode once, in one mode. Modes that come to the same sampler with this player (a card may recommend what
    another mode sets) are one: the episodes of the first stay. Raises UserError for names, seeds and numbers that do
    not exist, and where an episode stands there twice."""
    arms = parse_arms(",".join(matrix.arms), stack, native=native)
    arms = tuple(sorted(arms, key=lambda arm: arm.name != "off"))
    modes = matrix.modes if player.actor is None else (Mode(),)
    specs = tuple(spec for mode in modes for spec in _episodes(matrix, arms, player, mode))
    counts = Counter(spec.name for spec in specs)
    if (twice := next((name for name, count in counts.items() if count > 1), None)) is not None:
        raise UserError(f"episode {twice} stands in the plan twice: give each scenario, seed and mode once")
    firsts: dict[Hashable, EpisodeSpec] = {}
    for spec in specs:
        same = (spec.scenario.name, spec.scenario.size, spec.seed, spec.arm.name, spec.decode_mode, spec.sampler)
        firsts.setdefault(same, spec)
    return tuple(firsts.values())


def _episodes(matrix: Matrix, arms: Sequence[Arm], player: Player, mode: Mode) -> Iterator[EpisodeSpec]:
    for name, size in matrix.scenarios:
        for seed in matrix.seeds[: mode.seeds]:
            made = scenario(name, seed, size)
            if (player.actor == "looping" or matrix.priming) and made.looping() is None:
                continue
            for arm in arms:
                yield _episode(made, arm, seed, matrix, player, mode)


def _episode(made: Scenario, arm: Arm, seed: int, matrix: Matrix, player: Player, mode: Mode) -> EpisodeSpec:
    base = player.sampler or Sampler()
    sampler = base if mode.settings is None else base.model_copy(update=dict(mode.settings))
    if arm.sampler:
        sampler = sampler.model_copy(update=dict(arm.sampler))
    needs = made.needs
    # An actor's name says how it plays; a decode mode or sampler is nothing to it.
    who = player.name if player.actor is not None else f"{player.name}.{mode.label}"
    primed = f".k{matrix.priming}" if matrix.priming else ""
    return EpisodeSpec(
        name=f"{made.name}.{made.size}.{_safe(who)}{primed}.{_safe(arm.name)}.s{seed}",
        scenario=made,
        arm=arm,
        seed=seed,
        model=player.name,
        sha256=player.sha256,
        actor=player.actor,
        horizon=Horizon(matrix.horizon or needs.horizon, needs.horizon_unit),
        priming=matrix.priming,
        decode_mode=mode.decode_mode,
        sampler=None if player.actor is not None else sampler,
    )


def pair_of(spec: EpisodeSpec) -> str:
    """What all arms of one (scenario, size, player, mode, seed) share: their name without the arm."""
    marker = f".{_safe(spec.arm.name)}.s{spec.seed}"
    assert spec.name.endswith(marker)
    return spec.name.removesuffix(marker) + f".s{spec.seed}"


def parse_scenarios(text: str, size: Size = "default") -> tuple[tuple[str, Size], ...]:
    """Names with commas between them, each `NAME` or `NAME:SIZE`. Raises UserError for unknown ones."""
    found: list[tuple[str, Size]] = []
    for part in (part.strip() for part in text.split(",")):
        name, colon, of_size = part.partition(":")
        made = scenario(name, 0, of_size if colon else size)  # type: ignore[arg-type]
        if (made.name, made.size) in found:
            raise UserError(f"--scenario: {part!r} stands there twice")
        found.append((made.name, made.size))
    return tuple(found)


def parse_actor(model: str) -> str | None:
    """The actor that a model's name means; None for a model. Raises UserError for an unknown actor."""
    if not model.startswith(ACTOR_PREFIX):
        return None
    actor = model.removeprefix(ACTOR_PREFIX)
    if actor not in ACTORS:
        raise UserError(f"--model {model}: there is no such actor; use actor:honest or actor:looping")
    return actor


def _safe(name: str) -> str:
    """For file names and addresses."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)
