"""Our guards in the real harness: what they do, in which plane, and what they write down of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deepseek_harness.errors import JsonRpcError  # type: ignore[import-untyped]

from tests.harness.driver import Rows, sdk_rows
from tests.harness.guarded import SESSION, Guarded, isolated, mount, play, preset, row
from tests.harness.server import Answer, Request, refusal, reply, say, use

PLANES = ("host", "agent")
WINDOW = 4096
# A step's result of 4,000 characters is about 1,000 tokens, and 2,048 are the threshold.
ENGINE = {"thresholdRatio": 0.5, "retainRatio": 0.1, "headroomTokens": 256, "maxTokens": 400, "compactionRetries": 0}
TRIPPED = "Automatic compaction of this conversation has stopped"

Script = Callable[[Request], Answer]


def commands(*lines: str) -> Script:
    """A model that runs one command a step; an empty line ends a turn, and so does the end of the lines."""
    told = iter(lines)
    count = 0

    def script(request: Request) -> Answer:
        nonlocal count
        if request.compacting:
            return reply(say("Logs were read."))
        line = next(told, "")
        if not line:
            return reply(say("Done."))
        count += 1
        return reply(use(f"c{count}", "bash", command=line))

    return script


def prints(*sizes: int) -> list[str]:
    """Commands whose results have these many characters, each another."""
    return [f"echo {n}; printf 'x%.0s' $(seq {size})" for n, size in enumerate(sizes)]


def of(events: Sequence[Mapping[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    """The events, without the arming, by these keys."""
    return [tuple(event.get(key) for key in keys) for event in events if event["ev"] not in ("arm", "consulted")]


def logging(plugin: str, plane: str, **config: Any) -> Callable[[str], Rows]:
    return lambda log: mount(plugin, plane, {"eventLog": log, **config})


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


def refill(folder: Path, insert: Callable[[str], Rows], *sizes: int, **more: Any) -> Guarded:
    without = ["compaction-basic"]
    return play(folder, commands(*prints(*sizes)), insert, "go", window=WINDOW, without=without, **more)


def announced(done: Guarded) -> list[int]:
    """How often the section stands in the system prompt of each step's request."""
    return [json.dumps(each.body["system"]).count(TRIPPED) for each in done.requests if not each.compacting]


def summaries(done: Guarded) -> int:
    return sum(1 for request in done.requests if request.compacting)


def attempts(done: Guarded) -> list[tuple[Any, ...]]:
    began = [event for event in done.events if event["ev"] == "attempt"]
    return [(event["verdict"], event["rapid"], event["trigger"]) for event in began]


FREE, RAPID = ("allow", False, "pressure"), ("allow", True, "pressure")
REFUSED, LATCHED = ("refuse", True, "pressure"), ("refuse", False, "pressure")


@pytest.mark.parametrize("plane", PLANES)
def test_compaction_breaker_refuses_the_fourth_attempt_of_a_rapid_refill(tmp_path: Path, plane: str) -> None:
    done = refill(tmp_path, logging("compaction-breaker", plane, **ENGINE), *[4000] * 7)
    assert attempts(done) == [FREE, RAPID, RAPID, REFUSED, LATCHED, LATCHED]
    # The first of 7 results does not fill the window; a refused attempt asks for no summary.
    assert summaries(done) == 3
    assert len(done.run.events("compaction/start")) == 3
    assert announced(done) == [0] * 6 + [1] * 2
    assert of(done.events, "ev", "kind", "count", "limit", "replaced") == [
        *[("attempt", None, None, None, None), ("settled", None, None, None, True)] * 3,
        ("attempt", None, None, None, None),
        ("refuse", "rapid-refill", 2, 3, None),
        ("settled", None, None, None, False),
        ("announce", "compaction-breaker:tripped", None, None, None),
        *[
            ("attempt", None, None, None, None),
            ("refuse", "latched", 2, 3, None),
            ("settled", None, None, None, False),
        ]
        * 2,
    ]
    arm, consulted, *_ = done.events
    assert {key: arm["config"][key] for key in ENGINE} == ENGINE
    assert consulted == {
        "ev": "consulted", "guard": "compaction-breaker", "plane": plane, "agent": SESSION, "call": None
    }  # fmt: skip
    assert done.run.events("turn/end")[0]["reason"]["kind"] == "completed"
    ours = [line for line in done.logged if line["from"].startswith("compaction-breaker")]
    assert [line["type"] for line in ours if "tripped in session" in line["text"]] == ["warn"]
    assert [line["type"] for line in ours if line["text"].startswith("armed with")] == ["info"]


def test_two_engines_share_one_latch_and_one_section(tmp_path: Path) -> None:
    def insert(log: str) -> Rows:
        engines = [row("compaction-breaker", plane, {"eventLog": log, **ENGINE}) for plane in PLANES]
        return [engines[0], *preset(isolated(engines[1]))]

    done = refill(tmp_path, insert, *[4000] * 6)
    refused = [(event["plane"], event["kind"]) for event in done.events if event["ev"] == "refuse"]
    assert refused == [("host", "rapid-refill"), ("agent", "latched"), ("host", "latched"), ("agent", "latched")]
    assert summaries(done) == 3
    assert announced(done) == [0] * 6 + [1]


