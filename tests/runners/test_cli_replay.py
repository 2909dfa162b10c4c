"""`tripbench replay`: all expected decisions, the two kinds of output, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from results.trace import Call, Header, Result, Trace, blocks
from results.trace_file import read_trace, write_trace
from runners.cli import run

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "traces"
DEFAULT = ROOT / "guards" / "stacks" / "default.toml"
ROWS = [
    pytest.param(episode, row, id=f"{episode}-{row['guard']}-{json.dumps(row['config'])}")
    for episode, rows in json.loads((TRACES / "expected.json").read_text(encoding="utf-8")).items()
    for row in rows
]
KEYS = ["episode", "agent", "guard", "action", "kind", "call", "index", "count", "limit"]


def trace_of(name):
    return str(TRACES / f"{name}.trace.jsonl")


def flags(row):
    return [part for key, value in row["config"].items() for part in ("--set", f"{key}={json.dumps(value)}")]


def decisions(capsys, *arguments):
    assert run(["replay", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


def test_there_are_300_rows():
    assert len(ROWS) == 300


@pytest.mark.parametrize(("episode", "row"), ROWS)
def test_expected_decisions(capsys, episode, row):
    found, err = decisions(capsys, trace_of(episode), "--guard", row["guard"], *flags(row))
    assert [{key: mine[key] for key in wanted} for mine, wanted in zip(found, row["decisions"], strict=True)] == row[
        "decisions"
    ]
    assert all(list(mine) == KEYS for mine in found)
    assert all((mine["episode"], mine["guard"]) == (episode, row["guard"]) for mine in found)
    assert all(line.startswith("tripbench: warning: ") for line in err.splitlines())


def test_as_a_process():
    command = [
        sys.executable,
        "-c",
        "from runners.cli import main; main()",
        "replay",
        "--guard",
        "loop-guard",
        "--json",
    ]
    command += ["--set", "hardThreshold=29", "--set", "softThreshold=0", trace_of("identical-search-30")]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True, timeout=60)
    assert done.stdout == (
        b'{"episode": "identical-search-30", "agent": "root", "guard": "loop-guard", "action": "deny", '
        b'"kind": "identical-result", "call": "c30", "index": 30, "count": 29, "limit": 29}\n'
    )
    assert done.stderr == b""


def test_several_files_in_the_order_given_with_fresh_guards(capsys, tmp_path):
    write_trace(tmp_path / "again.trace.jsonl.zst", read_trace(trace_of("ping-pong-15")))
    files = [trace_of("identical-search-30"), str(tmp_path / "again.trace.jsonl.zst"), trace_of("identical-search-30")]
    found, _ = decisions(capsys, *files, "--guard", "circuit-breaker")
    alone = [decisions(capsys, file, "--guard", "circuit-breaker")[0] for file in files]
    assert found == alone[0] + alone[1] + alone[2]
    assert alone[0] == alone[2] != []


def test_presets(capsys):
    found, _ = decisions(
        capsys, trace_of("refill-healthy-clears"), "--guard", "compaction-breaker", "--preset", "zcode"
    )
    keys, _ = decisions(
        capsys, trace_of("refill-healthy-clears"), "--guard", "compaction-breaker", "--set", "toolTurnThreshold=3"
    )
    assert found == keys != []


def test_values_are_json_or_else_texts(capsys):
    args = [trace_of("identical-search-30"), "--guard", "circuit-breaker"]
    off, _ = decisions(capsys, *args, "--set", "enabled=false")
    assert off == []
    text, _ = decisions(capsys, *args, "--set", "denyMessage=no = more", "--set", 'incidentLog="NaN"')
    assert len(text) == 25
    only, _ = decisions(capsys, *args, "--set", 'only=["fetch"]', "--set", "window=9.0")
    assert only == []


def test_a_stack(capsys):
    found, _ = decisions(capsys, trace_of("identical-search-30"), "--stack", str(DEFAULT))
    assert {each["guard"] for each in found} == {"circuit-breaker", "loop-guard", "repeat-reminder"}
    assert [each["index"] for each in found if each["action"] == "deny"] == list(range(6, 31))


def test_the_table(capsys):
    assert run(["replay", trace_of("refill-default-trip"), trace_of("paging-25"), "--stack", str(DEFAULT)]) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == [key.upper() for key in KEYS]
    assert rows[0].split()[:5] == ["refill-default-trip", "root", "repeat-reminder", "nudge", "repeat"]
    assert any(row.split()[2:6] == ["compaction-breaker", "refuse", "rapid-refill", "-"] for row in rows)
    assert len({len(row) for row in rows}) == 1
    assert last == f"{len(rows)} decisions in 2 traces"


def test_the_table_without_decisions(capsys):
    assert run(["replay", trace_of("paging-25"), "--guard", "loop-guard"]) == 0
    assert capsys.readouterr().out == "0 decisions in 1 trace\n"


def test_warnings_stand_on_stderr(capsys, tmp_path):
    path = tmp_path / "x.trace.jsonl"
    lines = ['{"trace":1,"episode":"e"}', '{"type":"news\\u001b[31m"}', '{"type":"result","id":"c"}']
    path.write_text("\n".join(lines))
    found, err = decisions(capsys, str(path), "--guard", "loop-guard")
    assert found == []
    assert err.splitlines() == [
        f'tripbench: warning: {path}: line 2: event type "news\\x1b[31m" is not known and is left out',
        f"tripbench: warning: {path}: event 2 (agent 'root', result): no unsettled call has the id 'c': ignored",
    ]


def test_lenient(capsys, tmp_path):
    path = tmp_path / "x.trace.jsonl"
    lines = Path(trace_of("identical-search-30")).read_text().splitlines()
    path.write_text("\n".join([*lines[:5], "{", "nonsense", *lines[5:]]))
    assert run(["replay", str(path), "--guard", "loop-guard", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tripbench: error: {path}: line 6: is no JSON: ")
    found, err = decisions(capsys, str(path), "--guard", "loop-guard", "--lenient")
    assert found == decisions(capsys, trace_of("identical-search-30"), "--guard", "loop-guard")[0]
    assert err == "tripbench: warning: 2 malformed lines skipped\n"


def test_what_no_terminal_can_show_is_escaped(capsys, tmp_path):
    events = []
    for number in range(4):
        events += [
            Call(f"\ud83d{number}", None, "x", 1, agent="\x1b[2J"),
            Result(f"\ud83d{number}", blocks("r"), agent="\x1b[2J"),
        ]
    write_trace(tmp_path / "x.trace.jsonl", Trace(Header("a\nb"), tuple(events)))
    assert run(["replay", str(tmp_path / "x.trace.jsonl"), "--guard", "loop-guard"]) == 0
    _, row, _ = capsys.readouterr().out.splitlines()
    assert row.split()[:2] == ["a\\nb", "\\x1b[2J"]
    assert "\\ud83d3" in row
    found, _ = decisions(capsys, str(tmp_path / "x.trace.jsonl"), "--guard", "loop-guard")
    assert [(each["episode"], each["agent"], each["call"]) for each in found] == [("a\nb", "\x1b[2J", "\ud83d3")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Missing argument 'FILE...'"),
        (["FILE"], "replay takes either --guard NAME or --stack STACK.toml"),
        (["FILE", "--guard", "loop-guard", "--stack", str(DEFAULT)], "replay takes either --guard NAME or --stack"),
        (["FILE", "--stack", str(DEFAULT), "--set", "a=1"], "--preset and --set are for --guard"),
        (["FILE", "--stack", str(DEFAULT), "--preset", "zcode"], "--preset and --set are for --guard"),
        (["FILE", "--stack", "none.toml"], "none.toml: can not be read: No such file"),
        (["FILE", "--guard", "loop"], "unknown guard 'loop'; known: circuit-breaker, loop-guard"),
        (["FILE", "--guard", "loop-guard", "--preset", "zcode"], "loop-guard: unknown preset 'zcode'"),
        (["FILE", "--guard", "compaction-breaker", "--preset", "upstream-literal"], "upstream-literal is live only"),
        (["FILE", "--guard", "loop-guard", "--set", "softThreshold"], "--set takes KEY=VALUE, not 'softThreshold'"),
        (["FILE", "--guard", "loop-guard", "--set", "=4"], "--set takes KEY=VALUE, not '=4'"),
        (["FILE", "--guard", "loop-guard", "--set", "soft=4"], 'loop-guard: unknown key "soft" (value 4)'),
        (
            ["FILE", "--guard", "loop-guard", "--set", "softThreshold=NaN"],
            'softThreshold is "NaN"; allowed: an integer',
        ),
        (["FILE", "--guard", "loop-guard", "--set", "softThreshold=8"], "hardThreshold is 8; allowed: an integer >= 0"),
        (["none.trace.jsonl", "--guard", "loop-guard"], "none.trace.jsonl: can not be read: No such file"),
        (["FILE", "none.trace.jsonl", "--guard", "loop-guard"], "none.trace.jsonl: can not be read"),
        ([str(TRACES / "expected.json"), "--guard", "loop-guard"], "expected.json: line 1: is no JSON"),
    ],
)
@pytest.mark.parametrize("output", [[], ["--json"]])
def test_bad_usage_is_one_line_and_2(capsys, arguments, error, output):
    files = [trace_of("identical-search-30") if each == "FILE" else each for each in arguments]
    assert run(["replay", *files, *output]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tripbench: error: ")
    assert error in err
    assert err.count("\n") == 1
