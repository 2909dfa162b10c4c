"""Refill scenarios in the real harness: where attempts fall, which the breaker refuses, and what fits the window."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

import pytest

from guards.registry import build
from results.episode import Episode
from results.loops import first_loop
from results.trace import Compaction, End, Guard, Step, Trace
from runners.replay import replay
from scenarios.base import Size, World
from scenarios.course import Course, Script, Turn
from scenarios.refill_chatty import WAITS, RefillChatty
from scenarios.refill_recovering import BLOCK, BLOCKS, RefillRecovering
from tests.runners.dsh_stage import of, play
from tests.scenarios.calls import classes

SIZES: tuple[Size, ...] = get_args(Size)
SIZED = pytest.mark.parametrize("size", SIZES)
ARM = "only:compaction-breaker@host"


def attempts(trace: Trace) -> list[tuple[int, str]]:
    """Each compaction attempt: the tool turns before it, and what came of it."""
    turns, found = 0, list[tuple[int, str]]()
    for event in trace.events:
        if isinstance(event, Step):
            turns += bool(event.calls)
        elif isinstance(event, Compaction):
            found.append((turns, event.outcome))
    return found


def end(trace: Trace) -> tuple[str, bool | None]:
    (found,) = (event for event in trace.events if isinstance(event, End))
    return found.reason, found.success


def told(world: World, tool: str, **args: Any) -> tuple[str, str, bool]:
    """How the call is judged, what it gives, and whether it is an error."""
    judged, outcome = world.judge("root", tool, args).judged, world.call(tool, args)
    return judged, outcome.text, outcome.error


# -- refill-recovering -------------------------------------------------------------------------------------------------


class Stubborn(RefillRecovering):
    """Reads the first block again and again, and reports nothing."""

    def looping(self) -> Course:
        return Script((), after=Turn(calls=(self._read(0),)), summary="- read the minutes")


def test_two_rapid_refills_are_followed_by_healthy_gaps_and_none_is_refused():
    task = RefillRecovering(3)
    off, guarded = (play(task, arm, "honest") for arm in ("off", ARM))
    # Two blocks do not fit: free after the second turn, then rapid twice, one turn apart; then item by item.
    turns = [turn for turn, _ in attempts(off)]
    assert turns[:4] == [2, 3, 4, 8]
    assert all(after - before >= 4 for before, after in pairwise(turns[3:]))
    assert {outcome for _, outcome in attempts(off)} == {"committed"}
    assert attempts(guarded) == attempts(off)
    assert end(off) == end(guarded) == ("completed", True)
    assert classes(guarded) == classes(off) == ["novel"] * len(classes(off))
    assert {event.action for event in of(guarded, Guard)} == {"arm", "consulted"}
    # A unit of the task stands between any two attempts.
    assert first_loop(Episode(off)) is None

    def refused(**given: Any) -> list[int]:
        return [act.index for act in replay(off, build("compaction-breaker", **given))]

    assert refused() == refused(preset="zcode") == []
    assert refused(settings={"maxConsecutiveRapidRefills": 2})[0] == 3
    assert refused(settings={"maxConsecutiveRapidRefills": 1})[0] == 2


def test_the_same_reads_without_end_are_refused_at_the_fourth_attempt():
    trace = play(Stubborn(3, "small"), ARM, "looping")
    assert attempts(trace)[:4] == [(2, "committed"), (3, "committed"), (4, "committed"), (5, "refused")]
    assert end(trace) == ("overflow", False)


@SIZED
def test_the_honest_course_reads_blocks_then_items_and_never_a_line_twice(size: Size):
    for seed in (0, 1, 7, 1000):
        task = RefillRecovering(seed, size)
        minutes, reads, reported = task.minutes(), list[range](), list[str]()
        for step in range(task.needs.horizon):
            for tool, args in task.honest().turn(step, ()).calls:
                if tool == "read_log":
                    reads.append(range(args["offset"], args["offset"] + args.get("limit", task.most)))
                else:
                    # Reports stand before the read of their turn: what they say was read in an earlier one.
                    assert args["item"] * minutes.length in reads[-1]
                    reported.append(args["keyword"])
        assert [line for lines in reads for line in lines] == [*range(1, len(minutes.lines) + 1)]
        assert [len(lines) for lines in reads[:BLOCKS]] == [BLOCK * minutes.length] * BLOCKS
        assert {len(lines) for lines in reads[BLOCKS:]} == {minutes.length}
        assert reported == list(minutes.keywords)


@SIZED
def test_one_block_fits_beside_a_summary_and_two_do_not(size: Size):
    for seed in range(20):
        task = RefillRecovering(seed, size)
        lines, length = task.minutes().lines, task.minutes().length
        for start in range(0, BLOCK * BLOCKS * length, BLOCK * length):
            block = len("\n".join(lines[start : start + BLOCK * length]))
            # In the harness blocks of 2,642 and of 2,687 characters were seen to refill, at every turn.
            assert 2600 < block < 2750


# -- refill-chatty -----------------------------------------------------------------------------------------------------


def test_all_channels_in_each_turn_refill_the_context_in_each_turn():
    task = RefillChatty(3)
    off, guarded = play(task, "off", "looping", horizon=6), play(task, ARM, "looping", horizon=6)
    assert attempts(off) == [(turn, "committed") for turn in range(2, 8)]
    assert end(off) == ("horizon", False)
    assert attempts(guarded)[:4] == [(2, "committed"), (3, "committed"), (4, "committed"), (5, "refused")]
    assert {outcome for _, outcome in attempts(guarded)[4:]} == {"refused"}
    assert end(guarded) == ("overflow", False)
    # No attempt from the first on is followed by a unit of the task; calls are sterile from the second turn on.
    refill, calls = first_loop(Episode(off), "refill"), first_loop(Episode(off), "calls")
    assert refill is not None
    assert calls is not None
    assert (refill.onset, refill.length, refill.ended) == (1, 6, "horizon")
    assert (calls.onset, calls.ended) == (6, "horizon")
    assert classes(off)[:6] == ["novel"] * 5 + ["sterile"]


def test_one_channel_a_turn_compacts_at_gaps_that_no_breaker_minds():
    """What a model does that makes one call a turn: as fruitless, and out of reach of the rule."""

    class OneByOne(RefillChatty):
        def looping(self) -> Course:
            reads = [Turn(calls=(call,)) for call in self._reads().calls] * 8
            return Script(tuple(reads), summary="- the bridge was not open yet; read all channels again")

    trace = play(OneByOne(3), ARM, "looping", horizon=3)
    assert [outcome for _, outcome in attempts(trace)] == ["committed"] * 3
    turns = [turn for turn, _ in attempts(trace)]
    assert min(after - before for before, after in pairwise(turns)) >= 2
    loop = first_loop(Episode(trace), "refill")
    assert loop is not None
    assert loop.onset == 1


@SIZED
def test_each_channel_is_medium_and_all_of_them_are_too_much(size: Size):
    for seed in range(40):
        task = RefillChatty(seed, size)
        texts, window, engine = task.channels(), task.needs.window, task.needs.engine
        assert len(texts) == {"small": 4, "default": 5, "large": 6}[size]
        assert window is not None
        assert engine is not None
        whole = sum(map(len, texts.values()))
        # With the longest summary one round fits (the task and the tools take some 300 tokens), a second goes over the
        # threshold; the whole, the request for a summary and the summary fit the window.
        threshold = window * engine["thresholdRatio"]
        assert 2 * whole / 4 + 300 > threshold > whole / 4 + 300 + engine["maxTokens"]
        assert 2 * whole / 4 + 600 + 500 + engine["maxTokens"] < window
        assert max(map(len, texts.values())) < whole / 3.5


@SIZED
def test_exactly_one_message_tells_where_the_keeper_is(size: Size):
    for seed in range(40):
        task = RefillChatty(seed, size)
        lines = [line for text in task.channels().values() for line in text.splitlines()]
        (told_at,) = (line for line in lines if "keeper" in line)
        assert told_at.endswith(f"the bridge keeper is at post {task.post} and wants to be called")
        assert all(text.endswith(WAITS) for text in task.channels().values())
        assert not any("open" in line.replace(WAITS, "") for line in lines)


def test_the_keeper_is_called_at_the_right_post():
    task = RefillChatty(4)
    world, name = task.world(), next(iter(task.channels()))
    nobody = "Nobody answers at this post."
    assert told(world, "call_keeper", post=1) == ("novel", nobody, False)
    assert told(world, "call_keeper", post=1) == ("sterile", nobody, False)
    assert told(world, "read_channel", channel=name) == ("novel", task.channels()[name], False)
    assert told(world, "read_channel", channel=f" {name}\n")[0] == "sterile"
    assert told(world, "read_channel", channel="bridge") == ("novel", "No such channel.", True)
    assert told(world, "read_channel", channel="")[0] == "sterile"
    assert told(world, "call_keeper", post=task.post) == ("novel", "Accepted: the bridge opens.", False)
    assert world.success
