"""The compaction-breaker in the real harness: which attempts it refuses, what it makes visible, and the ways out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.driver import Rows
from tests.harness.guarded import PLANES, SESSION, Guarded, commands, isolated, logging, of, play, preset, row
from tests.harness.server import Answer, Request, refusal, reply, say, use

WINDOW = 4096
# A step's result of 4,000 characters is about 1,000 tokens, and 2,048 are the threshold.
ENGINE = {"thresholdRatio": 0.5, "retainRatio": 0.1, "headroomTokens": 256, "maxTokens": 400, "compactionRetries": 0}
TRIPPED = "Automatic compaction of this conversation has stopped"


def prints(*sizes: int) -> list[str]:
    """Commands whose results have these many characters, each another."""
    return [f"echo {n}; printf 'x%.0s' $(seq {size})" for n, size in enumerate(sizes)]


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
    assert done.order == ["attempt", "start", "settled"] * 3 + ["attempt", "settled"] * 3
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
    ran, stopped = ["attempt", "start", "settled"], ["attempt", "settled"]
    assert done.order == [*ran, *ran, *stopped, *ran, *stopped, *ran]
    assert summaries(done) == 4
    assert set(announced(done)) == {0}
