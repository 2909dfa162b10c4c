"""Qwen Code: the streak and the cap that are always on, and the four detectors that are not."""

from __future__ import annotations

import pytest

from tests.guards.peers.script import USER, Does, Together, decided, denied


def reads(count, tool="read_file"):
    return [Does(tool, {"path": f"f{n}"}) for n in range(count)]


def boards(*shown):
    return [Does("task_list", {}, text) for text in shown]


def others(count):
    return [f"w{n}" for n in range(count)]


class TestConsecutive:
    @pytest.mark.parametrize(("calls", "found"), [(4, []), (5, [5]), (6, [5, 6])])
    def test_the_fifth_is_not_run(self, calls, found):
        assert denied("qwen-code", *["A"] * calls) == found

    def test_the_decision_and_the_stop(self):
        assert decided("qwen-code", *"AAAAAB") == [("deny", "consecutive", 5, 5, 5), ("deny", "halted", 6, 5, 5)]

    def test_changing_results_do_not_help(self):
        assert denied("qwen-code", *(Does(result=str(n)) for n in range(5))) == [5]

    def test_the_order_of_names_does_not_matter(self):
        one, two = Does(args={"a": 1, "b": 2}), Does(args={"b": 2, "a": 1})
        assert denied("qwen-code", one, two, one, two, one) == [5]

    def test_a_user_message_begins_a_turn(self):
        assert denied("qwen-code", *"AAAA", USER, *"AAAA") == []
        assert denied("qwen-code", *"AAAAA", USER, "A") == [5]


class TestStatefulReaders:
    def test_a_board_that_changes_is_read_on(self):
        """As QwenLM/qwen-code#9450 asks."""
        assert denied("qwen-code", *boards(*"123456789")) == []

    def test_a_board_that_stands_still_is_not(self):
        assert denied("qwen-code", *boards(*"1111"), *boards("1")) == [5]

    def test_a_change_begins_a_streak_of_its_own(self):
        """The fifth call, whose results so far differ, is number 1 again."""
        assert denied("qwen-code", *boards(*"12222222")) == []
        assert denied("qwen-code", *boards(*"122222222")) == [9]

    def test_missing_results_are_no_change(self):
        unsettled = [Does("task_list", {}, None)] * 3
        assert denied("qwen-code", *boards("1"), *unsettled, *boards("2")) == [5]

    def test_one_missing_result_is_enough(self):
        assert denied("qwen-code", *boards(*"122"), Does("task_list", {}, None), *boards("2")) == [5]

    def test_results_of_an_earlier_streak_and_of_other_boards_do_not_count(self):
        assert denied("qwen-code", *boards(*"11"), "A", *boards(*"22222")) == [8]
        other = Does("task_list", {"of": "other"}, "x")
        assert denied("qwen-code", Together((other, *boards("1"))), *boards(*"1111")) == [6]

    def test_other_tools_can_be_named(self):
        assert denied("qwen-code", *boards(*"12345"), statefulReadTools=[]) == [5]


class TestCap:
    @pytest.mark.parametrize(("repeats", "found"), [(5, []), (6, [101])])
    def test_beyond_100_with_a_repeat(self, repeats, found):
        acts = [each for n in range(repeats) for each in ("A", f"b{n}")] + others(101 - 2 * repeats)
        assert denied("qwen-code", *acts[:100]) == []
        assert denied("qwen-code", *acts) == found

    def test_the_sixth_repeat_beyond_100(self):
        acts = [each for n in range(5) for each in ("A", f"b{n}")] + others(95)
        assert decided("qwen-code", *acts, "A") == [("deny", "cap", 106, 106, 100)]

    def test_beyond_1000_always(self):
        assert denied("qwen-code", *others(1000)) == []
        assert decided("qwen-code", *others(1001)) == [("deny", "cap", 1001, 1001, 1000)]

    def test_an_explicit_cap_is_hard(self):
        assert decided("qwen-code", *"ABCD", maxToolCallsPerTurn=3) == [("deny", "cap", 4, 4, 3)]
        assert denied("qwen-code", *"ABC", USER, *"ABC", maxToolCallsPerTurn=3) == []
        assert denied("qwen-code", *"AB", maxToolCallsPerTurn=1) == [2]
        assert denied("qwen-code", *others(1001), maxToolCallsPerTurn=0) == []


class TestOffByDefault:
    def test_none_of_them_is_on(self):
        acts = [*"ABABABABABAB", *reads(20), *"ABC"]
        assert decided("qwen-code", *acts) == []
        assert decided("qwen-code", *acts, preset="all") != []

    @pytest.mark.parametrize(("times", "found"), [(5, []), (6, [16])])
    def test_six_identical_calls_anywhere(self, times, found):
        acts = [each for n in range(times) for each in ("A", f"b{n}", f"c{n}")]
        assert denied("qwen-code", *acts, preset="all", stagnation=99)[:1] == found

    @pytest.mark.parametrize(("acts", "found"), [("ABABA", []), ("ABABAB", [6]), ("ABABBA", []), ("CABABAB", [7])])
    def test_three_rounds_of_two(self, acts, found):
        assert denied("qwen-code", *acts, preset="all") == found

    @pytest.mark.parametrize(("calls", "found"), [(7, []), (8, [8])])
    def test_one_tool_in_a_row(self, calls, found):
        assert denied("qwen-code", *others(calls), preset="all") == found
        assert [each[:2] for each in decided("qwen-code", *others(calls), preset="all")] == (
            [("deny", "stagnation")] if found else []
        )

    def test_another_tool_between(self):
        assert denied("qwen-code", *others(7), Does("write"), *others(7), preset="all") == []

    def test_reads_of_a_cold_start_are_no_loop(self):
        """As QwenLM/qwen-code#3236 asks."""
        mixed = [each for pair in zip(reads(6), reads(6, "list_directory"), strict=True) for each in pair]
        assert denied("qwen-code", *mixed, preset="all") == []
        assert decided("qwen-code", Does("write"), *mixed, preset="all")[0] == ("deny", "read-file", 9, 8, 8)

    def test_eight_reads_of_fifteen(self):
        work = [Does("run", {"n": n}) for n in range(7)]
        acts = [each for pair in zip(work, reads(7), strict=True) for each in pair]
        assert denied("qwen-code", *acts, preset="all") == []
        assert denied("qwen-code", *acts, *reads(1, "list_directory"), preset="all") == [15]

    def test_the_window_forgets(self):
        work, files = [Does("run", {"n": n}) for n in range(8)], reads(8)
        acts = [files[0], work[0], work[1]]
        acts += [each for pair in zip(files[1:7], work[2:8], strict=True) for each in pair]
        assert denied("qwen-code", *acts, files[7], preset="all") == []
        assert denied("qwen-code", work[0], *acts[3:], *reads(2, "list_x"), preset="all") == [15]
