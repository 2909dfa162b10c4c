"""The dialects as a whole: prompts, and grammars whose every text the parser reads as valid calls."""

from __future__ import annotations

import random
import re

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guards.errors import UserError
from runners.gateway.conversation import Conversation, Message, Text, Thinking, Tool, ToolCall, ToolResult
from runners.gateway.dialects.base import Mode
from runners.gateway.dialects.call_rules import MAX_CALLS
from runners.gateway.dialects.registry import NAMES, choose, dialect
from runners.gateway.template import ChatTemplate, TemplateRefusal
from tests.runners.gateway.dialects.llama_grammar import ByteVocabulary

TOOLS = (
    Tool(
        "read_file",
        "Reads a file.",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 500}},
            "required": ["path"],
        },
    ),
    Tool("now", "", {"type": "object", "properties": {}}),
    Tool(
        'odd "näme"\\',
        "",
        {"type": "object", "properties": {"x": {"anyOf": [{"type": "null"}, {"enum": ["a", 1]}]}}, "required": ["x"]},
    ),
)
HERMES = """{% if tools %}<|im_start|>system
{{ messages[0].content if messages[0].role == 'system' else 'none' }}|{% for t in tools %}{{ t | tojson }}
{% endfor %}Answer with <tool_call><|im_end|>
{% endif %}
{% for m in messages %}
{% if m.role == 'tool' %}
[{{ m.name }}:{{ m.content }}]
{% elif m.role != 'system' %}
<{{ m.role }}>{{ m.reasoning_content }}|{{ m.content }}
{%- for c in m.tool_calls %}{{ c.function.name }}={{ c.function.arguments | tojson }};{% endfor %}

{% endif %}
{% endfor %}
{% if add_generation_prompt %}<assistant>{% endif %}
"""
STRICT = """{% for m in messages %}
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('roles must alternate, user first') }}
{% endif %}
<{{ m.role }}>{{ m.content }}</{{ m.role }}>
{% endfor %}
{% if add_generation_prompt %}<assistant>{% endif %}
"""
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"

TALK = Conversation(
    "Be brief.",
    (
        Message("user", (Text("Read a and b."), Text("Please."))),
        Message(
            "assistant",
            (
                Thinking("two reads"),
                Text("Yes."),
                ToolCall("1", "read_file", {"path": "a é"}),
                ToolCall("2", "read_file", {"path": "b"}),
            ),
        ),
        Message("user", (ToolResult("1", "AAA"), ToolResult("2", "", error=True), Text("And?"))),
    ),
    TOOLS[:1],
)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("hermes", 'Yes.read_file={"path": "a é"};read_file={"path": "b"};'),
        # As these models write them.
        (
            "qwen-coder",
            'Yes.\n{"name": "read_file", "arguments": {"path": "a é"}}\n'
            '{"name": "read_file", "arguments": {"path": "b"}}',
        ),
    ],
)
def test_tools_go_through_the_template(name: str, calls: str) -> None:
    prompt = dialect(name).render(ChatTemplate(HERMES), TALK)
    assert prompt == (
        "<|im_start|>system\nBe brief.|"
        '{"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": {"type":'
        ' "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum":'
        ' 500}}, "required": ["path"]}}}\n'
        "Answer with <tool_call><|im_end|>\n"
        "<user>|Read a and b.\nPlease.\n"
        f"<assistant>two reads|{calls}\n"
        "[read_file:AAA]\n"
        "[read_file:error]\n"
        "<user>|And?\n"
        "<assistant>"
    )


def test_generic_puts_the_tools_into_the_system_text() -> None:
    prompt = dialect("generic").render(ChatTemplate(PLAIN), TALK)
    system, _, rest = prompt.partition("<user>")
    assert system.startswith("<system>Be brief.\n\nYou can use tools.")
    assert '{"name": "read_file", "description": "Reads a file.", "arguments": {"type": "object"' in system
    assert rest == (
        "Read a and b.\nPlease.\n"
        '<assistant>Yes.\n{"name": "read_file", "arguments": {"path": "a é"}}\n'
        '{"name": "read_file", "arguments": {"path": "b"}}\n'
        "<user>Result of read_file:\nAAA\nError of read_file:\nerror\nAnd?\n"
        "<assistant>"
    )


