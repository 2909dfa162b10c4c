"""What real models wrote, read by a person and by the dialect.

`prompts.json` has 50 tool prompts. Each line of a `corpus-MODEL.jsonl` is one reply to one of them:
`{prompt, model, mode, temperature, reply, finish, calls}`, where `mode` is the decode mode, `finish` is "stop" or
"length", and `calls` is `[{name, arguments}]` as a person who reads the reply would name the tool calls in it: attempts
with a wrong tool name or a forgotten bracket count; answers in JSON, and calls that the token limit cut, do not.

The replies were made by the engine with llama-cpp-python 0.3.36 on a CPU, 8 requests at a time, temperature 0, at most
200 tokens (the batch's shape can turn near ties, so another run differs in a few of them). The labels were made by
reading; the parser was improved on the same replies, so the agreement is no estimate for other models.
One host name in two replies (`many-tools` of the 0.5B) became `packages.example`; all else is as written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from runners.gateway.conversation import Conversation, Message, Text, Tool
from runners.gateway.dialects.registry import dialect
from runners.gateway.template import ChatTemplate
from tests.runners.gateway.dialects.llama_grammar import ByteVocabulary

HERE = Path(__file__).parent
PROMPTS: dict[str, Any] = {prompt["name"]: prompt for prompt in json.loads((HERE / "prompts.json").read_text("utf-8"))}
CORPORA = sorted(HERE.glob("corpus-*.jsonl"))
DIALECT = dialect("qwen-coder")


def replies(path: Path, mode: str) -> list[dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines()
    return [reply for reply in map(json.loads, lines) if reply["mode"] == mode]


def tools_of(prompt: str) -> tuple[Tool, ...]:
    return tuple(Tool(**tool) for tool in PROMPTS[prompt]["tools"])


def calls_read(reply: dict[str, Any]) -> list[dict[str, Any]]:
    parsed = DIALECT.parse(reply["reply"], tools_of(reply["prompt"]), complete=reply["finish"] == "stop")
    return [{"name": call.name, "arguments": call.arguments} for call in parsed.calls]


def test_the_prompts_are_fifty_and_usable() -> None:
    assert len(PROMPTS) == 50
    template = ChatTemplate("{{ messages[-1].content }}{{ tools | tojson }}")
    for prompt in PROMPTS.values():
        talk = Conversation(prompt["system"], (Message("user", (Text(prompt["user"]),)),), tools_of(prompt["name"]))
        assert prompt["user"] in DIALECT.render(template, talk)
        for tool in talk.tools:
            jsonschema.Draft202012Validator.check_schema(tool.schema)


def test_there_is_a_corpus_of_each_small_coder() -> None:
    assert [path.name for path in CORPORA] == ["corpus-qwen2.5-coder-0.5b.jsonl", "corpus-qwen2.5-coder-1.5b.jsonl"]


@pytest.mark.parametrize("mode", ["free", "lazy"])
@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_a_corpus_answers_every_prompt_once(path: Path, mode: str) -> None:
    found = replies(path, mode)
    assert sorted(reply["prompt"] for reply in found) == sorted(PROMPTS)
    assert {f"corpus-{reply['model']}" for reply in found} == {path.stem}


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_free_replies_are_read_as_a_person_reads_them(path: Path) -> None:
    found = replies(path, "free")
    different = [
        f"{reply['prompt']}: a person reads {reply['calls']}, the dialect {calls_read(reply)}"
        for reply in found
        if calls_read(reply) != reply["calls"]
    ]
    assert len(different) <= 0.05 * len(found), "\n".join(different)


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_lazy_replies_that_attempt_a_call_are_valid_calls_of_known_tools(path: Path) -> None:
    for reply in replies(path, "lazy"):
        assert calls_read(reply) == reply["calls"], reply
        tools = {tool.name: tool for tool in tools_of(reply["prompt"])}
        for call in reply["calls"]:
            jsonschema.Draft202012Validator(tools[call["name"]].schema).validate(call["arguments"])


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_lazy_replies_fit_the_grammar_of_today(vocabulary: ByteVocabulary, path: Path) -> None:
    """So that a change of the grammar which would have changed these replies is seen."""
    for reply in replies(path, "lazy"):
        grammar = DIALECT.grammar(tools_of(reply["prompt"]), "lazy")
        assert grammar is not None
        found = [match for trigger in grammar.triggers if (match := re.search(trigger, reply["reply"]))]
        assert bool(found) is bool(reply["calls"]), reply
        if found:
            first = min(found, key=lambda match: match.end())
            assert vocabulary.verdict(grammar.gbnf, reply["reply"][first.start(1) :]) == "complete", reply


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_a_reply_without_calls_keeps_its_text(path: Path) -> None:
    quiet = [reply for mode in ("free", "lazy") for reply in replies(path, mode) if not reply["calls"]]
    assert quiet
    for reply in quiet:
        parsed = DIALECT.parse(reply["reply"], tools_of(reply["prompt"]), complete=reply["finish"] == "stop")
        assert parsed.text == reply["reply"].strip()
