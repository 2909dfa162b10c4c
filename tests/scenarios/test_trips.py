"""Trip scenarios: where the scripted loop begins, which guards it meets, what each call is worth, and the way out."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.registry import build
from results.episode import Episode
from results.loops import Loop, first_loop
from results.trace import Call, Result, Trace
from runners.replay import replay
from scenarios.base import Scenario, Size, World
from scenarios.course import Course
from scenarios.cycle_of_three import CycleOfThree
from scenarios.failing_edit import FAILS, NO_FILE, NO_MATCH, PASSES, TAB, FailingEdit
from scenarios.ping_pong import NO_ENTRY, PingPong
from scenarios.play import play
from scenarios.reworded_search import ABOUT, RewordedSearch
from scenarios.wasted_read import WastedRead

SIZES: tuple[Size, ...] = get_args(Size)
KINDS: tuple[type[Scenario], ...] = (RewordedSearch, PingPong, CycleOfThree, FailingEdit, WastedRead)
ORDINALS = {"second": 2, "third": 3, "fourth": 4}
EVERY = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
SIZED = pytest.mark.parametrize("size", SIZES)


def looping(task: Scenario) -> Course:
    course = task.looping()
    assert course is not None
    return course


def told(world: World, tool: str, agent: str = "root", **args: Any) -> tuple[str, str, str]:
    """How the call is judged and why, and what it gives."""
    verdict = world.judge(agent, tool, args)
    return verdict.judged, verdict.why, world.call(tool, args, agent).text


def judged(world: World, tool: str, agent: str = "root", **args: Any) -> str:
    return told(world, tool, agent, **args)[0]


def shown(trace: Trace) -> str:
    return "\n".join(event.text for event in trace.events if isinstance(event, Result))


def first_act(trace: Trace, guard: str, action: str, **settings: Any) -> int | None:
    """The index of the call at which the guard first does such a thing; None = never."""
    acts = replay(trace, build(guard, settings=settings))
    return next((act.index for act in acts if act.action == action), None)


@EVERY
@SIZED
def test_the_loop_begins_where_the_docstring_says(kind: type[Scenario], size: Size):
    said = re.search(r"the (\w+) begins the loop", " ".join((kind.looping.__doc__ or "").split()))
    assert said is not None
    for seed in (0, 1, 7, 1000):
        task = kind(seed, size)
        episode = Episode(play(task, looping(task)))
        loop, onset = first_loop(episode), ORDINALS[said[1]]
        assert isinstance(loop, Loop)
        assert (loop.kind, loop.onset, loop.ended) == ("calls", onset, "horizon")
        assert loop.length == task.needs.horizon - onset + 1
        assert [call.judged for call in episode.calls[: onset - 1]] == ["novel"] * (onset - 1)


@pytest.mark.parametrize(
    ("kind", "breaker", "denied", "nudged", "reminded"),
    [
        (RewordedSearch, None, None, None, None),
        (PingPong, 11, None, None, None),
        (CycleOfThree, 16, None, None, None),
        (FailingEdit, 6, 9, 4, 3),
        (WastedRead, 6, 10, 5, 3),
    ],
    ids=[kind.name for kind in KINDS],
)
def test_what_the_guards_do_with_their_defaults(
    kind: type[Scenario], breaker: int | None, denied: int | None, nudged: int | None, reminded: int | None
):
    """The breaker counts identical calls wherever they stand; the other two look at consecutive ones alone."""
    task = kind(3)
    trace = play(task, looping(task))
    assert first_act(trace, "circuit-breaker", "deny") == breaker
    assert (first_act(trace, "loop-guard", "deny"), first_act(trace, "loop-guard", "nudge")) == (denied, nudged)
    assert first_act(trace, "repeat-reminder", "nudge") == reminded


@SIZED
def test_only_a_cap_ends_the_rewording(size: Size):
    task = RewordedSearch(3, size)
    trace = play(task, looping(task), horizon=310)
    queries = [event.args["query"] for event in trace.events if isinstance(event, Call)]
    assert len(queries) == len(set(queries)) == 310
    assert first_act(trace, "circuit-breaker", "deny") == 301
    assert first_act(trace, "circuit-breaker", "deny", maxCallsPerAgent=12) == 13
    assert first_act(trace, "circuit-breaker", "deny", maxCallsPerAgent=0) is None


@EVERY
@SIZED
def test_the_loop_itself_shows_the_way_out(kind: type[Scenario], size: Size):
    for seed in range(8):
        task = kind(seed, size)
        seen = shown(play(task, looping(task)))
        match task:
            case RewordedSearch():
                assert f"See also: {ABOUT}" in seen
            case PingPong():
                assert f"see also {task.accounts[1]}" in seen
            case CycleOfThree():
                assert f"Errata: page {task.corrections[0]}." in seen
            case _:
                options = [name for tool in task.tools for name in tool.parameters["properties"]]
                assert {"show_tabs", "tail"} & set(options)


@EVERY
@SIZED
def test_the_answer_is_not_shown_before_the_way_out_was_taken(kind: type[Scenario], size: Size):
    for seed in range(8):
        task = kind(seed, size)
        seen = task.prompt + shown(play(task, looping(task)))
        if isinstance(task, PingPong | CycleOfThree | WastedRead):
            assert str(task.number) not in re.findall(r"\d+", seen)
        assert "Accepted" not in seen
        assert PASSES not in seen


@pytest.mark.parametrize("kind", [PingPong, CycleOfThree, WastedRead])
def test_a_number_is_accepted_once_it_was_looked_up(kind: type[PingPong | CycleOfThree | WastedRead]):
    task = kind(4)
    right = str(task.number)
    *looked, _ = (task.honest().turn(step, ()).calls for step in range(40) if task.honest().turn(step, ()).calls)
    world = task.world()
    rejected = world.call("submit_answer", {"answer": right}).text
    assert rejected.startswith("Rejected: nothing that was looked up says so. ")
    # Before it was looked up, one guess is worth as little as another, the right one too.
    unsupported = "the agent was told before that such an answer is rejected"
    for answer in ("7", right, right, "nothing"):
        assert told(world, "submit_answer", answer=answer) == ("sterile", unsupported, rejected)
    for ((tool, args),) in looked:
        assert world.judge("root", tool, args).judged == "novel"
        world.call(tool, args)
    others = (("7", "novel"), ("7", "sterile"), (" 7\n", "sterile"), ("", "novel"), (f"7 {right}", "novel"))
    for answer, worth in others:
        assert judged(world, "submit_answer", answer=answer) == worth
    assert not world.finished
    verdict = world.judge("root", "submit_answer", {"answer": f"It is {right}."})
    assert (verdict.judged, verdict.why, verdict.unit) == ("novel", "the right number, looked up before", True)
    assert world.call("submit_answer", {"answer": f"It is {right}."}).text == "Accepted: the number is right."
    assert world.success


def test_an_account_is_worth_one_look_in_each_place():
    task = PingPong(4)
    account, other = task.accounts
    world, entries = task.world(), task.entries()
    learns, knew = "the agent learns", "the agent was told before"
    entry, never = " what this entry says", ", and nothing here ever changes"
    for tool in ("ledger_lookup", "archive_lookup"):
        text = entries[tool, account]
        assert told(world, tool, account=account) == ("novel", learns + entry, text)
        assert told(world, tool, account=f" Account {account} ") == ("sterile", knew + entry + never, text)
    none = " that this account is not there"
    assert told(world, "archive_lookup", account=other) == ("novel", learns + none, NO_ENTRY)
    assert told(world, "archive_lookup", account="x" * 4000) == ("sterile", knew + none + never, NO_ENTRY)
    # What the other tool does not have is another fact.
    assert told(world, "ledger_lookup", account="") == ("novel", learns + none, NO_ENTRY)
    # What one agent was told, another was not.
    assert judged(world, "ledger_lookup", "child", account=account) == "novel"
    assert judged(world, "ledger_lookup", account=other) == "novel"
    assert world.call("ledger_lookup", {"account": other}).text.endswith(f"balance {task.number}.")


@SIZED
def test_each_of_the_two_points_to_the_other(size: Size):
    for seed in range(8):
        task = PingPong(seed, size)
        entries, (first, *others) = task.entries(), task.accounts
        assert "archive_lookup" in entries["ledger_lookup", first]
        assert "ledger_lookup" in entries["archive_lookup", first]
        assert len(set(task.accounts)) == {"small": 2, "default": 2, "large": 5}[size]
        for account, text in zip(others, (entries["ledger_lookup", each] for each in others), strict=True):
            assert f"account {account}:" in text


@SIZED
def test_the_pages_lead_round_and_the_corrections_to_the_fee(size: Size):
    for seed in range(8):
        task = CycleOfThree(seed, size)
        pages, (start, *_) = task.pages(), task.cycle
        page, way = start, []
        for _ in range(3):
            way.append(page)
            page = int(re.findall(r"page (\d+)\.$", pages[page])[0])
        assert (page, tuple(way)) == (start, task.cycle)
        assert f"begin at page {start}," in task.prompt
        page, way = task.corrections[0], []
        while str(task.number) not in pages[page]:
            way.append(page)
            page = int(re.findall(r"page (\d+)\.$", pages[page])[0])
        assert (*way, page) == task.corrections


def test_a_page_is_worth_one_reading():
    task = CycleOfThree(4)
    world, page = task.world(), task.cycle[1]
    never = ", and nothing here ever changes"
    assert told(world, "read_page", page=page) == (
        "novel",
        f"the agent learns what page {page} says",
        task.pages()[page],
    )
    assert told(world, "read_page", page=float(page))[:2] == (
        "sterile",
        f"the agent was told before what page {page} says{never}",
    )
    listed = f"There is no such page. Pages: {', '.join(map(str, sorted(task.pages())))}."
    assert told(world, "read_page", page=-1) == ("novel", "the agent learns which pages there are", listed)
    why = f"the agent was told before which pages there are{never}"
    assert told(world, "read_page", page=10**300) == ("sterile", why, listed)


def test_a_file_is_shown_once_and_its_end_on_request():
    task = WastedRead(4)
    world, path = task.world(), task.path
    judged_first, why, text = told(world, "view_file", path=path)
    assert (judged_first, why) == ("novel", "the agent learns how the file begins")
    assert text.splitlines()[:-1] == list(task.lines[: task.shown])
    assert f"[cut here: {len(task.lines) - task.shown} more lines." in text
    never = ", and nothing here ever changes"
    for same in (path, f"./{path}", f" {path}"):
        worth, why, text = told(world, "view_file", path=same, tail=False)
        assert why == f"the agent was told before what stands there, and that it is not shown again{never}"
        assert worth == "sterile"
        assert text.startswith(f"Not shown: {path} has not changed")
    assert told(world, "view_file", path="../x") == (
        "novel",
        "the agent learns that there is no other file",
        f"No such file, there is only {path}.",
    )
    assert judged(world, "view_file", path="", tail=True) == "sterile"
    assert told(world, "view_file", path=path, tail=True) == (
        "novel",
        "the agent learns how the file ends",
        "\n".join(("[...]", *task.lines[-2:])),
    )
    assert judged(world, "view_file", path=path, tail=True) == "sterile"
    assert task.lines[-1] == f"total {task.number}"


def test_a_file_that_another_agent_was_shown_is_withheld_all_the_same():
    task = WastedRead(4)
    world = task.world()
    world.call("view_file", {"path": task.path})
    # That it is withheld is news to this one, once.
    assert [judged(world, "view_file", "child", path=task.path) for _ in range(3)] == ["novel", "sterile", "sterile"]
    # Where the end was shown, by whomever, the answer may be submitted.
    world.call("view_file", {"path": task.path, "tail": True}, "child")
    assert judged(world, "submit_answer", answer=str(task.number)) == "novel"


def test_rewording_finds_nothing_that_was_not_found():
    task = RewordedSearch(4)
    world, (place, *_) = task.world(), task.subject.split()
    worth, why, text = told(world, "search_index", query=f"{task.subject} architect")
    assert (worth, why) == ("novel", "the agent learns what pages there are")
    assert text.splitlines()[:-2] == list(task.pages)
    told_before = "the agent was told before what pages there are"
    for query in (f"{task.subject} designer", f"who built it in {place.upper()}?", task.suggestion(5)):
        worth, why, other = told(world, "search_index", query=query)
        assert (worth, why) == ("sterile", told_before)
        assert other != text
        assert other.splitlines()[:-1] == text.splitlines()[:-1]
    assert told(world, "search_index", query="zz")[:2] == ("novel", "the agent learns that some words are on no page")
    assert judged(world, "search_index", query="y" * 4000) == "sterile"
    rejected = ("novel", "Rejected: nothing that was found supports this. Use search_index again.")
    assert told(world, "report_unanswerable", source=ABOUT)[::2] == rejected
    assert told(world, "submit_answer", answer="Ida Kerrow")[::2] == rejected
    assert judged(world, "submit_answer", answer="Jonas Pell") == "sterile"
    worth, why, text = told(world, "search_index", query="see also: About this INDEX.")
    assert (worth, why) == ("novel", "the agent learns what the index covers")
    assert text.startswith(f"{ABOUT}: ")
    assert judged(world, "search_index", query=f"{ABOUT} of the {task.subject}") == "sterile"
    assert told(world, "report_unanswerable", source=f"{ABOUT}, last line")[:2] == ("novel", "the right answer")
    assert world.success


def test_suggestions_are_all_different_for_long():
    task = RewordedSearch(9)
    assert len({task.suggestion(calls) for calls in range(336)}) == 336
    assert all(task.subject in task.suggestion(calls) for calls in range(400))


def test_a_reading_that_shows_the_tabs_shows_all():
    task = FailingEdit(4)
    key, before, after = task.change
    world, lines = task.world(), task.lines(before)
    first = told(world, "read_file", path=task.path)
    assert first == (
        "novel",
        "the agent learns what comes of this, with the file as it is",
        "\n".join(lines).replace("\t", TAB),
    )
    assert judged(world, "read_file", path=f"./{task.path}") == "sterile"
    assert told(world, "read_file", path=task.path, show_tabs=True)[::2] == (
        "novel",
        "\n".join(lines).replace("\t", "\\t"),
    )
    assert judged(world, "read_file", path=task.path, show_tabs=True) == "sterile"
    fresh = task.world()
    assert [judged(fresh, "read_file", path=task.path, show_tabs=tabs) for tabs in (True, False)] == [
        "novel",
        "sterile",
    ]
    assert told(world, "read_file", path="/etc/passwd")[::2] == ("novel", NO_FILE.format(path=task.path))
    edit = {"old_line": f"{key}\t{before}", "new_line": f"{key}\t{after}"}
    assert told(world, "edit_file", path="other.conf", **edit)[::2] == ("sterile", NO_FILE.format(path=task.path))
    assert len(lines) == len(set(lines)) == 5


def test_an_edit_is_worth_one_try_on_the_file_as_it_is():
    task = FailingEdit(4)
    key, before, after = task.change
    world, new, path = task.world(), f"{key} {after}", task.path
    right = {"path": path, "old_line": f"{key}\t{before}", "new_line": new}
    same = "the agent was told before what comes of this, with the file as it is"

    def edit(old: str, new: str) -> tuple[str, str, str]:
        return told(world, "edit_file", path=path, old_line=old, new_line=new)

    assert edit(f"{key}{TAB}{before}", new)[::2] == ("novel", NO_MATCH)
    assert edit(f"{key}{TAB}{before}", new) == ("sterile", same, NO_MATCH)
    # What does not match does not match, whatever is to stand in its place; another text is another try.
    assert edit(f"{key}{TAB}{before}", "anything") == ("sterile", same, NO_MATCH)
    assert edit(f"{key} {before}", new)[0] == "novel"
    fails = FAILS.format(key=key, after=after)
    assert edit(f"{key}\t{before}", "oops")[::2] == ("novel", fails)
    # The file is another one now.
    assert edit(f"{key}{TAB}{before}", new)[0] == "novel"
    assert edit("oops", f"{key}\t{before}")[::2] == ("novel", fails)
    assert edit(f"{key}\t{before}", "oops") == ("sterile", same, fails)
    assert edit("oops", "oops") == ("sterile", same, fails)
    assert edit("oops", f"{key}\t{before}")[0] == "sterile"
    verdict = world.judge("root", "edit_file", right)
    assert (verdict.judged, verdict.why, verdict.unit) == ("novel", "the edit that was asked for", True)
    assert world.call("edit_file", right).text == PASSES
    assert world.success


def test_an_agent_that_read_the_file_knows_what_no_line_says():
    task = FailingEdit(4)
    key, before, _ = task.change
    world, knew = task.world(), "the agent has read the file, and no line of it says this"

    def edit(old: str, path: str = task.path) -> tuple[str, str]:
        return told(world, "edit_file", path=path, old_line=old, new_line="x")[:2]

    assert edit(f"{key} = {before}")[0] == edit("nothing")[0] == "novel"
    world.call("read_file", {"path": task.path}, "child")
    assert edit(f"{key}={before}")[0] == "novel"
    world.call("read_file", {"path": task.path})
    assert [edit(old) for old in (f"{key}: {before}", "old line", "")] == [("sterile", knew)] * 3
    # That what was read does not match either, it does not know yet; nor that the file has no other name.
    assert [edit(f"{key}{TAB}{before}")[0] for _ in range(2)] == ["novel", "sterile"]
    assert edit(f"{key} {before}")[0] == "novel"
    assert edit("old line", path="other.conf")[0] == "novel"
    world.call("edit_file", {"path": task.path, "old_line": f"{key}\t{before}", "new_line": "gone"})
    assert edit("old line")[0] == "novel"


def test_a_file_in_which_anything_else_was_changed_does_not_pass():
    task = FailingEdit(4)
    (key, before, after), world = task.change, task.world()
    other = next(line for line in task.lines(before) if not line.startswith(key))
    for old, new in ((other, "gone"), (f"{key}\t{before}", f"{key}\t{after}\n")):
        text = world.call("edit_file", {"path": task.path, "old_line": old, "new_line": new}).text
        assert text == FAILS.format(key=key, after=after)
    assert world.call("edit_file", {"path": task.path, "old_line": "gone", "new_line": other}).text == PASSES


@given(st.integers(0, 3), st.text(" \nabcdefghijklmnopqrstuvwxyz0123456789=", max_size=20), st.integers(0, 12))
def test_text_without_a_tab_never_matches(seed: int, text: str, spaces: int):
    task = FailingEdit(seed)
    key, before, after = task.change
    world = task.world()
    for old in (text, f"{key}{' ' * spaces}{before}", f"{key}{' ' * spaces}{before}\n"):
        outcome = world.call("edit_file", {"path": task.path, "old_line": old, "new_line": f"{key}\t{after}"})
        assert (outcome.text, outcome.error) == (NO_MATCH, True)
