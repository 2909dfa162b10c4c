"""circuit-breaker: every rule of its section."""

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards import registry
from guards.policy import Denial


def breaker(*, live=False, **settings):
    return registry.build("circuit-breaker", settings=settings, live=live)


def asked(policy, *calls, agent="root"):
    """What becomes of calls of the tool "x" (or (tool, args)), one letter each: r it runs, d duplicate, c cap."""
    letters = []
    for call in calls:
        tool, args = call if isinstance(call, tuple) else ("x", call)
        denial = policy.before_call(agent, tool, args)
        letters.append("r" if denial is None else denial.kind[0])
    return "".join(letters)


def test_defaults():
    assert registry.configure("circuit-breaker").effective() == {
        "enabled": True,
        "duplicateLimit": 6,
        "window": 200,
        "maxCallsPerAgent": 300,
        "exempt": ["todo_write", "ask_user_question", "exit_plan_mode"],
        "only": [],
        "ignoreArgs": ["description", "explanation", "reason", "thought", "purpose"],
        "denyMessage": "",
        "incidentLog": "",
    }


def test_with_six_five_run_and_the_sixth_is_denied():
    policy = breaker()
    assert asked(policy, *[{"q": 1}] * 8) == "rrrrrddd"
    denial = policy.before_call("root", "x", {"q": 1})
    assert (denial.kind, denial.count, denial.limit) == ("duplicate", 6, 6)
    assert asked(policy, {"q": 2}) == "r"


def test_duplicates_need_not_be_consecutive():
    assert asked(breaker(duplicateLimit=3), "a", "b", "a", "c", "a", "b", "b") == "rrrrdrd"


def test_with_three_hundred_the_next_is_denied_for_good():
    policy = breaker()
    assert asked(policy, *range(303)) == "r" * 300 + "ccc"
    assert policy.before_call("root", "x", "new") == policy.before_call("root", "x", "newer")
    denial = policy.before_call("root", "x", 0)
    assert (denial.kind, denial.count, denial.limit) == ("cap", 300, 300)


def test_the_cap_is_checked_before_duplicates():
    assert asked(breaker(maxCallsPerAgent=2, duplicateLimit=2), "a", "b", "a", "c") == "rrcc"


def test_off_switches():
    assert asked(breaker(enabled=False, duplicateLimit=2, maxCallsPerAgent=1), *["a"] * 9) == "r" * 9
    assert asked(breaker(duplicateLimit=0), *["a"] * 301) == "r" * 300 + "c"
    assert asked(breaker(maxCallsPerAgent=0), *range(400)) == "r" * 400
    assert asked(breaker(maxCallsPerAgent=1), 1, 2) == "rc"


@pytest.mark.parametrize("window", [2, 3, 7])
def test_a_repeat_ages_out_of_the_window(window):
    policy = breaker(duplicateLimit=2, window=window)
    assert asked(policy, "a", *range(window - 1)) == "r" * window
    assert asked(policy, "a") == "d"
    assert asked(policy, "last") == "r"
    assert asked(policy, "a", "a") == "rd"


def test_the_largest_limit_of_a_window():
    """window + 1: the window is full of the same call."""
    assert asked(breaker(duplicateLimit=4, window=3), *["a"] * 6) == "rrrddd"


def test_denied_calls_neither_count_nor_evict():
    policy = breaker(duplicateLimit=2, window=2, maxCallsPerAgent=4)
    assert asked(policy, "a", "b", *["a"] * 20, *["b"] * 20) == "rr" + "d" * 40
    assert asked(policy, "c") == "r"
    assert asked(policy, "a", "d") == "rc"


def test_exempt_tools_are_neither_checked_nor_counted():
    policy = breaker(duplicateLimit=2, maxCallsPerAgent=2)
    assert asked(policy, *[("todo_write", {})] * 9) == "r" * 9
    assert asked(policy, "a", ("todo_write", {}), "b", ("ask_user_question", {}), "c") == "rrrrc"
    policy = breaker(exempt=["x"], duplicateLimit=2)
    assert asked(policy, "a", "a", ("todo_write", {}), ("todo_write", {}), ("X", 1), ("X", 1)) == "rrrdrd"


def test_only_overrides_exempt():
    policy = breaker(only=["x", "todo_write"], duplicateLimit=2, maxCallsPerAgent=3)
    assert asked(policy, *[("other", {})] * 9) == "r" * 9
    assert asked(policy, ("todo_write", 1), ("todo_write", 1), "a", "a", "b", ("other", 1), "c") == "rdrdrrc"


def test_ignored_arguments():
    policy = breaker(duplicateLimit=2)
    assert asked(policy, {"c": 1, "description": "a"}, {"description": "b", "c": 1}, {"c": 1}) == "rdd"
    assert asked(policy, {"in": {"reason": 1}}, {"in": {"reason": 2}}, [{"reason": 1}], [{"reason": 2}]) == "rrrr"
    policy = breaker(duplicateLimit=2, ignoreArgs=[])
    assert asked(policy, {"c": 1, "description": "a"}, {"c": 1, "description": "b"}) == "rr"
    policy = breaker(duplicateLimit=2, ignoreArgs=["c"])
    assert asked(policy, {"c": 1}, {"c": 2}, {}) == "rdd"


