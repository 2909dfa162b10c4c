"""Records of every type for property tests."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from hypothesis import strategies as st

from results import trace as t

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["\ud83d", "a\n\u2028", "root"])
NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SECONDS = st.none() | st.floats(0, 1e6)
COUNTS = st.none() | st.integers(0, 2**53)
MAYBE = st.none() | TEXTS


def known(record: type[t.Header | t.Event]) -> set[str]:
    names = {each.name for each in fields(record)} | {"type", "class"}
    return names - {"extra"}


def extra(record: type[t.Header | t.Event]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(TEXTS.filter(lambda name: name not in known(record)), VALUES, max_size=2)


def block() -> st.SearchStrategy[dict[str, Any]]:
    other = st.fixed_dictionaries({"type": st.just("image"), "data": VALUES, "10": VALUES, "9": VALUES})
    return st.builds(lambda text: {"type": "text", "text": text}, TEXTS) | other


def build(record: Any, **given: Any) -> st.SearchStrategy[Any]:
    return st.builds(record, **given, agent=TEXTS, t=SECONDS, extra=extra(record))


HEADERS = st.builds(
    t.Header, episode=TEXTS, scenario=MAYBE, source=TEXTS, meta=st.dictionaries(TEXTS, VALUES), extra=extra(t.Header)
)
EVENTS = st.one_of(
    build(t.User, text=TEXTS),
    build(t.Notice, text=TEXTS, source=MAYBE),
    build(
        t.Step,
        n=st.integers(1, 99),
        calls=st.integers(0, 9),
        input_tokens=COUNTS,
        output_tokens=COUNTS,
        seconds=SECONDS,
        finish=MAYBE,
        tape_key=MAYBE,
        prompt_digest=MAYBE,
        primed=st.booleans(),
    ),
    build(t.Call, id=TEXTS, step=COUNTS, tool=TEXTS, args=VALUES, primed=st.booleans()),
    build(
        t.Result,
        id=TEXTS,
        content=st.lists(block(), max_size=3).map(tuple),
        error=st.booleans(),
        denied_by=MAYBE,
    ),
    build(
        t.Compaction,
        trigger=st.sampled_from(get_args(t.Trigger)),
        outcome=st.sampled_from(get_args(t.Outcome)),
        plane=MAYBE,
        summary_calls=COUNTS,
        tokens_before=COUNTS,
        tokens_after=COUNTS,
        seconds=SECONDS,
    ),
    build(
        t.Guard,
        guard=TEXTS,
        plane=MAYBE,
        action=st.sampled_from(get_args(t.Action)),
        call=MAYBE,
        kind=MAYBE,
        count=COUNTS,
        limit=COUNTS,
        reason=MAYBE,
    ),
    build(t.Label, call=TEXTS, judged=st.sampled_from(get_args(t.Judged)), why=TEXTS, unit=st.booleans()),
    build(t.Spawn, child=TEXTS, purpose=MAYBE),
    build(t.End, reason=st.sampled_from(get_args(t.Reason)), success=st.none() | st.booleans()),
    build(t.Unknown, name=TEXTS.filter(lambda name: name not in t.EVENTS)),
)
TRACES = st.builds(t.Trace, HEADERS, st.lists(EVENTS, max_size=6).map(tuple))
