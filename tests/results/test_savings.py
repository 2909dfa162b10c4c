"""What was saved and lost, worked out by hand: a response is 110 tokens and 2 s, a summary 5 s."""

from __future__ import annotations

from results.pairs import Pair
from results.savings import MEASURES, savings
from tests.results.script import episode


def saved(off: str, guarded: str):
    found = savings(Pair(episode(guarded, arm="host"), episode(off)))
    assert tuple(found) == MEASURES
    return {measure: (each.difference, each.after_onset, each.share) for measure, each in found.items()}


def test_denied_calls_are_saved_and_their_tokens_are_not():
    found = saved("n s s s s s", "n s s s s!cb@host s!cb@host")
    # `off` ran 6 calls, 5 of them from the onset on; the guarded agent ran 4.
    assert found["calls"] == (2, 5, 0.4)
    assert found["tokens"] == (0, 550, 0)
    assert found["seconds"] == (0, 10, 0)
    assert found["summary_calls"] == (0, 0, None)


def test_an_agent_that_stops_saves_tokens_too():
    found = saved("n s s s s s s s", "n s s s!cb@host")
    assert found["calls"] == (5, 7, 5 / 7)
    assert (found["tokens"], found["output_tokens"], found["seconds"]) == (
        (440, 770, 4 / 7),
        (40, 70, 4 / 7),
        (8, 14, 4 / 7),
    )


def test_doing_more_is_below_zero():
    assert saved("s s s", "s s s?lg@host n n")["calls"] == (-2, 3, -2 / 3)


def test_without_a_loop_there_is_no_share():
    assert saved("n n n e", "n n!cb@host")["calls"] == (3, None, None)


def test_summaries_are_saved_by_refusals():
    found = saved("n C n C n F n C", "n C n C n X@host n X@host")
    # 5 summaries in `off`, all from the onset on, 2 in the guarded one: 3 times 5 s less, beside equal responses.
    assert found["summary_calls"] == (3, 5, 0.6)
    assert found["seconds"] == (15, 3 * 2 + 25, 15 / 31)
    assert found["calls"] == (0, 3, 0)


def test_the_whole_tree_counts():
    found = saved("n A:s A:s A:s n", "n A:s A:s A:s!cb@host")
    assert found["calls"] == (2, 4, 0.5)


def test_primed_calls_are_nobodys():
    assert saved("ps ps s s s", "ps ps s!cb@host")["calls"] == (3, 3, 1)
