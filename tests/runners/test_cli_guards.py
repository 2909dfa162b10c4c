"""`tripbench guards list|show`: all guards, ours and others', with keys that are really those of the configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from guards import registry
from results.trace_file import read_trace
from runners.cli import run
from runners.replay import replay

ALL = (*registry.names(), *registry.peer_names())
TRACES = Path(__file__).parents[1] / "traces"
CORPUS = sorted(TRACES.rglob("*.trace.jsonl"))


def shown(capsys, *arguments):
    assert run(["guards", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_list_as_data(capsys):
    rows = json.loads(shown(capsys, "list", "--json"))
    assert [row["name"] for row in rows if "skipped" not in row] == list(ALL)
    assert {row["name"]: row["skipped"] for row in rows if "skipped" in row} == registry.skipped()
    assert {row["name"] for row in rows if row.get("peer")} == set(registry.peer_names())


def test_list_as_text(capsys):
    lines = shown(capsys, "list").splitlines()
    assert [line.split()[0] for line in lines[: len(ALL)]] == list(ALL)
    assert lines[0].endswith("denies a call that was made too often, and every call after too many")
    assert lines[len(ALL) : len(ALL) + 2] == ["", "Not replayed:"]
    assert [line.split()[0] for line in lines[len(ALL) + 2 :]] == list(registry.skipped())


@pytest.mark.parametrize("name", ALL)
def test_show_as_data_holds_the_configuration(capsys, name):
    row = json.loads(shown(capsys, "show", name, "--json"))
    assert set(row) == {"name", "peer", "summary", "source", "about", "presets", "keys"}
    assert row["name"] == name
    assert row["summary"]
    assert row["source"]
    assert row["presets"] == registry.presets(name)
    given = {each["key"]: each["default"] for each in row["keys"] if each["default"] is not None}
    assert given == registry.configure(name).effective()
    assert all(each["allowed"] for each in row["keys"])
    assert row == next(each for each in json.loads(shown(capsys, "list", "--json")) if each["name"] == name)


@pytest.mark.parametrize("name", ALL)
def test_show_as_text(capsys, name):
    about = registry.describe(name)
    text = shown(capsys, "show", name)
    assert text.startswith(about.about)
    for key in about.keys:
        assert f"\n  {key.name} = " in text
        assert f"\n      {key.allowed}\n" in text
    for preset in about.presets:
        assert f"\n  {preset}: " in text


def test_what_is_shown_of_our_own(capsys):
    text = shown(capsys, "show", "compaction-breaker")
    assert "\nFrom: ours, after dsh-zcode-breaker\n" in text
    assert "\n  zcode: toolTurnThreshold=3\n" in text
    assert "\n  toolTurnThreshold = 2\n      an integer >= 1\n" in text
    assert "\n  thresholdRatio = (not set)\n" in text
    assert "\nPresets: none\nKeys:\n  enabled = true\n" in shown(capsys, "show", "circuit-breaker")
    assert "\nPresets: none\nKeys: none\n" in shown(capsys, "show", "peer:crewai")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gemini-cli", "unknown guard 'gemini-cli'; known: circuit-breaker, loop-guard, "),
        ("peer:goose", "peer:goose is not replayed: off by default"),
    ],
)
def test_unknown_names_are_one_line_and_2(capsys, name, said):
    assert run(["guards", "show", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tripbench: error: {said}")
    assert err.count("\n") == 1


def test_a_peer_is_replayed_like_any_guard(capsys, tmp_path):
    """Alone, with settings and presets, and in a stack beside ours."""
    trace = str(TRACES / "identical-search-30.trace.jsonl")

    def first(*arguments):
        assert run(["replay", trace, "--json", *arguments]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[0])

    assert first("--guard", "peer:gemini-cli") == {
        "episode": "identical-search-30",
        "agent": "root",
        "guard": "peer:gemini-cli",
        "action": "deny",
        "kind": "cycle-1",
        "call": "c5",
        "index": 5,
        "count": 5,
        "limit": 5,
    }
    assert first("--guard", "peer:gemini-cli", "--set", "threshold=3")["index"] == 3
    assert first("--guard", "peer:openclaw", "--preset", "on")["index"] == 11
    stack = tmp_path / "stack.toml"
    stack.write_text('[[guard]]\nname = "peer:cline"\n[[guard]]\nname = "circuit-breaker"\n', encoding="utf-8")
    assert first("--stack", str(stack))["guard"] == "peer:cline"


@pytest.mark.parametrize("runner", ["dsh", "native"])
@pytest.mark.parametrize("arms", ["off", "only:peer:cline@host", "host"])
def test_a_stack_with_a_peer_is_replayed_and_never_run(capsys, tmp_path, arms, runner):
    stack = tmp_path / "stack.toml"
    stack.write_text('[[guard]]\nname = "peer:cline"\n[[guard]]\nname = "circuit-breaker"\n', encoding="utf-8")
    arms = arms if runner == "dsh" else "off" if arms == "off" else "stack"
    plan = ("--scenario", "search-mirage", "--model", "actor:honest", "--runner", runner, "--arms", arms)
    assert run(["run", *plan, "--stack", str(stack), "--out", str(tmp_path / "run")]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "tripbench: error: stack stack: peer:cline is for replay alone, no harness has it; take it out of the stack, "
        "or give the stack to: tripbench replay TRACE... --stack FILE\n",
    )
    assert not (tmp_path / "run").exists()
    trace = str(TRACES / "identical-search-30.trace.jsonl")
    assert run(["replay", trace, "--stack", str(stack)]) == 0


@pytest.mark.parametrize("name", registry.peer_names())
def test_every_peer_is_replayed_by_name_at_its_published_defaults(capsys, name):
    """Over the whole corpus and by the command; what is shown says version and what is left out."""
    traces = sorted(str(path) for path in TRACES.glob("*.trace.jsonl"))
    assert run(["replay", *traces, "--guard", name, "--json"]) == 0
    decided = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["guard"] for row in decided} <= {name}
    given = [f"--set={key}={json.dumps(value)}" for key, value in registry.configure(name).effective().items()]
    assert run(["replay", *traces, "--guard", name, "--json", *given]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == decided
    about = registry.describe(name)
    assert re.search(r"at [0-9a-f]{8,10}\b|autumn 2026", about.source)
    assert re.search(r"^Rule", about.about, re.MULTILINE)
    assert re.search(r"^Left out: \w", about.about, re.MULTILINE)


def test_peers_decide_on_the_corpus():
    """All but those that are off by default, or that nothing of the corpus provokes, decide something somewhere."""
    quiet = set()
    for name in registry.peer_names():
        found = (each for path in CORPUS for each in replay(read_trace(path), registry.build(name)))
        if next(found, None) is None:
            quiet.add(name)
    assert quiet == {"peer:openclaw"}
