"""`tripbench scenarios list|show|try|audit`."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from guards.stack import default_stack
from results.trace import Call, Event, Label, Trace
from runners.cli import run
from runners.native import NativeRunner
from runners.screen import plain
from runners.trying import Trial, attempt
from scenarios.registry import names, scenario
from tests.runners.dsh_stage import spec

CLASSES = ("novel", "needed", "requested", "sterile")


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["scenarios", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def tried(name: str, model: str, **options: Any) -> tuple[list[str], Trace]:
    """The lines of a trial, and its trace."""
    given: dict[str, Any] = {
        "arm": "off",
        "runner": "native",
        "size": "small",
        "seed": 0,
        "priming": 0,
        "horizon": None,
        "stack": None,
        "decode_mode": "lazy",
        "sampler": (),
        "cache": None,
    }
    text = StringIO()
    trace = attempt(Trial(scenario=name, model=model, **(given | options)), Console(file=text, width=150))
    return text.getvalue().splitlines(), trace


def labels(lines: list[str]) -> list[tuple[str, str]]:
    """The classes and reasons that were printed."""
    found = [re.fullmatch(rf" +(?:\d+ )?({'|'.join(CLASSES)}): (.*)", line) for line in lines]
    return [(match[1], match[2]) for match in found if match is not None]


def judged(trace: Trace) -> list[tuple[str, str]]:
    return [(event.judged, plain(event.why)) for event in trace.events if isinstance(event, Label)]


def test_list_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(shown(capsys, "list", "--json"))
    assert [row["name"] for row in rows] == list(names())
    for row in rows:
        made = scenario(row["name"])
        assert (row["expect"], row["summary"]) == (made.expect, made.summary)
        assert row["looping"] == (made.expect == "trip")
        assert list(row["sizes"]) == ["small", "default", "large"]
        assert all(size["honest_calls"] > 0 for size in row["sizes"].values())
        assert row["sizes"]["default"]["horizon"] == made.needs.horizon
    assert {row["name"] for row in rows if row["harness_tools"]} >= {"poll-file", "reread-after-edit"}


def test_list_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "list").splitlines()
    assert [line.split()[0] for line in lines[: len(names())]] == list(names())
    (line,) = (line for line in lines if line.startswith("poll-queued "))
    assert line.split(maxsplit=3)[1:] == ["quiet", "11/17/45", scenario("poll-queued").summary]
    (line,) = (line for line in lines if line.startswith("poll-file "))
    assert line.split()[1:3] == ["quiet", "B"]


@pytest.mark.parametrize("name", names())
def test_show_as_data(capsys: pytest.CaptureFixture[str], name: str) -> None:
    row = json.loads(shown(capsys, "show", name, "--json", "--size", "small", "--seed", "3"))
    made = scenario(name, 3, "small")
    assert (row["name"], row["size"], row["seed"], row["prompt"]) == (name, "small", 3, made.prompt)
    assert row["files"] == dict(made.files)
    own = [tool for tool in row["tools"] if not tool["harness"]]
    assert [(tool["name"], tool["parameters"]) for tool in own] == [(tool.name, tool.parameters) for tool in made.tools]
    assert [tool["name"] for tool in row["tools"]] == [tool.name for tool in made.native_tools]
    assert (row["honest"]["success"], row["honest"]["end"], row["honest"]["loops"]) == (True, "completed", [])
    assert {call["class"] for call in row["honest"]["calls"]} <= set(CLASSES)
    assert (row["looping"] is None) == (made.expect == "quiet")
    if row["looping"] is not None:
        assert row["looping"]["success"] is False
        onset = row["looping"]["loops"][0]["onset"]
        agent = row["looping"]["loops"][0]["agent"]
        calls = [call for call in row["looping"]["calls"] if call["agent"] == agent]
        assert [call["class"] for call in calls[: onset + 1]] == ["novel"] * (onset - 1) + ["sterile"] * 2


def test_show_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "show", "search-mirage")
    made = scenario("search-mirage")
    assert made.prompt in text
    assert "\nHonest course: 3 calls, ends as completed, solved\n" in text
    assert "\nLooping course: 24 calls, ends as horizon, not solved\n  loop from call 2 on (root, 23 long)\n" in text
    assert "\n      source (string): Title of the page" in text
    assert "\n      novel (unit): the right answer\n" in text
    assert text.endswith("      ... 20 more\n")
    files = shown(capsys, "show", "reread-after-edit")
    assert "the harness's tools bash, read, edit" in files
    assert "\nFile settings.ini: " in files
    assert "\n  bash (the harness has its own): " in files
    refill = shown(capsys, "show", "refill-oversized")
    assert "10 compaction attempts" in refill
    assert "  loop from compaction attempt 1 on (root, 10 long)" in refill


def test_try_an_honest_course() -> None:
    lines, trace = tried("poll-queued", "actor:honest")
    made = scenario("poll-queued", 0, "small")
    assert lines[0] == "poll-queued (quiet), small, seed 0: actor:honest, arm off, native, at most 24 tool turns"
    assert lines[1] == f"user: {made.prompt}"
    assert labels(lines) == judged(trace)
    assert "     repeat-reminder would nudge (repeat, count 3, limit 3)" in lines
    assert "     circuit-breaker would deny (duplicate, count 6, limit 6)" in lines
    assert lines[-1] == "end: completed, solved; 6 novel, 5 needed"


def test_try_a_loop_that_is_stopped() -> None:
    lines, trace = tried("search-mirage", "actor:looping", arm="stack", horizon=7)
    assert labels(lines) == judged(trace)
    assert lines.count("     denied by circuit-breaker (duplicate, count 6, limit 6)") == 2
    assert "     nudged by repeat-reminder (repeat, count 3, limit 3)" in lines
    assert not [line for line in lines if re.search(r" would (nudge|deny|refuse) ", line)]
    # A denial stands between the call and what it would have been worth.
    at = lines.index("     denied by circuit-breaker (duplicate, count 6, limit 6)")
    assert lines[at - 1].startswith("   6 web_search {")
    assert lines[at + 1].startswith("     sterile: ")
    assert lines[at + 2].startswith("     -> error: This call was not run")
    assert lines[-2:] == [
        "end: horizon, not solved; 1 novel, 6 sterile; 2 denied",
        "     loop: from call 2, 6 long, horizon",
    ]


def test_try_refills_and_one_guard() -> None:
    lines, trace = tried("refill-oversized", "actor:looping", arm="only:compaction-breaker")
    assert labels(lines) == judged(trace)
    assert "     refused by compaction-breaker (rapid-refill, count 2, limit 3)" in lines
    assert [line for line in lines if re.fullmatch(r" +compaction \(pressure\): committed, \d+ to \d+ tokens", line)]
    assert "     circuit-breaker would deny (duplicate, count 6, limit 6)" in lines
    assert not [line for line in lines if "compaction-breaker would" in line]


def test_try_subagents_and_priming() -> None:
    lines, trace = tried("parallel-agents", "actor:honest")
    assert labels(lines) == judged(trace)
    assert [line.strip() for line in lines if "starts agent" in line] == [
        "starts agent-1: Inspector A",
        "starts agent-2: Inspector B",
    ]
    assert [line for line in lines if line.startswith("agent-2    1 read_gauge ")]
    lines, trace = tried("search-mirage", "actor:honest", priming=2)
    assert labels(lines) == judged(trace)
    assert len([line for line in lines if line.endswith(" (primed)")]) == 2


def test_each_event_is_told_as_it_happens() -> None:
    told: list[Event] = []
    counts: list[int] = []
    runner = NativeRunner(None, default_stack(), lambda event: (told.append(event), counts.append(len(told)))[0])
    trace = runner.run(spec("search-mirage", "both", "looping", horizon=7)).trace
    happened = [event for event in trace.events if not isinstance(event, Label)]
    assert [event.type for event in told] == [event.type for event in happened]
    assert told[:-1] == happened[:-1]
    assert counts == list(range(1, len(happened) + 1))


def test_try_in_the_harness() -> None:
    lines, trace = tried("search-mirage", "actor:looping", arm="host", runner="dsh", horizon=7)
    assert labels(lines) == judged(trace)
    assert len(judged(trace)) == 7
    assert lines.count("     denied by circuit-breaker@host (duplicate, count 6, limit 6)") == 2
    assert len([line for line in lines if re.match(r" +\d+ mcp__tools__web_search ", line)]) == 7
    assert lines[-2] == "end: horizon, not solved; 1 novel, 6 sterile; 2 denied"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nope"], "no scenario 'nope': give one of search-mirage, "),
        (["show", "search-mirage", "--seed", "-1"], "seed -1 is negative"),
        (["try", "search-mirage"], "say who plays: --actor honest, --actor looping or --model NAME"),
        (["try", "search-mirage", "--actor", "honest", "--model", "x"], "say who plays"),
        (["try", "poll-queued", "--actor", "looping"], "--actor looping: poll-queued has no looping course"),
        (["try", "poll-queued", "--actor", "honest", "--priming", "2"], "--priming: poll-queued has no looping course"),
        (["try", "poll-queued", "--actor", "honest", "--priming", "-1"], "--priming -1: give 0 or more"),
        (["try", "poll-queued", "--actor", "honest", "--horizon", "0"], "--horizon 0: give 1 or more"),
        (["try", "poll-queued", "--actor", "honest", "--arm", "host"], "'host' is no arm of --runner native"),
        (["try", "poll-queued", "--actor", "honest", "--arm", "stack", "--runner", "dsh"], "'stack' is no arm"),
        (["try", "poll-queued", "--actor", "honest", "--sampler", "warmth=1"], "--sampler warmth=1: give KEY=VALUE"),
        (["try", "poll-queued", "--model", "nope"], "unknown model 'nope'"),
        (["try", "nope", "--actor", "honest"], "no scenario 'nope'"),
        (["audit", "--seeds", "x"], "--seeds x: give how many"),
        (["audit", "--size", "huge"], "huge"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert run(["scenarios", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tripbench: error: ")
    assert says in err
    assert err.count("\n") == 1


def test_audit_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    read = json.loads(shown(capsys, "audit", "--json", "--size", "small"))
    assert read["scenarios"] == list(names())
    assert (read["sizes"], read["seeds"]) == (["small"], [0])
    assert {row["n"] for row in read["guards"]} == {len(names())}


def test_lines_are_for_a_terminal_and_nothing_acts_on_it() -> None:
    assert plain("a\x1b[2Jb\n\tc\x00\ud800é") == "a\\x1b[2Jb c\\x00\\ud800é"
    assert plain("x" * 10_000_000) == "x" * 107 + "..."
    call = Call(id="c", step=1, tool="t\x07", args={"q": "\x1b[31m"})
    from runners.screen import called

    assert called(call).isprintable()
