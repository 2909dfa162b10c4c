"""The plugins in the real harness: circuit-breaker and loop-guard in each plane, and how all three are mounted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deepseek_harness.errors import JsonRpcError  # type: ignore[import-untyped]

from tests.harness.driver import Rows, sdk_rows
from tests.harness.guarded import PLANES, SESSION, commands, logging, of, play, preset, row
from tests.harness.server import Answer, Request, reply, say, use


@pytest.mark.parametrize("plane", PLANES)
def test_circuit_breaker_denies_the_sixth_identical_call(tmp_path: Path, plane: str) -> None:
    incidents = tmp_path / "incidents.jsonl"
    config = {"incidentLog": str(incidents), "maxCallsPerAgent": 6, "exempt": []}
    lines = [*["echo same"] * 7, "echo other", "echo more"]
    done = play(tmp_path, commands(*lines), logging("circuit-breaker", plane, **config), "go")
    assert [error for error, _ in done.results()] == [False] * 5 + [True] * 2 + [False, True]
    arm, consulted, *_ = done.events
    assert (arm["ev"], arm["guard"], arm["plane"]) == ("arm", "circuit-breaker", plane)
    assert arm["config"]["incidentLog"] == str(incidents)
    assert (arm["config"]["exempt"], arm["config"]["duplicateLimit"]) == ([], 6)
    assert consulted == {
        "ev": "consulted", "guard": "circuit-breaker", "plane": plane, "agent": SESSION, "call": "c1"
    }  # fmt: skip
    assert of(done.events, "ev", "call", "kind", "count", "limit", "agent", "plane") == [
        ("deny", "c6", "duplicate", 6, 6, SESSION, plane),
        ("incident", "c6", "duplicate", None, None, SESSION, plane),
        ("deny", "c7", "duplicate", 6, 6, SESSION, plane),
        ("deny", "c9", "cap", 6, 6, SESSION, plane),
        ("incident", "c9", "cap", None, None, SESSION, plane),
    ]
    shown = [text for error, text in done.results() if error]
    assert shown == [f"Error: {event['reason']}" for event in done.events if event["ev"] == "deny"]
    written = [json.loads(line) for line in incidents.read_text(encoding="utf-8").splitlines()]
    assert [list(each) for each in written] == [["time", "kind", "tool", "count", "limit", "agent"]] * 2
    assert [(each["kind"], each["tool"], each["count"], each["limit"]) for each in written] == [
        ("duplicate", "bash", 6, 6),
        ("cap", "bash", 6, 6),
    ]
    assert written[0]["agent"] == SESSION


def test_incident_log_that_can_not_be_written_changes_nothing(tmp_path: Path) -> None:
    config = {"incidentLog": str(tmp_path / "missing" / "x"), "duplicateLimit": 2}
    done = play(tmp_path, commands("echo a", "echo a", "echo b"), logging("circuit-breaker", "host", **config), "go")
    assert [error for error, _ in done.results()] == [False, True, False]


@pytest.mark.parametrize("plane", PLANES)
def test_loop_guard_nudges_from_the_fourth_and_denies_the_ninth(tmp_path: Path, plane: str) -> None:
    lines = [*["echo same"] * 10, "echo other", "echo same"]
    done = play(tmp_path, commands(*lines), logging("loop-guard", plane), "go")
    assert [error for error, _ in done.results()] == [False] * 8 + [True] * 2 + [False] * 2
    nudges = [("nudge", f"c{n}", "identical-result", n, 4) for n in (4, 5, 6, 7)]
    denials = [("deny", f"c{n}", "identical-result", 8, 8) for n in (9, 10)]
    assert of(done.events, "ev", "call", "kind", "count", "limit") == nudges + denials
    assert [event["ev"] for event in done.events[:2]] == ["arm", "consulted"]
    assert {(event["guard"], event["plane"]) for event in done.events} == {("loop-guard", plane)}
    notices = done.notices()
    assert [(each["source"], [block["text"] for block in each["content"]]) for each in notices] == [
        ({"kind": "loop-guard", "form": "notice", "summary": f"bash × {event['count']}"}, [event["reason"]])
        for event in done.events
        if event["ev"] == "nudge"
    ]
    asked = json.dumps(done.requests[4].body["messages"][-1])
    assert "The last 4 calls of bash" in asked


def test_a_user_message_resets_the_loop_guard_and_a_notice_does_not(tmp_path: Path) -> None:
    lines = ["echo a", "echo a", "", *["echo a"] * 4]
    config = {"softThreshold": 2, "hardThreshold": 3}
    done = play(tmp_path, commands(*lines), logging("loop-guard", "host", **config), "go", "again")
    assert of(done.events, "ev", "call", "count") == [("nudge", "c2", 2), ("nudge", "c4", 2), ("deny", "c6", 3)]


def test_another_result_starts_the_chain_anew(tmp_path: Path) -> None:
    lines = ["date +%N", "date +%N", "date +%N", "false", "false"]
    config = {"softThreshold": 2, "hardThreshold": 3}
    done = play(tmp_path, commands(*lines), logging("loop-guard", "host", **config), "go")
    assert of(done.events, "ev", "call", "count") == [("nudge", "c5", 2)]


def test_the_full_stack_on_an_identical_loop(tmp_path: Path) -> None:
    def insert(log: str) -> Rows:
        reminder = "@deepseek-ai/dsh-repeat-tool-reminder"
        return [
            row("circuit-breaker", "host", {"eventLog": log}),
            row("loop-guard", "host", {"eventLog": log}),
            {"id": "repeat-tool-reminder", "name": reminder, "config": {}},
        ]

    done = play(tmp_path, commands(*["echo same"] * 14), insert, "go")
    acts = [(guard, ev, int(call[1:])) for guard, ev, call in of(done.events, "guard", "ev", "call")]
    assert [n for guard, ev, n in acts if (guard, ev) == ("circuit-breaker", "deny")] == list(range(6, 15))
    assert [n for guard, ev, n in acts if (guard, ev) == ("loop-guard", "nudge")] == [4, 5, 9, 10, 11, 12]
    assert [n for guard, ev, n in acts if (guard, ev) == ("loop-guard", "deny")] == []
    reminders = [each["source"]["summary"] for each in done.notices() if each["source"]["kind"] != "loop-guard"]
    assert reminders == ["bash × 3", "bash × 5", "bash × 8"]


def test_in_both_planes_the_host_denies_and_each_counts_for_itself(tmp_path: Path) -> None:
    def insert(log: str) -> Rows:
        rows = [row("circuit-breaker", plane, {"eventLog": log, "duplicateLimit": 3}) for plane in PLANES]
        return [rows[0], *preset(rows[1])]

    done = play(tmp_path, commands(*["echo same"] * 4), insert, "go")
    assert of(done.events, "plane", "ev", "call") == [("host", "deny", "c3"), ("host", "deny", "c4")]
    assert [event["plane"] for event in done.events if event["ev"] == "consulted"] == ["host", "agent"]


def test_plugins_are_bundles_that_a_profile_can_add(tmp_path: Path) -> None:
    """The folders are linked, not copied; each one's own patch mounts it."""
    bundles = ["circuit-breaker", "loop-guard", "compaction-breaker"]
    done = play(tmp_path, commands(*["echo same"] * 6), lambda log: [], "go", bundles=bundles)
    assert done.run.stderr == []
    armed = [line["from"] for line in done.logged if line["text"].startswith("armed with")]
    assert sorted(armed) == sorted(bundles)
    assert [error for error, _ in done.results()] == [False] * 5 + [True]
    assert [each["source"]["summary"] for each in done.notices()] == ["bash × 4", "bash × 5"]


