"""What provokes which model: one table a model, decode mode, sampler, priming, size, runner, harness and oracle.

A table holds the `off` episodes of `trip` scenarios, a row a scenario; nothing is ever taken over two tables. Loops are
those of `results/loops.py`, so primed calls are no part of one and count as nobody's own. Runs that share all of the
above (seeds 0 to 2 in one, 3 to 5 in another) fill one table together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from guards.errors import UserError
from guards.json_text import parse
from results import estimate
from results.episode import Episode
from results.estimate import Estimate
from results.loops import KINDS, Kind, Loop, first_loop
from results.pairs import OFF, Cell, Setting, seed_order
from results.run import Run

TUNING = 1000
"""Seeds from here on are for tuning texts and tool answers; published tables use others (scenarios.md)."""

_AIMS = {0: 7, 4: 9}


@dataclass(frozen=True)
class Row:
    """One scenario in one table. `errors`: episodes that ended in an infrastructure error and are in no figure.

    `provoked`: episodes with a loop of any kind. `onset` and `length`, by kind, are medians over the episodes with a
    loop of that kind, of the first of them: the onset as the number of the call (of the attempt, for "refill") among
    the looping agent's own, primed ones and manual attempts left out, from 1; the length in calls or attempts. A kind
    that no episode has is absent. `recovered`: of the provoked, those whose first loop of any kind was left. `ends`:
    how the root agent ended and how often, sorted by name. `solved`: of the episodes that say so.
    """

    cell: Cell
    episodes: Estimate
    errors: int
    provoked: Estimate
    onset: dict[Kind, Estimate]
    length: dict[Kind, Estimate]
    recovered: Estimate
    ends: tuple[tuple[str, int], ...]
    solved: Estimate

    @property
    def half(self) -> bool:
        """Whether at least half of the episodes were provoked, one at least."""
        return 2 * (self.provoked.count or 0) >= self.provoked.n > 0


@dataclass(frozen=True, order=True)
class Key:
    """What is equal in all of a table. `oracle` is the judge's version; "" = not recorded."""

    setting: Setting
    priming: int
    size: str
    oracle: str

    @property
    def aim(self) -> int | None:
        """How many scenarios issue 6 wants provoked in at least half of their episodes; None = it names no aim here.

        It names 7 unprimed and 9 with four primed repeats, for models decoded lazily at temperature 0.
        """
        setting = self.setting
        wanted = setting.decode_mode == "lazy" and setting.greedy and not setting.actor
        return _AIMS.get(self.priming) if wanted else None


@dataclass(frozen=True)
class Table:
    """One table. `runs` are places in the list of runs; `absent`: planned episodes without a trace, by scenario."""

    key: Key
    rows: tuple[Row, ...]
    runs: tuple[int, ...]
    absent: tuple[tuple[str, int], ...]

    @property
    def half(self) -> tuple[Row, ...]:
        """The scenarios that were provoked in at least half of their episodes."""
        return tuple(row for row in self.rows if row.half)


def tables(runs: Sequence[Run], *, tuning: bool = False) -> tuple[Table, ...]:
    """Every table that the runs hold, models before actors, rows by scenario.

    Raises UserError where a run holds no `off` episode of a trip scenario, where one episode stands in two runs, where
    a scenario was run with two horizons, and, unless `tuning`, where a seed is 1000 or more.
    """
    found: dict[Key, dict[Cell, list[Episode]]] = {}
    sources: dict[tuple[Key, str, Any], int] = {}
    for place, run in enumerate(runs):
        for cell, episode in _observed(run):
            _check_seed(run, episode, tuning)
            key = Key(cell.setting, cell.priming, cell.size, _oracle(run))
            first = sources.setdefault((key, cell.scenario, episode.seed), place)
            if first != place:
                raise UserError(
                    f"{run.directory}: episode {episode.name} (seed {episode.seed}) stands in "
                    f"{runs[first].directory} too; give each seed once"
                )
            found.setdefault(key, {}).setdefault(cell, []).append(episode)
    made = [_table(key, cells, runs, sources) for key, cells in found.items()]
    return tuple(sorted(made, key=_order))


def _observed(run: Run) -> list[tuple[Cell, Episode]]:
    """The `off` episodes of trip scenarios, failed ones too. Raises UserError where there are none."""
    study = run.study
    placed = [(study.cell(each), each) for each in study.episodes if each.arm == OFF]
    kept = [(cell, episode) for cell, episode in placed if cell.expect == "trip"]
    if not kept:
        raise UserError(f"{run.directory}: holds no episode of a trip scenario without guards; run one with --arms off")
    return kept


def _check_seed(run: Run, episode: Episode, tuning: bool) -> None:
    seed = episode.seed
    if not isinstance(seed, int):
        raise UserError(f"{run.directory}: episode {episode.name} has no seed: it can not be counted in a table")
    if seed >= TUNING and not tuning:
        raise UserError(
            f"{run.directory}: episode {episode.name} has seed {seed}, and seeds from {TUNING} on are for tuning: "
            "publish others, or give --tuning and a folder of its own with --out"
        )


