"""The outcome of a run as data, from hand-written traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guards.errors import UserError
from results.trace import End, Trace
from runners.summary import outcome
from tests.results.script import script

KEYS = ["scenario", "model", "arm", "seed", "end", "success", "provoked", "calls", "executed", "trips"]
TRIP = ["guard", "plane", "action", "index", "count", "agent"]


def rows(*traces: Trace) -> list[dict[str, Any]]:
    found = outcome(Path("somewhere/run"), traces)
    assert list(found) == ["run", "episodes"]
    assert found["run"] == "somewhere/run"
    assert json.loads(json.dumps(found)) == found
    for row in found["episodes"]:
        assert list(row) == KEYS
        assert all(list(trip) == TRIP for trip in row["trips"])
    return list(found["episodes"])


def test_one_row_an_episode() -> None:
    (off, host) = rows(
        script("n s s s s s", name="a.off", seed=4),
        script("n s s s?lg@host s!cb@host s!cb@host", name="b.host", arm="host", seed=4, end="completed", success=True),
    )
    assert off == {
        "scenario": "search-mirage",
        "model": "tiny",
        "arm": "off",
        "seed": 4,
        "end": "horizon",
        "success": False,
        "provoked": True,
        "calls": 6,
        "executed": 6,
        "trips": [],
    }
    assert (host["arm"], host["end"], host["success"], host["provoked"]) == ("host", "completed", True, True)
    assert (host["calls"], host["executed"]) == (6, 4)
    assert [(trip["guard"], trip["action"], trip["index"], trip["agent"]) for trip in host["trips"]] == [
        ("loop-guard", "nudge", 4, "root"),
        ("circuit-breaker", "deny", 5, "root"),
    ]


def test_provoked_is_what_the_twin_did() -> None:
    quiet, looped = script("n n", name="q", seed=1), script("n s s s", name="l", seed=2)
    guarded = [script("n s s s", name=f"g{seed}", arm="host", seed=seed) for seed in (1, 2, 3)]
    assert {(row["arm"], row["seed"]): row["provoked"] for row in rows(quiet, looped, *guarded)} == {
        ("off", 1): False,
        ("off", 2): True,
        ("host", 1): False,
        ("host", 2): True,
        ("host", 3): None,
    }


def test_the_first_trip_of_each_guard_plane_and_action() -> None:
    (row,) = rows(script("s?lg@host s?lg@host s?lg@agent s!cb@host s!cb@agent s!cb@host X@host X@host", name="e"))
    assert [(trip["guard"], trip["plane"], trip["action"], trip["index"]) for trip in row["trips"]] == [
        ("loop-guard", "host", "nudge", 1),
        ("loop-guard", "agent", "nudge", 3),
        ("circuit-breaker", "host", "deny", 4),
        ("circuit-breaker", "agent", "deny", 5),
        ("compaction-breaker", "host", "refuse", 1),
    ]


def test_calls_of_all_agents_count() -> None:
    (row,) = rows(script("n A:n A:s!cb@host", name="e"))
    assert (row["calls"], row["executed"]) == (3, 2)
    assert [(trip["agent"], trip["index"]) for trip in row["trips"]] == [("A", 2)]


def test_an_infrastructure_error_is_no_observation() -> None:
    made = script("n s s s!cb@host", name="e", end=None)
    (row,) = rows(Trace(made.header, (*made.events, End("error", extra={"cause": "no luck"}))))
    nothing = {"success": None, "provoked": None, "calls": None, "executed": None, "trips": []}
    assert row == {"scenario": "search-mirage", "model": "tiny", "arm": "off", "seed": 1, "end": "error", **nothing}


def test_an_error_is_no_twin() -> None:
    made = script("n s s s", name="a", end=None)
    failed = Trace(made.header, (*made.events, End("error", extra={"cause": "no luck"})))
    assert [row["provoked"] for row in rows(failed, script("n s s s", name="b", arm="host"))] == [None, None]


def test_rows_are_sorted_by_name() -> None:
    made = [script("n", name=name, seed=seed) for seed, name in enumerate("bca")]
    assert [row["seed"] for row in rows(*made)] == [2, 0, 1]


def test_of_nothing_there_is_nothing() -> None:
    assert rows() == []


def test_two_of_the_same_are_refused() -> None:
    with pytest.raises(UserError, match="same scenario, arm and seed"):
        outcome(Path("r"), [script("n", name="a"), script("n", name="b")])
