"""The gateway over real sockets: the official client, episodes, agents, bad requests, clients that go away."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from runners.gateway.actors import ActorBackend, Script, ScriptedActor
from tests.runners.gateway.serving import PATIENCE, Service, assembled, serving, tiny_backend, wait_for
from tests.runners.gateway.test_wire_anthropic import WRONG, nested
from tests.tiny_gguf import Arch, write

TOOL: dict[str, Any] = {
    "name": "read_file",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
HI: list[Any] = [{"role": "user", "content": "hi"}]
ENDLESS = {"type": "object", "properties": {"x": {"type": "string", "minLength": 1000}}, "required": ["x"]}
"""A forced call of such a tool does not end for a long time."""

SCRIPT: dict[str, Any] = {
    "replies": [
        {"text": "Let me look.", "thinking": "I need the file.", "calls": [{"name": "read_file"}]},
        {
            "text": "Two:",
            "calls": [
                {"name": "read_file", "arguments": {"path": "a \u2028 \U0001f600"}},
                {"name": "subagent", "arguments": {"prompt": "count the files"}},
            ],
        },
        {"text": "Done.\n"},
    ],
    "child": [{"text": "I am a child.", "calls": [{"name": "read_file", "arguments": {"path": "c"}}]}],
}


@pytest.fixture(autouse=True)
def nothing_goes_wrong_inside(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever clients do, nothing is logged as an error or a warning."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.records] == []


@pytest.fixture
def actor() -> Iterator[Service]:
    with serving(ActorBackend(ScriptedActor("test", Script.model_validate(SCRIPT)), window=4000)) as service:
        yield service


@pytest.fixture(scope="module")
def model(tiny: dict[Arch, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tiny_backend(tiny["llama"], tmp_path_factory.mktemp("cache"))) as service:
        yield service


@pytest.fixture(scope="module")
def vast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A model with a window so large that `long_call` goes on for half a minute and more."""
    folder = tmp_path_factory.mktemp("vast")
    path = write(folder / "llama.gguf", "llama", context_length=32768)
    with serving(tiny_backend(path, folder, n_ctx=32768)) as service:
        yield service


def ask(service: Service, episode: str | None = None, *, stream: bool = False, **more: Any) -> dict[str, Any]:
    """One answered request; the message, whether streamed or not."""
    headers = more.pop("headers", {})
    name = service.health()["model"]
    body = {"model": name, "max_tokens": 5, "messages": HI} | more | {"stream": stream}
    answer = service.post(body, episode, **headers)
    assert answer.status_code == 200, answer.text
    return assembled(answer) if stream else dict(answer.json())


# -- the official client ---------------------------------------------------------------------------------------------


