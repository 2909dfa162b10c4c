"""Names, presets and configuration errors of the guards: one line with key, value and what is allowed."""

import math

import pytest

from guards import registry
from guards.errors import UserError

BREAKER, LOOP, COMPACTION, REMINDER = "circuit-breaker", "loop-guard", "compaction-breaker", "repeat-reminder"
TEXTS = "a list of texts"


def test_names_stand_in_the_order_of_the_stack():
    assert registry.names() == (BREAKER, LOOP, COMPACTION, REMINDER)
    assert [registry.build(name).name for name in registry.names()] == list(registry.names())


def test_presets():
    assert {name: sorted(registry.presets(name)) for name in registry.names()} == {
        BREAKER: [],
        LOOP: [],
        COMPACTION: ["upstream-literal", "zcode"],
        REMINDER: [],
    }


def test_a_preset_is_filled_first_and_settings_lie_over_it():
    given = registry.configure(COMPACTION, "zcode", {"maxConsecutiveRapidRefills": 5}).effective()
    assert (given["toolTurnThreshold"], given["maxConsecutiveRapidRefills"]) == (3, 5)
    assert registry.configure(COMPACTION, "zcode", {"toolTurnThreshold": 4}).effective()["toolTurnThreshold"] == 4


@pytest.mark.parametrize(
    ("name", "preset", "text"),
    [
        ("loopguard", None, "unknown guard 'loopguard'; known: circuit-breaker, loop-guard, compaction-breaker, "),
        (LOOP, "zcode", "loop-guard: unknown preset 'zcode'; known: none"),
        (COMPACTION, "zc", "compaction-breaker: unknown preset 'zc'; known: zcode, upstream-literal"),
    ],
)
def test_unknown_names(name, preset, text):
    with pytest.raises(UserError) as caught:
        registry.build(name, preset)
    assert str(caught.value).startswith(text)


