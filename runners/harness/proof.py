"""Armed also means working: each guard of a stack, alone in each plane it will stand in, trips for real, once a run.

An actor plays the looping course in a process of its own, and what the guard decided there must be what its Python
policy decides on the same events. A guard that is someone else's has no policy: of it only what it did is written down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from guards.errors import UserError
from guards.policy import Policy
from guards.stack import Stack, StackGuard
from results.trace import Guard, Result, Trace
from runners.arms import NULL, Arm, Mount
from runners.dsh import DshRunner
from runners.harness.plugins import BREAKER
from runners.replay import replay
from runners.run_directory import failure_of
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import Scenario
from scenarios.registry import scenario

MOST_CALLS = 60
"""A threshold further away than this many identical calls is not played to."""
_TRIPS = {"deny", "refuse", "nudge"}


class NotProven(Exception):
    """A guard is mounted and did not do what it does: a run with it would be a run without it."""


@dataclass(frozen=True)
class Proof:
    """`actions` are [action, index, count] of each decision, `episode` names the trace. `note` says why there is less
    to show than decisions equal to the policy's; empty where there is not. `outside` tells of the ranges of harness
    versions that the plugin declares and this one is outside of, None where there are none."""

    guard: str
    plane: str
    episode: str
    actions: tuple[tuple[str, int, int], ...]
    note: str = ""
    outside: dict[str, Any] | None = None

    def data(self) -> dict[str, Any]:
        return asdict(self)


class Prover:
    """Plays the proofs of a stack."""

    def __init__(self, runner: DshRunner, stack: Stack) -> None:
        self._runner = runner
        self._guards = {guard.name: guard for guard in stack.guards}

    def prove(self, mounts: Iterable[Mount]) -> Iterable[tuple[Proof, Trace]]:
        """One after the other, each (guard, plane) once; the control guard that never acts has nothing to show.

        Raises NotProven naming guard, plane and cause.
        """
        for mount in dict.fromkeys(mounts):
            if mount.guard != NULL:
                yield self._one(mount)

    def _one(self, mount: Mount) -> tuple[Proof, Trace]:
        guard = self._guards.get(mount.guard, StackGuard(mount.guard))
        made = scenario("refill-oversized" if mount.guard == BREAKER else "search-mirage")
        spec = EpisodeSpec(
            name=f"proof.{mount.guard}-{mount.plane}",
            scenario=made,
            arm=Arm(f"only:{mount}", (mount,)),
            seed=0,
            model="actor:looping",
            sha256=None,
            actor="looping",
            horizon=self._horizon(made, guard),
        )
        trace = self._runner.run(spec).trace
        strange = next((each for each in self._runner.outside() if each.folder == guard.path), None)
        if (cause := failure_of(trace)) is not None:
            raise NotProven(f"{mount} could not be proven to work: {cause}")
        proof = self._judge(mount, guard, trace)
        if strange is not None:
            note = f"{strange}; {proof.note}".rstrip("; ")
            proof = replace(proof, note=note, outside=strange.data())
        return proof, trace

    def _horizon(self, made: Scenario, guard: StackGuard) -> Horizon:
        needs = made.needs
        if needs.horizon_unit == "compaction attempts":
            return Horizon(needs.horizon, needs.horizon_unit)
        return Horizon(min(MOST_CALLS, _reach(guard) + 1), needs.horizon_unit)

    def _judge(self, mount: Mount, guard: StackGuard, trace: Trace) -> Proof:
        did = tuple(_actions(mount, trace))
        policy = _policy(guard)
        if policy is None:
            stopped = sum(isinstance(event, Result) and event.error for event in trace.events)
            note = f"no Python policy to compare with; {stopped} of the calls ended in an error"
            return Proof(mount.guard, mount.plane, trace.header.episode, did, note)
        should = tuple((each.action, each.index, each.count) for each in replay(trace, policy))
        if did != should:
            raise NotProven(f"{mount} decided {_short(did)}, and its rules say {_short(should)} on the same events")
        note = "" if any(action in _TRIPS for action, _, _ in did) else f"its thresholds are beyond {MOST_CALLS} calls"
        return Proof(mount.guard, mount.plane, trace.header.episode, did, note)


def _policy(guard: StackGuard) -> Policy | None:
    """None where there is none: someone else's plugin, or a variant that exists in the harness alone."""
    try:
        return Stack("proof", (guard,)).policies()[0]
    except UserError:
        return None


def _reach(guard: StackGuard) -> int:
    """At which identical call the guard stops for the first time, or acts at all; `MOST_CALLS` where not before."""
    config = guard.effective()
    limits = [config.get("duplicateLimit"), config.get("hardThreshold"), config.get("maxCallsPerAgent")]
    near = [int(limit) for limit in limits if limit]
    return min(near) + 2 if near else max(config.get("thresholds") or [MOST_CALLS])


def _actions(mount: Mount, trace: Trace) -> Iterable[tuple[str, int, int]]:
    """What the guard did in the trace, by the place of the call among the calls, or of the attempt among them."""
    places: dict[str, int] = {}
    attempts = 0
    for event in trace.events:
        kind = type(event).__name__
        if kind == "Call":
            places[event.id] = len(places) + 1  # type: ignore[attr-defined]
        elif kind == "Compaction":
            attempts += 1
        elif isinstance(event, Guard) and event.guard == mount.guard and event.action in _TRIPS:
            # A refusal stands before the attempt that it refuses.
            place = attempts + 1 if event.action == "refuse" else places.get(event.call or "", 0)
            yield event.action, place, event.count or 0


def _short(actions: tuple[tuple[str, int, int], ...]) -> str:
    return ", ".join(f"{action} at {index} ({count})" for action, index, count in actions[:8]) or "nothing"
