"""The Python policies and the plugins' cores are the same guards: decisions, words and configuration."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from guards.errors import UserError
from guards.registry import configure
from tests.guards.plugins.equality import Difference, compare, decisions, search
from tests.guards.plugins.generated import BYTES, GUARDS, anything, case_of, settled
from tests.guards.plugins.node import Cores, Refused
from tests.guards.plugins.test_core import EXPECTED, TRACES

# `make bench-equality` compares many more.
EXAMPLES = int(os.environ.get("TRIPBENCH_EQUAL_EXAMPLES", "2000"))
SOME = [case_of(random.Random(number).randbytes(BYTES)) for number in range(2000)]


@pytest.fixture(scope="module")
def cores() -> Iterator[Cores]:
    with Cores() as running:
        yield running


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


@pytest.mark.parametrize(
    ("guard", "config", "calls", "decided"),
    [
        ("circuit-breaker", {"duplicateLimit": 2}, NESTED, 0),
        ("circuit-breaker", {"duplicateLimit": 3, "window": 4}, EVICTED, 1),
        ("loop-guard", SHORT, HALVES, 3),
        ("loop-guard", LOW, EXTRA_KEYS, 2),
        ("loop-guard", LOW, OTHER_BLOCKS, 2),
        ("loop-guard", LOW, TWO_TEXTS, 2),
    ],
)
def test_the_same_decisions_on_chosen_traces(
    cores: Cores, guard: str, config: dict[str, Any], calls: Sequence[tuple[str, str]], decided: int
) -> None:
    assert compare(cores, (guard, config, settled(*calls))) == decided


def test_the_same_decisions_on_generated_traces(cores: Cores, record_property: Callable[[str, object], None]) -> None:
    found = search(cores, EXAMPLES, 0)
    assert found.traces.total() >= EXAMPLES
    assert set(found.traces) == set(GUARDS)
    assert min(found.decisions[guard] for guard in GUARDS) > EXAMPLES / 20
    record_property("rows", found.traces.total())


class LateCores(Cores):
    """One cap later than asked for."""

    def replay(self, guard: str, config: Mapping[str, Any], trace: str) -> Sequence[dict[str, Any]]:
        if config.get("maxCallsPerAgent"):
            config = {**config, "maxCallsPerAgent": config["maxCallsPerAgent"] + 1}
        return super().replay(guard, config, trace)


def test_a_difference_is_found_and_its_trace_is_small() -> None:
    with LateCores() as late, pytest.raises(Difference) as found:
        search(late, 400, 0)
    first, *lines = str(found.value).splitlines()
    assert first.startswith("circuit-breaker {")
    limit = json.loads(first.partition(" ")[2])["maxCallsPerAgent"]
    rows = [line for line in lines if line.startswith("  Python: ")]
    assert f'"kind": "cap", "call": "c{limit + 1}"' in rows[0]
    calls = [line for line in lines if '"type": "call"' in line]
    assert len(calls) <= limit + 2


TRIGGERS, OUTCOMES = ("pressure", "overflow", "manual"), ("committed", "failed", "nothing", "refused")
PATTERNS = {
    "numbers beyond a double": r'"args": .*(1e400|1{400})',
    "2^53 + 1": "9007199254740993",
    "negative zero": r"[^.0-9e]-0[^.0-9]",
    "a float that is whole": r"[^.0-9]1\.0[^0-9]",
    "a thousand levels": r"\[{1000}",
    "nine kilobytes": "x{9000}",
    "hundreds of members": '"n79"',
    "lone surrogates": r'"args": .*(?<!\\ud83d)\\ude00',
    "pairs as escapes": r"\\ud83d\\ude00",
    "combining characters": r"e\\u0301",
    "missing arguments": r'"type": "call"[^{}]*"tool": "[^"]*"}',
    "missing content": r'"type": "result", (?!.*"content").*}',
    "parallel calls": r'({"type": "call".*\n){3}',
    "another agent's call before a result": (
        r'"call", "agent": "child".*\n.*"call", "agent": "root".*\n(.*"result", "agent": "root".*\n)?'
        r'.*"result", "agent": "child"'
    ),
    "calls that never settle": r'"type": "call".*\n(.*"type": "(step|call|user)".*\n)+\Z',
    "a result that belongs nowhere": '"type": "result".*"id": "none"',
    "a result that comes again": r'"result", .*"id": "c1".*\n({"type": "result".*\n)*.*"result", .*"id": "c1"',
    "an id that comes again": r'("type": "call".*"id": "c1".*\n)(.*\n)*.*"type": "call".*"id": "c1"',
    "denied elsewhere": '"denied_by": "x@host"',
    "a user's message between": r'"type": "user".*\n(.*\n)*.*"type": "call"',
    "a reset": '"guard": "compaction-breaker", .*"action": "reset"',
    "an agent that has ended and goes on": r'"type": "end", "agent": "root".*\n(.*\n)*.*"agent": "root"',
} | {
    f"{first}/{one}, then {second}/{other}": (
        f'"trigger": "{first}", "outcome": "{one}".*\\n(.*"type": "step".*\\n)*'
        f'.*"trigger": "{second}", "outcome": "{other}"'
    )
    for first, one, second, other in product(TRIGGERS, OUTCOMES, TRIGGERS, OUTCOMES)
}


def test_the_generator_makes_what_may_happen() -> None:
    """What the issue names, each in a trace of the guard that it concerns, in any 2,000 of them."""
    texts = [trace for _, _, trace in SOME]
    assert [name for name, pattern in PATTERNS.items() if not any(re.search(pattern, text) for text in texts)] == []


def test_the_generator_leads_to_every_kind_of_decision() -> None:
    kinds = Counter(row["kind"] for case in SOME[:400] for row in decisions(*case))
    assert set(kinds) == {"duplicate", "cap", "identical-result", "rapid-refill", "latched"}
    assert min(kinds.values()) >= 20


def test_the_generator_sets_every_key_and_keeps_to_what_is_allowed() -> None:
    given: dict[tuple[str, str], set[str]] = {}
    for guard, config, _ in SOME:
        configure(guard, settings=config)
        for key, value in config.items():
            given.setdefault((guard, key), set()).add(json.dumps(value))
    assert len(given) == 9 + 3 + 6
    free = {pair for pair, values in given.items() if len(values) == 1}
    assert free == {("circuit-breaker", "incidentLog"), ("compaction-breaker", "variant")}


@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
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
