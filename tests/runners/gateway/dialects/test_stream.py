"""Replies taken apart: what is a call, what is text, and that the way a reply is cut into pieces does not matter."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.gateway.conversation import Call, Reply, Tool
from runners.gateway.dialects.json_scan import MAX_DEPTH
from runners.gateway.dialects.stream import Delta, ReplyStream

TOOLS = (
    Tool("read", "", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    Tool("list", "", {"type": "object", "properties": {}}),
)
READ = '{"name": "read", "arguments": {"path": "a"}}'
LIST = '{"name": "list", "arguments": {}}'
CALL = Call("read", {"path": "a"})
LISTING = Call("list", {})


def parse(text: str, *, complete: bool = True, tools: Sequence[Tool] = TOOLS, thinking: bool = False) -> Reply:
    return streamed([text], complete=complete, tools=tools, thinking=thinking)


def streamed(
    pieces: Sequence[str], *, complete: bool = True, tools: Sequence[Tool] = TOOLS, thinking: bool = False
) -> Reply:
    """The reply, after checking that the deltas say the same."""
    stream = ReplyStream(tools, thinking=thinking)
    deltas: list[Delta] = [delta for piece in pieces for delta in stream.feed(piece)]
    rest, reply = stream.finish(complete)
    deltas += rest
    assert all(text for _, text in deltas)
    assert "".join(text for kind, text in deltas if kind == "text") == reply.text
    assert "".join(text for kind, text in deltas if kind == "thinking") == reply.thinking
    return reply


ONE_CALL = [
    READ,
    f"<tool_call>\n{READ}\n</tool_call>",
    f"<tool_call>{READ}</tool_call><|im_end|>",
    f"<tool_call>\n{READ}",
    f"{READ}\n</tool_call>",
    f"```json\n{READ}\n```",
    f"```\n{READ}\n```",
    f"```{READ}```",
    f"```json\n{READ}",
    f"```xml\n<tool_call>\n{READ}\n</tool_call>\n```",
    f"<tool_call>\n```json\n{READ}\n```\n</tool_call>",
    f"<|im_start|>assistant\n<tool_call>\n{READ}\n</tool_call><|im_end|>",
    f"<tools>\n{READ}\n</tools>",
    f"[{READ}]",
    '{{"name": "read", "arguments": {"path": "a"}}}',
    '{{"name": "read", "arguments": {"path": "a"}}',
    '{{"name": "read", "arguments": {{"path": "a"}}}}',
    '{"name": "read", "arguments": {{"path": "a"}}}',
    '<tool_call>\n{{"name": "read", "arguments": {"path": "a"}}}\n</tool_call>',
    '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}}\n</tool_call>',
    '<tool_call>\n{"name": "read", "arguments": {"path": "a"}\n</tool_call>',
    '{"name": "read", "arguments": {"path": "a"}',
    '```json\n{"name": "read", "arguments": {"path": "a"}\n```',
    '{"name": "read", "parameters": {"path": "a"}}',
    '{"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}',
    '{"arguments": {"path": "a"}, "name": "read"}',
    '{"type": "function", "function": {"name": "read", "arguments": {"path": "a"}}}',
    '{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}}',
    '{"function": {"name": "read", "parameters": {"path": "a"}}}',
    '{\n  "name": "read",\n  "arguments": {\n    "path": "a"\n  }\n}\n',
    f"```json\n// the call\n{READ}\n```",
]


@pytest.mark.parametrize("text", ONE_CALL)
def test_one_call(text: str) -> None:
    assert parse(text).calls == (CALL,)
    assert "read" not in parse(text).text


TWO_CALLS = [
    f"{READ}\n{LIST}",
    f"{READ}, {LIST}",
    f"{READ}{LIST}",
    f"[{READ}, {LIST}]",
    f"<tool_call>\n{READ}\n</tool_call>\n<tool_call>\n{LIST}\n</tool_call>",
    f"<tool_call>\n{READ}\n{LIST}\n</tool_call>",
    f"<tool_call>\n{READ}\n<tool_call>\n{LIST}\n</tool_call>",
    f"<tool_call>\n[{READ}, {LIST}]\n</tool_call>",
    f"<tools>\n{READ}\n{LIST}\n</tools>",
    f"```json\n{READ}\n{LIST}\n```",
    f"```json\n[\n{READ},\n{LIST}\n]\n```",
    f"```json\n{READ}\n```\n\n```json\n{LIST}\n```",
    f"{{{READ}}}\n{{{LIST}}}",
    f'{READ}\n{{"name": "list"}}',
]


@pytest.mark.parametrize("text", TWO_CALLS)
def test_two_calls(text: str) -> None:
    assert parse(text) == Reply(calls=(CALL, LISTING))


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        (f"Let me look.\n{READ}", "Let me look."),
        (f"Let me look.\n\n<tool_call>\n{READ}\n</tool_call>\n\nDone.", "Let me look.\n\nDone."),
        (f"First:\n```json\n{READ}\n```\nThen I will see.", "First:\nThen I will see."),
        (f"I call {READ} now", "I call now"),
        (f"{READ}<|im_end|>", ""),
        (f"<tools>\n{READ}\n</tools>\nin </tools>", "in </tools>"),
        (f"A list [1, 2] and {{x}} and {READ}", "A list [1, 2] and {x} and"),
        (f'{{"note": {READ} oops', '{"note":  oops'),
        (f"{READ}\n<|im_start|>user\n<tool_response>\nx\n</tool_response>", ""),
    ],
)
def test_text_around_a_call(text: str, visible: str) -> None:
    assert parse(text) == Reply(visible, calls=(CALL,))


PLAIN = [
    "Hello",
    "in the <tools></tools> XML tags, <tools>{x}</tools>",
    "2 < 3 and {x} and [link](url) and `code`",
    '{"name": "Bob", "age": 3}',
    '{"name": "Bob"}',
    '{"name": "unknown", "parameters": {"type": "object"}}',
    '{"name": "read", "description": "Reads", "parameters": {"type": "object"}}',
    '```json\n{"name": "Bob", "age": 3}\n```',
    '```json\n{"host": "localhost"}\n```\nThat is the file.',
    "```python\nprint({'a': [1]})\n```",
    "```c\nint main() { return 0; }\n```",
    '[{"a": 1}, {"b": 2}]',
    "<tool_call>\nread(path='a')\n</tool_call>",
    '<tool_call>\n{"a": 1}\n</tool_call>',
    '{"name": "read", "arguments": {"path": "a',
    '<tool_call>\n{"name": "read", "arguments": {"path": "a',
    "<tool_call>",
    "```json\n{",
    '{"name": ["read"], "arguments": {}}',
    '{"name": "read", "arguments": [1]}',
    '{"name": "read", "arguments": "not json"}',
    '{"name": "", "arguments": {}}',
    '{"name": "read", "arguments": {}, "parameters": {}}',
    '{"name": "read"}',
    '{"name": "read", "arguments": {"path": 1e999}}',
    '{"name": "read", "arguments": {"path": ' + "9" * 5000 + "}}",
    "[]",
    "{}",
    "[[[[]]]]",
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_call_stays_as_it_was_written(text: str) -> None:
    assert parse(text) == Reply(text)


@pytest.mark.parametrize("text", [*ONE_CALL, *TWO_CALLS, READ + LIST])
def test_without_tools_everything_is_text(text: str) -> None:
    assert parse(text, tools=()).calls == ()
    assert "read" in parse(text, tools=()).text


def test_unknown_tools() -> None:
    """An attempt is an attempt: the harness answers it. Loose forms are attempts only where they are marked."""
    exact, loose = '{"name": "delete", "arguments": {"id": 1}}', '{"name": "delete", "parameters": {"id": 1}}'
    for text in (
        exact,
        f"```json\n{exact}\n```",
        f"<tool_call>\n{exact}\n</tool_call>",
        f"<tool_call>{loose}</tool_call>",
    ):
        assert parse(text) == Reply(calls=(Call("delete", {"id": 1}),))
    assert parse(loose) == Reply(loose)
    assert parse('{{"name": "goodbye", "arguments": null}}') == Reply(calls=(Call("goodbye", {}),))


@pytest.mark.parametrize("end", range(1, len(READ)))
def test_a_cut_call_is_text_and_never_a_guess(end: int) -> None:
    for before in (
        "",
        "<tool_call>\n",
        "```json\n",
        "{",
        f"{LIST}\n",
        f"<tool_call>\n{LIST}\n</tool_call>\n<tool_call>\n",
    ):
        reply = parse(before + READ[:end], complete=False)
        assert reply.calls == ((LISTING,) if LIST in before else ())
        assert reply.text.endswith(READ[:end].strip())


def test_a_whole_call_before_the_cut_is_kept() -> None:
    assert parse(f"<tool_call>\n{READ}\n</tool", complete=False).calls == (CALL,)
    assert parse(f"<tool_call>\n{READ}", complete=False) == Reply(calls=(CALL,))


@pytest.mark.parametrize(
    ("before", "after"),
    [("<tool_call>\n", "\n</tool_call>"), ("```json\n", "\n```"), ("<tools>\n", "\n</tools>"), ("Well. ", "")],
)
def test_a_closing_tag_that_the_limit_cut_is_not_text(before: str, after: str) -> None:
    for end in range(len(after) + 1):
        text = before + READ + after[:end]
        assert streamed([text], complete=False).calls == (CALL,)
        assert streamed(list(text), complete=False) == streamed([text], complete=False)
        assert streamed([text], complete=False).text == before.strip() * (not after)


def test_a_call_that_the_limit_cut_behind_another_is_text() -> None:
    assert parse(f"{READ}\n<tool_call", complete=False) == Reply("<tool_call", "", (CALL,))
    assert parse(f"{READ}\n</tool", complete=True).text == "</tool"


def test_forgotten_brackets_are_closed_only_where_the_model_ended() -> None:
    text = '{"name": "read", "arguments": {"path": "a"}'
    assert parse(text, complete=True).calls == (CALL,)
    assert parse(text, complete=False) == Reply(text)
    assert parse(f"<tool_call>{text}</tool_call>", complete=False).calls == (CALL,)
    assert parse('{"name": "read", "arguments": {"path": "a', complete=True).calls == ()


@pytest.mark.parametrize(
    ("text", "thinking", "visible"),
    [
        ("<think>\nhm\n</think>\n\nyes", "hm", "yes"),
        ("<think></think>yes", "", "yes"),
        ("<think>never ends", "never ends", ""),
        ("a<think>b</think>c<think>d</think>e", "bd", "ace"),
        (f"<think>I could {READ}</think>no", f"I could {READ}", "no"),
        ("</think>lone", "", "lone"),
    ],
)
def test_thinking(text: str, thinking: str, visible: str) -> None:
    for tools in (TOOLS, ()):
        assert parse(text, tools=tools) == Reply(visible, thinking)


def test_a_call_in_thinking_that_never_ends() -> None:
    text = f"<think>I look.\n<tool_call>\n{READ}\n</tool_call>"
    assert parse(text) == Reply(thinking="I look.", calls=(CALL,))
    assert parse(text, complete=False) == Reply(thinking=text.removeprefix("<think>"))
    assert parse(f"{text}</think>no") == Reply("no", thinking=text.removeprefix("<think>"))


def test_thinking_that_the_prompt_opened() -> None:
    assert parse(f"hm\n</think>\n{READ}", thinking=True) == Reply(thinking="hm", calls=(CALL,))
    assert parse("cut in", thinking=True, complete=False) == Reply(thinking="cut in")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"find . -exec rm {} \;", r"find . -exec rm {} \;"),
        (r"\d+\.\w \\ \n \u00e9 \ud83d\ude00", "\\d+\\.\\w \\ \n é 😀"),
        ("line one\nline\ttwo", "line one\nline\ttwo"),
        (r"\u12", r"\u12"),
        (r"lone \ud800 half", "lone \ufffd half"),
        ("<tool_call> ``` <|im_end|> </think> {{}} }", "<tool_call> ``` <|im_end|> </think> {{}} }"),
    ],
)
def test_strings_in_arguments(written: str, read: str) -> None:
    text = f'{{"name": "read", "arguments": {{"path": "{written}"}}}}'
    for wrapped in (text, f"<tool_call>\n{text}\n</tool_call>", f"```json\n{text}\n```", f"{{{text}}}"):
        assert parse(wrapped) == Reply(calls=(Call("read", {"path": read}),))
    assert read.encode()


JSON_PIECES = [
    READ,
    LIST,
    READ[:20],
    LIST[:-1],
    READ[20:],
    *'{}[]"\\,:',
    "'",
    "{'",
    "{{",
    "}}",
    '{"',
    '{"a": ',
    '"name"',
    "1.5e",
    "-",
    "tru",
]
MARK_PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<",
    "<|",
    "<|im_start|>",
    "<|im_end|>",
    "```",
    "`",
    "``",
]
WORD_PIECES = ["assistant", "user", "json", "xml", "\n", " ", "\u00a0", "\u2028", "word", "true", "null", "é", "😀"]
PIECES = st.sampled_from([*JSON_PIECES, *MARK_PIECES, *WORD_PIECES]) | st.text(max_size=5)


@settings(max_examples=400, deadline=None)
@given(
    parts=st.lists(PIECES, max_size=12),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    complete=st.booleans(),
    thinking=st.booleans(),
    tools=st.sampled_from([TOOLS, ()]),
)
def test_how_a_reply_is_cut_into_pieces_does_not_matter(
    parts: list[str], cuts: list[int], complete: bool, thinking: bool, tools: Sequence[Tool]
) -> None:
    text = "".join(parts)
    whole = parse(text, complete=complete, thinking=thinking, tools=tools)
    bounds = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    assert streamed(pieces, complete=complete, thinking=thinking, tools=tools) == whole
    assert streamed(list(text), complete=complete, thinking=thinking, tools=tools) == whole


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(10**12), 10**12)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    ),
    st.booleans(),
    st.sampled_from([None, 1, 4]),
)
def test_any_arguments_survive(arguments: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps({"name": "list", "arguments": arguments}, ensure_ascii=ascii_only, indent=indent)
    for wrapped in (
        text,
        f"<tool_call>\n{text}\n</tool_call>",
        f"```json\n{text}\n```",
        f"Now:\n{{{text}}}",
        f"{text}\n{text}",
    ):
        assert set(map(repr, parse(wrapped).calls)) == {repr(Call("list", arguments))}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("'a'", "a"),
        ('\'{"host": "x"}\'', '{"host": "x"}'),
        (r"'it\'s \n \" \\ \;'", "it's \n \" \\ \\;"),
        ("''", ""),
    ],
)
def test_single_quotes_around_a_value(written: str, read: str) -> None:
    for text in (
        f'{{"name": "read", "arguments": {{"path": {written}}}}}',
        f'{{{{"name": "list", "arguments": {{{{"path": {written}}}}}}}}}',
    ):
        assert [call.arguments for call in parse(text).calls] == [{"path": read}]
    assert parse(f"{{'name': 'read', 'arguments': {{'path': {written}}}}}").calls == ()
    assert parse('{"name": "read", "arguments": {"path": \'it\'s\'}}').calls == ()


def test_visible_text_comes_at_once() -> None:
    stream = ReplyStream(TOOLS)
    for piece, certain in (
        ("Let me ", "Let me"),
        ("see <b>", " see <b>"),
        ("\n```py\nx = 1", "\n```py\nx = 1"),
        ("\n```\n<tool", "\n```"),
        ("box>", "\n<toolbox>"),
        (f"\n<tool_call>\n{READ}", ""),
    ):
        deltas = stream.feed(piece)
        assert {kind for kind, _ in deltas} <= {"text"}
        assert "".join(text for _, text in deltas) == certain
    assert stream.finish(True) == ([], Reply("Let me see <b>\n```py\nx = 1\n```\n<toolbox>", calls=(CALL,)))


LONG = 40_000
HUGE = {
    "text": "word " * (LONG // 5),
    "open braces": "{" * LONG,
    "open brackets": "[" * LONG,
    "open objects": '{"a":' * (LONG // 5),
    "open lists": "[1," * (LONG // 3),
    "open calls": '{"name":"read","arguments":' * (LONG // 27),
    "failing objects": '{"a" ' * (LONG // 5),
    "doubled objects": "[" + "{{}}," * (LONG // 5),
    "doubled calls": '{{"name":"list"}},' * (LONG // 18),
    "open strings": '{"' * (LONG // 2),
    "open single quotes": '{"a": \'' * (LONG // 7),
    "single quotes": "[" + "'a'," * (LONG // 4),
    "open string with escapes": '{"' + '\\"' * (LONG // 2),
    "open string with openers": '{"a": "' + '<tool_call>{\\"' * (LONG // 14),
    "fences": "```" * (LONG // 3),
    "json fences": "```json\n{" * (LONG // 9),
    "openers": "<tool_call>" * (LONG // 11),
    "openers with space": "<tool_call>" + " " * LONG,
    "fence with space": "```json" + "\n" * LONG,
    "half marks": "<tool_cal" * (LONG // 9),
    "turns": "<|im_start|>" * (LONG // 12),
    "thinking": "<think></think" * (LONG // 14),
    "calls in thinking": "<think>" + "<tool_call>" * (LONG // 11),
    "spaces": " " * LONG,
    "closers": READ + "}" * LONG,
    "digits": '{"a": ' + "1" * LONG,
    "backslashes": '{"a": "' + "\\" * LONG,
    "long argument": READ.replace('"a"', json.dumps("x\n" * (LONG // 2))),
    "many calls": f"{LIST}\n" * (LONG // 33),
    "many plain objects": '{"a": 1}\n' * (LONG // 9),
    "list of plain objects": "[" + '{"a": 1},' * (LONG // 9) + "1]",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_long_texts_take_linear_work(text: str) -> None:
    parse(text)
    short = len(text) // 8
    assert lines_run(text[: 2 * short]) < 2.2 * lines_run(text[:short]) + 500


def lines_run(text: str) -> int:
    """How many lines of the dialects' code one parse runs through."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace if "dialects" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse(text)
    finally:
        sys.settrace(before)
    return count


def test_depth_is_bounded() -> None:
    def nested(levels: int) -> str:
        return '{"name": "list", "arguments": {"a": ' + "[" * levels + "]" * levels + "}}"

    assert len(parse(nested(MAX_DEPTH - 2)).calls) == 1
    assert parse(nested(MAX_DEPTH - 1)) == Reply(nested(MAX_DEPTH - 1))
    assert parse(nested(100_000)) == Reply(nested(100_000))
    deep_text = json.dumps({"name": "list", "arguments": '{"a":' * 100_000})
    assert parse(deep_text) == Reply(deep_text)