def test_generic_without_tools_and_system_is_the_plain_conversation() -> None:
    talk = Conversation("", (Message("user", (Text("Hi"),)),))
    assert dialect("generic").render(ChatTemplate(PLAIN), talk) == "<user>Hi\n<assistant>"


def test_generic_keeps_to_strict_alternation() -> None:
    talk = Conversation(
        "Be brief.",
        (
            Message("system", (Text("Really."),)),
            Message("user", (Text("one"),)),
            Message("user", (Text("two"),)),
            Message("assistant", (Text("yes"),)),
            Message("system", (Text("Note."),)),
            Message("user", (Text("three"),)),
        ),
    )
    prompt = dialect("generic").render(ChatTemplate(STRICT), talk)
    assert prompt == (
        "<user>Be brief.\n\nReally.\n\none\ntwo</user>\n<assistant>yes</assistant>\n"
        "<user>Note.\nthree</user>\n<assistant>"
    )
    with pytest.raises(TemplateRefusal, match="roles must alternate"):
        dialect("hermes").render(ChatTemplate(STRICT), talk)


def test_generic_begins_with_the_user_where_it_must() -> None:
    talk = Conversation("", (Message("assistant", (Text("Hello."),)), Message("user", (Text("Hi"),))))
    prompt = dialect("generic").render(ChatTemplate(STRICT), talk)
    assert prompt == "<user></user>\n<assistant>Hello.</assistant>\n<user>Hi</user>\n<assistant>"


@pytest.mark.parametrize("name", NAMES)
def test_an_open_think_is_seen(name: str) -> None:
    assert dialect(name).opens_thinking("...<assistant>\n<think>\n")
    assert not dialect(name).opens_thinking("...<assistant>\n<think>\n\n</think>\n")
    assert not dialect(name).opens_thinking("...<assistant>\n")


def test_registry() -> None:
    assert set(NAMES) == {"qwen-coder", "hermes", "generic"}
    assert [dialect(name).name for name in NAMES] == list(NAMES)
    assert all(dialect(name).version >= 1 for name in NAMES)
    with pytest.raises(UserError, match="no dialect 'llama-9'; known are qwen-coder, hermes, generic"):
        dialect("llama-9")
    assert choose(HERMES).name == "hermes"
    assert choose(PLAIN).name == "generic"
    assert choose(PLAIN + "{{ tools }}").name == "generic"


def grammar(name: str, mode: Mode) -> tuple[str, tuple[str, ...]]:
    made = dialect(name).grammar(TOOLS, mode)
    assert made is not None
    return made.gbnf, made.triggers


CLOSING = b'"}]:0123456789<`'


@pytest.mark.parametrize("mode", ["lazy", "forced"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), free=st.integers(0, 120))
def test_whatever_a_grammar_lets_through_is_read_as_valid_calls(
    vocabulary: ByteVocabulary, name: str, mode: Mode, seed: int, free: int
) -> None:
    text, _ = vocabulary.walk(grammar(name, mode)[0], random.Random(seed), free=free, most=3000, closing=CLOSING)
    for complete in (True, False):
        reply = dialect(name).parse(text, TOOLS, complete=complete)
        assert reply.text == ""
        assert 1 <= len(reply.calls) <= MAX_CALLS
        for call in reply.calls:
            tool = next(tool for tool in TOOLS if tool.name == call.name)
            jsonschema.Draft202012Validator(tool.schema).validate(call.arguments)


WHOLE = '{"name": "read_file", "arguments": {"path": "a"}}'
SPACED = '{\n  "name" : "now",\n  "arguments" : {\n  }\n}'
FORMS = {
    "tagged": f"<tool_call>\n{WHOLE}\n</tool_call>",
    "tagged, tight": f"<tool_call>{WHOLE}</tool_call>",
    "tagged, doubled": "<tool_call>\n{{" + WHOLE[1:-1] + "}}\n</tool_call>",
    "tagged twice": f"<tool_call>\n{WHOLE}\n</tool_call>\n<tool_call>\n{SPACED}\n</tool_call>",
    "listed": f"<tools>\n{WHOLE}\n{SPACED}\n</tools>",
    "fenced": f"```json\n{SPACED}\n```",
    "fenced, no language": f"```\n{WHOLE}\n```",
    "fenced twice": f"```json\n{SPACED}\n```\n\n```json\n{WHOLE}\n```",
    "fenced lines": f"```json\n{WHOLE}\n{WHOLE}\n```",
    "fenced list": f"```json\n[\n  {WHOLE},\n  {SPACED}\n]\n```",
    "bare": WHOLE,
    "bare, spaced": SPACED,
    "doubled": "{{" + WHOLE[1:-1] + "}}",
    "doubled, one end": "{{" + WHOLE[1:-1] + "}",
    "lines": f"{WHOLE}\n{SPACED}",
    "list": f"[{WHOLE}, {WHOLE}]",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "I will look.\n", "Yes: "])
