"""The recorder lets agents go on in the order that the runners without the harness have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random

from scenarios.order import Order
from tests.guards.plugins.node import NODE

SCRIPT = Path(__file__).with_name("turns.mjs")


def ordered(moves: list[str]) -> list[str | None]:
    """Who goes on after each move, by `Order`."""
    order, count = Order(), 0
    current = order.next()
    seen = [current]
    for move in moves:
        if current is None:
            break
        if move == "start":
            count += 1
            order.started(f"agent-{count}", current)
        else:
            if move == "end":
                order.done(current)
            current = order.next()
        seen.append(current)
    return seen


def test_the_recorder_s_turns_are_those_of_the_order() -> None:
    random = Random(6)
    scripts = [random.choices(["start", "step", "end"], weights=(3, 5, 2), k=24) for _ in range(400)]
    done = subprocess.run(
        [str(NODE), str(SCRIPT)], input=json.dumps(scripts), capture_output=True, text=True, timeout=120, check=True
    )
    expected = [ordered(moves) for moves in scripts]
    assert json.loads(done.stdout) == expected
    # The scripts reach what is to be compared: several agents at once, and the end of all.
    assert max(len({*seen}) for seen in expected) >= 5
    assert any(seen[-1] is None for seen in expected)
