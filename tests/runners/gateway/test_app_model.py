"""A real model (the smallest of the catalogue) behind the gateway, through the official client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from jsonschema import Draft202012Validator

from runners.gateway.engine_options import EngineOptions
from runners.gateway.opening import open_backend
from tests.runners.gateway.serving import Service, serving

pytestmark = pytest.mark.model

MODEL = "smollm2-135m"
TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    {
        "name": "add",
        "description": "Adds numbers.",
        "input_schema": {
            "type": "object",
            "properties": {
                "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3},
                "unit": {"enum": ["cm", "kg"]},
            },
            "required": ["numbers", "unit"],
            "additionalProperties": False,
        },
    },
    {"name": "stop", "description": "", "input_schema": {"type": "object", "additionalProperties": False}},
]
SCHEMAS = {tool["name"]: Draft202012Validator(tool["input_schema"]) for tool in TOOLS}


def _turns(city: str, at: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"c{at}", "name": "get_weather", "input": {"city": city}}
    return [
        {"role": "user", "content": f"What is the weather in {city}?"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{at}", "content": "Sunny."}]},
        {"role": "assistant", "content": "It is sunny."},
    ]


TWICE_ALREADY = [*_turns("Paris", 0), *_turns("London", 1), {"role": "user", "content": "What is the weather in Rome?"}]
"""Even the smallest model goes on as before, and makes the call by itself."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving(open_backend(MODEL, EngineOptions(n_ctx=1024, batch=64, deterministic=True))) as running:
        yield running


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def calls(message: anthropic.types.Message) -> list[Any]:
    """The reply's calls, each of them a valid one of a known tool."""
    found: list[Any] = [block for block in message.content if block.type == "tool_use"]
    for call in found:
        SCHEMAS[call.name].validate(call.input)
    assert (message.stop_reason == "tool_use") == bool(found)
    return found


def test_text_with_true_counts_streamed_as_whole(service):
    prompt = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is water?<|im_end|>\n<|im_start|>assistant\n"
    )
    request: Any = {"model": MODEL, "max_tokens": 16, "system": "Be brief.", "extra_body": {"temperature": 0}}
    request["messages"] = user("What is water?")
    whole = service.client().messages.create(**request)
    with service.client().messages.stream(**request) as stream:
        texts = list(stream.text_stream)
        streamed = stream.get_final_message()
    assert whole.content[0].text
    assert "".join(texts) == streamed.content[0].text == whole.content[0].text
    assert len(texts) > 3
    for message in (whole, streamed):
        assert message.usage.input_tokens == len(service.backend.engine.model.tokenize(prompt))
        assert message.usage.output_tokens <= 16
    tokens = service.backend.engine.model.tokenize(whole.content[0].text)
    assert abs(len(tokens) - whole.usage.output_tokens) <= 1  # the end token is sampled too


@pytest.mark.parametrize("mode", ["free", "lazy"])
def test_a_call_that_the_model_makes_by_itself(service, mode):
    """Streamed and not."""
    for name in ("whole", "streamed"):
        service.open(name, decode_mode=mode, sampler={})
    request: Any = {"model": "any", "max_tokens": 40, "messages": TWICE_ALREADY, "tools": TOOLS}
    whole = service.client("whole").messages.create(**request)
    with service.client("streamed").messages.stream(**request) as stream:
        streamed = stream.get_final_message()
    for name in ("whole", "streamed"):
        service.close(name)
    assert streamed.content == whole.content
    for message in (whole, streamed):
        assert calls(message)[0].name == "get_weather"
        assert calls(message)[0].input["city"] == "Rome"


def test_lazy_leaves_no_attempt_invalid(service):
    """Hot, so that the model errs; an attempt may be cut by the token limit, and is text then."""
    attempted = 0
    for seed in range(4):
        service.open("lazy", seed=seed, sampler={"temperature": 1.0})
        message = service.client("lazy").messages.create(
            model="any", max_tokens=40, messages=TWICE_ALREADY, tools=TOOLS
        )
        service.close("lazy")
        attempted += len(calls(message))
    assert attempted > 0


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "add"}, None])
def test_forced_is_a_valid_call_every_time(service, choice):
    """By `tool_choice`, or by the episode's decode mode; whatever is asked, at a temperature that makes noise."""
    for seed, question in enumerate(["Who was Napoleon?", "{"]):
        mode = "lazy" if choice else "forced"
        service.open("forced", seed=seed, decode_mode=mode, sampler={"temperature": 1.2})
        more: Any = {"tool_choice": choice} if choice else {}
        message = service.client("forced").messages.create(
            model="any", max_tokens=100, messages=user(question), tools=TOOLS, **more
        )
        service.close("forced")
        made = calls(message)
        assert made
        if choice and choice["type"] == "tool":
            assert {call.name for call in made} == {"add"}


def test_a_conversation_over_several_turns(service):
    messages = user("What is the weather in Rome?")
    for _ in range(2):
        reply = service.client().messages.create(
            model=MODEL, max_tokens=60, messages=messages, tools=TOOLS[:1], tool_choice={"type": "any"}
        )
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny, 20 degrees.", "is_error": False}
            for call in calls(reply)
        ]
        assert results
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    last = service.client().messages.create(model=MODEL, max_tokens=20, messages=messages)
    assert [block.type for block in last.content] == ["text"]
    assert last.content[0].text


def test_an_overflow_counts_with_the_models_own_tokenizer(service):
    text = "word " * 1200
    prompt = f"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    count = len(service.backend.engine.model.tokenize(prompt))
    with pytest.raises(anthropic.BadRequestError) as caught:
        service.client().messages.create(model=MODEL, max_tokens=5, system="S", messages=user(text))
    expected = f"prompt is too long for this model's context window: {count} tokens > 1023 maximum"
    assert caught.value.body["error"]["message"] == expected
