"""Which episodes belong together: cells of equal conditions, and each guarded episode's `off` twin.

A figure is about one cell and one arm; nothing is ever taken over two cells. Pairs share everything but the arm, the
horizon included. Infrastructure errors are no observations: they stand in `Study.failed` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from guards.errors import UserError
from guards.json_text import dump, parse
from results.episode import Episode
from results.trace import Step, Trace

OFF = "off"
SAMPLER_ARMS = ("presence-penalty", "repeat-penalty", "dry")
"""Arms that mount no guard and change the sampler instead; their twin is the `off` of the unchanged sampler."""

_ARM_ORDER = (OFF, "stock", "null", "host", "agent", "both", "stack")
_PENALTIES = ("presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n", "dry_")


@dataclass(frozen=True, order=True)
class Setting:
    """Who acts, in what, decoded how. Nothing is pooled over two settings. Empty strings = not recorded."""

    model: str
    sha256: str
    actor: str
    """"honest" or "looping" for a scripted model, "" for a real one."""
    decode_mode: str
    sampler: str
    """Canonical JSON."""
    runner: str
    harness: str
    """Name and version."""

    @property
    def greedy(self) -> bool:
        """Whether sampling is off (temperature 0), so that another seed with the same prompts is the same evidence."""
        return bool(self.actor) or parse(self.sampler).get("temperature") == 0


@dataclass(frozen=True, order=True)
class Cell:
    """One scenario under one setting, at one size, priming and horizon. `horizon` -1 = not recorded."""

    setting: Setting
    scenario: str
    expect: str
    size: str
    priming: int
    horizon: int
    horizon_unit: str

    @property
    def quiet(self) -> bool:
        return self.expect == "quiet"


@dataclass(frozen=True)
class Pair:
    """A guarded episode and its `off` twin; both ran to their end, equally far at most."""

    guarded: Episode
    off: Episode

    @property
    def trajectory(self) -> str:
        return f"{self.off.trajectory}+{self.guarded.trajectory}"

    @property
    def divergence(self) -> tuple[int, int] | None:
        """Where the prompts first differ: (step, position in the guarded trace), steps of the whole tree from 1.

        None where they never do or where a digest is not known. A step that only one side has differs; its position
        in a guarded trace that is shorter is one past its end.
        """
        ours, theirs = _prompts(self.guarded), _prompts(self.off)
        for place in range(max(len(ours), len(theirs))):
            mine = ours[place] if place < len(ours) else (len(self.guarded.events), "", "")
            other = theirs[place] if place < len(theirs) else (0, "", "")
            if mine[2] is None or other[2] is None:
                return None
            if mine[1:] != other[1:]:
                return place + 1, mine[0]
        return None


class Study:
    """The episodes of one run, sorted into cells. Raises UserError where two have the same cell, arm and seed."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        every = sorted((Episode(trace) for trace in traces), key=lambda episode: episode.name)
        self.episodes = tuple(every)
        self.failed = tuple(episode for episode in every if episode.failure is not None)
        sound = [episode for episode in every if episode.failure is None]
        settings = {_setting(episode) for episode in sound if episode.arm == OFF}
        self._cells = {episode.name: cell_of(episode, settings) for episode in every}
        self._found: dict[tuple[Cell, str], dict[Any, Episode]] = {}
        for episode in sound:
            group = self._found.setdefault((self.cell(episode), episode.arm), {})
            if episode.seed in group:
                raise UserError(
                    f"episodes {group[episode.seed].name} and {episode.name} are the same scenario, arm and seed; "
                    "a run holds each once: remove one of the traces"
                )
            group[episode.seed] = episode

    def cell(self, episode: Episode) -> Cell:
        return self._cells[episode.name]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell that has a sound episode, sorted."""
        return tuple(sorted({cell for cell, _ in self._found}))

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Models first, then actors."""
        return tuple(sorted({cell.setting for cell in self.cells}, key=lambda each: (each.actor != "", each)))

    def arms(self, cell: Cell) -> tuple[str, ...]:
        return tuple(sorted({arm for each, arm in self._found if each == cell}, key=arm_order))

    def seeds(self, cell: Cell, arm: str) -> tuple[Episode, ...]:
        """Every sound episode of a cell and arm, by seed."""
        found = self._found.get((cell, arm), {})
        return tuple(found[seed] for seed in sorted(found, key=seed_order))

    def observed(self, cell: Cell, arm: str) -> tuple[Episode, ...]:
        """The observations of a cell and arm. An actor is one observation, whatever the seeds: that of the first."""
        found = self.seeds(cell, arm)
        return found[:1] if cell.setting.actor else found

    def twin(self, episode: Episode) -> Episode | None:
        """The `off` episode of the same cell and seed; None where it failed or was not run."""
        return self._found.get((self.cell(episode), OFF), {}).get(episode.seed)

    def pairs(self, cell: Cell, arm: str) -> tuple[Pair, ...]:
        """The observed pairs of a cell and arm, by seed; episodes without a twin have none."""
        twins = ((episode, self.twin(episode)) for episode in self.observed(cell, arm))
        return tuple(Pair(episode, twin) for episode, twin in twins if twin is not None)


def arm_order(arm: str) -> tuple[int, str]:
    """Arms in the order of a report: without guards, in planes, alone, sampler arms."""
    if arm in _ARM_ORDER:
        return _ARM_ORDER.index(arm), arm
    return len(_ARM_ORDER) + (arm in SAMPLER_ARMS), arm


def seed_order(seed: Any) -> tuple[int, Any]:
    """Numbers by value, then anything else by its text."""
    return (0, seed) if isinstance(seed, int | float) else (1, str(seed))


def cell_of(episode: Episode, off: Iterable[Setting] = ()) -> Cell:
    """The cell of an episode; a sampler arm is put into the one `off` setting that differs in penalties alone."""
    meta = episode.meta
    setting = _setting(episode)
    if episode.arm in SAMPLER_ARMS:
        alike = [each for each in off if _unpenalised(each) == _unpenalised(setting)]
        setting = alike[0] if len(alike) == 1 else setting
    return Cell(
        setting=setting,
        scenario=episode.trace.header.scenario or "",
        expect=_text(meta.get("expect")),
        size=_text(meta.get("size")),
        priming=int(meta.get("priming") or 0),
        horizon=-1 if meta.get("horizon") is None else int(meta["horizon"]),
        horizon_unit=_text(meta.get("horizon_unit")),
    )


def _unpenalised(setting: Setting) -> Setting:
    """The setting with every penalty taken out of its sampler."""
    kept = {key: value for key, value in parse(setting.sampler).items() if not key.startswith(_PENALTIES)}
    return replace(setting, sampler=dump(kept))


def _prompts(episode: Episode) -> list[tuple[int, str, str | None]]:
    """(position, agent, prompt digest) of every model response."""
    steps = ((place, event) for place, event in enumerate(episode.events) if isinstance(event, Step))
    return [(place, event.agent, event.prompt_digest) for place, event in steps]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _setting(episode: Episode) -> Setting:
    meta = episode.meta
    model, harness = meta.get("model") or {}, meta.get("harness") or {}
    sampler = meta.get("sampler") or {}
    return Setting(
        model=_text(model.get("name")),
        sha256=_text(model.get("sha256")),
        actor=_text(meta.get("actor")),
        decode_mode=_text(meta.get("decode_mode")),
        sampler=dump({key: sampler[key] for key in sorted(sampler)}),
        runner=_text(meta.get("runner")),
        harness=f"{_text(harness.get('name'))} {_text(harness.get('version'))}".strip(),
    )
