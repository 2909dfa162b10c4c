"""deer-flow: sets of calls by what is salient in them, and how often one tool is called."""

from __future__ import annotations

import pytest

from guards.peers.deer_flow import salient
from tests.guards.peers.script import USER, Does, Together, decided, denied, nudged, short, trace


class TestSets:
    def test_warns_at_three_and_stops_at_five(self):
        assert decided("deer-flow", *"AAAAAA") == [
            ("nudge", "same-calls", 3, 3, 3),
            ("deny", "same-calls", 5, 5, 5),
            ("deny", "halted", 6, 5, 5),
        ]

    @pytest.mark.parametrize(("calls", "found"), [(2, []), (3, [3]), (4, [3])])
    def test_the_warning_comes_once(self, calls, found):
        assert nudged("deer-flow", *"A" * calls) == found

    def test_others_between_do_not_matter(self):
        assert denied("deer-flow", *"ABACADAEA") == [9]

    @pytest.mark.parametrize(("between", "found"), [(15, [20]), (16, [])])
    def test_the_window_holds_twenty(self, between, found):
        assert denied("deer-flow", *"AAAA", *(f"b{n}" for n in range(between)), "A") == found

    def test_what_has_left_the_window_is_warned_about_again(self):
        acts = [*"AAA", *(f"b{n}" for n in range(20)), *"AAA"]
        assert nudged("deer-flow", *acts) == [3, 26]

    def test_a_set_is_known_by_all_of_its_calls_in_any_order(self):
        one, two = Together(("A", "B")), Together(("B", "A"))
        assert decided("deer-flow", one, two, one, two, one) == [
            ("nudge", "same-calls", 6, 3, 3),
            ("deny", "same-calls", 10, 5, 5),
        ]
        assert denied("deer-flow", one, "A", "B", "A", "B", one, one, "A", "B") == []
        assert denied("deer-flow", *[Together(("A", "A"))] * 2, *"AAAA") == []

    def test_a_user_message_begins_a_run(self):
        assert denied("deer-flow", *"AAAA", USER, "A") == []
        assert denied("deer-flow", *"AAAAA", USER, "A") == [5]

    def test_results_are_not_looked_at(self):
        assert denied("deer-flow", *(Does(result=str(n)) for n in range(5))) == [5]

    def test_calls_without_a_step_are_sets_of_one(self):
        assert [each[:3] for each in short("deer-flow", trace(Together(("A",) * 5), steps=False))] == [
            ("deny", "same-calls", 5),
            ("nudge", "same-calls", 3),
        ]


@pytest.mark.parametrize(
    ("tool", "one", "two", "same"),
    [
        ("bash", {"command": "ls", "reason": "a"}, {"command": "ls", "reason": "b"}, True),
        ("bash", {"command": "ls", "cmd": None}, {"command": "ls"}, True),
        ("bash", {"command": "ls"}, {"command": "ls "}, False),
        ("note", {"text": "a"}, {"text": "b"}, False),
        ("read_file", {"path": "a", "start_line": 1, "end_line": 199}, {"path": "a", "start_line": "7"}, True),
        ("read_file", {"path": "a", "start_line": 200}, {"path": "a", "start_line": 201}, False),
        ("read_file", {"path": "a", "start_line": 400, "end_line": 201}, {"path": "a", "start_line": 300}, True),
        ("read_file", {"path": "a", "start_line": 200, "end_line": 201}, {"path": "a", "start_line": 200}, False),
        ("read_file", {"path": "a", "start_line": -5}, {"path": "a", "start_line": "x"}, True),
        ("read_file", {"path": "a", "start_line": float("inf")}, {"path": "a"}, True),
        ("read_file", {"path": "a"}, {"path": "b"}, False),
        ("write_file", {"path": "a", "content": "1"}, {"path": "a", "content": "2"}, False),
        ("bash", '{"command": "ls", "n": 1}', {"command": "ls"}, True),
        ("bash", "torn {", "torn {", True),
        ("bash", "torn {", "torn [", False),
        ("bash", "[1]", [1], True),
    ],
)
def test_what_is_salient(tool, one, two, same):
    assert (salient(tool, one) == salient(tool, two)) is same


class TestFrequency:
    def calls(self, count, first=0):
        return [f"n{n}" for n in range(first, first + count)]

    @pytest.mark.parametrize(("count", "found"), [(29, []), (30, [30]), (40, [30])])
    def test_thirty_of_one_tool(self, count, found):
        assert nudged("deer-flow", *self.calls(count)) == found

    @pytest.mark.parametrize(("count", "found"), [(49, []), (50, [50]), (51, [50, 51])])
    def test_fifty_of_one_tool(self, count, found):
        assert denied("deer-flow", *self.calls(count)) == found
        assert denied("deer-flow", *self.calls(25), USER, *self.calls(25, 25)) == []

    def test_of_the_last_fifty_calls(self):
        others = [Does("other", {"n": n}) for n in range(20)]
        assert nudged("deer-flow", *self.calls(29), *others, *self.calls(1, 29)) == [50]
        assert denied("deer-flow", *self.calls(29), *others, *self.calls(29, 29)) == []

    def test_warned_again_when_they_had_been_fewer(self):
        others = [Does(f"other{n % 2}", {"n": n}) for n in range(25)]
        acts = [*self.calls(30), *others, *self.calls(30, 30)]
        assert nudged("deer-flow", *acts) == [30, 85]

    def test_a_response_with_several(self):
        assert nudged("deer-flow", *(Together(tuple(self.calls(4, 4 * n))) for n in range(8))) == [32]


def test_switched_off():
    assert decided("deer-flow", *"A" * 9, enabled=False) == []
