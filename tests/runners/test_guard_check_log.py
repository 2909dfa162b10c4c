"""What someone else's plugin did, told from the event log: errors that the world did not give, and what was logged."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runners.harness.guard_check_log import Broken, Said, broken_compactions, denial_pattern, said, shown

Line = dict[str, Any]


def event(kind: str, agent: str = "a", **data: Any) -> Line:
    return {"ev": "event", "type": kind, "agent": agent, "data": data}


def asked(call: str, tool: str = "mcp__tools__search", agent: str = "a") -> Line:
    return event("tool/call", agent, callId=call, name=tool)


def world(text: str, tool: str = "search") -> Line:
    return {"ev": "world", "tool": tool, "error": False, "text": text}


def settled(call: str, text: str, *, error: bool = False, code: str | None = None, agent: str = "a") -> Line:
    content = [{"type": "text", "text": f"Error: {text}" if error else text}]
    data: Line = {"message": {"toolCallId": call, "content": content, "isError": error}}
    return event("tool/result", agent, **(data if code is None else data | {"error": {"code": code}}))


def log(text: str, level: str = "warn", row: str | None = "guard-host") -> Line:
    return {"ev": "log", "row": row, "name": "guard", "level": level, "text": text}


def test_calls_that_never_reached_the_world_are_told_from_those_that_did() -> None:
    lines = [
        *(asked("c1"), world("found"), settled("c1", "found")),
        *(asked("c2"), settled("c2", "no", error=True)),
        *(asked("c3"), world("found"), settled("c3", "changed")),
        *(asked("c4"), world("bad query"), settled("c4", "bad query", error=True)),
    ]
    seen = [(each.index, each.call, each.text, each.error, each.given) for each in shown(lines)]
    assert seen == [
        (1, "c1", "found", False, "found"),
        (2, "c2", "no", True, None),
        (3, "c3", "changed", False, "found"),
        (4, "c4", "bad query", True, "bad query"),
    ]
    assert denial_pattern(lines) == r"\A(?:no)\Z"


def test_what_the_harness_itself_turns_down_is_nobody_s_denial() -> None:
    lines = [
        *(asked("c1", "mcp__tools__none"), settled("c1", "unknown", error=True, code="UNKNOWN_TOOL")),
        *(asked("c2"), settled("c2", "bad", error=True, code="INVALID_ARGS")),
        *(asked("c3", "read"), settled("c3", "no such file", error=True)),
    ]
    assert list(shown(lines)) == []
    assert denial_pattern(lines) is None
    # A guard may give its denial a code of its own.
    lines += [asked("c4"), settled("c4", "denied", error=True, code="MINE")]
    assert [each.index for each in shown(lines)] == [4]


def test_calls_of_two_agents_with_one_id_and_results_that_are_replaced_later() -> None:
    lines = [
        *(asked("c1"), asked("c1", agent="b"), world("one")),
        *(settled("c1", "one"), settled("c1", "no", error=True, agent="b"), settled("c1", "pruned")),
    ]
    assert [(each.index, each.given) for each in shown(lines)] == [(1, "one"), (2, None)]


@given(st.lists(st.tuples(st.text(max_size=8), st.booleans()), max_size=12))
def test_the_pattern_fits_the_denials_texts_and_no_other(calls: list[tuple[str, bool]]) -> None:
    lines: list[Line] = []
    for number, (text, denied) in enumerate(calls):
        lines += [asked(f"c{number}"), *([] if denied else [world(text)])]
        lines.append(settled(f"c{number}", text, error=denied))
    texts = {text for text, denied in calls if denied}
    pattern = denial_pattern(lines)
    assert (pattern is None) == (not texts)
    for text in {text for text, _ in calls} | {"", "x", "x\n"}:
        assert (pattern is not None and re.search(pattern, text) is not None) == (text in texts)


def test_compactions_that_failed_before_they_began() -> None:
    start, end = event("compaction/start", turn=1), event("compaction/end", turn=1, error="too long")
    lines = [
        *(event("step/start"), asked("c1"), settled("c1", "x")),
        log("step compaction failed: it is enough; really; continuing the turn"),
        *(event("step/start"), asked("c2")),
        # An attempt that began and failed is one of the engine's own.
        *(start, end, log("step compaction failed: too long; continuing the turn")),
        event("step/start"),
        log("context-overflow compaction failed: no more; preserving the original request error"),
        log("something else failed: x; y"),
        log("step compaction failed: said in passing; continuing the turn", "info"),
    ]
    assert list(broken_compactions(lines)) == [
        Broken(1, 0, "it is enough; really"),
        Broken(2, 1, "no more"),
    ]


def test_what_a_row_said() -> None:
    lines = [log("up", "info"), log("careful"), log("up", "info"), log("up", "info", "other"), log("up", "info", None)]
    assert said(lines, "guard-host") == [Said("info", "up"), Said("warn", "careful")]
