"""What the real harness accepts on the wire, and what it makes of it: the facts that the gateway is built on.

All turns run in one session of one process; each begins with a reply under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.harness.driver import Run, model_rows, run_tree
from tests.harness.server import (
    Answer,
    Request,
    ScriptedServer,
    block_events,
    closing,
    event,
    opening,
    refusal,
    reply,
    say,
    think,
    use,
)

PING = (b": ping\n\n", event("ping"))
EMPTY = (opening(), *block_events(0, say("")), *closing("end_turn"))


def started(**message: Any) -> Answer:
    """A text reply whose `message_start` holds these fields."""
    head = event("message_start", message={"id": "m", "type": "message", "role": "assistant", "content": [], **message})
    return Answer((head, *block_events(0, say("x")), *closing("end_turn")))


def tool_reply(text: str, stop: str) -> Answer:
    """Text and a tool call whose input is this JSON text."""
    delta = event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": text})
    call = block_events(1, use("cut", "bash"))
    return Answer((opening(), *block_events(0, say("I will.")), call[0], delta, call[-1], *closing(stop)))


def overflow(words: str) -> Answer:
    """A refusal in these words."""
    return refusal(400, "invalid_request_error", words)


DONE, LIMIT = "completed", "max-tokens"
TOO_LONG = "prompt is too long for this model's context window: 8000 tokens > 6144 maximum"

# The reply, and how the harness' turn ends: the kind, or the code of the error.
CASES: Mapping[str, tuple[Answer, str]] = {
    "an empty text block": (Answer(EMPTY), DONE),
    "no block": (Answer((opening(), *closing("end_turn"))), "EMPTY_RESPONSE"),
    "only thinking": (reply(think("hm", "signed")), DONE),
    "text": (reply(say("x")), DONE),
    "a stop sequence": (reply(say("x"), stop="stop_sequence"), DONE),
    "a reply at the token limit": (reply(say("cut of"), stop="max_tokens"), LIMIT),
    "an unknown stop reason": (reply(say("x"), stop="refusal"), "MALFORMED_RESPONSE"),
    "comments and pings": (Answer((*PING, opening(), *PING, *EMPTY[1:3], *PING, *closing("end_turn"))), DONE),
    "no usage": (started(), "MALFORMED_RESPONSE"),
    "a usage field that is null": (started(usage={"input_tokens": None}), "MALFORMED_RESPONSE"),
    "an empty usage": (started(usage={}), DONE),
    "a call in pieces": (
        Answer((opening(), *block_events(0, use("pieces", "bash", command="echo in pieces"), 7), *closing("tool_use"))),
        DONE,
    ),
    "a call that is cut at the token limit": (tool_reply('{"command": "ec', "max_tokens"), LIMIT),
    "a call with broken JSON": (tool_reply('{"command": "ec', "tool_use"), "MALFORMED_RESPONSE"),
    "a stream that ends early": (Answer((opening(), *block_events(0, say("x")))), "STREAM_CLOSED"),
    "an error in the stream": (
        Answer((opening(), event("error", error={"type": "api_error", "message": "engine died"}))),
        "SERVER",
    ),
    "a whole message instead of a stream": (Answer((b'{"type":"message"}',), kind="application/json"), "STREAM_CLOSED"),
    "a bad request": (overflow("tools.0: no name"), "INVALID_REQUEST"),
    "no such model": (refusal(404, "not_found_error", "no such model"), "HTTP_404"),
    "too many requests": (refusal(529, "overloaded_error", "busy"), "SERVER"),
    "Anthropic's own words for a long prompt": (
        overflow("prompt is too long: 9 tokens > 5 maximum"),
        "INVALID_REQUEST",
    ),
    "a long prompt": (overflow(TOO_LONG), DONE),
}


@dataclass(frozen=True)
class Played:
    """The turn of each case, and what was asked in it."""

    run: Run
    requests: Mapping[str, list[Request]]
    ends: Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("wire")
    requests: dict[str, list[Request]] = {}

    def script(request: Request) -> Answer:
        if request.compacting:
            requests[list(requests)[-1]].append(request)
            return reply(say("Many words were said."))
        prompts = [block["text"] for block in request.body["messages"][-1]["content"] if block["type"] == "text"]
        case = next((text for text in reversed(prompts) if text in CASES), list(requests)[-1] if requests else "")
        first = case not in requests
        requests.setdefault(case, []).append(request)
        return CASES[case][0] if first else reply(say("Well."))

    with ScriptedServer(script) as server:
        run = run_tree(
            f"{server.url}/e/one",
            *CASES,
            profile="sdk-minimal",
            workspace=folder / "ws",
            home=folder / "home",
            rows=model_rows(),
            session="session-of-the-wire",
        )
        ends = dict(zip(CASES, (turn["reason"] for turn in run.events("turn/end")), strict=True))
        yield Played(run, requests, ends)


@pytest.mark.parametrize("case", CASES)
def test_how_a_turn_ends(played: Played, case: str) -> None:
    end = played.ends[case]
    assert end.get("error", {}).get("code", end["kind"]) == CASES[case][1]


def test_the_base_address_may_have_a_path_and_nothing_else_is_requested(played: Played) -> None:
    asked = {(request.method, request.path) for requests in played.requests.values() for request in requests}
    assert asked == {("POST", "/e/one/v1/messages")}


def test_only_the_overflow_leads_to_a_compaction_and_its_request_says_so(played: Played) -> None:
    compacting = {case: [request.compacting for request in asked] for case, asked in played.requests.items()}
    assert compacting["a long prompt"] == [False, True, False]
    assert not any(any(flags) for case, flags in compacting.items() if case != "a long prompt")
    assert len(played.run.events("compaction/summary")) == 1
    summary = played.requests["a long prompt"][1].body
    assert "You are now acting as a compaction engine" in json.dumps(summary["messages"][-1])


def test_replies_come_back_as_they_were_but_for_empty_text(played: Played) -> None:
    history = played.requests["a long prompt"][0].body["messages"]
    said = [block for message in history if message["role"] == "assistant" for block in message["content"]]
    assert {"type": "thinking", "thinking": "hm", "signature": "signed"} in said
    assert {"type": "tool_use", "id": "pieces", "name": "bash", "input": {"command": "echo in pieces"}} in said
    assert {"type": "text", "text": "cut of"} in said
    assert {"type": "text", "text": ""} not in said
    assert "cut" not in [block.get("id") for block in said]


def test_results_are_lists_of_blocks_and_say_whether_they_are_errors(played: Played) -> None:
    (result,) = (block for block in played.requests["a call in pieces"][1].body["messages"][-1]["content"])
    assert result == {
        "type": "tool_result",
        "tool_use_id": "pieces",
        "content": [{"type": "text", "text": "in pieces\n[Command finished with exit code 0]"}],
        "is_error": False,
    }
