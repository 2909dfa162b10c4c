"""What is particular to a family of scenarios: checkers, queues, documents, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.annotated_args import AnnotatedArgs
from scenarios.base import Outcome, Scenario, Size, World
from scenarios.mirage import DOCUMENTS, SHOWN
from scenarios.poll_progress import PollProgress
from scenarios.poll_queued import PollQueued
from scenarios.refill_healthy import RefillHealthy
from scenarios.refill_oversized import RefillOversized
from scenarios.search_mirage import SearchMirage

SIZES: tuple[Size, ...] = ("small", "default", "large")


def told(world: World, tool: str, **args: Any) -> tuple[str, str, bool]:
    """How the call is judged, what it gives, and whether it is an error."""
    judged = world.judge("root", tool, args).judged
    outcome = world.call(tool, args)
    return judged, outcome.text, outcome.error


def after(task: Scenario, steps: int) -> World:
    """A world after some steps of the honest course."""
    world = task.world()
    for step in range(steps):
        ((tool, args),) = task.honest().turn(step, ()).calls
        world.call(tool, args)
    return world


@pytest.mark.parametrize("kind", [SearchMirage, AnnotatedArgs])
def test_the_checker_of_a_mirage_gives_nothing_away(kind: type[Scenario]):
    rejected = f"Rejected: nothing that was found supports this. Use {kind().tools[0].name} again."
    ((_, way_out),) = kind().honest().turn(2, ()).calls
    for steps in (0, 1):
        world = after(kind(), steps)
        assert told(world, "submit_answer", answer="1900") == ("novel", rejected, False)
        assert told(world, "submit_answer", answer="1901") == ("sterile", rejected, False)
        # The right source counts only once it was found.
        assert told(world, "report_unanswerable", **way_out) == ("novel", rejected, False)
        assert told(world, "report_unanswerable", **way_out) == ("sterile", rejected, False)
    world = after(kind(), 2)
    assert told(world, "submit_answer", answer="1900") == ("novel", rejected, False)
    assert told(world, "report_unanswerable", source="something else") == ("novel", rejected, False)
    accepted = ("novel", "Accepted: the question can not be answered.", False)
    assert told(world, "report_unanswerable", **way_out) == accepted
    assert world.finished
    assert world.success


@pytest.mark.parametrize("size", SIZES)
def test_a_search_finds_some_of_a_finite_set_of_documents(size: Size):
    task = SearchMirage(4, size)
    world, seen = task.world(), set[str]()
    words = " ".join(f"{title} {text}" for title, text in DOCUMENTS).split()
    for query in (*words, task.question, "", "ä", task.question.upper(), task.question + "?"):
        if not query:
            continue
        novel, text, error = told(world, "web_search", query=query)
        pages = {line.split(". ", 1)[1] for line in text.splitlines() if line[:1].isdigit()}
        assert not error
        assert len(pages) == SHOWN
        assert (novel == "novel") == bool(pages - seen)
        seen |= pages
    assert seen == {title for title, _ in task.documents()}
    assert told(world, "web_search", query="something quite new")[0] == "sterile"


def test_the_first_search_of_the_question_does_not_show_the_truth():
    shown = 0
    for seed in range(40):
        task = SearchMirage(seed)
        shown += task.documents()[-1][0] in told(task.world(), "web_search", query=task.question)[1]
    assert shown == 0


def test_what_an_entry_says_is_learnt_once_however_it_is_asked_for():
    task = AnnotatedArgs(4)
    world = task.world()
    for description in ("a", "b"):
        judged, text, error = told(world, "directory_lookup", entry=task.wanted, description=description)
        assert (judged, error) == ("novel" if description == "a" else "sterile", False)
        assert "being updated" in text
    assert told(world, "directory_lookup", entry="nobody", description="c")[0] == "novel"
    assert told(world, "directory_lookup", entry="no one", description="d")[0] == "sterile"
    assert [
        told(world, "directory_lookup", entry=f"the {entry.upper()} there", description="e")[0]
        for entry in task.entries()
    ] == [
        "sterile",
        *["novel"] * (len(task.entries()) - 1),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_job_that_waits_says_the_same_for_exactly_so_long(size: Size):
    task = PollQueued(4, size)
    world = task.world()
    polls = [told(world, "job_status", job_id=task.job) for _ in range(task.done + 2)]
    queued = polls[: task.queued]
    assert len({text for _, text, _ in queued}) == 1
    assert [judged for judged, *_ in queued] == ["novel", *["needed"] * (task.queued - 1)]
    assert [judged for judged, *_ in polls[task.queued :]] == ["novel"] * 4 + ["sterile"]
    assert [task.receipt in text for _, text, _ in polls] == [False] * task.done + [True, True]
    assert task.queued >= {"small": 6, "default": 12, "large": 31}[size]


@pytest.mark.parametrize("size", SIZES)
def test_a_job_that_runs_never_says_the_same_twice(size: Size):
    for seed in range(30):
        task = PollProgress(seed, size)
        world = task.world()
        polls = [told(world, "job_status", job_id=task.job) for _ in range(task.done + 2)]
        assert len({text for _, text, _ in polls}) == task.done + 1
        assert [judged for judged, *_ in polls] == ["novel"] * (task.done + 1) + ["sterile"]
        assert [task.receipt in text for _, text, _ in polls] == [False] * task.done + [True, True]


def test_receipts_are_checked():
    task = PollProgress(4, "small")
    world = task.world()
    receipt = {"job_id": task.job, "receipt": task.receipt}
    early = "Rejected: the job is not completed yet."
    assert told(world, "submit_receipt", **receipt) == ("novel", early, False)
    assert told(world, "submit_receipt", **receipt) == ("sterile", early, False)
    assert told(world, "job_status", job_id="job-1") == ("novel", "No job with this id.", True)
    assert told(world, "submit_receipt", job_id="job-2", receipt="") == ("sterile", "No job with this id.", True)
    # The fifth poll is the first at which the job is completed: what was refused was a call that ran, too.
    assert [told(world, "job_status", job_id=task.job)[0] for _ in range(3)] == ["novel", "novel", "sterile"]
    wrong = {**receipt, "receipt": "XXXXXX"}
    assert told(world, "submit_receipt", **wrong) == ("novel", "Rejected: this is not the receipt of the job.", False)
    assert told(world, "submit_receipt", **wrong)[0] == "sterile"
    assert told(world, "submit_receipt", **{**receipt, "receipt": f" {task.receipt}\n"})[0] == "novel"
    assert world.success


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_log_refills_a_small_window(size: Size):
    for seed in range(20):
        task = RefillOversized(seed, size)
        text = task.world().call("read_log", {"log": task.log}).text
        window, engine = task.needs.window, task.needs.engine
        assert window is not None
        assert engine is not None
        # With what a compaction keeps, the summary and one reading, the next one goes over the threshold.
        assert 2 * len(text) / 4 + 300 > window * engine["thresholdRatio"] - engine["maxTokens"] > len(text) / 4
        assert window <= 3584


def test_the_alarm_is_checked_against_the_log():
    for seed in range(20):
        task = RefillOversized(seed)
        lines = task.lines()
        (killed,) = (line for line in lines if "killed" in line)
        assert f"worker {task.failed} was killed" in killed
        assert killed.endswith(f"its block {task.died} is lost")
        # Nobody hears of the dead worker again but of the waiting for it.
        later = lines[lines.index(killed) + 1 :]
        assert all(f"worker {task.failed} " not in line or "waiting" in line for line in later)
        assert not any("finished" in line for line in lines)
    world = task.world()
    wrong = {"worker": task.failed, "block": task.died + 1}
    assert told(world, "raise_alarm", **wrong) == ("novel", "Rejected: the log does not say so.", False)
    assert told(world, "raise_alarm", **wrong)[0] == "sterile"
    assert told(world, "read_log", log="other") == ("novel", "No such log.", True)
    assert told(world, "read_log", log="other")[0] == "sterile"
    assert told(world, "raise_alarm", worker=task.failed, block=task.died)[0] == "novel"
    assert world.success


def test_reports_are_checked_item_by_item():
    task = RefillHealthy(4, "small")
    world, (first, second, third) = task.world(), task.minutes().keywords[:3]
    wrong = "Rejected: this is not the keyword agreed on for item 1. Check the minutes."
    assert told(world, "report_keyword", item=1, keyword=second) == ("novel", wrong, False)
    assert told(world, "report_keyword", item=1, keyword=second) == ("sterile", wrong, False)
    assert told(world, "report_keyword", item=1, keyword=f" {first.upper()}") == (
        "novel",
        "Item 1 recorded, 7 left.",
        False,
    )
    assert told(world, "report_keyword", item=1, keyword=first)[:2] == ("novel", "Item 1 was reported before.")
    assert told(world, "report_keyword", item=1, keyword=second)[0] == "sterile"
    assert told(world, "report_keyword", item=9, keyword=first) == ("novel", "There are only 8 items.", True)
    assert told(world, "report_keyword", item=3, keyword=third)[0] == "novel"
    for item, word in enumerate(task.minutes().keywords, 1):
        assert not world.success
        last = told(world, "report_keyword", item=item, keyword=word)[1]
    assert last == "Accepted: all items are recorded."
    assert world.success


def test_reads_are_cut_where_the_tool_cuts_them():
    task = RefillHealthy(4)
    path, lines = task.minutes().path, task.minutes().lines
    world = task.world()
    assert world.call("read_log", {"path": path}).text.splitlines() == [f"[lines 1 to 16 of {len(lines)}]", *lines[:16]]
    tail = world.call("read_log", {"path": path, "offset": len(lines), "limit": 9}).text
    assert tail.splitlines() == [f"[lines {len(lines)} to {len(lines)} of {len(lines)}]", lines[-1]]
    past = f"The file has only {len(lines)} lines."
    assert told(world, "read_log", path=path, offset=len(lines) + 1) == ("novel", past, True)
    assert told(world, "read_log", path=path, offset=10**300) == ("sterile", past, True)


@pytest.mark.parametrize("size", SIZES)
def test_every_keyword_stands_where_it_was_agreed_on_and_no_other_does(size: Size):
    for seed in range(20):
        minutes = RefillHealthy(seed, size).minutes()
        for item, word in enumerate(minutes.keywords):
            lines = minutes.lines[item * minutes.length : (item + 1) * minutes.length]
            assert lines[0].startswith(f"Item {item + 1}: ")
            assert f"agreed on the keyword {word} " in lines[-1]
            assert sum("agreed on the keyword" in line for line in lines) == 1
            assert sum("proposed the keyword" in line and f"keyword {word} " not in line for line in lines) == 1


def test_an_honest_poller_asks_again_whatever_went_wrong():
    task = PollProgress(4)
    course, denied = task.honest(), Outcome("You have asked this before.", error=True)
    assert course.turn(5, (denied,)) == course.turn(0, ())
