"""The Python policies and the plugins' cores are the same guards: decisions, words and configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from guards.errors import UserError
from guards.registry import build, configure
from results.trace import Trace, event_of, header_of
from runners.replay import replay
from tests.guards.plugins.generated import anything, cases, settled
from tests.guards.plugins.node import Cores, Refused
from tests.guards.plugins.test_core import EXPECTED, TRACES

# A bench may ask for more.
EXAMPLES = int(os.environ.get("TRIPBENCH_EQUAL_EXAMPLES", "300"))

many = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def cores() -> Iterator[Cores]:
    with Cores() as running:
        yield running


def decisions(guard: str, config: Mapping[str, Any], text: str) -> Sequence[dict[str, Any]]:
    """What the Python policy decides on a trace file's text, with the words for the model."""
    header, *events = text.rstrip("\n").split("\n")
    trace = Trace(header_of(header), tuple(event_of(line) for line in events))
    return [each.row() | {"reason": each.reason} for each in replay(trace, build(guard, settings=config))]


@pytest.mark.parametrize(("trace", "row"), EXPECTED)
def test_the_same_words_on_the_expected_decisions(cores: Cores, trace: str, row: dict[str, Any]) -> None:
    text = (TRACES / f"{trace}.trace.jsonl").read_text(encoding="utf-8")
    assert cores.replay(row["guard"], row["config"], text) == decisions(row["guard"], row["config"], text)


NESTED = [(f'{{"a": {{"reason": {n}}}, "reason": {n}}}', '""') for n in range(4)]
# A window of four forgets the first of two equal calls.
EVICTED = [(args, '""') for args in "0101200"]
# Cut in the middle of a pair, the first 25 code units are equal where the first halves are.
HALVES = [("{}", f'"\\ud83{half}\\ude0{n}"') for n, half in enumerate("dddeed")]
EXTRA_KEYS = [("{}", f'[{{"type": "text", "text": "a", "n": {n}}}]') for n in range(4)]
OTHER_BLOCKS = [("{}", f'[{{"type": "image", "n": {n}, "1": 0}}]') for n in (0, 0, 1, 1, 1)]
TWO_TEXTS = [("{}", f'[{{"type": "text", "text": "{text}"}}, {{"type": "text", "text": "c"}}]') for text in "aabbb"]
SHORT, LOW = {"softThreshold": 2, "hardThreshold": 0, "resultHashChars": 25}, {"softThreshold": 2, "hardThreshold": 3}


@many
@given(case=cases)
@example(case=("circuit-breaker", {"duplicateLimit": 2}, settled(*NESTED)))
@example(case=("circuit-breaker", {"duplicateLimit": 3, "window": 4}, settled(*EVICTED)))
@example(case=("loop-guard", SHORT, settled(*HALVES)))
@example(case=("loop-guard", LOW, settled(*EXTRA_KEYS)))
@example(case=("loop-guard", LOW, settled(*OTHER_BLOCKS)))
@example(case=("loop-guard", LOW, settled(*TWO_TEXTS)))
def test_the_same_decisions_on_generated_traces(cores: Cores, case: tuple[str, Mapping[str, Any], str]) -> None:
    assert cores.replay(*case) == decisions(*case)


@many
@given(chosen=anything)
@example(chosen=("circuit-breaker", {}))
@example(chosen=("loop-guard", {}))
@example(chosen=("compaction-breaker", {}))
def test_the_same_configuration(cores: Cores, chosen: tuple[str, Mapping[str, Any]]) -> None:
    guard, given = chosen
    try:
        allowed, refused = configure(guard, settings=given).effective(), None
    except UserError as error:
        allowed, refused = {}, str(error)
    if refused is None:
        in_force = {key: value for key, value in cores.configure(guard, given).items() if value is not None}
        assert in_force == allowed
    else:
        with pytest.raises(Refused) as told:
            cores.configure(guard, given)
        if len(given) == 1 and "2.0" not in map(repr, given.values()):
            assert str(told.value) == refused
