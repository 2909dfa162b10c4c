"""The patterns of public reports: what our guards decide on each, through the command, and what that is worth."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from results.trace import Call, Compaction, Result
from results.trace_file import read_trace
from runners.cli import run
from tests.traces.reports import build
from tests.traces.reports.shape import Script, Shape
from tests.traces.reports.shapes import shapes
from tests.traces.reports.verdict import judge, word

FOLDER = Path(build.__file__).parent
SHAPES = {shape.name: shape for shape in shapes()}
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
ROWS = [
    pytest.param(name, row, id=f"{name}-{row['guard']}") for name, entry in EXPECTED.items() for row in entry["rows"]
]
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def file_of(name):
    return FOLDER / f"{name}.trace.jsonl"


def row_of(name, guard):
    return next(row["decisions"] for row in EXPECTED[name]["rows"] if row["guard"] == guard)


def test_every_report_of_the_notes_has_a_pattern():
    """R01, R03 ... R95; two have two."""
    assert {int(name[1:3]) for name in SHAPES} == set(range(1, 96, 2))
    assert len(SHAPES) == 50


def test_files_hold_the_patterns_and_no_others():
    assert {path.name for path in FOLDER.glob("*.jsonl")} == {file_of(name).name for name in SHAPES}
    assert all(read_trace(file_of(name)) == shape.trace() for name, shape in SHAPES.items())


def test_the_pins_and_the_table_are_as_they_are_built():
    """After a change on purpose: python -m tests.traces.reports.build."""
    assert (FOLDER / "expected.json").read_text(encoding="utf-8") == build.expected()
    assert (FOLDER / "TABLE.md").read_text(encoding="utf-8") == build.table()


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_decisions_through_the_command(capsys, name, row):
    assert run(["replay", str(file_of(name)), "--guard", row["guard"], "--json"]) == 0
    out, err = capsys.readouterr()
    told = {"episode": name, "guard": row["guard"]}
    assert [json.loads(line) for line in out.splitlines()] == [told | decision for decision in row["decisions"]]
    assert err == ""


def settled(shape):
    """Agent, place, tool, text of the arguments, and result of each call, in the order of the calls."""
    places = Counter()
    for event in shape.events:
        if isinstance(event, Call):
            places[event.agent] += 1
            result = next(
                each
                for each in shape.events
                if isinstance(each, Result) and (each.agent, each.id) == (event.agent, event.id)
            )
            arguments = json.dumps(event.args, sort_keys=True)
            yield event.agent, places[event.agent], event.tool, arguments, result


@each_shape
def test_the_circuit_breaker_counted_by_hand(shape):
    ran = Counter()
    wrong = []
    for agent, place, tool, arguments, result in settled(shape):
        if tool == "todo_write":
            continue
        key = agent, tool, arguments
        if ran[key] == 5:
            wrong.append((agent, place))
        elif result.denied_by is None:
            ran[key] += 1
    assert [(each["agent"], each["index"]) for each in row_of(shape.name, "circuit-breaker")] == wrong


@each_shape
def test_the_reminder_counted_by_hand(shape):
    """Where no user speaks in between, in which case it begins anew."""
    last, found = {}, []
    spoken = sum(event.type == "user" for event in shape.events) > len({event.agent for event in shape.events})
    for agent, place, tool, arguments, _ in settled(shape):
        key, before = (tool, arguments), last.get(agent, (None, 0))
        last[agent] = key, before[1] + 1 if key == before[0] else 1
        if last[agent][1] in (3, 5, 8):
            found.append((agent, place))
    if not spoken:
        assert [(each["agent"], each["index"]) for each in row_of(shape.name, "repeat-reminder")] == found


@each_shape
def test_refusals_stand_in_patterns_of_compaction_alone(shape):
    """The fourth attempt is the first that can be refused, and no later one runs where all are rapid."""
    refused = [each["index"] for each in row_of(shape.name, "compaction-breaker")]
    attempts = sum(isinstance(event, Compaction) and event.agent == shape.agent for event in shape.events)
    rapid = shape.name.startswith(("R83", "R85", "R91", "R93"))
    assert refused == (list(range(4, attempts + 1)) if rapid else [])


@each_shape
def test_the_onset_is_a_place_of_the_pattern(shape):
    kind = Compaction if "COMP" in shape.tags else Call
    places = sum(isinstance(event, kind) and event.agent == shape.agent for event in shape.events)
    assert (shape.want == "trip") == (shape.onset is not None)
    assert shape.onset is None or 2 <= shape.onset <= places
    assert shape.resumes is None or shape.onset < shape.resumes <= places


def looped(times, want="trip", **places):
    script = Script()
    for _ in range(times):
        script.call("look", {}, "same")
    other = Script("other").call("look", {}, "same")
    return Shape("R00-x", "", (), want, "", (*script.done(), *other.done()), **places)


@pytest.mark.parametrize(
    ("shape", "guard", "text", "said"),
    [
        (looped(5, onset=2), "circuit-breaker", "-", "missed"),
        (looped(6, onset=2), "circuit-breaker", "deny 6", "right"),
        (looped(6, onset=6), "circuit-breaker", "deny 6", "right"),
        (looped(7, onset=7), "circuit-breaker", "deny 7, **deny 6**", "false alarm"),
        (looped(7, onset=2, resumes=7), "circuit-breaker", "deny 6, **deny 7**", "false alarm"),
        (looped(6, onset=1, agent="other"), "circuit-breaker", "**deny 6**", "false alarm"),
        (looped(6, "quiet"), "circuit-breaker", "**deny 6**", "false alarm"),
        (looped(6, "requested"), "circuit-breaker", "**deny 6**", "denies what was asked for"),
        (looped(5, "requested"), "circuit-breaker", "-", "right"),
        (looped(4, "quiet"), "loop-guard", "nudge 4", "right"),
        (looped(4, onset=2), "loop-guard", "nudge 4", "only nudged"),
        (looped(9, onset=2), "loop-guard", "nudge 4, deny 9", "right"),
    ],
)
def test_verdicts(shape, guard, text, said):
    verdict = judge(shape, shape.trace(), build.decisions(shape, guard))
    assert (verdict.text(), word(shape, verdict)) == (text, said)


def test_a_building_into_another_folder_gives_the_same(tmp_path):
    build.main(tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".jsonl", ".json", ".md"))
    assert all((tmp_path / name).read_bytes() == (FOLDER / name).read_bytes() for name in made)


def test_numbers_in_the_table_add_up():
    lines = (FOLDER / "TABLE.md").read_text(encoding="utf-8").splitlines()
    rows = [
        line.split(" | ") for line in lines[lines.index("## All detectors on the same patterns") :] if " of " in line
    ]
    rows = [cells for cells in rows if len(cells) == 6]
    for cells in rows:
        stopped, _, wanted = cells[1].partition(" of ")
        assert int(stopped) + int(cells[2]) + int(cells[3]) == int(wanted)
    assert len(rows) == 18
