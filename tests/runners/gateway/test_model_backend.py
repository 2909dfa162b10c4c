"""A model behind the gateway with a tape: what is decoded once, replayed and missed; and how texts become replies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from runners.gateway.generation import Generation, Request
from runners.gateway.opening import open_backend
from runners.gateway.tape import Tape
from tests.runners.gateway.serving import PATIENCE, Service, assembled, serving, tiny_backend
from tests.runners.gateway.test_app import HI, TOOL, await_start, long_call, raw_request
from tests.tiny_gguf import Arch

HOT: dict[str, Any] = {"sampler": {"temperature": 1.0}}
ASK: dict[str, Any] = {"model": "any", "max_tokens": 20, "messages": HI}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.sqlite"


@pytest.fixture
def recorder(tiny: dict[Arch, Path], tmp_path: Path, tape: Path) -> Iterator[Service]:
    with serving(tiny_backend(tiny["llama"], tmp_path / "cache", tape=tape)) as service:
        yield service


def replaying(tape: Path) -> Any:
    """A service that has the tape and no model file."""
    return serving(open_backend("llama", tape=tape, tape_only=True, cache=tape.parent / "empty"))


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(":"))


def course(service: Service, name: str, asks: list[dict[str, Any]], **settings: Any) -> tuple[list[str], list[bool]]:
    """Opens an episode, asks all of it, closes it; the bodies, and which answers were decoded."""
    assert service.open(name, **settings).status_code == 201
    bodies = [service.post(ask, name) for ask in asks]
    steps = service.close(name).json()["steps"]
    return [without_comments(body.text) for body in bodies], [step["decoded"] for step in steps]


ASKS = [
    ASK,
    ASK | {"stream": True},
    ASK,
    ASK | {"stream": True, "tools": [TOOL], "max_tokens": 40},
    ASK | {"tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 60},
    ASK | {"messages": [{"role": "user", "content": "a" * 3000}]},
    ASK | {"stream": True, "messages": [{"role": "user", "content": "a" * 3000}]},
]
"""The first three are one prompt three times; the last two overflow, once for both."""


def test_an_episode_again_is_the_same_bytes_and_no_decode(recorder, tape):
    first, decoded = course(recorder, "e", ASKS, **HOT)
    assert decoded == [True] * 5
    assert course(recorder, "e", ASKS, **HOT) == (first, [False] * 5)
    with Tape.open(tape, read_only=True) as stored:
        assert len(stored) == 6
        assert len({key.occurrence for key in stored.keys() if key.max_tokens == 20}) == 3  # noqa: SIM118


def test_a_prompt_that_comes_again_is_another_key_and_another_draw(recorder):
    bodies, _ = course(recorder, "e", [ASK] * 4, **HOT)
    texts = [json.loads(body)["content"][0]["text"] for body in bodies]
    assert len(set(texts)) == 4


def test_where_nothing_is_drawn_a_prompt_that_comes_again_is_decoded_once(recorder, tape):
    """Not with another seed either, nor by another agent; another sampler is another key."""
    bodies, decoded = course(recorder, "g", [ASK] * 2)
    assert decoded == [True, False]
    others, decoded = course(recorder, "h", [ASK] * 2, seed=3)
    assert decoded == [False, False]
    assert bodies == others
    assert course(recorder, "i", [ASK] * 2, sampler={"repeat_penalty": 1.5})[1] == [True, False]
    with Tape.open(tape, read_only=True) as stored:
        assert {(key.seed, key.agent, key.occurrence) for key in stored.keys()} == {(0, 0, 0)}  # noqa: SIM118


def test_the_seed_decides(recorder):
    ways = [course(recorder, "e", [ASK], seed=seed, **HOT) for seed in (0, 1, 0)]
    texts = [json.loads(bodies[0])["content"] for bodies, _ in ways]
    assert texts[0] == texts[2] != texts[1]
    assert [decoded for _, decoded in ways] == [[True], [True], [False]]


def test_a_request_that_went_away_does_not_count_as_an_occurrence(recorder, tape):
    recorder.open("e", **HOT)
    connection = raw_request(recorder, long_call("t", model="any", stream=True), "e")
    await_start(connection)
    connection.close()
    recorder.wait_idle()
    assert recorder.post(long_call("t", model="any") | {"max_tokens": 5}, "e").status_code == 200
    with Tape.open(tape, read_only=True) as stored:
        assert [(key.max_tokens, key.occurrence) for key in stored.keys()] == [(5, 0)]  # noqa: SIM118


@pytest.mark.parametrize("stream", [False, True])
def test_two_that_ask_the_same_at_once_share_one_decode(recorder, stream):
    """Whoever comes second waits, and is told the same."""
    body = ASK | {"max_tokens": 300, "stream": stream}
    names = ["a", "b", "c"]
    answers: dict[str, httpx.Response] = {}

    def ask(name: str) -> None:
        answers[name] = recorder.post(body, name)

    for name in names:
        recorder.open(name, **HOT)
    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    decoded = [recorder.summary(name)["steps"][0]["decoded"] for name in names]
    assert sorted(decoded) == [False, False, True]
    told = [assembled(answers[name]) if stream else answers[name].json() for name in names]
    assert all(one | {"id": ""} == told[0] | {"id": ""} for one in told)


def test_who_waits_for_one_that_goes_away_decodes_itself(recorder):
    for name in ("goes", "stays"):
        recorder.open(name, **HOT)
    body = long_call("t", model="any", stream=True)
    leaving = raw_request(recorder, body, "goes")
    await_start(leaving)
    with httpx.stream("POST", recorder.at("stays") + "/v1/messages", json=body, timeout=PATIENCE) as staying:
        lines = staying.iter_lines()
        assert next(lines) == "event: message_start"
        leaving.close()
        assert list(lines)[-3] == "event: message_stop"
    assert [step["decoded"] for step in recorder.summary("stays")["steps"]] == [True]
    assert recorder.summary("goes")["steps"] == []
    assert recorder.wait_idle()["status"] == "ok"


def test_comments_keep_a_client_that_waits_awake(recorder, tape, tmp_path):
    """It waits for a decode that someone else has begun, here for as long as the test likes."""
    course(recorder, "e", [ASK], **HOT)
    with Tape.open(tape, read_only=True) as stored:
        key = next(stored.keys())
        prompt, completion = stored.prompt(key.prompt), replace(stored.get(key), text="from elsewhere")
    backend = tiny_backend(recorder.backend.engine.model.path, tmp_path / "cache", tape=tmp_path / "other.sqlite")
    with serving(backend) as service, backend._tape.flight(key) as flight:
        service.open("e", **HOT)
        request = {"method": "POST", "url": service.at("e") + "/v1/messages", "json": ASK | {"stream": True}}
        with httpx.stream(**request, timeout=PATIENCE) as response:
            lines = response.iter_lines()
            assert next(lines) == "event: message_start"
            assert next(lines).startswith("data: ")
            assert [next(lines) for _ in range(3)] == ["", ": ping", ""]
            flight.put(prompt, completion)
            flight.release()
            text = "\n".join(lines)
        assert '"text":"elsewhere"' in text
        assert [step["decoded"] for step in service.summary("e")["steps"]] == [False]


class Broken:
    """A listener that kills the engine's thread."""

    def text(self, delta: str) -> None:
        raise ZeroDivisionError("a bug")

    def done(self, generation: Generation) -> None:
        raise ZeroDivisionError("a bug")

    def failed(self, error: Exception) -> None:
        pass