def test_the_tool_is_part_of_the_key():
    assert asked(breaker(duplicateLimit=2), ("a", {}), ("b", {}), ("a", {})) == "rrd"


def test_arguments_that_are_no_json_count_and_take_no_place():
    policy = breaker(duplicateLimit=2, window=1, maxCallsPerAgent=5)
    assert asked(policy, "a", {1}, {1}, "a", {2}, {3}, "b") == "rrrdrrc"


def test_calls_that_something_else_stops_are_judged_and_do_not_count():
    policy = breaker(duplicateLimit=2, maxCallsPerAgent=2)
    assert [policy.before_call("root", "x", "a", counted=False) for _ in range(5)] == [None] * 5
    assert asked(policy, "a") == "r"
    assert isinstance(policy.before_call("root", "x", "a", counted=False), Denial)
    assert asked(policy, "b", "c") == "rc"


def test_agents_are_apart_and_user_messages_change_nothing():
    policy = breaker(duplicateLimit=2)
    assert asked(policy, "a", agent="root") + asked(policy, "a", agent="s1") == "rr"
    policy.user_message("root")
    policy.model_response("root", 1)
    policy.reset("root")
    assert asked(policy, "a", agent="root") + asked(policy, "a", agent="s1") == "dd"


def test_reasons():
    policy = breaker(duplicateLimit=2, maxCallsPerAgent=2)
    policy.before_call("root", "x", 1)
    assert policy.before_call("root", "x", 1).reason == (
        "This call was not run: it would be call number 2 of x with the same arguments, and the limit is 2. Stop "
        "repeating it. Work with the results you have, try a different approach, or finish and say what you found."
    )
    policy.before_call("root", "x", 2)
    assert policy.before_call("root", "x", 3).reason == (
        "This call was not run: 2 tool calls have been run and the limit is 2, so x will not run any more. Stop "
        "calling tools and finish with what you know."
    )


def test_the_message_has_its_fields_filled_once():
    policy = breaker(duplicateLimit=2, denyMessage="{tool}: {count} of {limit} {other} {{tool}}")
    policy.before_call("root", "{limit}", 1)
    assert policy.before_call("root", "{limit}", 1).reason == "{limit}: 2 of 2 {other} {{limit}}"


def test_the_incident_log_has_the_first_denial_of_each_kind_and_agent(tmp_path):
    path = tmp_path / "incidents.jsonl"
    path.write_text("before\n")
    policy = breaker(live=True, duplicateLimit=2, maxCallsPerAgent=2, incidentLog=str(path))
    for agent in ("root", "s1"):
        assert asked(policy, "a", "a", "a", "b", "c", "c", agent=agent) == "rddrcc"
    before, *lines = path.read_text().splitlines()
    assert before == "before"
    rows = [json.loads(line) for line in lines]
    assert all(list(row) == ["time", "kind", "tool", "count", "limit", "agent"] for row in rows)
    assert all(datetime.fromisoformat(row.pop("time")).tzinfo is not None for row in rows)
    assert rows == [
        {"kind": kind, "tool": "x", "count": 2, "limit": 2, "agent": agent}
        for agent in ("root", "s1")
        for kind in ("duplicate", "cap")
    ]


def test_a_log_that_can_not_be_written_changes_nothing(tmp_path):
    policy = breaker(live=True, duplicateLimit=2, incidentLog=str(tmp_path / "none" / "log"))
    assert asked(policy, "a", "a") == "rd"


def test_nothing_is_logged_in_replay(tmp_path):
    assert asked(breaker(duplicateLimit=2, incidentLog=str(tmp_path / "log")), "a", "a") == "rd"
    assert list(tmp_path.iterdir()) == []


@given(
    st.lists(st.tuples(st.sampled_from("rs"), st.integers(0, 3)), max_size=60),
    st.integers(1, 5),
    st.integers(0, 6),
    st.integers(0, 12),
)
def test_the_rule_in_plain_words(calls, window, limit, cap):
    """The last `window` executed calls of each agent, kept as a plain list."""
    limit = 0 if limit == 1 else min(limit, window + 1)
    policy = breaker(window=window, duplicateLimit=limit, maxCallsPerAgent=cap)
    ran: dict[str, list[int]] = {"r": [], "s": []}
    for agent, args in calls:
        mine = ran[agent]
        same = mine[-window:].count(args)
        denial = policy.before_call(agent, "x", args)
        if cap and len(mine) >= cap:
            assert (denial.kind, denial.count, denial.limit) == ("cap", len(mine), cap)
        elif limit and same + 1 >= limit:
            assert (denial.kind, denial.count, denial.limit) == ("duplicate", same + 1, limit)
        else:
            assert denial is None
            mine.append(args)