@pytest.mark.parametrize("name", NAMES)
def test_the_lazy_grammar_takes_over_where_a_call_begins(
    vocabulary: ByteVocabulary, name: str, form: str, before: str
) -> None:
    """Read letter by letter, the first trigger to fire captures from the beginning of the call, and from there the
    grammar follows the whole of it."""
    if name == "generic" and "<tool" in FORMS[form]:
        return
    gbnf, triggers = grammar(name, "lazy")
    text = before + FORMS[form]
    for end in range(len(text) + 1):
        found = next((match for trigger in triggers if (match := re.search(trigger, text[:end]))), None)
        if found:
            break
    assert found
    assert found.start(1) == len(before)
    assert end < len(before) + len(FORMS[form]) - 20
    assert vocabulary.verdict(gbnf, text[found.start(1) : end]) == "unfinished"
    assert vocabulary.verdict(gbnf, text[found.start(1) :]) == "complete"
    assert vocabulary.verdict(gbnf, text[found.start(1) :] + "\n") == "complete"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "Hello, {x} and [y](z).",
        '{"host": "localhost", "name": "x"}',
        '```json\n{"names": ["a"]}\n```',
        "```python\nd = {'name': 'x'}\n```",
        'class A { "name" }',
        '{"name": {"first": "Ann"}}',
        "<tool_call",
        "in the <tools></tools> tags",
    ],
)
def test_the_lazy_grammar_leaves_other_text_alone(name: str, text: str) -> None:
    assert not any(re.search(trigger, text) for trigger in grammar(name, "lazy")[1])


def test_calls_in_the_history_are_read_as_what_they_were() -> None:
    """What `qwen-coder` shows of earlier calls is what its own parser takes for these calls."""
    prompt = dialect("qwen-coder").render(ChatTemplate(HERMES), TALK)
    shown = prompt.partition("<assistant>two reads|")[2].partition("\n[read_file:AAA]")[0]
    parsed = dialect("qwen-coder").parse(shown, TALK.tools, complete=True)
    assert parsed.text.strip() == "Yes."
    assert [(call.name, call.arguments) for call in parsed.calls] == [
        ("read_file", {"path": "a é"}),
        ("read_file", {"path": "b"}),
    ]


@pytest.mark.parametrize("mode", ["lazy", "forced"])
@pytest.mark.parametrize("name", NAMES)
def test_no_more_calls_than_allowed(vocabulary: ByteVocabulary, name: str, mode: Mode) -> None:
    gbnf = grammar(name, mode)[0]
    tagged = name == "hermes" or (name == "qwen-coder" and mode == "lazy")
    block = f"<tool_call>\n{WHOLE}\n</tool_call>" if tagged else WHOLE
    assert vocabulary.verdict(gbnf, "\n".join([block] * MAX_CALLS)) == "complete"
    assert vocabulary.verdict(gbnf, block + "\n") == "complete"
    assert vocabulary.verdict(gbnf, "\n".join([block] * (MAX_CALLS + 1))) == "refused"


@pytest.mark.parametrize(
    "wrong",
    [
        '{"name": "unknown", "arguments": {}}',
        '{"name": "read_file", "arguments": {}}',
        '{"name": "read_file", "arguments": {"path": 1}}',
        '{"name": "read_file", "arguments": {"path": "a", "limit": 0}}',
        '{"name": "now", "arguments": {"path": "a"}}',
        '{"name": "now"}',
        '{"name": "now", "arguments": {}, "more": 1}',
    ],
)
@pytest.mark.parametrize("mode", ["lazy", "forced"])
@pytest.mark.parametrize("name", NAMES)
def test_wrong_calls_are_refused(vocabulary: ByteVocabulary, name: str, mode: Mode, wrong: str) -> None:
    text = wrong if name == "generic" else f"<tool_call>\n{wrong}\n</tool_call>"
    assert vocabulary.verdict(grammar(name, mode)[0], text) == "refused"
