"""What the real runtime says of a patch before anything is mounted."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guards.stack import Stack, StackGuard
from runners.arms import parse_arm
from runners.harness.attest import Failure
from runners.harness.composition import PROFILE, Addresses, Composition, compose
from runners.harness.layout import Layout, Scratch
from runners.harness.plugins import install
from runners.harness.preflight import preflight
from runners.harness.runtime import runtime_command
from scenarios.base import Needs

TRAP = "dsh: patch: not found, skipping"
STACK = Stack("s", (StackGuard("circuit-breaker", config={"denyMessage": f"no\n{TRAP}\npatch: not found, skipping"}),))


@pytest.fixture
def layout() -> Iterator[Layout]:
    with tempfile.TemporaryDirectory(prefix="pre-") as folder:
        yield Scratch(Path(folder)).layout("e")


def composed(more: Sequence[dict[str, Any]] = ()) -> Composition:
    at = Addresses("/nowhere.jsonl", "http://127.0.0.1:9/control", "http://127.0.0.1:9/mcp")
    made = compose(parse_arm("both", STACK), STACK, Needs(), 8192, at)
    return replace(made, rows=(*made.rows, *more))


def failures(layout: Layout, made: Composition, command: Sequence[str] | None = None) -> list[Failure]:
    for name, folder in made.packages.items():
        install(folder, name, layout.packages(PROFILE))
    layout.patch.write_text(json.dumps(list(made.rows)))
    env = {"HOME": str(layout.home), "DSH_HOME": str(layout.home), "TMPDIR": str(layout.scratch)}
    env["DSH_TELEMETRY_MODE"] = "DISABLED"
    return preflight(made, layout.patch, layout.workspace, env, command or runtime_command())


def test_a_patch_that_takes(layout: Layout) -> None:
    """Texts in the config that read like the runtime's complaints are none."""
    assert failures(layout, composed()) == []


def test_patches_that_the_runtime_skips(layout: Layout) -> None:
    wrong = [
        {"id": "circuit-breaker-host", "name": "another", "config": {}},
        {"id": "nowhere", "disabled": True},
        {"disabled": True},
        {"id": "somewhere", "insert": []},
    ]
    found = failures(layout, composed(wrong))
    assert [(each.guard, each.plane) for each in found] == [("circuit-breaker", "host")] + [("scaffold", None)] * 3
    said = [each.cause for each in found]
    assert "name mismatch" in said[0]
    assert 'entry "nowhere" not found' in said[1]
    assert "id is required" in said[2]
    assert 'entry "somewhere" not found' in said[3]


def test_a_patch_that_is_none(layout: Layout) -> None:
    (found,) = failures(layout, replace(composed(), rows=({"insert": "x"},)))
    assert (found.guard, found.plane) == ("scaffold", None)
    assert found.cause.startswith("--dump-config: exit ")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('first'); sys.exit('no luck')", "--dump-config: exit 1: no luck"),
        ("print('last words'); raise SystemExit(3)", "--dump-config: exit 3: last words"),
        ("raise SystemExit(4)", "--dump-config: exit 4: no message"),
    ],
)
def test_a_runtime_that_ends_otherwise(layout: Layout, code: str, says: str) -> None:
    assert failures(layout, composed(), (sys.executable, "-c", code)) == [Failure("scaffold", None, says)]
