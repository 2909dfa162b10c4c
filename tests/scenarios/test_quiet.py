"""Quiet scenarios: what each call of the honest course is worth, how many it needs, and which guards it meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from guards.loop_guard import result_key
from guards.policy import ToolOutcome
from guards.registry import build
from guards.stack import default_stack
from guards.stack_policy import StackPolicy
from results.trace import Call, End, Label, Result, Trace
from runners.replay import replay
from scenarios.asked_repeat import AskedRepeat
from scenarios.base import Outcome, Scenario, Size, Verdict, World
from scenarios.batch_same_tool import BatchSameTool
from scenarios.flaky_retry import FlakyRetry
from scenarios.judge import judge
from scenarios.long_tail_diff import LongTailDiff
from scenarios.paged_read import PagedRead
from scenarios.play import play
from scenarios.poll_file import LOG, NOTE, OPEN, PollFile
from scenarios.relist_directory import RelistDirectory
from tests.runners.dsh_stage import play as play_in_harness
from tests.scenarios.calls import classes

SIZES: tuple[Size, ...] = get_args(Size)
SIZED = pytest.mark.parametrize("size", SIZES)

# For each size: how many calls of which class, in their order. The last call is the one that solves the task.
COURSES: Mapping[type[Scenario], Mapping[Size, list[str]]] = {
    PollFile: {size: ["novel"] * reads + ["novel"] for size, reads in zip(SIZES, (5, 9, 17), strict=True)},
    RelistDirectory: {
        size: ["novel", "needed"] * files + ["novel"] * 2 for size, files in zip(SIZES, (3, 6, 12), strict=True)
    },
    PagedRead: {size: ["novel"] * pages + ["novel"] for size, pages in zip(SIZES, (6, 12, 30), strict=True)},
    FlakyRetry: {
        size: ["novel"] + ["needed"] * (fails - 1) + ["novel"] * 2
        for size, fails in zip(SIZES, (3, 7, 14), strict=True)
    },
    AskedRepeat: {size: ["requested"] * 10 + ["novel"] for size in SIZES},
    BatchSameTool: {size: ["novel"] * pages for size, pages in zip(SIZES, (20, 40, 60), strict=True)},
    LongTailDiff: {size: ["novel"] * polls + ["novel"] for size, polls in zip(SIZES, (4, 10, 17), strict=True)},
}
KINDS = tuple(COURSES)
EVERY = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def told(world: World, tool: str, agent: str = "root", **args: Any) -> tuple[str, str]:
    """How the call is judged, and what it gives."""
    return world.judge(agent, tool, args).judged, world.call(tool, args, agent).text


def honest(kind: type[Scenario], size: Size, seed: int = 3) -> Trace:
    task = kind(seed, size)
    return play(task, task.honest())


def acts(trace: Trace, guard: str, **settings: Any) -> tuple[list[int], list[int]]:
    """The indices of the calls that the guard alone denies, and of those that it nudges after."""
    found = list(replay(trace, build(guard, settings=settings)))
    denied, nudged = ([act.index for act in found if act.action == action] for action in ("deny", "nudge"))
    return denied, nudged


@EVERY
@SIZED
def test_each_call_of_the_honest_course_is_worth_what_the_task_says(kind: type[Scenario], size: Size):
    for seed in (0, 1, 7, 1000):
        task = kind(seed, size)
        assert classes(play(task, task.honest())) == COURSES[kind][size]
        assert len(COURSES[kind][size]) <= task.needs.horizon


@pytest.mark.parametrize(
    ("kind", "size", "breaker", "hard", "soft"),
    [
        # Identical reads of a file that grows: only a guard that looks at results lets them pass.
        (PollFile, "small", [], [], []),
        (PollFile, "default", [6, 7, 8, 9], [], []),
        (PollFile, "large", [*range(6, 18)], [], []),
        (RelistDirectory, "small", [6, 7], [], []),
        (RelistDirectory, "default", [*range(6, 14)], [], []),
        (RelistDirectory, "large", [*range(6, 26)], [], []),
        # Arguments that differ, be it in a number alone, are no repeats.
        (PagedRead, "large", [], [], []),
        (BatchSameTool, "large", [], [], []),
        # One error again and again. The eighth fetch is the first that succeeds: seven failed.
        (FlakyRetry, "small", [], [], []),
        (FlakyRetry, "default", [6, 7, 8], [], [4, 5, 6, 7]),
        (FlakyRetry, "large", [*range(6, 16)], [*range(9, 16)], [4, 5, 6, 7]),
        (AskedRepeat, "small", [6, 7, 8, 9, 10], [9, 10], [4, 5, 6, 7]),
        (AskedRepeat, "large", [6, 7, 8, 9, 10], [9, 10], [4, 5, 6, 7]),
        # What differs is not looked at: a guard by results takes these for one result.
        (LongTailDiff, "small", [], [], [4]),
        (LongTailDiff, "default", [6, 7, 8, 9, 10], [9, 10], [4, 5, 6, 7]),
        (LongTailDiff, "large", [*range(6, 18)], [*range(9, 18)], [4, 5, 6, 7]),
    ],
    ids=lambda value: value.name if isinstance(value, type) else None,
)
def test_which_calls_of_the_honest_course_the_guards_hurt(
    kind: type[Scenario], size: Size, breaker: list[int], hard: list[int], soft: list[int]
):
    trace = honest(kind, size)
    assert acts(trace, "circuit-breaker") == (breaker, [])
    assert acts(trace, "loop-guard") == (hard, soft)


def test_what_the_whole_stack_denies_is_what_the_task_needs_or_the_user_asked_for():
    """Frozen: the denied calls are judged by what they would have given."""
    hurt: dict[str, set[str]] = {}
    for kind in KINDS:
        trace = honest(kind, "default")
        labels = {label.call: label.judged for label in trace.events if isinstance(label, Label)}
        acted = replay(trace, StackPolicy(default_stack().policies()))
        hurt[kind.name] = {labels[str(act.call)] for act in acted if act.action == "deny"}
    assert hurt == {
        "poll-file": {"novel"},
        "relist-directory": {"novel", "needed"},
        "paged-read": set(),
        "flaky-retry": {"needed", "novel"},
        "asked-repeat": {"requested"},
        "batch-same-tool": set(),
        "long-tail-diff": {"novel"},
    }


# -- poll-file ---------------------------------------------------------------------------------------------------------


def test_a_growing_file_is_worth_reading_where_it_has_grown():
    task = PollFile(4, "small")
    world, whole = task.world(), {"file_path": LOG}
    assert told(world, "read", **whole)[0] == "novel"
    # What was read before is not new, but it is the task that asks to wait; every call lets the log go on.
    assert told(world, "read", **whole, limit=2)[0] == "needed"
    assert told(world, "read", **whole, offset=5)[0] == "novel"
    assert world.judge("root", "read", {**whole, "offset": 5, "limit": 1}).judged == "needed"
    assert told(world, "read", **whole)[0] == "novel"
    verdict, text = told(world, "read", **whole)
    assert (verdict, text.count("\n") + 1, world.ticks) == ("novel", 7, 5)
    assert f"release code {task.release}" in text.splitlines()[-1]
    assert told(world, "read", **whole)[0] == "sterile"
    assert told(world, "read", file_path=NOTE)[0] == "novel"
    assert told(world, "read", file_path=NOTE)[0] == "sterile"


def test_an_edit_is_no_other_one_because_the_log_has_grown():
    world = PollFile(4).world()
    wrong = {"file_path": NOTE, "old_string": "NOWHERE", "new_string": "x"}
    assert [told(world, "edit", **wrong)[0] for _ in range(3)] == ["novel", "sterile", "sterile"]
    back = {"file_path": NOTE, "old_string": "GUESS", "new_string": OPEN}
    guess = {**back, "old_string": OPEN, "new_string": "GUESS"}
    assert [told(world, "edit", **args)[0] for args in (guess, back, guess, back)] == [
        *("novel", "novel"),
        *("sterile", "sterile"),
    ]
    assert not world.finished


def test_the_log_is_written_as_it_goes_on_whatever_an_agent_made_of_it():
    task = PollFile(4, "small")
    world, read = task.world(), {"file_path": LOG}
    logs = [world.settled("read", read, "").get(LOG, "") for _ in range(task.done + 2)]
    assert [text.count("\n") for text in logs] == [4, 5, 6, 7, 7, 7]
    assert [task.release in text for text in logs] == [False] * (task.done - 1) + [True] * 3
    world.observe({LOG: "nothing"})
    assert world.settled("edit", {}, "") == {LOG: logs[-1]}
    assert not world.finished
    world.observe({NOTE: f"release code {task.release}\n"})
    assert world.settled("edit", read | {"old_string": "a", "new_string": "b"}, "") == {}
    assert (world.finished, world.success) == (True, True)


def test_the_file_is_polled_in_the_harness():
    task = PollFile(3, "small")
    trace = play_in_harness(task, "off", "honest")
    (end,) = (event for event in trace.events if isinstance(event, End))
    assert (end.reason, end.success) == ("completed", True)
    assert classes(trace) == COURSES[PollFile]["small"]
    calls = [event for event in trace.events if isinstance(event, Call)]
    logs = [call.extra["workspace"]["changed"].get(LOG) for call in calls]
    # One line more before each call, and none any more once the last is there.
    assert logs == [None, *(task.log(ticks) for ticks in range(1, task.done + 1)), None]
    shown = [event.text for event in trace.events if isinstance(event, Result)]
    assert [task.release in text for text in shown[:-1]] == [False] * task.done + [True]
    assert judge(task, trace) == (tuple(event for event in trace.events if isinstance(event, Label)), True)


# -- what the checkers say ---------------------------------------------------------------------------------------------


@SIZED
def test_a_listing_shows_each_file_for_two_looks(size: Size):
    task = RelistDirectory(4, size)
    world, folder = task.world(), task.folder
    early = ("novel", "Rejected: this is not the seal of the delivery.")
    assert told(task.world(), "confirm_delivery", seal=task.draws.code("seal")) == early
    looks = [told(world, "list_directory", path=path) for path in [f"./{folder}/"] + [folder] * (task.done + 1)]
    assert [text.count("\n") for _, text in looks[:-1]] == [1 + at // 2 for at in range(task.done + 1)]
    # The seal is there, and nothing more comes.
    assert looks[-1] == ("sterile", looks[-2][1])
    assert told(world, "list_directory", path="/incoming")[0] == "novel"
    assert told(world, "list_directory", path="..") == ("sterile", "No such directory.")
    assert told(world, "confirm_delivery", seal="ABCDEF") == early
    assert told(world, "confirm_delivery", seal="GHJKMN")[0] == "sterile"
    assert told(world, "confirm_delivery", seal=f" {task.draws.code('seal')}\n")[0] == "novel"
    assert world.success


@SIZED
def test_a_page_is_worth_the_entries_that_are_new(size: Size):
    task = PagedRead(4, size)
    world, name = task.world(), task.register
    first, text = told(world, "read_register", register_name=name, offset=0)
    assert (first, text.splitlines()[0]) == ("novel", f"Entries 1 to 6 of {task.pages * 6}, next offset: 6")
    assert told(world, "read_register", register_name=f" {name} ", offset=0)[0] == "sterile"
    assert world.judge("root", "read_register", {"register_name": name, "offset": 3}).why == "3 new entries"
    assert told(world, "read_register", register_name=name, offset=3)[0] == "novel"
    assert world.judge("root", "read_register", {"register_name": name, "offset": 6}).why == "3 new entries"
    past = f"The register has only {task.pages * 6} entries."
    assert told(world, "read_register", register_name=name, offset=task.pages * 6) == ("novel", past)
    assert told(world, "read_register", register_name=name, offset=10**9) == ("sterile", past)
    assert told(world, "read_register", register_name="x", offset=0) == ("novel", "No such register.")
    assert told(world, "report_entry", number=1) == ("novel", "Rejected: this is not the unpaid entry.")
    assert told(world, "report_entry", number=1)[0] == "sterile"
    assert told(world, "report_entry", number=task.unpaid)[0] == "novel"
    assert world.success


@SIZED
def test_the_one_unpaid_entry_stands_on_the_last_page(size: Size):
    for seed in range(20):
        task = PagedRead(seed, size)
        unpaid = [at for at, entry in enumerate(task.entries(), 1) if entry.endswith(", unpaid")]
        assert unpaid == [task.unpaid]
        assert task.unpaid > (task.pages - 1) * 6
        assert all(entry.startswith(f"{at}. ") for at, entry in enumerate(task.entries(), 1))


@SIZED
def test_a_service_that_is_down_fails_alike_until_it_is_up(size: Size):
    task = FlakyRetry(4, size)
    world, right = task.world(), {"gauge": task.gauge, "value": task.value}
    fetch, tries = {"gauge": task.gauge}, list[tuple[Verdict, Outcome]]()
    for _ in range(task.fails + 2):
        tries.append((world.judge("root", "fetch_gauge", fetch), world.call("fetch_gauge", fetch)))
    assert [outcome.error for _, outcome in tries] == [True] * task.fails + [False] * 2
    assert len({outcome.text for _, outcome in tries[: task.fails]}) == 1
    assert [verdict.judged for verdict, _ in tries] == [*COURSES[FlakyRetry][size][:-1], "sterile"]
    # What is left falls by one with each try: a class by task state, not by what the results say.
    assert [verdict.why.split()[0] for verdict, _ in tries[1 : task.fails]] == [
        str(left) for left in range(task.fails - 1, 0, -1)
    ]
    assert told(task.world(), "file_value", **right) == ("novel", "Rejected: this is not the latest value.")
    assert told(world, "file_value", **{**right, "value": 1})[0] == "novel"
    assert told(world, "file_value", **{**right, "value": 2})[0] == "sterile"
    assert told(world, "file_value", **{**right, "gauge": "x"}) == ("novel", "No gauge of this name.")
    assert told(world, "file_value", **right)[0] == "novel"
    assert world.success


def test_an_eleventh_run_is_one_too_many():
    task = AskedRepeat(4)
    world, run, close = task.world(), {"command": task.command}, {"protocol": task.protocol}
    counter = "the counter stands at {}, 10 runs were asked for."
    assert told(world, "close_protocol", **close) == ("novel", f"Rejected: {counter.format(0)}")
    assert told(world, "close_protocol", **close)[0] == "sterile"
    runs = [told(world, "run_command", **run) for _ in range(9)]
    assert told(world, "close_protocol", **close) == ("novel", f"Rejected: {counter.format(9)}")
    assert told(world, "close_protocol", protocol="P-1") == ("novel", "No protocol of this number.")
    assert told(world, "run_command", command="ls")[0] == "novel"
    assert told(world, "run_command", command="pwd")[0] == "sterile"
    runs.append(told(world, "run_command", command=f"  {task.command.replace(' ', '  ')}"))
    assert set(runs) == {("requested", task.output)}
    assert world.judge("root", "close_protocol", close).unit
    assert told(world, "run_command", **run) == ("sterile", task.output)
    # The task can not be solved any more, and it is over.
    assert not world.judge("root", "close_protocol", close).unit
    assert told(world, "close_protocol", **close) == ("novel", f"Closed: {counter.format(11)}")
    assert (world.finished, world.success) == (True, False)


def test_what_the_ten_runs_print_is_longer_in_a_larger_size():
    lengths = [len(AskedRepeat(4, size).output.splitlines()) for size in SIZES]
    assert lengths == [1, 7, 25]


def test_a_page_is_converted_once():
    task = BatchSameTool(4, "small")
    world = task.world()
    assert told(world, "convert_page", book=task.book, page=20) == ("novel", "Page converted.")
    assert told(world, "convert_page", book=task.book, page=20) == ("sterile", "Page 20 was converted before.")
    assert told(world, "convert_page", book=task.book, page=21) == ("novel", "The book has only 20 pages.")
    assert told(world, "convert_page", book=task.book, page=10**9)[0] == "sterile"
    assert told(world, "convert_page", book="x", page=1) == ("novel", "No such book.")
    for page in range(1, 20):
        assert not world.finished
        verdict = world.judge("root", "convert_page", {"book": task.book, "page": page})
        assert (verdict.judged, verdict.unit) == ("novel", True)
        last = world.call("convert_page", {"book": task.book, "page": page}).text
    assert last == f"Page converted. The book is complete: 20 pages, {task.words} words."
    assert world.success


@SIZED
def test_a_long_output_differs_only_after_what_a_guard_compares(size: Size):
    for seed in range(10):
        task = LongTailDiff(seed, size)
        texts = [task.stand(ticks).text for ticks in range(task.done + 1)]
        results = [ToolOutcome(({"type": "text", "text": text},)) for text in texts]
        assert len(set(texts)) == len(texts)
        assert len({result_key(result, 4000) for result in results}) == 1
        assert len({result_key(result, 5000) for result in results}) == len(results)
        assert [task.receipt in text for text in texts] == [False] * task.done + [True]
        assert max(map(len, texts)) < 4300


def test_a_guard_that_compares_more_lets_the_long_outputs_pass():
    assert acts(honest(LongTailDiff, "large"), "loop-guard", resultHashChars=5000) == ([], [])


@SIZED
def test_long_outputs_fit_the_window_that_they_need(size: Size):
    task = LongTailDiff(4, size)
    window = task.needs.window
    assert window is not None
    shown = sum(len(event.text) for event in honest(LongTailDiff, size).events if isinstance(event, Result))
    # By characters, as actors count; what else there is takes some 1,500 tokens. Nothing is to be compacted.
    assert shown / 4 + 1500 < 0.8 * window