def test_a_conversation_with_tools_through_the_official_client(actor):
    actor.open("e")
    client = actor.client("e")
    messages: list[Any] = [*HI]
    seen = []
    for _ in range(4):
        reply = client.messages.create(model="any", max_tokens=100, messages=messages, tools=[TOOL])
        seen.append([block.type for block in reply.content])
        messages.append({"role": "assistant", "content": reply.content})
        answers = [
            {"type": "tool_result", "tool_use_id": block.id, "content": f"result {at}"}
            for at, block in enumerate(reply.content)
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": answers or "go on"})
    assert seen == [["thinking", "text", "tool_use"], ["text", "tool_use", "tool_use"], ["text"], ["text"]]
    assert reply.content[0].text == ""
    assert reply.stop_reason == "end_turn"
    ids = [
        block["tool_use_id"] for m in messages if m["role"] == "user" for block in m["content"] if "id" in str(block)
    ]
    assert ids == ["toolu_0_0_0", "toolu_0_1_0", "toolu_0_1_1"]


def test_streamed_by_the_official_client_is_what_is_not_streamed(actor):
    for name in ("whole", "streamed"):
        actor.open(name)
    for _ in range(4):
        whole = actor.client("whole").messages.create(model="any", max_tokens=100, messages=HI, tools=[TOOL])
        with actor.client("streamed").messages.stream(model="any", max_tokens=100, messages=HI, tools=[TOOL]) as stream:
            for _event in stream:
                pass
            streamed = stream.get_final_message()
        assert streamed.to_dict(exclude_unset=False) | {"id": ""} == whole.to_dict(exclude_unset=False) | {"id": ""}
    assert [step["calls"] for step in actor.summary("streamed")["steps"]] == [1, 2, 0, 0]


def test_models(model):
    assert [one.id for one in model.client().models.list()] == ["llama"]
    model.open("m")
    assert [one.id for one in model.client("m").models.list()] == ["llama"]
    model.close("m")


def test_an_async_client_with_several_requests_at_once(model):
    import asyncio

    async def talk() -> list[Any]:
        client = anthropic.AsyncAnthropic(base_url=model.url, api_key="x", max_retries=0, timeout=PATIENCE)
        async with client:
            asked = [
                client.messages.create(model="llama", max_tokens=8, messages=[{"role": "user", "content": f"q{at}"}])
                for at in range(6)
            ]
            return await asyncio.gather(*asked)

    replies = asyncio.run(talk())
    assert [reply.usage.output_tokens for reply in replies] == [8] * 6
    assert len({reply.id for reply in replies}) == 6


# -- a model ---------------------------------------------------------------------------------------------------------


def test_usage_is_what_the_tokenizer_counts(model):
    """One token a byte, and one for each of the template's marks."""
    prompt = "<|im_start|>user\nh\u00e9<|im_end|>\n<|im_start|>assistant\n"
    tokens = model.backend.engine.model.tokenize(prompt)
    assert len(tokens) == 1 + len("user\nh\u00e9".encode()) + 2 + 1 + len("assistant\n")
    for stream in (False, True):
        got = ask(model, stream=stream, max_tokens=7, messages=[{"role": "user", "content": "h\u00e9"}])
        assert got["usage"] == {
            "input_tokens": len(tokens),
            "output_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        assert got["stop_reason"] == "max_tokens"


def test_an_overflow_has_exact_counts_and_the_limit_is_exact(model):
    """A prompt of window - 1 tokens leaves room for one, one of the window's length for none."""
    frame = len(model.backend.engine.model.tokenize("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"))
    fits = [{"role": "user", "content": "a" * (2047 - frame)}]
    for stream in (False, True):
        got = ask(model, stream=stream, messages=fits, max_tokens=5)
        assert got["usage"]["input_tokens"] == 2047
        assert got["usage"]["output_tokens"] == 1
        assert got["stop_reason"] == "max_tokens"
    over = [{"role": "user", "content": "a" * (2048 - frame)}]
    client = model.client()
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(model="llama", max_tokens=5, messages=over)
    text = "prompt is too long for this model's context window: 2048 tokens > 2047 maximum"
    assert caught.value.body == {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    answer = model.post({"model": "llama", "max_tokens": 5, "messages": over, "stream": True})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, text)


def test_an_episodes_window_is_its_own(model):
    model.open("w", window=100)
    answer = model.post({"model": "any", "max_tokens": 5, "messages": [{"role": "user", "content": "a" * 99}]}, "w")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("> 99 maximum")
    summary = model.summary("w")
    assert summary["failure"] is None
    assert summary["steps"] == []
    assert ask(model, "w", max_tokens=10**30)["usage"]["output_tokens"] <= 100
    model.close("w")


def test_a_stop_sequence_ends_the_text_before_it(model):
    """Found first in what the model writes without any."""
    text = ask(model, max_tokens=200)["content"][0]["text"]
    stop = next(pair for at in range(20, 190) if "\ufffd" not in (pair := text[at : at + 2]))
    for stream in (False, True):
        got = ask(model, stream=stream, max_tokens=200, stop_sequences=["no such text", stop])
        assert (got["stop_reason"], got["stop_sequence"]) == ("stop_sequence", stop)
        assert got["content"] == [{"type": "text", "text": text[: text.index(stop)]}]
        assert got["usage"]["output_tokens"] < 200


def test_tool_choice(model):
    other = TOOL | {"name": "list_files", "input_schema": {"type": "object", "properties": {}}}
    fixed = TOOL | {"input_schema": {"type": "object", "properties": {"path": {"const": "x"}}, "required": ["path"]}}
    tools = [fixed, other]
    for stream in (False, True):
        for choice, allowed in (({"type": "tool", "name": "read_file"}, {"read_file"}), ({"type": "any"}, None)):
            got = ask(model, stream=stream, max_tokens=400, tools=tools, tool_choice=choice)
            calls = [block for block in got["content"] if block["type"] == "tool_use"]
            assert got["stop_reason"] == "tool_use"
            assert {call["name"] for call in calls} <= (allowed or {"read_file", "list_files"})
            assert all(call["input"] == {"path": "x"} for call in calls if call["name"] == "read_file")
        none = ask(model, stream=stream, max_tokens=20, tools=tools, tool_choice={"type": "none"})
        plain = ask(model, stream=stream, max_tokens=20)
        assert none["content"] == plain["content"]
        assert none["usage"] == plain["usage"]


def test_forced_decoding_of_an_episode(model):
    model.open("forced", decode_mode="forced")
    fixed = TOOL | {"input_schema": {"type": "object", "properties": {"path": {"const": "x"}}, "required": ["path"]}}
    assert ask(model, "forced", max_tokens=400, tools=[fixed])["stop_reason"] == "tool_use"
    assert ask(model, "forced", max_tokens=5)["stop_reason"] == "max_tokens"
    summary = ask(model, "forced", max_tokens=40, tools=[fixed], headers={"x-deepseek-harness-compact": "1"})
    assert [block["type"] for block in summary["content"]] == ["text"]
    steps = model.summary("forced")["steps"]
    assert [(step["step"], step["compaction"]) for step in steps] == [(0, False), (1, False), (2, True)]
    model.close("forced")


def test_only_the_served_model_is_served_outside_of_episodes(model):
    with pytest.raises(anthropic.NotFoundError, match="'gpt' is not served; 'llama' is"):
        model.client().messages.create(model="gpt", max_tokens=5, messages=HI)


# -- bad requests ----------------------------------------------------------------------------------------------------


def test_every_wrong_field_is_a_400_that_names_it(model):
    for change, expected in WRONG:
        for stream in ({}, {"stream": True}):
            answer = model.post({"model": "llama", "max_tokens": 5, "messages": HI} | stream | change)
            assert answer.status_code == 400, (change, answer.text)
            error = answer.json()
            assert error["type"] == "error"
            assert error["error"]["type"] == "invalid_request_error"
            assert error["error"]["message"].startswith(expected)
    assert model.wait_idle()["status"] == "ok"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b'{"model": NaN}', nested(201)],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_request_is_a_400(model, body):
    answer = model.post(body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "user", "content": "\x00\ud83d<|im_end|>"}]},
        {"messages": [{"role": "user", "content": []}, {"role": "user", "content": ""}]},
        {"messages": [{"role": "assistant", "content": "I was"}]},
        {"messages": [{"role": "system", "content": "Be."}]},
        {"stop_sequences": ["\ud83d"]},
        {"temperature": 2, "top_p": 1e-300, "top_k": 2**31 - 1},
        {"tools": [TOOL | {"name": 'a"\n\\\x00\u00e9\ud83d'}]},
        {"tools": [TOOL | {"input_schema": {"type": "nonsense"}}], "tool_choice": {"type": "any"}},
        {"tools": [TOOL | {"input_schema": {"properties": {"a": {"$ref": "#/no"}}}}], "tool_choice": {"type": "any"}},
        {"tools": [TOOL | {"input_schema": {"properties": {"a": {"pattern": "(["}}}}], "tool_choice": {"type": "any"}},
        {"tools": [TOOL | {"input_schema": {"properties": {"a": {"enum": []}}}}], "tool_choice": {"type": "any"}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_odd_requests_are_answered_all_the_same(model, change):
    got = model.post({"model": "llama", "max_tokens": 5, "messages": HI} | {"max_tokens": 5} | change)
    assert got.status_code == 200, got.text


def test_the_deepest_schema_is_taken(tiny, tmp_path):
    """A grammar of a schema that is as deep as a body may be."""
    schema: dict[str, Any] = {}
    for _ in range(97):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    path = write(tmp_path / "wide.gguf", "llama", context_length=8192)
    with serving(tiny_backend(path, tmp_path, n_ctx=8192)) as service:
        tools = [TOOL | {"input_schema": schema}]
        assert ask(service, tools=tools, tool_choice={"type": "any"})["usage"]["input_tokens"] > 5000


def test_routes_that_do_not_exist(model):
    for method, path, status in [
        ("GET", "/", 404),
        ("GET", "/v1/messages", 405),
        ("POST", "/v1/complete", 404),
        ("POST", "/e/x/v1/complete", 404),
        ("PATCH", "/e/x", 405),
    ]:
        answer = model.http.request(method, model.url + path)
        assert answer.status_code == status
        assert answer.json()["error"]["message"] == f"{method} {path} is nothing that is served here"


# -- episodes --------------------------------------------------------------------------------------------------------


def test_the_servers_own_episode_stays_open(actor):
    answer = actor.close("default")
    assert answer.status_code == 400
    assert "stays open" in answer.json()["error"]["message"]
    assert actor.post({"model": "default", "max_tokens": 5, "messages": HI}).status_code == 200


def test_an_episodes_life(actor):
    opened = actor.open("one", seed=3, workspace="/tmp/place")
    assert opened.status_code == 201
    assert opened.json() == actor.summary("one")
    assert opened.json()["settings"]["seed"] == 3
    again = actor.open("one")
    assert again.status_code == 409
    assert "is open already" in again.json()["error"]["message"]
    assert actor.health()["episodes"] == 2
    closed = actor.close("one")
    assert (closed.status_code, closed.json()) == (200, opened.json())
    for answer in (
        actor.close("one"),
        actor.http.get(actor.at("one")),
        actor.post({"model": "x", "max_tokens": 1, "messages": HI}, "one"),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "episode 'one' is not open; PUT /e/one opens it"
    assert actor.open("one").status_code == 201


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("e", b"{", "episode 'e': body: Invalid JSON"),
        ("e", b"[]", "episode 'e': body: "),
        ("e", b'{"sede": 1}', "episode 'e': sede: "),
        ("e", b'{"seed": -1}', "episode 'e': seed: "),
        ("e", b'{"decode_mode": "greedy"}', "episode 'e': decode_mode: "),
        ("e", b'{"sampler": {"temprature": 1}}', "episode 'e': sampler.temprature: "),
        ("e", b'{"sampler": {"top_p": 0}}', "episode 'e': sampler.top_p: "),
        ("e", b'{"window": 63}', "episode 'e': window: "),
        ("e", b'{"window": 4001}', "episode 'e': window 4001 is more than the model's 4000"),
        ("e", b'{"max_tokens": 0}', "episode 'e': max_tokens: "),
        ("e", b'{"workspace": "here"}', "episode 'e': workspace 'here' "),
        ("e", b'{"watch": ["a"]}', "episode 'e': a watched value, 'a', "),
        ("e", b'{"volatile": {"a": 5}}', "episode 'e': volatile.a: "),
        ("a%20b", b"", "episode 'a b': use letters"),
        ("-a", b"", "episode '-a': use letters"),
        ("a" * 129, b"", f"episode '{'a' * 129}': use letters"),
    ],
)
def test_bad_settings_are_a_400_that_names_the_key(actor, name, body, expected):
    answer = actor.http.put(actor.at(name), content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(expected)
    assert actor.health()["episodes"] == 1


def test_two_episodes_at_once_do_not_mix(actor):
    """Each plays its own course from the start, and its ids are those of any other episode."""
    courses: dict[str, list[Any]] = {}

    def play(name: str, stream: bool) -> None:
        actor.open(name)
        courses[name] = [ask(actor, name, stream=stream)["content"] for _ in range(4)]

    threads = [threading.Thread(target=play, args=(f"e{at}", at % 2 == 1)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(courses) == 6
    assert all(course == courses["e0"] for course in courses.values())
    assert courses["e0"][0][-1] == {"type": "tool_use", "id": "toolu_0_0_0", "name": "read_file", "input": {}}


def test_agents_are_told_by_their_session(actor):
    actor.open("e", root_session="root-session")

    def step(session: str, messages: list[Any] = HI) -> list[Any]:
        return list(ask(actor, "e", messages=messages, headers={"x-deepseek-harness-session-id": session})["content"])

    assert step("root-session")[-1]["id"] == "toolu_0_0_0"
    assert step("root-session")[-1]["input"] == {"prompt": "count the files"}
    child = step("child-session", [{"role": "user", "content": "count the files"}])
    assert [block.get("text", block.get("id")) for block in child] == ["I am a child.", "toolu_1_0_0"]
    assert step("root-session")[0]["text"] == "Done.\n"
    steps = actor.summary("e")["steps"]
    assert [(at["agent"], at["step"], at["session"]) for at in steps] == [
        (0, 0, "root-session"),
        (0, 1, "root-session"),
        (1, 0, "child-session"),
        (0, 2, "root-session"),
    ]


@pytest.mark.parametrize("session", ["abc", "a b c d", "", "-abc", "x" * 129, "ab/cd"])
def test_a_bad_session_id_is_refused_and_leaves_the_episode_sound(actor, session):
    actor.open("e")
    body = {"model": "x", "max_tokens": 1, "messages": HI}
    answer = actor.post(body, "e", **{"x-deepseek-harness-session-id": session})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("header x-deepseek-harness-session-id: ")
    assert ask(actor, "e", headers={"x-deepseek-harness-session-id": "good-one"})["content"]
    assert actor.summary("e")["failure"] is None


def test_what_is_volatile_is_hidden_and_made_real_again(actor):
    """In arguments of calls by their aliases; a leftover fails the episode and names the field."""
    script = {"replies": [{"calls": [{"name": "read_file", "arguments": {"path": "/workspace/a"}}]}]}
    with serving(ActorBackend(ScriptedActor("alias", Script.model_validate(script)), window=4000)) as service:
        service.open("e", workspace="/tmp/some/place", watch=["secret-host"])
        assert ask(service, "e")["content"][0]["input"] == {"path": "/tmp/some/place/a"}
        leak = {"model": "x", "max_tokens": 1, "messages": [{"role": "user", "content": "on secret-host now"}]}
        answer = service.post(leak, "e")
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")
        assert "messages[0]" in answer.json()["error"]["message"]
        assert "secret-host" in str(service.summary("e")["failure"])


# -- clients that go away --------------------------------------------------------------------------------------------


def raw_request(service: Service, body: dict[str, Any], episode: str | None = None) -> socket.socket:
    """Sends a request and leaves the socket open."""
    url = httpx.URL(service.at(episode) + "/v1/messages")
    data = json.dumps(body).encode()
    head = f"POST {url.path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n".encode()
    connection = socket.create_connection((url.host, url.port), timeout=PATIENCE)
    connection.sendall(head + data)
    return connection


def await_start(connection: socket.socket) -> None:
    """Reads until a stream has begun."""
    seen = b""
    while b"message_start" not in seen:
        piece = connection.recv(10_000)
        assert piece, seen
        seen += piece


def long_call(name: str, **more: Any) -> dict[str, Any]:
    """A request whose answer takes 1,000 tokens at least, and in fact all that the window has."""
    tools = [TOOL | {"name": name, "input_schema": ENDLESS}]
    return (
        {"model": "llama", "max_tokens": 50_000, "messages": HI, "tools": tools}
        | {"tool_choice": {"type": "any"}}
        | more
    )


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_stops_its_work(vast, stream):
    vast.open("gone")
    before = vast.wait_idle()
    engine = vast.backend.engine
    decoded = engine.decoded
    connection = raw_request(vast, long_call("t", stream=stream), "gone")
    wait_for(lambda: engine.decoded > decoded)
    if stream:
        await_start(connection)
    connection.close()
    after = vast.wait_idle()
    assert engine.decoded - decoded < 10_000  # of more than 30,000
    assert after["status"] == "ok"
    assert after["used_cells"] - before["used_cells"] < 11_000
    summary = vast.summary("gone")
    assert summary["failure"] is None
    assert summary["steps"] == []
    # Its ordinal is given back: the same request asked again has the ids that it would have had.
    fixed = TOOL | {"input_schema": {"type": "object", "properties": {}, "additionalProperties": False}}
    got = ask(vast, "gone", max_tokens=400, tools=[fixed], tool_choice={"type": "any"})
    assert got["content"][-1]["id"].startswith("toolu_0_0_")
    vast.close("gone")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_while_it_waits_is_forgotten(model, stream):
    model.wait_idle()
    busy = [raw_request(model, long_call(f"t{at}", stream=True)) for at in range(2)]
    wait_for(lambda: model.health()["active"] == 2)
    waiting = raw_request(model, long_call("w", stream=stream))
    wait_for(lambda: model.health()["waiting"] == 1)
    waiting.close()
    wait_for(lambda: model.health()["waiting"] == 0)
    for connection in busy:
        connection.close()
    model.wait_idle()
    assert ask(model)["usage"]["output_tokens"] == 5


def test_a_client_that_leaves_in_mid_request_is_no_error(model):
    url = httpx.URL(model.url)
    connection = socket.create_connection((url.host, url.port), timeout=PATIENCE)
    connection.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    connection.close()
    assert ask(model)["usage"]["output_tokens"] == 5


def test_a_full_queue_is_said_so_and_nothing_else_suffers(tiny, tmp_path):
    with serving(tiny_backend(tiny["llama"], tmp_path, slots=1, queue=1)) as service:
        held = [raw_request(service, long_call("a", stream=True))]
        wait_for(lambda: service.health()["active"] == 1)
        held.append(raw_request(service, long_call("b", stream=True)))
        wait_for(lambda: service.health()["waiting"] == 1)
        for stream in (False, True):
            answer = service.post({"model": "llama", "max_tokens": 5, "messages": HI, "stream": stream})
            assert answer.status_code == 529
            assert answer.json()["error"]["type"] == "overloaded_error"
        for connection in held:
            connection.close()
        service.wait_idle()
        assert ask(service)["usage"]["output_tokens"] == 5
