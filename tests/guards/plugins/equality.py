"""The Python policies beside the plugins' decision cores, on generated traces.

    python -m tests.guards.plugins.equality [--examples N] [--seed S]

prints how many traces were compared and how many decisions were made on them. Exit status: 0 no difference, 1 a
difference, with the smallest trace that was found for it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import HealthCheck, given, seed, settings

from guards.registry import build
from results.trace import Trace, event_of, header_of
from runners.replay import replay
from tests.guards.plugins.generated import GUARDS, Case, cases
from tests.guards.plugins.node import Cores

CHUNK: Final = 5_000
"""Traces of one seed: what was drawn is kept while a search goes on."""


class Difference(AssertionError):
    """A case on which the two builds decide differently; the last one raised is the smallest that was found."""

    def __init__(self, case: Case, python: Sequence[Mapping[str, Any]], core: Sequence[Mapping[str, Any]]) -> None:
        guard, config, trace = case
        rows = [
            f"  {name}: {json.dumps(row)}" for name, told in (("Python", python), ("core.js", core)) for row in told
        ]
        super().__init__("\n".join((f"{guard} {json.dumps(config)}", *rows, trace)))


@dataclass
class Compared:
    """Generated traces that were compared, and decisions on them that were the same, by guard."""

    traces: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)


def decisions(guard: str, config: Mapping[str, Any], text: str) -> Sequence[dict[str, Any]]:
    """What the Python policy decides on a trace file's text, with the words for the model."""
    header, *events = text.rstrip("\n").split("\n")
    trace = Trace(header_of(header), tuple(event_of(line) for line in events))
    return [each.row() | {"reason": each.reason} for each in replay(trace, build(guard, settings=config))]


def compare(cores: Cores, case: Case) -> int:
    """The number of decisions on a case. Raises Difference where they are not the same."""
    python, core = decisions(*case), cores.replay(*case)
    if python != core:
        raise Difference(case, python, core)
    return len(python)


def search(cores: Cores, examples: int, chosen: int) -> Compared:
    """Compares so many generated traces, the same for the same seed. Raises Difference, shrunk, where there is one."""
    found = Compared()

    @seed(chosen)
    @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases)
    def same(case: Case) -> None:
        decided = compare(cores, case)
        found.traces[case[0]] += 1
        found.decisions[case[0]] += decided

    same()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guards.plugins.equality")
    parser.add_argument("--examples", type=int, default=100_000, help="traces to compare (100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first traces (0)")
    options = parser.parse_args()
    done = Compared()
    with Cores() as cores:
        for number, begun in enumerate(range(0, options.examples, CHUNK)):
            chosen = options.seed + number
            try:
                found = search(cores, min(CHUNK, options.examples - begun), chosen)
            except Difference as difference:
                print(f"a difference after {done.traces.total()} traces and more, seed {chosen}:\n{difference}")
                return 1
            done.traces += found.traces
            done.decisions += found.decisions
            print(f"{done.traces.total()} traces, seed {chosen}: no difference", file=sys.stderr)
    for guard in GUARDS:
        print(f"{guard}: {done.traces[guard]} traces, {done.decisions[guard]} decisions, 0 differences")
    print(f"all: {done.traces.total()} traces, {done.decisions.total()} decisions, 0 differences, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
