"""Worlds of real files: what is recorded of them, and what the judge makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from results.trace import Call, End, Event, Header, Result, Trace
from scenarios.judge import judge
from scenarios.registry import scenario
from scenarios.reread_after_edit import CHECK, SETTINGS, RereadAfterEdit
from scenarios.workspace import FilesWorld, digest, executes, snapshot

TASK = RereadAfterEdit(5, "small")
(KEY, IS, SHOULD), *_ = TASK.wrong()
READ: tuple[str, Any] = ("read", {"file_path": SETTINGS})
CHECKS: tuple[str, Any] = ("bash", {"command": f"sh {CHECK}"})
FIX: tuple[str, Any] = (
    "edit",
    {"file_path": SETTINGS, "old_string": f"{KEY} = {IS}\n", "new_string": f"{KEY} = {SHOULD}\n"},
)
FIXED = TASK.files[SETTINGS].replace(f"{KEY} = {IS}\n", f"{KEY} = {SHOULD}\n")
SOLVED = TASK.files[SETTINGS]
for key, before, after in TASK.wrong():
    SOLVED = SOLVED.replace(f"{key} = {before}\n", f"{key} = {after}\n")


def ran(asked: tuple[str, Any], changed: dict[str, str | None] | None = None) -> tuple[Event, Event]:
    """A call that ran; `changed` is what the runner recorded before it, None = no record."""
    extra = {} if changed is None else {"workspace": {"digest": "", "changed": changed}}
    return Call(id="c", step=None, tool=asked[0], args=asked[1], extra=extra), Result(id="c")


def labels(*pairs: tuple[Event, Event]) -> list[str]:
    events = tuple(event for pair in pairs for event in pair)
    return [label.judged for label in judge(TASK, Trace(Header(episode="e"), events))[0]]


def bash(command: str) -> tuple[str, Any]:
    return "bash", {"command": command}


def test_a_file_is_worth_reading_once_a_version():
    assert labels(ran(READ), ran(READ), ran(FIX), ran(READ), ran(READ)) == [
        *("novel", "sterile", "novel"),
        *("novel", "sterile"),
    ]


def test_lines_are_known_by_number_and_version():
    first, rest = {"file_path": SETTINGS, "limit": 3}, {"file_path": SETTINGS, "offset": 4}
    assert labels(ran(("read", first)), ran(("read", rest)), ran(READ), ran(("read", first))) == [
        *("novel", "novel"),
        *("sterile", "sterile"),
    ]


@pytest.mark.parametrize("path", [f"./{SETTINGS}", f"/work/space/{SETTINGS}", f"x/../{SETTINGS}", f" {SETTINGS}"])
def test_a_path_may_be_written_in_many_ways(path: str):
    assert labels(ran(READ), ran(("read", {"file_path": path}))) == ["novel", "sterile"]


def test_checks_are_worth_running_once_a_version_of_the_files():
    assert labels(ran(CHECKS), ran(CHECKS), ran(FIX), ran(CHECKS), ran(CHECKS)) == [
        *("novel", "sterile", "novel"),
        *("novel", "sterile"),
    ]


def test_the_record_of_the_files_goes_before_what_the_stand_ins_made_of_them():
    # The shell changed the file, which only the record tells.
    sed = bash(f"sed -i 's/{KEY} = {IS}/{KEY} = {SHOULD}/' {SETTINGS}")
    assert labels(ran(READ, {}), ran(sed, {}), ran(READ, {SETTINGS: FIXED}), ran(FIX, {})) == [
        *("novel", "novel", "novel"),
        "novel",
    ]
    assert labels(ran(READ, {}), ran(sed, {}), ran(READ, {}), ran(sed, {})) == ["novel", "novel", "sterile", "sterile"]
    # The edit did not come to pass.
    assert labels(ran(READ, {}), ran(FIX, {}), ran(READ, {SETTINGS: TASK.files[SETTINGS]})) == [
        *("novel", "novel"),
        "sterile",
    ]


def test_an_edit_is_a_unit_where_it_fulfils_more():
    there, back = FIX[1], {**FIX[1], "old_string": FIX[1]["new_string"], "new_string": FIX[1]["old_string"]}
    neutral = {**there, "old_string": "# settings", "new_string": "# all settings"}
    events = [ran(("edit", args)) for args in (there, back, there, back, {**there, "old_string": "nowhere"}, neutral)]
    found, _ = judge(TASK, Trace(Header(episode="e"), tuple(event for pair in events for event in pair)))
    assert [(label.judged, label.unit) for label in found] == [
        ("novel", True),
        ("novel", False),
        ("sterile", False),
        ("sterile", False),
        ("novel", False),
        ("novel", False),
    ]


def test_success_is_what_the_files_are_in_the_end():
    def success(*changed: dict[str, str | None]) -> bool | None:
        end = End(reason="completed", extra={"workspace": {"digest": "", "changed": changed[-1]}})
        pairs = [ran(READ, each) for each in changed[:-1]]
        return judge(TASK, Trace(Header(episode="e"), (*(event for pair in pairs for event in pair), end)))[1]

    assert success({}, {}) is False
    assert success({}, {SETTINGS: SOLVED}) is True
    assert success({}, {SETTINGS: SOLVED}, {SETTINGS: FIXED}) is False
    assert success({}, {SETTINGS: None}) is False
    # The checks can be changed, the task can not.
    assert success({}, {CHECK: "echo fine"}) is False


def test_the_live_world_is_finished_when_the_checks_were_run_on_good_files():
    world = TASK.world()
    assert world.settled(*CHECKS, "FAILED") == {}
    world.observe({SETTINGS: SOLVED})
    assert not world.finished
    world.settled("bash", {"command": "ls"}, "")
    world.settled("nosuch", {}, "")
    world.settled("read", {}, "")
    assert (world.finished, world.ticks) == (False, 2)
    world.settled(*CHECKS, "")
    assert (world.finished, world.success) == (True, True)


def test_a_snapshot_holds_what_changed(tmp_path: Path):
    before = TASK.files
    for path, text in before.items():
        (tmp_path / path).write_text(text)
    record, now = snapshot(tmp_path, before)
    assert record == {"digest": digest(before), "changed": {}}
    assert now == before
    (tmp_path / SETTINGS).write_text("x\r\n")
    (tmp_path / CHECK).unlink()
    record, now = snapshot(tmp_path, now)
    assert record["changed"] == {SETTINGS: "x\r\n", CHECK: None}
    assert record["digest"] == digest({CHECK: None, SETTINGS: "x\r\n"}) != digest(before)
    (tmp_path / CHECK).write_bytes(b"\xff")
    assert snapshot(tmp_path, now)[0]["changed"] == {}
    (tmp_path / SETTINGS).unlink()
    (tmp_path / SETTINGS).mkdir()
    assert snapshot(tmp_path, now)[0]["changed"] == {SETTINGS: None}


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("sh check.sh", True),
        ("./check.sh", True),
        ("bash -x ./check.sh 2>&1", True),
        ("cd /workspace && sh check.sh", True),
        ("cat settings.ini; sh check.sh", True),
        ("/bin/sh /a/b/check.sh", True),
        ("(sh check.sh)", True),
        ("ls\nsh check.sh", True),
        ("cat check.sh", False),
        ("grep sh check.sh", False),
        ("sh check.sh.bak", False),
        ("sh precheck.sh", False),
        ("", False),
    ],
)
def test_commands_that_run_the_checks(command: str, runs: bool):
    assert executes(command, "check.sh") is runs


def test_the_world_of_a_scenario_with_files_is_one_of_files():
    for name in ("reread-after-edit",):
        task = scenario(name)
        assert isinstance(task.world(), FilesWorld)
        assert task.tools == ()
        assert {tool.name for tool in task.native_tools} == set(task.needs.harness_tools)
