"""Prints a digest of each random walk, to be compared between processes."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import get_args

from results.trace import line_of
from scenarios.base import Size
from scenarios.judge import judge
from scenarios.registry import SCENARIOS
from tests.scenarios.calls import walked


def main() -> None:
    for kind in SCENARIOS:
        for number in range(200):
            task = kind(number, get_args(Size)[number % 3])
            trace = walked(task, Random(number))
            labels, success = judge(task, trace)
            told = [task.prompt, str(success), *(line_of(event) for event in (*trace.events, *labels))]
            print(task.name, number, sha256("\n".join(told).encode()).hexdigest())


if __name__ == "__main__":
    main()
