"""The Anthropic format by itself: what is read, what is refused and how, and what a stream is made of."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.gateway.asking import Answer, BadAsk
from runners.gateway.conversation import (
    Call,
    Conversation,
    Message,
    Reply,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from runners.gateway.wire.anthropic_reply import MessageStream, body, content, message, overflow_text, sse, stop_reason
from runners.gateway.wire.anthropic_request import MOST_DEPTH, MessagesRequest
from tests.runners.gateway.serving import assembled

BASE: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}

TEXTS = st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)


def read(value: Any) -> MessagesRequest:
    return MessagesRequest.read(json.dumps(value).encode())


def answer(reply: Reply, finish: Any = "stop", stop: str | None = None) -> Answer:
    return Answer(
        reply,
        finish=finish,
        stop=stop,
        input_tokens=3,
        output_tokens=4,
        prefill_seconds=0.0,
        decode_seconds=0.0,
        tape_key=None,
        prompt_digest=None,
        decoded=True,
    )


# -- requests --------------------------------------------------------------------------------------------------------

BLOCKS = ["type", "text", "thinking", "tool_use", "tool_result", "id", "name", "input", "tool_use_id", "is_error"]
OTHERS = ["role", "content", "user", "assistant", "input_schema", "auto", "any", "none", "tool"]
NAMES = st.sampled_from([*MessagesRequest.model_fields, *BLOCKS, *OTHERS])
SHAPED = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | TEXTS | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXTS, inner, max_size=6),
    max_leaves=30,
)


def read_whole(data: bytes) -> None:
    refusal = ""
    try:
        MessagesRequest.read(data).conversation()
    except BadAsk as error:
        refusal = str(error)
    assert "\n" not in refusal
    refusal.encode()


def test_no_content_is_an_empty_text() -> None:
    for nothing in ("", []):
        request = BASE | {"messages": [{"role": "user", "content": nothing}]}
        assert MessagesRequest.read(json.dumps(request).encode()).conversation().messages == (
            Message("user", (Text(""),)),
        )


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_bad_ask(data):
    read_whole(data)


@given(SHAPED, st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
def test_no_json_raises_anything_but_bad_ask(value, encoding):
    read_whole(json.dumps(value).encode(encoding))


@given(st.dictionaries(NAMES, SHAPED, max_size=4), st.integers(0, 3))
def test_no_request_with_something_odd_in_it_raises_anything_but_bad_ask(odd, where):
    places = [odd, {"messages": [odd]}, {"tools": [odd]}, {"messages": [{"role": "assistant", "content": [odd]}]}]
    read_whole(json.dumps(BASE | places[where]).encode())


def user(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": list(blocks)}]}


TOOL = {"name": "t", "input_schema": {}}
USE = {"type": "tool_use", "id": "a", "name": "t", "input": {}}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model: "),
    ({"model": 5}, "model: "),
    ({"messages": []}, "messages: "),
    ({"messages": "hi"}, "messages: "),
    ({"messages": [5]}, "messages.0: "),
    ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
    ({"messages": [{"content": "x"}]}, "messages.0.role: Field required"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role: "),
    ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: "),
    ({"messages": [{"role": "user", "content": None}]}, "messages.0.content: "),
    (user({"text": "x"}), "messages.0.content.0: "),
    (user({"type": "text"}), "messages.0.content.0.text: Field required"),
    (user({"type": "text", "text": 5}), "messages.0.content.0.text: "),
    (user({"type": "text", "text": "x"}, {"type": "text", "text": None}), "messages.0.content.1.text: "),
    (user({"type": "thinking"}), "messages.0.content.0.thinking: Field required"),
    (user({"type": "image", "source": {"type": "base64"}}), "messages.0.content.0: Input tag 'image'"),
    (user({"type": "document"}), "messages.0.content.0: Input tag 'document'"),
    (user({"type": "tool_result", "tool_use_id": "x"}), "messages.0.content.0: no tool_use has the id 'x'"),
    (user({"type": "tool_result"}), "messages.0.content.0.tool_use_id: Field required"),
    (user(USE), "messages.0.content.0: tool_use in a message of role user"),
    (assistant(USE, USE), "messages.0.content.1: tool_use id 'a' stands there twice"),
    (assistant(USE | {"input": []}), "messages.0.content.0.input: "),
    (assistant(USE | {"id": ""}), "messages.0.content.0.id: "),
    (assistant(USE | {"name": None}), "messages.0.content.0.name: "),
    ({"max_tokens": 0}, "max_tokens: "),
    ({"max_tokens": -1}, "max_tokens: "),
    ({"max_tokens": 1.5}, "max_tokens: "),
    ({"max_tokens": None}, "max_tokens: "),
    ({"system": 5}, "system: "),
    ({"system": [{"type": "image"}]}, "system.0."),
    ({"tools": {}}, "tools: "),
    ({"tools": [{"name": "t"}]}, "tools.0.input_schema: Field required"),
    ({"tools": [{"input_schema": {}}]}, "tools.0.name: Field required"),
    ({"tools": [TOOL | {"name": ""}]}, "tools.0.name: "),
    ({"tools": [TOOL | {"input_schema": []}]}, "tools.0.input_schema: "),
    ({"tools": [TOOL | {"type": "web_search_20250305"}]}, "tools.0.type: "),
    ({"tools": [TOOL, TOOL]}, "tools: the name 't' stands there more than once"),
    ({"tool_choice": "any"}, "tool_choice: "),
    ({"tool_choice": {"type": "some"}}, "tool_choice.type: "),
    ({"tool_choice": {"type": "any"}}, "tool_choice: 'any' without tools"),
    ({"tool_choice": {"type": "tool", "name": "t"}}, "tool_choice: 'tool' without tools"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "u"}}, "tool_choice: no tool is named 'u'"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name: is needed"),
    ({"stop_sequences": "x"}, "stop_sequences: "),
    ({"stop_sequences": ["x", ""]}, "stop_sequences.1: "),
    ({"stop_sequences": [5]}, "stop_sequences.0: "),
    ({"stream": "perhaps"}, "stream: "),
    ({"temperature": -0.1}, "temperature: "),
    ({"temperature": 2.1}, "temperature: "),
    ({"top_p": 0}, "top_p: "),
    ({"top_p": 1.1}, "top_p: "),
    ({"top_k": -1}, "top_k: "),
    ({"top_k": 2**31}, "top_k: "),
]


@pytest.mark.parametrize(("change", "expected"), WRONG, ids=[json.dumps(change)[:60] for change, _ in WRONG])
def test_a_wrong_field_is_named(change, expected):
    with pytest.raises(BadAsk) as caught:
        read(BASE | change).conversation()
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("field", ["model", "messages", "max_tokens"])
def test_a_missing_field_is_named(field):
    with pytest.raises(BadAsk, match=rf"^{field}: Field required$"):
        read({key: value for key, value in BASE.items() if key != field})


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_is_no_json_value_is_refused(word):
    with pytest.raises(BadAsk, match="no JSON value"):
        MessagesRequest.read(b'{"x": %s}' % word)


def nested(depth: int) -> bytes:
    """A request whose tool's schema makes the whole body that deep."""
    schema = b'{"a":' * (depth - 4) + b"{}" + b"}" * (depth - 4)
    rest = json.dumps(BASE)[:-1].encode()
    return rest + b', "tools": [{"name": "t", "input_schema": ' + schema + b"}]}"


