"""The actors' courses under every guard at its defaults: whom it hurts, and when it stops a loop. No model, no harness.

Each course is played once without a guard, in the native runner. A guard (the default stack, each guard of ours alone,
each detector of another product) first meets that recording: up to its first denial or refusal this is exact, and
nudges move no actor. Where it stops something the course is played again with the guard in it: a denied call is then an
error result to the actor, and a refused compaction leaves its context as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from guards import registry
from guards.policy import Policy
from guards.stack import Stack, StackGuard, default_stack
from guards.stack_policy import StackPolicy
from results.episode import Episode
from results.facts import Asked, Attempt
from results.false_positives import CLASSES, sorts
from results.loops import KINDS, Kind, Loop, first_loop
from results.trace import Guard, Trace
from runners.arms import Arm, Mount
from runners.native import NativeRunner
from runners.replay import Replayed, replay
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import Scenario, Size
from scenarios.registry import scenario

Course = Literal["honest", "looping"]
STACK = "stack"
"""What the default stack is called among the guards."""
RIGHT = ("novel", "needed", "requested", "productive")
"""Classes of calls and attempts of which an honest course is robbed; the others lead nowhere."""


@dataclass(frozen=True)
class Stop:
    """An act of a guard. `index` is the 1-based place of the call among its agent's calls, for a refusal that of the
    attempt, whose `tool` is None; `asked` is how many calls the agent had asked for by then, this one included."""

    guard: str
    action: str
    agent: str
    index: int
    asked: int
    tool: str | None
    judged: str
    why: str
    kind: str | None
    count: int | None
    limit: int | None


@dataclass(frozen=True)
class Honest:
    """An honest course under a guard.

    `asked` calls without the guard. `hurt` is the first denial of a novel, needed or requested call, or refusal of an
    attempt with a unit of the task before it; `nudge` the first nudge of such a call; None = there is none. `stopped`
    and `nudged` count by class, in the course with the guard; `frozen` is how many denials and refusals the recording
    alone gets.
    """

    guard: str
    scenario: str
    expect: str
    size: Size
    seed: int
    asked: int
    hurt: Stop | None
    nudge: Stop | None
    stopped: dict[str, int]
    nudged: dict[str, int]
    frozen: int
    success: bool
    end: str


@dataclass(frozen=True)
class Looping:
    """A looping course under a guard, and one of its loops. `onset` is an index of calls, or of attempts in a loop of
    refills; `trip` is the first denial (refusal) on the looping agent, `nudge` the first nudge, None = there is none.
    """

    guard: str
    scenario: str
    size: Size
    seed: int
    loop: Kind
    onset: int
    horizon: int
    trip: Stop | None
    nudge: Stop | None
    success: bool
    end: str

    @property
    def delay(self) -> int | None:
        """Calls (attempts) from the onset to the trip, negative = before it; None = it never tripped."""
        return None if self.trip is None else self.trip.index - self.onset


@dataclass(frozen=True)
class Audit:
    """All courses under all guards, in the order of `mounted` and of the scenarios."""

    sizes: tuple[Size, ...]
    seeds: tuple[int, ...]
    guards: tuple[str, ...]
    scenarios: tuple[str, ...]
    honest: tuple[Honest, ...]
    looping: tuple[Looping, ...]


def mounted() -> dict[str, Stack]:
    """What is audited, by name: the default stack, each guard of ours and each detector of others alone, all at their
    defaults."""
    alone = {name: Stack(name, (StackGuard(name),)) for name in (*registry.names(), *registry.peer_names())}
    return {STACK: default_stack(), **alone}


def play(made: Scenario, course: Course, stack: Stack | None = None) -> Trace:
    """The labelled trace of an actor's course under the guards of a stack (None: none), up to the scenario's horizon.

    The scenario must have the course.
    """
    stack = stack or Stack("none", ())
    arm = Arm(stack.name, tuple(Mount(guard.name, "host") for guard in stack.guards)) if stack.guards else Arm("off")
    spec = EpisodeSpec(
        name=f"{made.name}.{made.size}.actor-{course}.{stack.name}.s{made.seed}",
        scenario=made,
        arm=arm,
        seed=made.seed,
        model=f"actor:{course}",
        sha256=None,
        actor=course,
        horizon=Horizon(made.needs.horizon, made.needs.horizon_unit),
    )
    return NativeRunner(None, stack).run(spec).trace


def audit(scenarios: Sequence[str], sizes: Sequence[Size], seeds: Sequence[int]) -> Audit:
    """Every course of these scenarios under every guard. Raises UserError for what does not exist."""
    guards = mounted()
    honest: list[Honest] = []
    looping: list[Looping] = []
    for name in scenarios:
        for size in sizes:
            for seed in seeds:
                made = scenario(name, seed, size)
                plain = _Plain(made, "honest")
                honest += (_honest(plain, guard, stack) for guard, stack in guards.items())
                if made.looping() is not None:
                    plain = _Plain(made, "looping")
                    looping += (row for guard, stack in guards.items() for row in _looping(plain, guard, stack))
    order = list(guards)
    honest.sort(key=lambda row: order.index(row.guard))
    looping.sort(key=lambda row: order.index(row.guard))
    return Audit(tuple(sizes), tuple(seeds), tuple(guards), tuple(scenarios), tuple(honest), tuple(looping))


def kinds(stack: Stack) -> tuple[Kind, ...]:
    """The kinds of loop that guards of a stack are there for: refills where one looks at compactions, else calls."""
    of = {_kind(policy) for policy in stack.policies()}
    return tuple(kind for kind in KINDS if kind in of)


def _kind(policy: Policy) -> Kind:
    return "calls" if type(policy).before_compaction is Policy.before_compaction else "refill"


class _Plain:
    """A course without a guard, and what it becomes under one."""

    def __init__(self, made: Scenario, course: Course) -> None:
        self.made = made
        self._course: Course = course
        self.trace = play(made, course)

    @cached_property
    def off(self) -> Episode:
        return Episode(self.trace)

    def under(self, stack: Stack) -> tuple[Episode, list[Stop], int]:
        """The course with the guards, what they did, and how often they stopped something in the recording alone."""
        decided = list(replay(self.trace, StackPolicy(stack.policies())))
        frozen = sum(each.action != "nudge" for each in decided)
        if frozen:
            episode = Episode(play(self.made, self._course, stack))
            return episode, list(_live(episode, self.off)), frozen
        calls = {(call.agent, call.index): call for call in self.off.calls}
        nudges = [_stop(self.off, self._classes, calls[each.agent, each.index], each) for each in decided]
        return self.off, nudges, 0

    @cached_property
    def _classes(self) -> dict[int, str]:
        return sorts(self.off, self.off)


def _honest(plain: _Plain, guard: str, stack: Stack) -> Honest:
    episode, acts, frozen = plain.under(stack)
    stops, told = [each for each in acts if each.action != "nudge"], [each for each in acts if each.action == "nudge"]
    return Honest(
        guard=guard,
        scenario=plain.made.name,
        expect=plain.made.expect,
        size=plain.made.size,
        seed=plain.made.seed,
        asked=len(plain.off.calls),
        hurt=next((each for each in stops if each.judged in RIGHT), None),
        nudge=next((each for each in told if each.judged in RIGHT), None),
        stopped=_counted(stops),
        nudged=_counted(told),
        frozen=frozen,
        success=bool(episode.success),
        end=episode.end or "",
    )


def _looping(plain: _Plain, guard: str, stack: Stack) -> Iterator[Looping]:
    episode, acts, _ = plain.under(stack)
    for kind in kinds(stack):
        loop = first_loop(plain.off, kind)
        if loop is None:
            continue
        yield Looping(
            guard=guard,
            scenario=plain.made.name,
            size=plain.made.size,
            seed=plain.made.seed,
            loop=kind,
            onset=loop.onset,
            horizon=plain.made.needs.horizon,
            trip=_first(acts, loop, "deny" if kind == "calls" else "refuse"),
            nudge=_first(acts, loop, "nudge") if kind == "calls" else None,
            success=bool(episode.success),
            end=episode.end or "",
        )


def _first(acts: Sequence[Stop], loop: Loop, action: str) -> Stop | None:
    return next((each for each in acts if (each.agent, each.action) == (loop.agent, action)), None)


def _live(episode: Episode, off: Episode) -> Iterator[Stop]:
    """What guards did in an episode, in its order."""
    classes = sorts(episode, off)
    for act in episode.acts:
        about, event = act.call or act.attempt, episode.events[act.position]
        assert isinstance(event, Guard)
        assert about is not None, "a guard acts on a call or an attempt"
        yield _stop(episode, classes, about, event)


def _stop(episode: Episode, classes: dict[int, str], about: Asked | Attempt, decided: Guard | Replayed) -> Stop:
    call = about if isinstance(about, Asked) else None
    return Stop(
        guard=decided.guard,
        action=decided.action,
        agent=about.agent,
        index=about.index,
        asked=sum(each.position <= about.position for each in episode.calls_of(about.agent)),
        tool=call.tool if call else None,
        judged=classes[about.position],
        why=call.why if call else "a compaction attempt",
        kind=decided.kind,
        count=decided.count,
        limit=decided.limit,
    )


def _counted(acts: Sequence[Stop]) -> dict[str, int]:
    """Calls and attempts by class, each once however many guards acted on it; classes with none are left out."""
    about = {(each.agent, each.tool is None, each.index): each.judged for each in acts}
    names = dict.fromkeys((*CLASSES, *about.values()))
    return {name: count for name in names if (count := sum(each == name for each in about.values()))}