def test_a_healthy_gap_clears_the_count(tmp_path: Path) -> None:
    sizes = [4000] * 4 + [10] * 2 + [4000] * 2
    done = refill(tmp_path, logging("compaction-breaker", "host", **ENGINE), *sizes)
    assert attempts(done) == [FREE, RAPID, RAPID, FREE, RAPID]
    assert announced(done) == [0] * 9


def test_without_announcement_the_prompt_stays_as_it_is(tmp_path: Path) -> None:
    config = {"announceInPrompt": False, "maxConsecutiveRapidRefills": 1, **ENGINE}
    done = refill(tmp_path, logging("compaction-breaker", "host", **config), *[4000] * 4)
    assert attempts(done) == [FREE, REFUSED, LATCHED]
    assert announced(done) == [0] * 5


def test_upstream_literal_refuses_without_pressure(tmp_path: Path) -> None:
    sizes = [4000] * 4 + [10]
    ours = refill(tmp_path / "ours", logging("compaction-breaker", "host", **ENGINE), *sizes)
    literal = logging("compaction-breaker", "host", variant="upstream-literal", **ENGINE)
    theirs = refill(tmp_path / "theirs", literal, *sizes)
    assert attempts(ours) == [FREE, RAPID, RAPID]
    assert attempts(theirs)[:4] == [FREE, RAPID, RAPID, REFUSED]
    assert summaries(ours) == summaries(theirs) == 3


def test_an_attempt_that_replaces_and_then_throws_counts(tmp_path: Path) -> None:
    """A result larger than the threshold stays, so every attempt ends above it."""
    sizes = [4000] + [9000] * 4
    ours = refill(tmp_path / "ours", logging("compaction-breaker", "host", **ENGINE), *sizes)
    literal = logging("compaction-breaker", "host", variant="upstream-literal", **ENGINE)
    theirs = refill(tmp_path / "theirs", literal, *sizes)
    thrown = [event for event in ours.events if event["ev"] == "settled" and event["replaced"] and event["error"]]
    assert len(thrown) == 3
    assert attempts(ours) == [FREE, RAPID, RAPID, REFUSED]
    assert attempts(theirs) == [FREE] * 4


def test_overflow_is_an_attempt_too(tmp_path: Path) -> None:
    """The model refuses a request for its length twice, three tool turns apart with the retried one."""
    steps = 0

    def script(request: Request) -> Answer:
        nonlocal steps
        if request.compacting:
            return reply(say("Logs were read."))
        steps += 1
        if steps in (3, 6):
            return refusal(400, "invalid_request_error", "input exceeds the model context window")
        return reply(use(f"c{steps}", "bash", command=f"echo {steps}; printf 'x%.0s' $(seq 900)"))

    config = {"maxConsecutiveRapidRefills": 1, "toolTurnThreshold": 3, **ENGINE}
    engine = logging("compaction-breaker", "host", **config)
    done = play(tmp_path, script, engine, "go", window=20_000, without=["compaction-basic"])
    assert attempts(done) == [("allow", False, "overflow"), ("refuse", True, "overflow")]
    assert summaries(done) == 1
    end = done.run.events("turn/end")[0]["reason"]
    assert end["error"]["code"] == "CONTEXT_WINDOW_EXCEEDED"


@pytest.mark.parametrize("plane", PLANES)
def test_ways_out_of_a_trip(tmp_path: Path, plane: str) -> None:
    """The reset command after the first turn, a compaction by hand after the second."""
    config = {"maxConsecutiveRapidRefills": 2, **ENGINE}

    def insert(log: str) -> Rows:
        engine = row("compaction-breaker", plane, {"eventLog": log, **config})
        compact = {"id": "command-compact", "name": "@deepseek-ai/dsh-command-compact"}
        rows = [engine, compact] if plane == "host" else preset(isolated(engine, compact))
        return [{"id": "commands", "name": "@deepseek-ai/dsh-commands"}, *rows]

    asked = [f"/compaction-breaker {word}" for word in ("status", "reset", "status", "what")]
    done = play(
        tmp_path,
        commands(*prints(*[4000] * 4), "", *prints(4000)),
        insert,
        *("one", "two", "three"),
        window=WINDOW,
        without=["compaction-basic"],
        commands=[asked, ["/compact", "/compaction-breaker status"]],
    )
    about = (
        "rapid refills in a row: {} (limit 2, rapid is fewer than 2 tool turns); "
        "tool turns since the last compaction: {}"
    )
    answers = [line["text"] for line in done.logged if line["from"] == "command"]
    assert answers[:4] == [
        f"tripped; attempts refused: 1; {about.format(1, 1)}",
        f"not tripped; attempts refused: 0; {about.format(0, 0)}",
        f"not tripped; attempts refused: 0; {about.format(0, 0)}",
        "Usage: /compaction-breaker status | reset",
    ]
    assert answers[4].startswith("Compacted ")
    assert answers[5] == answers[2]
    manual = ("allow", False, "manual")
    assert attempts(done) == [FREE, RAPID, REFUSED, RAPID, REFUSED, manual]
    assert of(done.events, "ev", "kind", "trigger", "replaced", "plane")[-5:] == [
        ("refuse", "rapid-refill", None, None, plane),
        ("settled", None, "pressure", False, plane),
        ("attempt", None, "manual", None, plane),
        ("settled", None, "manual", True, plane),
        ("reset", "manual", None, None, plane),
    ]
    assert of(done.events, "ev", "kind").count(("reset", "command")) == 1
    assert summaries(done) == 4
    assert set(announced(done)) == {0}


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


WRONG = {
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
