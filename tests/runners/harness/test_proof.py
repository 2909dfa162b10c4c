"""Armed also means working: what a guard decides in the real harness is held against its rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guards.stack import Stack, StackGuard
from runners.arms import Mount
from runners.harness.composition import Composition, compose
from runners.harness.proof import NotProven, Proof, Prover
from tests.runners.dsh_stage import staged

STACK = Stack("s", (StackGuard("circuit-breaker", config={"duplicateLimit": 3}),))
HERE = Mount("circuit-breaker", "host")


def altered(**values: Any) -> Callable[..., Composition]:
    """Compositions in which the guard gets other settings than the stack says."""

    def composer(*given: Any) -> Composition:
        made = compose(*given)
        for row in made.rows:
            for inner in row.get("insert", ()):
                if inner["id"] == "circuit-breaker-host":
                    inner["config"].update(values)
        return made

    return composer


def test_a_guard_that_decides_by_its_rules_is_proven_once_a_plane() -> None:
    with staged(STACK) as (runner, _, stack):
        proofs = list(Prover(runner, stack).prove([HERE, Mount("null", "host"), Mount("null", "agent"), HERE]))
    ((proof, trace),) = proofs
    assert trace.header.episode == proof.episode == "proof.circuit-breaker-host"
    # Played to the second denial, and one call on.
    denials = tuple(("deny", index, 3) for index in range(3, trace.header.meta["horizon"] + 1))
    assert proof == Proof("circuit-breaker", "host", proof.episode, denials)
    assert len(denials) >= 2
    assert proof.data()["actions"] == denials


def test_a_guard_that_decides_otherwise_is_not() -> None:
    with (
        staged(STACK, composer=altered(duplicateLimit=5)) as (runner, _, stack),
        pytest.raises(NotProven, match=r"circuit-breaker@host decided deny at 5 .*, and its rules say deny at 3 \(3\)"),
    ):
        list(Prover(runner, stack).prove([HERE]))


def test_a_guard_that_does_not_stand_there_is_not() -> None:
    with (
        staged(STACK, composer=altered(duplicateLimt=5)) as (runner, _, stack),
        pytest.raises(
            NotProven, match=r'circuit-breaker@host could not be proven to work: .*unknown key "duplicateLimt"'
        ),
    ):
        list(Prover(runner, stack).prove([HERE]))
