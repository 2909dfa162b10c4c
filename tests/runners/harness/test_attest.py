"""What should be live beside what is: each way in which a guard can be missing is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from runners.harness.attest import Failure, check, reason
from runners.harness.composition import Expected

OWN = ("circuit-breaker", "loop-guard", "compaction-breaker", "null")
EXPECTED = (
    Expected("world", "@deepseek-ai/dsh-mcp-client", "host"),
    Expected("recorder-agent", "dsh-recorder", "agent"),
    Expected("loop-guard-host", "dsh-loop-guard", "host", "loop-guard"),
    Expected("loop-guard-agent", "dsh-loop-guard", "agent", "loop-guard"),
    Expected("repeat-reminder-host", "@deepseek-ai/dsh-repeat-tool-reminder", "host", "repeat-reminder"),
)
STDERR = ("dsh: warning: 1 entries did not activate", "dsh-loop-guard: it breaks", "    at file:///x.js:1", "    later")


def row(expected: Expected) -> dict[str, Any]:
    return {"id": expected.row, "name": expected.package, "disabled": False, "state": "active"}


def live() -> dict[str, Any]:
    """Everything as it should be."""
    inner = [row(each) for each in EXPECTED if each.plane == "agent"]
    return {
        "pid": 1,
        "rows": [row(each) for each in EXPECTED if each.plane == "host"] + [{"id": "other", "name": "x"}],
        "presets": [{"id": "standard", "broken": "no", "rows": []}, {"id": "eval", "broken": None, "rows": inner}],
        "preset": "eval",
    }


LINES = [{"ev": "arm", "guard": "loop-guard", "plane": plane} for plane in ("host", "agent")]


def found(edit: Callable[[dict[str, Any]], Any], lines: Any = LINES, own: Any = OWN) -> list[Failure]:
    given = copy.deepcopy(live())
    edit(given)
    return check(EXPECTED, given, lines, own, STDERR)


def test_everything_is_there() -> None:
    assert found(lambda _: None) == []


def state(plane: str, identifier: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    """Changes a row; without values it is not there at all."""

    def edit(given: dict[str, Any]) -> None:
        rows = given["rows"] if plane == "host" else given["presets"][1]["rows"]
        (at,) = (at for at, each in enumerate(rows) if each["id"] == identifier)
        if values:
            rows[at].update(values)
        else:
            del rows[at]

    return edit


@pytest.mark.parametrize("plane", ["host", "agent"])
@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({}, "row 'loop-guard-{plane}' is not in the tree: its patch was skipped"),
        (
            {"name": "another"},
            "row 'loop-guard-{plane}' is another, not dsh-loop-guard: a patch's name matches a row, it replaces none",
        ),
        ({"disabled": True}, "row 'loop-guard-{plane}' is disabled"),
        (
            {"state": "failed"},
            "row 'loop-guard-{plane}' is failed: dsh-loop-guard: it breaks at file:///x.js:1 later",
        ),
        (
            {"state": "pending"},
            "row 'loop-guard-{plane}' is pending: dsh-loop-guard: it breaks at file:///x.js:1 later",
        ),
    ],
)
def test_a_guard_that_is_not_live(plane: str, values: dict[str, Any], cause: str) -> None:
    failures = found(state(plane, f"loop-guard-{plane}", **values))
    assert failures == [Failure("loop-guard", plane, cause.format(plane=plane))]
    assert str(failures[0]).startswith(f"loop-guard@{plane}: row ")


@pytest.mark.parametrize("plane", ["host", "agent"])
def test_a_guard_that_is_live_and_silent(plane: str) -> None:
    failures = found(lambda _: None, [line for line in LINES if line["plane"] != plane])
    assert failures == [Failure("loop-guard", plane, "the row is live, but the guard wrote no `arm` line")]


def test_someone_else_s_guard_writes_no_line() -> None:
    assert found(lambda _: None, [], own=[each for each in OWN if each != "loop-guard"]) == []


def test_the_harness_own_guard_has_only_its_row() -> None:
    failures = found(state("host", "repeat-reminder-host", state="failed"))
    assert [(each.guard, each.plane) for each in failures] == [("repeat-reminder", "host")]


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (lambda given: given["presets"].pop(1), "the preset 'eval' is not mounted"),
        (lambda given: given["presets"][1].update(broken="it leaks"), "the preset 'eval' is broken: it leaks"),
        (
            lambda given: given["presets"][1].update(broken={"message": "it leaks", "code": 1}),
            "the preset 'eval' is broken: it leaks",
        ),
        (lambda given: given.update(preset=None), "the agent has not joined the preset 'eval' but none"),
        (lambda given: given.update(preset="standard"), "the agent has not joined the preset 'eval' but standard"),
    ],
)
def test_a_preset_that_is_not_right_fails_all_in_it_the_guard_first(edit: Any, cause: str) -> None:
    assert found(edit) == [Failure("loop-guard", "agent", cause), Failure("recorder-agent", "agent", cause)]


def test_the_scaffold_is_named_as_such() -> None:
    failures = found(state("host", "world", state="failed"))
    assert str(failures[0]) == "world@host: row 'world' is failed: later"


def test_a_guard_is_named_before_the_scaffold() -> None:
    def edit(given: dict[str, Any]) -> None:
        state("host", "world", disabled=True)(given)
        state("host", "loop-guard-host", disabled=True)(given)

    assert [each.guard for each in found(edit)] == ["loop-guard", "world"]


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ((), ""),
        (("something else",), "something else"),
        (("x", "the row-id failed", "  why", "  where", "  not this"), "the row-id failed why where"),
        (("package-name: why",), "package-name: why"),
        (("row-id " + "y" * 1000,), "row-id " + "y" * 393),
    ],
)
def test_reasons(stderr: tuple[str, ...], said: str) -> None:
    assert reason("row-id", "package-name", stderr) == said
