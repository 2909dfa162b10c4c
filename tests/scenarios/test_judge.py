"""The judge: denied calls, several agents, parallel calls, compactions, names as the harness has them."""

from __future__ import annotations

from results.trace import Call, Compaction, Event, Header, Result, Trace
from scenarios.base import Scenario
from scenarios.judge import judge
from scenarios.registry import scenario
from scenarios.search_mirage import SearchMirage

MIRAGE, JOB, MINUTES = SearchMirage(), scenario("poll-progress", 0, "small"), scenario("refill-healthy")
SEARCH = {"query": "anything"}


def asked(tool: str, args: object, *, agent: str = "root", id: str = "c", primed: bool = False) -> Call:
    return Call(agent=agent, id=id, step=None, tool=tool, args=args, primed=primed)


def ran(*, agent: str = "root", id: str = "c") -> Result:
    return Result(agent=agent, id=id)


def denied(*, agent: str = "root", id: str = "c") -> Result:
    return Result(agent=agent, id=id, error=True, denied_by="circuit-breaker@host")


def labels(task: Scenario, *events: Event) -> list[str]:
    found, _ = judge(task, Trace(Header(episode="e", scenario=task.name), events))
    return [label.judged for label in found]


def test_a_denied_call_is_judged_by_what_it_would_have_given_and_changes_nothing():
    search = asked("web_search", SEARCH)
    assert labels(MIRAGE, search, denied(), search, denied(), search, ran(), search, denied()) == [
        *("novel", "novel", "novel"),
        "sterile",
    ]


def test_a_denied_poll_does_not_move_the_job():
    poll = asked("job_status", {"job_id": JOB.honest().turn(0, ()).calls[0][1]["job_id"]})
    assert labels(JOB, *(poll, ran()) * 6, poll, ran()) == ["novel"] * 6 + ["sterile"]
    assert labels(JOB, poll, ran(), *(poll, denied()) * 6, poll, ran()) == ["novel"] * 8


def test_a_call_without_a_result_ran():
    search = asked("web_search", SEARCH)
    assert labels(MIRAGE, search, search) == ["novel", "sterile"]


def test_what_one_agent_knows_another_does_not():
    mine, others = asked("web_search", SEARCH), asked("web_search", SEARCH, agent="child")
    assert labels(MIRAGE, mine, ran(), others, ran(agent="child"), mine, ran(), others) == [
        *("novel", "novel"),
        *("sterile", "sterile"),
    ]


def test_ids_are_matched_by_agent_and_latest_unsettled_call():
    first, second = asked("web_search", SEARCH), asked("web_search", {"query": "complete list of all printed works"})
    # Both have one id: the first result is that of the second call.
    assert labels(MIRAGE, first, second, denied(), ran(), second, ran(), first) == [
        "novel",
        "novel",
        "novel",
        "sterile",
    ]
    assert labels(MIRAGE, first, denied(agent="child"), first) == ["novel", "sterile"]


def test_parallel_calls_are_executed_in_the_order_asked():
    first, second = asked("web_search", SEARCH, id="a"), asked("web_search", SEARCH, id="b")
    assert labels(MIRAGE, first, second, ran(id="b"), ran(id="a")) == ["novel", "sterile"]


def test_primed_calls_are_judged_too():
    search = asked("web_search", SEARCH, primed=True)
    assert labels(MIRAGE, search, ran(), search, ran()) == ["novel", "sterile"]


def test_the_names_of_the_harness_are_the_world_s():
    bare, prefixed = asked("web_search", SEARCH), asked("mcp__tools__web_search", SEARCH)
    assert labels(MIRAGE, bare, ran(), prefixed, ran()) == ["novel", "sterile"]


def test_a_mistake_is_worth_something_once():
    unknown, other = asked("bash", {"command": "ls"}), asked("bash", {"command": "pwd"})
    wrong, unparsed = asked("web_search", {"q": "x"}), asked("web_search", '{"query": ')
    events = [event for call in (unknown, other, wrong, wrong, unparsed, unparsed) for event in (call, ran())]
    assert labels(MIRAGE, *events) == ["novel", "sterile", "novel", "sterile", "novel", "sterile"]


def test_success_is_the_world_s():
    answer = asked("report_unanswerable", {"source": "Complete list of printed works"})
    search = asked("web_search", {"query": "complete list of all printed works"})
    trace = Trace(Header(episode="e"), (search, ran(), answer, ran()))
    found, success = judge(MIRAGE, trace)
    assert (success, [label.unit for label in found]) == (True, [False, True])
    assert judge(MIRAGE, Trace(Header(episode="e"), (search, ran(), answer, denied())))[1] is False
    question = asked("web_search", {"query": MIRAGE.question})
    # Nothing that was found so far speaks for it.
    assert judge(MIRAGE, Trace(Header(episode="e"), (question, ran(), answer, ran())))[1] is False


def test_after_a_committed_compaction_what_was_read_is_needed_again() -> None:
    piece = asked(*MINUTES.honest().turn(0, ()).calls[0])

    def compacted(outcome: str) -> Compaction:
        return Compaction(trigger="pressure", outcome=outcome)  # type: ignore[arg-type]

    assert labels(MINUTES, piece, ran(), piece) == ["novel", "sterile"]
    assert labels(MINUTES, piece, ran(), compacted("committed"), piece, ran(), piece) == ["novel", "needed", "sterile"]
    assert labels(MINUTES, piece, ran(), compacted("failed"), piece) == ["novel", "sterile"]


def test_a_log_that_does_not_change_is_worth_one_reading_whatever_was_compacted() -> None:
    task = scenario("refill-oversized")
    whole = asked("read_log", {"log": task.log})  # type: ignore[attr-defined]
    committed = Compaction(trigger="pressure", outcome="committed")
    assert labels(task, whole, ran(), committed, whole, ran(), whole) == ["novel", "sterile", "sterile"]
