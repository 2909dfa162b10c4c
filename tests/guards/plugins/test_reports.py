"""The patterns of public reports through the plugins' decision cores, as they are pinned and as Python decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.guards.plugins.equality import decisions
from tests.guards.plugins.generated import GUARDS
from tests.guards.plugins.node import Cores
from tests.guards.plugins.test_core import EXPECTED, TRACES

FOLDER = TRACES / "reports"
PINNED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
ROWS = [
    pytest.param(name, row, id=f"{name}-{row['guard']}")
    for name, entry in PINNED.items()
    for row in entry["rows"]
    if row["guard"] in GUARDS
]
KEYS = ("agent", "action", "kind", "call", "index", "count", "limit")

CONFIGS: dict[str, list[dict[str, Any]]] = {guard: [] for guard in GUARDS}
for parameters in EXPECTED:
    told = parameters.values[1]
    assert isinstance(told, dict)
    if told["config"] not in CONFIGS[told["guard"]]:
        CONFIGS[told["guard"]].append(told["config"])


@pytest.fixture(scope="module")
def cores() -> Iterator[Cores]:
    with Cores() as running:
        yield running


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.trace.jsonl").read_text(encoding="utf-8")


def test_all_patterns_and_configurations_are_there() -> None:
    assert len(ROWS) == 50 * 3
    assert {guard: len(configs) for guard, configs in CONFIGS.items()} == dict(zip(GUARDS, (6, 5, 4), strict=True))


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_pinned_decisions(cores: Cores, name: str, row: dict[str, Any]) -> None:
    found = cores.replay(row["guard"], row["config"], text_of(name))
    assert [{key: each[key] for key in KEYS} for each in found] == row["decisions"]


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("name", PINNED)
def test_the_same_as_in_python(
    cores: Cores, name: str, guard: str, record_property: Callable[[str, object], None]
) -> None:
    """With every configuration of the other corpus."""
    text = text_of(name)
    for config in CONFIGS[guard]:
        assert cores.replay(guard, config, text) == decisions(guard, config, text), config
    record_property("rows", len(CONFIGS[guard]))
