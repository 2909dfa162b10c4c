"""Completion tokens, decoded and reused, by plain numbers."""

from __future__ import annotations

from results.trace import Compaction, Event, Header, Step, Trace
from runners.spent import tokens


def trace(arm: str, *events: Event) -> Trace:
    return Trace(Header(episode=arm, meta={"arm": arm}), events)


def step(key: str | None, count: int | None) -> Step:
    return Step(n=1, calls=0, output_tokens=count, tape_key=key)


def test_a_completion_is_decoded_once_and_reused_wherever_it_stands_again() -> None:
    off = trace("off", step("a", 10), step("b", 20))
    host = trace("host", step("a", 10), step("c", 5), step("a", 10))
    assert tokens([off, host]) == {
        "decoded": 35,
        "reused": 20,
        "by_arm": {"off": {"decoded": 30, "reused": 0}, "host": {"decoded": 5, "reused": 20}},
    }
    # Whoever comes first has decoded it.
    assert tokens([host, off])["by_arm"]["off"] == {"decoded": 20, "reused": 10}


def test_summaries_count_and_scripted_replies_do_not() -> None:
    attempt = Compaction(trigger="pressure", outcome="committed", extra={"output_tokens": 7, "tape_keys": ["s"]})
    bare = Compaction(trigger="pressure", outcome="refused", extra={"output_tokens": 0, "tape_keys": []})
    run = [trace("off", step(None, 9), step("a", 1), attempt, attempt, bare)]
    assert tokens(run) == {"decoded": 8, "reused": 7, "by_arm": {"off": {"decoded": 8, "reused": 7}}}