def _table(
    key: Key, cells: dict[Cell, list[Episode]], runs: Sequence[Run], sources: dict[tuple[Key, str, Any], int]
) -> Table:
    twice = [name for name, count in Counter(cell.scenario for cell in cells).items() if count > 1]
    if twice:
        horizons = sorted(cell.horizon for cell in cells if cell.scenario == twice[0])
        said = " and ".join(map(str, horizons))
        raise UserError(f"scenario {twice[0]} was run with horizons {said}, which are not comparable: give one of them")
    places = tuple(sorted({place for (of, _, _), place in sources.items() if of == key}))
    have = {(scenario, seed) for of, scenario, seed in sources if of == key}
    due = {each for place in places for each in _planned(runs[place], key)} - have
    quiet = {cell.scenario for place in places for cell in runs[place].study.cells if cell.quiet}
    absent = Counter(scenario for scenario, _ in due if scenario not in quiet)
    rows = tuple(_row(cell, cells[cell]) for cell in sorted(cells, key=lambda each: each.scenario))
    return Table(key, rows, places, tuple(sorted(absent.items())))


def _planned(run: Run, key: Key) -> list[tuple[str, int]]:
    """(scenario, seed) of every episode that the run's manifest plans for a table; none where it holds no plan."""
    manifest, setting = run.manifest, key.setting
    if "plan" not in manifest:
        return []
    try:
        plan, models = manifest["plan"], manifest.get("models", [])
        cards = [model["sampler"] for model in models if model["sha256"] == setting.sha256]
        mine = parse(setting.sampler)
        modes = [
            mode
            for mode in plan["modes"]
            if setting.actor
            or (mode["decode_mode"] == setting.decode_mode and any(c | (mode["settings"] or {}) == mine for c in cards))
        ]
        seeds = sorted({seed for mode in modes for seed in plan["seeds"][: mode["seeds"]]})
        return [(scenario, seed) for scenario, size in plan["scenarios"] if size == key.size for seed in seeds]
    except (KeyError, TypeError, ValueError) as error:
        path = run.directory / "manifest.json"
        raise UserError(f"{path}: plan or models are not as `tripbench run` writes them: {error!r}") from error


def _row(cell: Cell, episodes: Iterable[Episode]) -> Row:
    ordered = sorted(episodes, key=lambda episode: seed_order(episode.seed))
    sound = [episode for episode in ordered if episode.failure is None]
    # An actor is one observation, whatever the seeds.
    observed = sound[:1] if cell.setting.actor else sound
    setting = cell.setting
    looped = [(episode, first_loop(episode)) for episode in observed]
    left = [(episode.trajectory, loop.ended == "recovered") for episode, loop in looped if loop is not None]
    onset: dict[Kind, Estimate] = {}
    length: dict[Kind, Estimate] = {}
    for kind in KINDS:
        firsts = [(episode, first_loop(episode, kind)) for episode in observed]
        of = [(episode, loop) for episode, loop in firsts if loop is not None]
        if of:
            onset[kind] = estimate.median(setting, [(each.trajectory, _own(each, loop)) for each, loop in of])
            length[kind] = estimate.median(setting, [(each.trajectory, loop.length) for each, loop in of])
    known = [(episode.trajectory, episode.success) for episode in observed if episode.success is not None]
    ends = Counter(episode.end or "not recorded" for episode in observed)
    return Row(
        cell=cell,
        episodes=Estimate(len(observed), len({episode.trajectory for episode in observed}), None),
        errors=len(ordered) - len(sound),
        provoked=estimate.rate(setting, [(episode.trajectory, loop is not None) for episode, loop in looped]),
        onset=onset,
        length=length,
        recovered=estimate.rate(setting, left),
        ends=tuple(sorted(ends.items())),
        solved=estimate.rate(setting, known),
    )


def _own(episode: Episode, loop: Loop) -> int:
    """The onset's number among the agent's own calls or automatic attempts: what was primed is not counted."""
    if loop.kind == "calls":
        return sum(not call.primed for call in episode.calls_of(loop.agent) if call.index <= loop.onset)
    attempts = [each for each in episode.attempts_of(loop.agent) if each.index <= loop.onset]
    return sum(not each.primed and each.trigger != "manual" for each in attempts)


def _oracle(run: Run) -> str:
    stamp = run.manifest.get("stamp")
    version = stamp.get("oracle") if isinstance(stamp, dict) else None
    return "" if version is None else str(version)


def _order(table: Table) -> tuple[Any, ...]:
    """Models before actors, lazy and temperature 0 first."""
    key, setting = table.key, table.key.setting
    return (setting.actor != "", setting.decode_mode != "lazy", setting.model, not setting.greedy, key)
