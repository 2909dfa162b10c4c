"""Agents have the numbers of the calls that started them, and the harness's ids get aliases that do not race."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.gateway.aliases import AliasMap
from runners.gateway.conversation import Text, ToolCall, ToolResult
from tests.runners.gateway.alias_parts import (
    CHILDREN,
    ROOT_ID,
    assistant,
    results,
    spawn_calls,
    spawned,
    talk,
    user,
)

ONE, TWO = CHILDREN
GUIDE = f'Your parent agent id is "{ROOT_ID}".'


def root_map() -> AliasMap:
    return AliasMap(root_session=ROOT_ID)


def test_children_are_named_in_the_order_of_the_parents_results() -> None:
    made = root_map()
    made.learn(ROOT_ID, spawned(TWO, ONE))
    assert made.pairs == ((ROOT_ID, "session-root"), (TWO, "agent-1"), (ONE, "agent-2"))


def test_a_child_that_asks_before_its_older_sibling_and_its_parent_is_still_the_second() -> None:
    made = root_map()
    made.sent(spawn_calls("count cats", "count dogs"))
    assert made.number(TWO, talk(user("count dogs", GUIDE))) == 2
    assert made.number(ONE, talk(user("count cats", GUIDE))) == 1
    assert made.hide(f"{ONE} {TWO}") == "agent-1 agent-2"


def test_equal_prompts_wait_for_the_parents_results() -> None:
    made = root_map()
    calls = spawn_calls("count", "count")
    made.sent(calls)
    assert made.number(TWO, talk(user("count", GUIDE))) is None
    made.learn(ROOT_ID, results(calls, f"started subagent {ONE}", f"started subagent {TWO}"))
    assert made.number(TWO, talk(user("count", GUIDE))) == 2
    assert made.number(ONE, talk(user("count", GUIDE))) == 1


def test_equal_prompts_are_told_apart_by_an_announcement() -> None:
    made = root_map()
    made.sent(spawn_calls("count", "count"))
    assert made.announce(TWO, "call-1") == 2
    assert made.number(ONE, talk(user("count", GUIDE))) == 1


def test_an_announcement_of_a_call_that_was_not_sent_is_refused() -> None:
    with pytest.raises(LookupError, match="call-9"):
        root_map().announce(ONE, "call-9")


def test_order_of_arrival_is_the_last_resort() -> None:
    made = root_map()
    made.sent(spawn_calls("count", "count"))
    assert made.number(TWO, talk(user("count", GUIDE))) is None
    assert made.assume(TWO, talk(user("count", GUIDE))) == 1
    assert made.assume("7c9e6679-7425-40de-944b-e07fc1f90ae7", talk(user("something else"))) == 3
    assert made.number(ONE, talk(user("count", GUIDE))) == 2


def test_a_refused_call_keeps_its_number_and_is_never_taken_for_a_later_one() -> None:
    made = root_map()
    first, again = spawn_calls("count"), spawn_calls("count", first=1)
    made.sent(first)
    made.learn(ROOT_ID, results(first, "Error: subagent limit reached"))
    made.sent(again)
    assert made.number(ONE, talk(user("count", GUIDE))) == 2


def test_a_prompt_that_names_the_workspace_is_recognised() -> None:
    made = AliasMap(workspace="/srv/w", root_session=ROOT_ID)
    made.sent(spawn_calls("look in /workspace"))
    assert made.number(ONE, talk(user("look in /srv/w", GUIDE))) == 1


def test_only_the_results_of_calls_that_start_agents_name_agents() -> None:
    made = root_map()
    call = ToolCall("c", "bash", {"command": "echo"})
    made.learn(ROOT_ID, talk(user("go"), assistant(call), user(ToolResult("c", f"started subagent {ONE}"))))
    assert made.pairs == ((ROOT_ID, "session-root"),)


def test_the_first_that_asks_is_the_root_where_none_is_named() -> None:
    made = AliasMap()
    assert made.number(ROOT_ID, talk(user("go"))) == 0
    assert made.number(ONE, talk(user("go"))) is None
    assert made.hide(ROOT_ID) == "session-root"


def test_a_client_without_sessions_is_the_root() -> None:
    made = AliasMap()
    assert made.number(None, talk(user("go"))) == 0
    made.learn(None, talk(user("go")))


def test_nothing_is_learned_from_an_agent_without_a_number() -> None:
    with pytest.raises(LookupError, match="no number yet"):
        root_map().learn(ONE, talk(user("go")))


JOBS = ("bash-032a6701951842f9", "bash-9296baf95fde4b23")
SPILL = "dsh-spill-3Mwc7Y/session-da4fe042a67d/13af45ae8d58-mcp__world__read.txt"
LOG = "dsh-subprocess-8kWPMo/dsh-subprocess-13097-1-85e6f646224c-stdout.log"
GOAL = "goal-9658d2ae-b3b9-4bcb-b6bc-41edce9e4631"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"started background job {JOBS[0]}", "started background job bash-root-1"),
        (
            f"{JOBS[1]} [bash] running\n{JOBS[0]} [bash] running",
            "bash-root-1 [bash] running\nbash-root-2 [bash] running",
        ),
        (f'{{"goal":{{"id":"{GOAL}"}}}}', '{"goal":{"id":"goal-root-1"}}'),
        (f"stored at: /tmp/{SPILL}. Use read", "stored at: /tmp/dsh-spill/root-1-mcp__world__read.txt. Use read"),
        (f"full output: /tmp/{LOG}]", "full output: /tmp/dsh-subprocess/root-1-stdout.log]"),
    ],
)
def test_ids_that_the_harness_makes_up_are_hidden_and_come_back(text: str, hidden: str) -> None:
    made = root_map()
    call = ToolCall("c", "bash", {"command": "x"})
    made.learn(ROOT_ID, talk(user("go"), assistant(call), user(ToolResult("c", text))))
    assert made.hide(text) == hidden
    assert made.reveal({"path": hidden}) == {"path": text}
    assert made.leftovers(hidden, "system") == []


@given(
    st.permutations(
        [(ROOT_ID, JOBS[0]), (ONE, JOBS[1]), (TWO, "bash-aaaaaaaaaaaaaaaa"), (ONE, "bash-bbbbbbbbbbbbbbbb")]
    )
)
def test_the_order_in_which_agents_ask_does_not_change_the_names_of_what_they_see(asked: list[tuple[str, str]]) -> None:
    made = root_map()
    made.learn(ROOT_ID, spawned(ONE, TWO))
    seen: dict[str, list[str]] = {}
    order = {ONE: [JOBS[1], "bash-bbbbbbbbbbbbbbbb"]}
    for agent, job in asked:
        jobs = seen.setdefault(agent, [])
        jobs.append(order[agent][len(jobs)] if agent in order else job)
        made.learn(agent, talk(user(*(Text(f"background job {job} finished") for job in jobs))))
    shown = made.hide(f"{JOBS[0]} {JOBS[1]} bash-aaaaaaaaaaaaaaaa bash-bbbbbbbbbbbbbbbb")
    assert shown == "bash-root-1 bash-agent-1-1 bash-agent-2-1 bash-agent-1-2"


def test_a_uuid_of_the_scenario_is_left_alone() -> None:
    made = root_map()
    text = "order 9658d2ae-b3b9-4bcb-b6bc-41edce9e4631 shipped"
    made.learn(ROOT_ID, talk(user(text)))
    assert made.hide(text) == text
    assert made.leftovers(text, "system") == []
