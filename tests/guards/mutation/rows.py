"""What mutants are judged by: rows whose outcomes the unchanged guards, of both languages, agree on.

Outcomes are the original's own. That they are right is the matter of other tests: `expected.json` and the patterns of
reports are pinned, and on all rows the two languages are compared.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.guards.plugins.choices import Choices
from tests.guards.plugins.generated import BYTES, GUARDS, Case, case_of
from tests.guards.plugins.values import NAMES, NUMBERS, STRINGS, value

TRACES = Path(__file__).resolve().parents[2] / "traces"
GENERATED = 110
LONGEST = 15_000
REMINDER = "repeat-reminder"


class Given(NamedTuple):
    """A configuration, allowed or not."""

    guard: str
    config: dict[str, Any]


class Text(NamedTuple):
    """Arguments as JSON text, and names to be ignored in them."""

    tool: str
    text: str
    ignored: list[str]


@cache
def replays() -> dict[str, list[Case]]:
    """By guard: guard, configuration and a trace file's text; the shared corpus, the reports, and generated ones."""
    found: dict[str, list[Case]] = {guard: [] for guard in (*GUARDS, REMINDER)}
    expected = json.loads((TRACES / "expected.json").read_text(encoding="utf-8"))
    for name, rows in expected.items():
        text = (TRACES / f"{name}.trace.jsonl").read_text(encoding="utf-8")
        for row in rows:
            found[row["guard"]].append((row["guard"], row["config"], text))
    for name, entry in json.loads((TRACES / "reports" / "expected.json").read_text(encoding="utf-8")).items():
        text = (TRACES / "reports" / f"{name}.trace.jsonl").read_text(encoding="utf-8")
        for row in entry["rows"]:
            found[row["guard"]].append((row["guard"], row["config"], text))
    wanted = dict.fromkeys(GUARDS, GENERATED)
    number = 0
    while any(wanted.values()):
        case = case_of(random.Random(f"mutation {number}").randbytes(BYTES))
        number += 1
        if wanted[case[0]] and len(case[2]) <= LONGEST:
            wanted[case[0]] -= 1
            found[case[0]].append(case)
    return found


_MORE = ("1.5e300", "-2.5e25", "1.5e-9", "1.25e-7", "123456789012345680000", "1234567890123456800000", "12.5")

_VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 3, 4, 200, 201, 202, 2.0, 2.5, True, False, None, "", "no", "ours", "upstream-literal"),
    *([], ["a"], ["a", 1], {}),
)
_KEYS = {
    "circuit-breaker": (
        *("enabled", "duplicateLimit", "window", "maxCallsPerAgent", "exempt", "only", "ignoreArgs", "denyMessage"),
        *("incidentLog", "toString"),
    ),
    "loop-guard": ("softThreshold", "hardThreshold", "resultHashChars", "auto"),
    "compaction-breaker": (
        *("toolTurnThreshold", "maxConsecutiveRapidRefills", "announceInPrompt", "variant", "nonsense"),
        *("thresholdRatio", "retainRatio", "retainTokens", "headroomTokens", "summarizationProvider"),
        *("summarizationModel", "maxTokens", "compactionRetries", "maxOverflowRetries", "modelPolicies", "auto"),
    ),
}
_PAIRS: tuple[Given, ...] = (
    *(Given("circuit-breaker", {"window": 4, "duplicateLimit": limit}) for limit in (4, 5, 6)),
    *(Given("circuit-breaker", {"window": 1, "duplicateLimit": limit}) for limit in (0, 1, 2, 3)),
    *(Given("loop-guard", {"softThreshold": soft, "hardThreshold": 4}) for soft in (0, 3, 4, 5)),
    *(Given("loop-guard", {"softThreshold": soft, "hardThreshold": 1}) for soft in (0, 1)),
    *(Given("loop-guard", {"softThreshold": soft, "hardThreshold": 0}) for soft in (0, 1, 9)),
)
_LONG = Given("circuit-breaker", {"duplicateLimit": "x" * 150})


@cache
def givens() -> list[Given]:
    """Configurations: none, every key with every value, and pairs that bound each other."""
    found = [Given(guard, {}) for guard in GUARDS]
    found += [Given(guard, {key: value}) for guard, keys in _KEYS.items() for key in keys for value in _VALUES]
    # The languages differ in how they show a float in an error's text, and in what an absent value is.
    found = [each for each in found if not any(shown in ("2.0", "None") for shown in map(repr, each.config.values()))]
    return [*found, *_PAIRS, _LONG]


@cache
def texts() -> list[Text]:
    """Values: every form of a number and of a text, every name, and generated ones."""
    members = [f"{name}: {number}" for number, name in enumerate(NAMES)]
    found = [
        Text("bash", text, [])
        for text in (*NUMBERS, *_MORE, *STRINGS, "null", "true", "false", "[]", "{}", "[{}, [], 1]")
    ]
    found += [
        Text("bash", "{" + ", ".join(members) + "}", []),
        Text("bash", "{" + ", ".join(reversed(members)) + "}", ["a", "é", "10"]),
        *(Text("bash", "{" + ", ".join((f'"zz": {number}', *members[:6])) + "}", ["a"]) for number in NUMBERS),
        Text("bash", '{"10": 1, "9": 2, "é": 3, "b": 4, "a": 5}', []),
        Text("bash", '{"a": {"a": 1, "b": 2}, "b": [{"a": 1}]}', ["a"]),
        Text("bash", '[{"a": 1}, 1.5]', ["a"]),
        Text("bash", '"a"', ["a"]),
        Text('"\\\ud83d', '{"a": 1}', []),
        Text("", '{"reason": 1, "x": 0.5}', ["reason"]),
        *(Text("bash", "[" * depth + "1" + "]" * depth, []) for depth in (39, 40, 41, 1000)),
    ]
    for number in range(60):
        choose = Choices(random.Random(f"text {number}").randbytes(BYTES))
        found.append(Text("bash", value(choose, 3), ["a", "reason"]))
    return found