def test_a_dead_engine_is_said_to_be_dead(recorder):
    """To who waits for an answer, to who asks later, and to who looks; what is on the tape is answered all the same."""
    first, _ = course(recorder, "stored", [ASK], **HOT)
    for name in ("under-way", "later"):
        recorder.open(name)
    body = long_call("t", model="any", stream=True)
    stream = raw_request(recorder, body, "under-way")
    await_start(stream)
    recorder.backend.engine.submit(Request([5, 6, 7], 50), Broken())
    with stream:
        told = b"".join(iter(lambda: stream.recv(65536), b""))
        assert b'"type":"api_error","message":"EngineDead: the engine died: a bug"' in told
    answer = recorder.post(ASK, "later")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")
    assert answer.json()["error"]["message"] == "the engine died: a bug"
    for name in ("under-way", "later"):
        assert "the engine died: a bug" in recorder.summary(name)["failure"]
    health = recorder.http.get(recorder.url + "/healthz")
    assert (health.status_code, health.json()["status"]) == (503, "the engine is dead")
    assert course(recorder, "stored", [ASK], **HOT) == (first, [False])


# -- the tape alone --------------------------------------------------------------------------------------------------


def test_a_tape_alone_answers_with_the_same_bytes(recorder, tape):
    first, _ = course(recorder, "e", ASKS, **HOT)
    with replaying(tape) as service:
        assert service.health() == {"status": "ok", "model": "llama", "episodes": 1}
        assert course(service, "e", ASKS, **HOT) == (first, [False] * 5)
        assert not (tape.parent / "empty").exists()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("change", "settings", "expected"),
    [
        ({"max_tokens": 21}, HOT, "the same prompt is stored, but max_tokens differs: 20 there, 21 asked"),
        ({}, {"sampler": {"temperature": 0.5}}, "sampler.temperature differs: 1.0 there, 0.5 asked"),
        ({}, HOT | {"seed": 1}, "seed differs: 0 there, 1 asked"),
        ({}, HOT | {"window": 1000}, "n_ctx differs: 2048 there, 1000 asked"),
        ({"stop_sequences": ["x"]}, HOT, "stops differs: "),
        ({"messages": [{"role": "user", "content": "ho"}]}, HOT, "its prompt is not stored; nearest of 1 completions"),
    ],
)
def test_a_miss_is_one_clear_error_and_fails_the_episode(recorder, tape, change, settings, expected, stream):
    course(recorder, "e", [ASK], **HOT)
    with replaying(tape) as service:
        service.open("missing", **settings)
        answer = service.post(ASK | change | {"stream": stream}, "missing")
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "api_error"
        text = answer.json()["error"]["message"]
        assert text.startswith(f"episode missing, agent 0, step 0: not on the tape {tape}: ")
        assert expected in text
        assert service.summary("missing")["failure"] == f"TapeMiss: {text}"
        assert service.summary("missing")["steps"] == []