LIMIT = "an integer >= 2, at most window + 1, or 0 = off"
ONE = "an integer >= 1"
SOFT = "an integer >= 0 (0 = no nudges)"
HARD = "an integer >= 0 (0 = no denial), above softThreshold where both are > 0"
THRESHOLDS = "a list, not empty, of distinct integers >= 2"


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        (BREAKER, {"enabled": 1}, "enabled is 1; allowed: true or false"),
        (BREAKER, {"enabled": None}, "enabled is null; allowed: true or false"),
        (BREAKER, {"duplicateLimit": 1}, f"duplicateLimit is 1; allowed: {LIMIT}"),
        (BREAKER, {"duplicateLimit": -1}, f"duplicateLimit is -1; allowed: {LIMIT}"),
        (BREAKER, {"duplicateLimit": 2.5}, f"duplicateLimit is 2.5; allowed: {LIMIT}"),
        (BREAKER, {"duplicateLimit": "6"}, f'duplicateLimit is "6"; allowed: {LIMIT}'),
        (BREAKER, {"duplicateLimit": True}, f"duplicateLimit is true; allowed: {LIMIT}"),
        (BREAKER, {"duplicateLimit": math.inf}, f"duplicateLimit is 1e999; allowed: {LIMIT}"),
        (BREAKER, {"duplicateLimit": 202}, f"duplicateLimit is 202; allowed: {LIMIT} (window is 200)"),
        (BREAKER, {"window": 4}, f"duplicateLimit is 6; allowed: {LIMIT} (window is 4)"),
        (BREAKER, {"window": 0}, f"window is 0; allowed: {ONE}"),
        (BREAKER, {"maxCallsPerAgent": -1}, "maxCallsPerAgent is -1; allowed: an integer >= 0 (0 = off)"),
        (BREAKER, {"exempt": "bash"}, f'exempt is "bash"; allowed: {TEXTS}'),
        (BREAKER, {"only": [1]}, f"only is [1]; allowed: {TEXTS}"),
        (BREAKER, {"ignoreArgs": {"a": 1}}, f'ignoreArgs is {{"a":1}}; allowed: {TEXTS}'),
        (BREAKER, {"denyMessage": None}, "denyMessage is null; allowed: a text"),
        (BREAKER, {"incidentLog": ["a"]}, 'incidentLog is ["a"]; allowed: a text'),
        (
            BREAKER,
            {"duplicatelimit": 6},
            'unknown key "duplicatelimit" (value 6); allowed keys: enabled, duplicateLimit, ',
        ),
        (BREAKER, {"duplicate_limit": 6}, 'unknown key "duplicate_limit" (value 6); allowed keys: enabled, '),
        (LOOP, {"softThreshold": -1}, f"softThreshold is -1; allowed: {SOFT}"),
        (LOOP, {"softThreshold": "4"}, f'softThreshold is "4"; allowed: {SOFT}'),
        (LOOP, {"hardThreshold": -1}, f"hardThreshold is -1; allowed: {HARD}"),
        (LOOP, {"hardThreshold": 4}, f"hardThreshold is 4; allowed: {HARD} (softThreshold is 4)"),
        (LOOP, {"softThreshold": 9}, f"hardThreshold is 8; allowed: {HARD} (softThreshold is 9)"),
        (LOOP, {"resultHashChars": 0}, f"resultHashChars is 0; allowed: {ONE}"),
        (LOOP, {"window": 9}, 'unknown key "window" (value 9); allowed keys: softThreshold, hardThreshold, resultHash'),
        (COMPACTION, {"toolTurnThreshold": 0}, f"toolTurnThreshold is 0; allowed: {ONE}"),
        (COMPACTION, {"maxConsecutiveRapidRefills": 0}, f"maxConsecutiveRapidRefills is 0; allowed: {ONE}"),
        (COMPACTION, {"announceInPrompt": "yes"}, 'announceInPrompt is "yes"; allowed: true or false'),
        (COMPACTION, {"variant": "theirs"}, 'variant is "theirs"; allowed: "ours" or "upstream-literal"'),
        (COMPACTION, {"treshold": 1}, 'unknown key "treshold" (value 1); allowed keys: toolTurnThreshold, '),
        (REMINDER, {"thresholds": []}, f"thresholds is []; allowed: {THRESHOLDS}"),
        (REMINDER, {"thresholds": [1]}, f"thresholds is [1]; allowed: {THRESHOLDS}"),
        (REMINDER, {"thresholds": [3, 3]}, f"thresholds is [3,3]; allowed: {THRESHOLDS}"),
        (REMINDER, {"thresholds": 3}, f"thresholds is 3; allowed: {THRESHOLDS}"),
        (REMINDER, {"thresholds": [3, 4.5]}, f"thresholds is [3,4.5]; allowed: {THRESHOLDS}"),
        (REMINDER, {"include": "a*"}, f'include is "a*"; allowed: {TEXTS} (* stands for any characters)'),
        (REMINDER, {"exclude": [None]}, f"exclude is [null]; allowed: {TEXTS} (* stands for any characters)"),
        (REMINDER, {"argumentsPreviewChars": 0}, f"argumentsPreviewChars is 0; allowed: {ONE}"),
    ],
)
def test_bad_configuration(name, settings, text):
    with pytest.raises(UserError) as caught:
        registry.build(name, settings=settings)
    assert str(caught.value).startswith(f"{name}: {text}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (BREAKER, {"duplicateLimit": 2, "window": 1}),
        (BREAKER, {"duplicateLimit": 201}),
        (BREAKER, {"duplicateLimit": 0, "window": 1}),
        (BREAKER, {"duplicateLimit": 6.0, "window": 5.0}),
        (BREAKER, {"maxCallsPerAgent": 1, "exempt": [], "only": ["a"], "ignoreArgs": []}),
        (LOOP, {"softThreshold": 0, "hardThreshold": 1}),
        (LOOP, {"softThreshold": 9, "hardThreshold": 0}),
        (LOOP, {"softThreshold": 7, "hardThreshold": 8, "resultHashChars": 1}),
        (COMPACTION, {"toolTurnThreshold": 1, "maxConsecutiveRapidRefills": 1, "announceInPrompt": False}),
        (REMINDER, {"thresholds": [2], "include": ["*"], "exclude": [], "argumentsPreviewChars": 1}),
    ],
)
def test_the_edges_of_what_is_allowed(name, settings):
    effective = registry.configure(name, settings=settings).effective()
    assert {key: effective[key] for key in settings} == settings


def test_long_values_are_cut_in_the_error():
    with pytest.raises(UserError) as caught:
        registry.configure(LOOP, settings={"softThreshold": "x" * 10_000})
    assert len(str(caught.value)) < 400


def test_policies_are_fresh():
    first, second = (registry.build(BREAKER, settings={"duplicateLimit": 2}) for _ in range(2))
    assert first.before_call("root", "x", 1) is None
    assert second.before_call("root", "x", 1) is None
    assert first.before_call("root", "x", 1) is not None
