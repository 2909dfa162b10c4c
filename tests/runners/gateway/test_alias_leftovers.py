"""What is volatile is found and named by its field; what is not is left in peace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runners.gateway.aliases import AliasMap, VolatileLeft
from runners.gateway.conversation import Tool, ToolCall, ToolResult
from tests.runners.gateway.alias_parts import CHILDREN, NOON, ROOT_ID, WORKSPACE, assistant, full_map, talk, user


def spans(text: str) -> list[str]:
    return [finding.span for finding in full_map().leftovers(text, "system")]


@pytest.mark.parametrize(
    "text",
    [
        "Mon Nov 30 14:26:42 UTC 2026",
        "drwxr-xr-x 2 a a 4096 Nov 30 14:26 .",
        "on 2026-11-30",
        "2026-11-30T14:26:42Z",
        "2026/11/30",
        "30.11.2026",
        "11/30/2026",
        "log-20261130.txt",
        "November 30, 2026",
        "Nov 30th, 2026",
        "Mon, 30 Nov 2026 14:26:42 GMT",
        f"at {int(NOON.timestamp())}",
        f'{{"createdAt":{int(NOON.timestamp()) * 1000}}}',
        f"{NOON.timestamp():.3f}",
    ],
)
def test_the_day_of_the_run_is_found(text: str) -> None:
    assert len(spans(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-30, 2026-11-03, 2026-12-30, 12026-11-300",
        "Nov 30 is the due date; Nov 3 14:26",
        "November 30, 2025; 30 Nov 2027",
        "version 30.11, item 11302026, build 120261130",
        "1700000000 1700000000000 0123456789",
        f"id {int(NOON.timestamp())}5 a{int(NOON.timestamp())}",
        "sha256:57cda64cead0869cd5f90dfebb024f4bd9a922aaea91d513de6fa3e949d88921",
        "order 9658d2ae-b3b9-4bcb-b6bc-41edce9e4631, session-12, session-root, bash-root-1",
        "/workspace/a /home/agent/b /srv/runs/r10/c host",
    ],
)
def test_other_text_is_left_in_peace(text: str) -> None:
    assert spans(text) == []


def test_the_day_can_change_during_a_run() -> None:
    now = [NOON]
    made = AliasMap(clock=lambda: now[0])
    now[0] = NOON + timedelta(days=1)
    assert [found.span for found in made.leftovers("2026-11-30 2026-12-01 2026-12-02", "system")] == [
        "2026-11-30",
        "2026-12-01",
    ]


def test_a_date_of_the_scenario_stays_allowed_when_the_day_changes() -> None:
    now = [NOON]
    made = AliasMap(clock=lambda: now[0])
    made.allow("due on 2026-12-01")
    assert made.leftovers("2026-12-01", "system") == []
    now[0] = NOON + timedelta(days=1)
    assert made.leftovers("2026-12-01", "system") == []
    assert [found.span for found in made.leftovers("Dec 1 14:26", "system")] == ["Dec 1 14:26"]


def test_a_text_that_was_clean_is_looked_at_again_when_more_is_known() -> None:
    made = full_map()
    text = "started bash-032a6701951842f9 on srv-12ab"
    assert made.leftovers(text, "system") == []
    made.learn(ROOT_ID, talk(user("background job bash-032a6701951842f9")))
    assert [found.span for found in made.leftovers(text, "system")] == ["bash-032a6701951842f9"]


def test_a_date_of_the_scenario_is_allowed() -> None:
    made = full_map()
    made.allow("The market opens on 2026-11-30.")
    assert made.leftovers("2026-11-30", "system") == []
    assert [found.span for found in made.leftovers("Nov 30 14:26", "system")] == ["Nov 30 14:26"]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (f"/mnt{WORKSPACE}/a", WORKSPACE),
        (f"dir x{WORKSPACE.replace('/', '%2f')}", WORKSPACE.replace("/", "%2f")),
        ("sessions/--srv-runs-r1-ws1--/log", "--srv-runs-r1-ws1--"),
        ("/srv/runs/r1/other", "/srv/runs/r1"),
        (f"_{CHILDREN[0]}_", CHILDREN[0]),
        ("started by session-ffffffffffffffffffffffffffffffff", "session-ffffffffffffffffffffffffffffffff"),
        ("started subagent 9658d2ae-b3b9-4bcb-b6bc-41edce9e4631", "9658d2ae-b3b9-4bcb-b6bc-41edce9e4631"),
        ("9658d2ae-b3b9-4bcb-b6bc-41edce9e4631 [running] - c", "9658d2ae-b3b9-4bcb-b6bc-41edce9e4631"),
        ("goal-9658d2ae-b3b9-4bcb-b6bc-41edce9e4631", "goal-9658d2ae-b3b9-4bcb-b6bc-41edce9e4631"),
        ("moved to background job bash-032a6701951842f9", "bash-032a6701951842f9"),
        ("ls: dsh-spill-3Mwc7Y", "dsh-spill-3Mwc7Y"),
    ],
)
def test_what_is_known_or_has_the_harness_s_form_is_found(text: str, span: str) -> None:
    assert span in spans(full_map().hide(text))


def test_a_finding_names_its_field() -> None:
    day = "2026-11-30"
    hidden = talk(
        user("fine", f"today is {day}"),
        assistant(ToolCall("c", "read", {"paths": ["a", f"log-{day}"]})),
        user(ToolResult("c", day)),
        system=f"It is {day}.",
        tools=(Tool("read", f"as of {day}", {"properties": {"a": {"description": day}}}),),
    )
    with pytest.raises(VolatileLeft, match=r"system: '2026-11-30' \(the date of this run\) and 5 more") as raised:
        full_map().check(hidden)
    assert [finding.where for finding in raised.value.findings] == [
        "system",
        "tools[0].description",
        "tools[0].schema.properties.a.description",
        "messages[0].parts[1]",
        "messages[1].parts[0].arguments.paths[1]",
        "messages[2].parts[0]",
    ]


def test_a_clean_conversation_passes() -> None:
    made = full_map()
    made.check(made.hidden(talk(user(f"in {WORKSPACE}", f'Your parent agent id is "{ROOT_ID}".'))))


def test_the_date_is_looked_for_in_local_time_too() -> None:
    late = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    local = late.astimezone().date().isoformat()
    assert [found.span for found in AliasMap(clock=lambda: late).leftovers(local, "system")] == [local]