def test_a_third_occurrence_is_a_miss_that_says_so(recorder, tape):
    course(recorder, "e", [ASK] * 2, **HOT)
    with replaying(tape) as service:
        service.open("e", **HOT)
        assert [service.post(ASK, "e").status_code for _ in range(3)] == [200, 200, 500]
        assert "step 2" in service.summary("e")["failure"]
        assert "occurrence differs: " in service.summary("e")["failure"]


# -- texts, as a model might write them, on a tape -----------------------------------------------------------------


@pytest.fixture
def told(recorder: Service, tape: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Gives the message for a text that a model wrote: a recorded completion with another text in its place."""
    bodies: dict[bool, dict[str, Any]] = {
        tools: ASK | ({"tools": [TOOL, TOOL | {"name": "other"}]} if tools else {}) for tools in (False, True)
    }
    for name, body in (("plain", bodies[False]), ("tools", bodies[True])):
        course(recorder, name, [body], decode_mode="free")
    count = 0

    def tell(text: str, *, tools: bool = True, **more: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        copy = tmp_path / f"told-{count}.sqlite"
        with Tape.open(tape, read_only=True) as source, Tape.open(copy) as target:
            for sha256 in source.models():
                target.put_card(sha256, source.card(sha256))
            for key in source.keys():  # noqa: SIM118
                changed = replace(source.get(key), text=text, **more)
                target.put(key, source.prompt(key.prompt), changed)
        with replaying(copy) as service:
            got = []
            for name, stream in (("whole", False), ("streamed", True)):
                service.open(name, decode_mode="free")
                answer = service.post(bodies[tools] | {"stream": stream}, name)
                assert answer.status_code == 200, answer.text
                got.append(assembled(answer) if stream else dict(answer.json()))
        assert got[0] | {"id": ""} == got[1] | {"id": ""}
        return got[0]

    return tell


def blocks(message: dict[str, Any]) -> list[Any]:
    return [
        (block["name"], block["input"]) if block["type"] == "tool_use" else (block["type"], block[block["type"]])
        for block in message["content"]
    ]


def test_thinking(told):
    message = told("<think>\nLet me see.\nYes.</think>\n\nIt is blue.", tools=False, finish="stop")
    assert [kind for kind, _ in blocks(message)] == ["thinking", "text"]
    assert blocks(message)[0][1].strip() == "Let me see.\nYes."
    assert blocks(message)[1][1].strip() == "It is blue."
    assert message["stop_reason"] == "end_turn"


def test_thinking_alone_and_thinking_that_was_cut(told):
    assert blocks(told("<think>hm</think>", tools=False, finish="stop")) == [("thinking", "hm")]
    cut = told("<think>hm", tools=False, finish="length")
    assert blocks(cut) == [("thinking", "hm")]
    assert cut["stop_reason"] == "max_tokens"


def test_a_call_in_free_mode(told):
    message = told('I look.\n{"name": "read_file", "arguments": {"path": "a"}}', finish="stop")
    assert [block[0] for block in blocks(message)] == ["text", "read_file"]
    assert blocks(message)[1] == ("read_file", {"path": "a"})
    assert message["stop_reason"] == "tool_use"


def test_a_call_that_was_cut_is_text(told):
    text = '{"name": "read_file", "arguments": {"path": "a"'
    message = told(text, finish="length")
    assert blocks(message) == [("text", text)]
    assert message["stop_reason"] == "max_tokens"


def test_a_full_window_is_the_token_limit_to_the_client(told):
    assert told("x", finish="context")["stop_reason"] == "max_tokens"


def test_calls_before_the_token_limit_are_executed(told):
    message = told('{"name": "read_file", "arguments": {"path": "a"}}\n{"name": "oth', finish="length")
    assert blocks(message) == [("text", '{"name": "oth'), ("read_file", {"path": "a"})]
    assert message["stop_reason"] == "tool_use"


def test_a_text_of_nothing_is_one_empty_block(told):
    message = told("", finish="stop")
    assert message["content"] == [{"type": "text", "text": ""}]
    assert message["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('"\\ud83d"', "\ufffd"),
        ('"\\u0000\\u2028"', "\x00\u2028"),
        ("1E5", 1e5),
        ('{"a": [[], {}]}', {"a": [[], {}]}),
    ],
)
def test_odd_arguments_do_not_break_the_answer(told, written, sent):
    message = told(f'{{"name": "read_file", "arguments": {{"path": {written}}}}}', finish="stop")
    assert blocks(message) == [("read_file", {"path": sent})]


def test_a_number_out_of_range_makes_no_call(told):
    text = '{"name": "read_file", "arguments": {"path": 1e400}}'
    assert blocks(told(text, finish="stop")) == [("text", text)]


def test_a_stop_string_of_the_dialects_own_is_an_end(told):
    message = told("x", finish="stop", stop="<|im_start|>")
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