def test_depth_is_limited():
    assert MessagesRequest.read(nested(MOST_DEPTH)).tools[0].name == "t"
    with pytest.raises(BadAsk, match="nested more than 200 deep"):
        MessagesRequest.read(nested(MOST_DEPTH + 1))


def test_a_lone_surrogate_is_replaced_wherever_it_stands():
    data = b'{"model": "m", "max_tokens": 1, "messages": [{"role": "assistant", "content": [{"type": "tool_use", '
    data += b'"id": "\\ud83d", "name": "a\\ude00b", "input": {"\\ud83d": ["\\ud83d\\ude00", "x\\ud83d"]}}]}]}'
    call = MessagesRequest.read(data).conversation().messages[0].parts[0]
    assert call == ToolCall("\ufffd", "a\ufffdb", {"\ufffd": ["\U0001f600", "x\ufffd"]})


PARTS = {
    "user": st.builds(Text, TEXTS),
    "assistant": st.builds(Text, TEXTS) | st.builds(Thinking, TEXTS),
}


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Any conversation that can be written in the format."""
    messages: list[Message] = []
    called: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        role = draw(st.sampled_from(["user", "assistant"]))
        parts: list[Any] = draw(st.lists(PARTS[role], min_size=1, max_size=3))
        for _ in range(draw(st.integers(0, 2))):
            if role == "assistant":
                called.append(f"id-{len(called)}")
                parts.append(ToolCall(called[-1], draw(TEXTS.filter(bool)), draw(OBJECTS)))
            elif called:
                parts.append(ToolResult(draw(st.sampled_from(called)), draw(TEXTS), draw(st.booleans())))
        messages.append(Message(role, tuple(parts)))
    names = draw(st.lists(TEXTS.filter(bool), max_size=3, unique=True))
    tools = tuple(Tool(name, draw(TEXTS), draw(OBJECTS)) for name in names)
    return Conversation(draw(TEXTS), tuple(messages), tools)


def written(part: Any) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
        case Thinking(text):
            return {"type": "thinking", "thinking": text, "signature": "s"}
        case ToolCall(identifier, name, arguments):
            return {"type": "tool_use", "id": identifier, "name": name, "input": arguments}
        case ToolResult(identifier, text, error):
            block = {"type": "text", "text": text}
            return {"type": "tool_result", "tool_use_id": identifier, "content": [block], "is_error": error}
    raise AssertionError(part)


@given(conversations())
def test_a_conversation_is_read_as_it_was_written(conversation):
    request = {
        "model": "m",
        "max_tokens": 1,
        "system": [{"type": "text", "text": conversation.system}],
        "messages": [{"role": m.role, "content": [written(part) for part in m.parts]} for m in conversation.messages],
        "tools": [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in conversation.tools
        ],
        "metadata": {"user_id": "u"},
        "output_config": {"effort": "high"},
    }
    assert read(request).conversation() == conversation


def test_short_forms_are_read():
    request = BASE | {
        "system": "s",
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, USE]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ],
    }
    got = read(request).conversation()
    assert got.system == "s"
    assert [m.parts for m in got.messages] == [
        (Text("q"),),
        (ToolCall("a", "t", {}),),
        (ToolResult("a", "r"),),
        (ToolResult("a", ""),),
    ]


def test_tool_choice():
    def with_choice(choice: Any) -> MessagesRequest:
        return read(BASE | {"tools": [TOOL, TOOL | {"name": "u"}], "tool_choice": choice})

    forced = {kind: with_choice({"type": kind, "name": "u"}) for kind in ("auto", "any", "tool", "none")}
    assert {kind: request.forced for kind, request in forced.items()} == {
        "auto": False,
        "any": True,
        "tool": True,
        "none": False,
    }
    assert {kind: request.only_tool for kind, request in forced.items()} == {
        "auto": None,
        "any": None,
        "tool": "u",
        "none": None,
    }
    assert [len(request.conversation().tools) for request in forced.values()] == [2, 2, 2, 0]


# -- replies ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(["text", "thinking"]), st.text(min_size=1, max_size=20)), max_size=8),
    st.lists(st.builds(Call, TEXTS.filter(bool), OBJECTS), max_size=3),
    st.data(),
)
def test_a_stream_gives_the_whole_text_however_it_is_cut(runs, calls, data):
    """And its bytes do not depend on the cut."""
    # Neighbours of one kind are one block.
    joined: list[tuple[Any, str]] = []
    for kind, text in runs:
        if joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        else:
            joined.append((kind, text))
    ids = tuple(f"id-{at}" for at in range(len(calls)))
    reply = answer(Reply("x", "x", tuple(calls)))

    def bytes_of(cut: bool) -> bytes:
        stream = MessageStream("msg", "m")
        out = stream.start(3)
        for kind, text in joined:
            at = 0
            while at < len(text):
                end = data.draw(st.integers(at + 1, len(text))) if cut else len(text)
                out += stream.delta(kind, text[at:end])
                at = end
        return out + stream.finish(reply, ids)

    whole = bytes_of(cut=False)
    assert bytes_of(cut=True) == whole
    blocks = [{"type": kind, kind: text} for kind, text in joined]
    for block in blocks:
        if block["type"] == "thinking":
            block["signature"] = ""
    used = [
        {"type": "tool_use", "id": at, "name": call.name, "input": call.arguments}
        for at, call in zip(ids, calls, strict=True)
    ]
    assert assembled(whole.decode())["content"] == (blocks + used or [{"type": "text", "text": ""}])


REPLIES = [
    Reply(),
    Reply(text="a b"),
    Reply(thinking="hm"),
    Reply(text="a\u2028b\r\n\x00 \U0001f600", thinking="hm hm"),
    Reply(calls=(Call("t", {}),)),
    Reply(text="x", thinking="y", calls=(Call("t", {"a": [1, None, "\U0001f600"]}), Call("u", {}))),
]


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize(("finish", "stop"), [("stop", None), ("stop_string", "END"), ("length", None)])
def test_streamed_and_whole_are_one_message(reply, finish, stop):
    given_answer = answer(reply, finish, stop)
    ids = tuple(f"id-{at}" for at in range(len(reply.calls)))
    stream = MessageStream("msg", "m")
    out = stream.start(3)
    out += stream.delta("thinking", reply.thinking) if reply.thinking else b""
    out += stream.delta("text", reply.text) if reply.text else b""
    out += stream.finish(given_answer, ids)
    assert assembled(out.decode()) == message("msg", "m", given_answer, ids)
    assert json.loads(body(message("msg", "m", given_answer, ids))) == message("msg", "m", given_answer, ids)


def test_stop_reasons():
    calls = Reply(calls=(Call("t", {}),))
    assert stop_reason(answer(Reply(), "stop")) == "end_turn"
    assert stop_reason(answer(Reply(), "stop_string", "x")) == "stop_sequence"
    assert stop_reason(answer(Reply(), "length")) == "max_tokens"
    assert {stop_reason(answer(calls, finish)) for finish in ("stop", "stop_string", "length")} == {"tool_use"}
    assert message("i", "m", answer(calls, "stop_string", "x"), ("a",))["stop_sequence"] is None
    assert message("i", "m", answer(Reply(), "stop_string", "x"), ())["stop_sequence"] == "x"


def test_a_reply_is_never_empty():
    assert content(answer(Reply()), ()) == [{"type": "text", "text": ""}]


@pytest.mark.parametrize("lone", ["\ud83d", "x\ude00y"])
def test_a_lone_surrogate_in_a_reply_is_replaced(lone):
    """A model can write it as an escape in a call's arguments."""
    data = {"type": "x", "input": {"a": lone}}
    assert json.loads(body(data))["input"]["a"] == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in lone)
    assert sse(data) == b"event: x\ndata: " + body(data) + b"\n\n"


def test_a_number_out_of_range_in_a_reply_is_the_largest_one():
    """JSON has no infinity; an actor's script can hold 1e400."""
    calls = (Call("t", {"a": [float("inf")], "b": {"c": -float("inf")}}),)
    given_answer = answer(Reply(calls=calls))
    whole = json.loads(body(message("msg", "m", given_answer, ("id",))))
    assert whole["content"][0]["input"] == {"a": [sys.float_info.max], "b": {"c": -sys.float_info.max}}
    stream = MessageStream("msg", "m")
    assert assembled((stream.start(3) + stream.finish(given_answer, ("id",))).decode()) == whole


def test_overflow_has_the_words_that_the_harness_looks_for():
    """See the rules of its error reader in the project's notes: prompt ... too long for this model's context window."""
    assert overflow_text(10, 8) == "prompt is too long for this model's context window: 10 tokens > 7 maximum"
