"""One episode live in the terminal: `tripbench scenarios try`."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guards.errors import UserError
from guards.stack import Stack, default_stack, load_stack
from results.trace import Compaction, End, Event, Trace
from runners.arms import REMINDER, Arm
from runners.asked import at_least, sampler_settings
from runners.dsh import DshRunner
from runners.gateway.asking import DecodeMode
from runners.gateway.cast import Cast
from runners.gateway.engine_options import EngineOptions
from runners.gateway.house import House
from runners.gateway.opening import calm_threads, open_backend
from runners.harness.assemble import Inconsistent, assemble
from runners.harness.composition import Addresses, Composition, compose
from runners.harness.eventlog import EventLog, EventLogBroken
from runners.harness.layout import Scratch
from runners.harness.plugins import BREAKER
from runners.harness.watch import with_files
from runners.interruptible import interruptible
from runners.native import NativeRunner
from runners.plan import Matrix, Mode, Player, parse_actor, plan
from runners.screen import Screen
from runners.spec import EpisodeSpec, Played
from scenarios.base import Needs, Size

if TYPE_CHECKING:
    from rich.console import Console

    from runners.gateway.asking import Backend

LOOK_SECONDS = 0.1
"""How often the harness' event log is looked at."""


@dataclass(frozen=True)
class Trial:
    """The options of `tripbench scenarios try`. `model` is a name, a path, or `actor:honest|looping`; None elsewhere is
    what was not given."""

    scenario: str
    model: str
    arm: str
    runner: Literal["native", "dsh"]
    size: Size
    seed: int
    priming: int
    horizon: int | None
    stack: Path | None
    decode_mode: DecodeMode
    sampler: tuple[str, ...]
    cache: Path | None


def attempt(trial: Trial, console: Console) -> Trace:
    """Plays the episode and prints it as it goes. Raises UserError for what the user can mend."""
    calm_threads()
    stack = load_stack(trial.stack) if trial.stack is not None else default_stack()
    actor = parse_actor(trial.model)
    # Every name is checked before a model is loaded.
    _spec(trial, stack, Player(trial.model, None, actor, None))
    with interruptible():
        backend = None if actor is not None else _backend(trial)
        try:
            spec = _spec(trial, stack, _player(trial, actor, backend))
            screen = Screen(spec, stack, console)
            screen.begin(trial.runner)
            trace = (_native if trial.runner == "native" else _dsh)(spec, stack, backend, screen).trace
        finally:
            if backend is not None:
                backend.close()
    screen.end(trace)
    return trace


def _spec(trial: Trial, stack: Stack, player: Player) -> EpisodeSpec:
    at_least("--priming", trial.priming, 0)
    if trial.horizon is not None:
        at_least("--horizon", trial.horizon, 1)
    mode = Mode(trial.decode_mode, sampler_settings(trial.sampler) or None)
    matrix = Matrix(
        scenarios=((trial.scenario, trial.size),),
        arms=(trial.arm,),
        seeds=(trial.seed,),
        modes=(mode,),
        priming=trial.priming,
        horizon=trial.horizon,
    )
    found = plan(matrix, stack, player, native=trial.runner == "native")
    if not found:
        what = "--priming" if player.actor != "looping" else "--actor looping"
        raise UserError(f"{what}: {trial.scenario} has no looping course")
    return found[0]


def _backend(trial: Trial) -> Backend:
    # As `tripbench run` has it: equal prompts get equal completions.
    return open_backend(trial.model, EngineOptions(deterministic=True), cache=trial.cache)


def _player(trial: Trial, actor: str | None, backend: Backend | None) -> Player:
    if backend is None:
        return Player(trial.model, None, actor, None)
    return Player(backend.name, None, None, backend.sampler)


def _native(spec: EpisodeSpec, stack: Stack, backend: Backend | None, screen: Screen) -> Played:
    events: list[Event] = []

    def watch(event: Event) -> None:
        if not isinstance(event, End):
            events.append(event)
            screen.show(events)

    return NativeRunner(backend, stack, watch).run(spec)


def _dsh(spec: EpisodeSpec, stack: Stack, backend: Backend | None, screen: Screen) -> Played:
    tail = _Tail()
    scratch = Scratch()
    try:
        with House(Cast(backend)) as house, ThreadPoolExecutor(1) as pool:
            runner = DshRunner(house, stack, scratch, composer=tail.compose)
            playing: Future[Played] = pool.submit(runner.run, spec)
            try:
                while not playing.done():
                    screen.show(tail.events())
                    time.sleep(LOOK_SECONDS)
            except BaseException:
                runner.interrupt()
                raise
            return playing.result()
    finally:
        scratch.remove()


class _Tail:
    """What an episode's event log says so far. It is composed like every episode, and its log's path learnt by that."""

    def __init__(self) -> None:
        self._log: EventLog | None = None
        self._engines: tuple[str, ...] = ("host",)
        self._reminders: tuple[str, ...] = ()
        self._known: list[Event] = []

    def compose(self, arm: Arm, stack: Stack, needs: Needs, window: int, at: Addresses) -> Composition:
        made = compose(arm, stack, needs, window, at)
        self._engines = tuple(sorted({each.plane for each in made.expected if each.guard == BREAKER})) or ("host",)
        self._reminders = tuple(mount.plane for mount in arm.mounts if mount.guard == REMINDER)
        self._log = EventLog(Path(at.event_log))
        return made

    def events(self) -> list[Event]:
        """All events that later lines can not change. What can not be read yet, or is gone, adds none: the trace that
        the runner makes of the whole log is what counts."""
        log = self._log
        try:
            if log is not None and log.update():
                found: list[Any] = assemble(
                    log.lines, engines=self._engines, reminders=self._reminders, stopped_by=None
                )
                self._known = _settled(with_files(found, log.lines))
        except (Inconsistent, EventLogBroken, OSError):
            pass
        return self._known


def _settled(events: list[Event]) -> list[Event]:
    """Without the ends, and without attempts at the very end, which may still be under way."""
    kept = [event for event in events if not isinstance(event, End)]
    while kept and isinstance(kept[-1], Compaction):
        kept.pop()
    return kept
