"""Prints a digest of each random walk, to be compared between processes."""

from __future__ import annotations

import sys
from hashlib import sha256
from random import Random
from typing import get_args

from results.trace import line_of
from scenarios.base import Size
from scenarios.judge import judge
from scenarios.registry import names, scenario
from tests.scenarios.calls import walked

TASKS = 5
"""Seeds of each size, whatever the number of walks."""


def main(count: int) -> None:
    for name in names():
        # Few tasks and many walks: what a task is made of is computed once.
        tasks = [scenario(name, seed, size) for seed in range(TASKS) for size in get_args(Size)]
        for number in range(count):
            task = tasks[number * len(tasks) // count]
            trace = walked(task, Random(number))
            labels, success = judge(task, trace)
            told = [task.prompt, str(success), *(line_of(event) for event in (*trace.events, *labels))]
            print(task.name, number, sha256("\n".join(told).encode()).hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]))