@pytest.mark.parametrize("plane", PLANES)
def test_a_subagent_counts_for_itself(tmp_path: Path, plane: str) -> None:
    look = {"command": "echo same", "description": "Look"}

    def script(request: Request) -> Answer:
        step = sum(1 for message in request.body["messages"] if message["role"] == "assistant")
        if request.session != SESSION:
            return reply(use(f"k{step}", "bash", **look)) if step < 3 else reply(say("Done."))
        if step < 2:
            return reply(use(f"c{step}", "bash", **look))
        if step == 2:
            return reply(use("c2", "subagent", description="Look", prompt="Look three times."))
        return reply(say("Done."))

    breaker = logging("circuit-breaker", plane, duplicateLimit=3)
    done = play(tmp_path, script, breaker, "go", profile="sdk", without=[row["id"] for row in sdk_rows()])
    child = next(request.session for request in done.requests if request.session != SESSION)
    assert of(done.events, "ev", "agent", "call", "count") == [("deny", child, "k2", 3)]


WRONG: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "unknown key": (
        "circuit-breaker",
        {"treshold": 3},
        ['unknown key "treshold" (value 3)', "allowed keys: enabled, duplicateLimit"],
    ),
    "wrong value": (
        "circuit-breaker",
        {"duplicateLimit": 1},
        ["duplicateLimit is 1; allowed: an integer >= 2, at most window + 1"],
    ),
    "wrong beside another": (
        "loop-guard",
        {"hardThreshold": 4},
        ["hardThreshold is 4; allowed:", "above softThreshold", "(softThreshold is 4)"],
    ),
    "unknown to the base engine too": (
        "compaction-breaker",
        {"thresholdratio": 0.5},
        ['unknown key "thresholdratio" (value 0.5)', "thresholdRatio"],
    ),
    "wrong for the base engine": (
        "compaction-breaker",
        {"thresholdRatio": 7},
        ["thresholdRatio (7) must be a number in (0, 1]"],
    ),
}


def test_wrong_configuration_in_the_host_plane_is_said_on_stderr(tmp_path: Path) -> None:
    def insert(log: str) -> Rows:
        rows = [row(plugin, "host", {"eventLog": log, **config}) for plugin, config, _ in WRONG.values()]
        return [each | {"id": f"row-{n}"} for n, each in enumerate(rows)]

    done = play(tmp_path, commands("echo a"), insert, "go", without=["compaction-basic"])
    said = "\n".join(done.run.stderr)
    assert f"{len(WRONG)} entries did not activate" in said
    expected = [word for *_, words in WRONG.values() for word in words]
    assert [word for word in expected if word not in said] == []
    assert done.events == []


@pytest.mark.parametrize("case", WRONG)
def test_wrong_configuration_in_the_agent_plane_fails_the_session(tmp_path: Path, case: str) -> None:
    plugin, config, words = WRONG[case]
    with pytest.raises(JsonRpcError) as failed:
        play(tmp_path, commands("echo a"), logging(plugin, "agent", **config), "go", without=["compaction-basic"])
    said = str(failed.value)
    assert [word for word in (f"{plugin}-agent", *words) if word not in said] == []
