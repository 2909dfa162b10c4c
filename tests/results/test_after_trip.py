"""What an agent did after the first trip."""

from __future__ import annotations

import pytest

from results.after_trip import MARKS, after_trip
from tests.results.script import episode


def marks(script: str, **given: object) -> set[str]:
    found = after_trip(episode(script, arm="host", **given))
    return {mark for mark in MARKS if getattr(found, mark)}


@pytest.mark.parametrize(
    ("script", "given", "expected"),
    [
        ("s s!cb@host n n", {"end": "completed", "success": True}, {"completed", "changed"}),
        ("s s!cb@host", {"end": "completed"}, {"stopped"}),
        ("s s!cb@host s!cb@host s!cb@host", {}, {"zombie"}),
        # Nothing came after the trip: no zombie. Denied to an end of its own: none either.
        ("s s!cb@host", {}, set()),
        ("s s!cb@host s!cb@host", {"end": "completed"}, {"stopped"}),
        ("s s!cb@host s!cb@host s", {}, {"evaded"}),
        # The third call after the trip counts as a change, the fourth does not; a denied one shows the change too.
        ("s!cb@host s s e", {}, {"evaded", "changed"}),
        ("s!cb@host r r r n", {}, set()),
        ("s!cb@host n!cb@host", {}, {"changed", "zombie"}),
        ("s!cb@host s", {"end": "overflow"}, {"evaded", "overflowed"}),
        # Later calls of the agent that was tripped alone.
        ("A:s A:s!cb@host n s A:s!cb@host", {}, {"zombie"}),
    ],
)
def test_after_a_denial(script, given, expected):
    assert marks(script, **given) == expected


@pytest.mark.parametrize(
    ("script", "given", "expected"),
    [
        ("n C X@host s X@host s X@host", {}, {"zombie"}),
        # Work went on under refusals.
        ("n C X@host u X@host", {}, {"changed"}),
        # The other plane compacted, with nothing done.
        ("n C X@host s C", {}, {"evaded"}),
        ("n C X@host", {"end": "overflow"}, {"overflowed"}),
        ("n C X@host M n", {"end": "completed", "success": True}, {"completed", "changed"}),
    ],
)
def test_after_a_refusal(script, given, expected):
    assert marks(script, **given) == expected


def test_a_trip_on_the_script_is_not_the_first():
    found = after_trip(episode("ps!cb@host s s!cb@host s!cb@host", arm="host"))
    assert found.trip.index == 3
    assert after_trip(episode("ps!cb@host s?lg@host s", arm="host")) is None
