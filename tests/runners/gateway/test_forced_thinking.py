"""A forced call with a template that opens a thinking span in its generation prompt (as Qwen3's thinking models do)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runners.gateway.asking import Answer, Ask
from runners.gateway.card import ModelCard
from runners.gateway.conversation import Conversation, Message, Text, Tool
from runners.gateway.engine import Engine
from runners.gateway.engine_options import EngineOptions
from runners.gateway.model_backend import ModelBackend
from runners.gateway.sampler import Sampler
from tests.tiny_gguf import Arch

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}<|im_start|>assistant\n<think>\n"
)


def test_a_forced_call_is_a_call_though_the_prompt_opened_a_thinking_span(tiny: dict[Arch, Path]) -> None:
    engine = Engine(tiny["llama"], EngineOptions(n_ctx=1024, slots=1, threads=1))
    card = ModelCard(
        name="tiny",
        sha256="0" * 64,
        template=TEMPLATE,
        bos="",
        eos="<|im_end|>",
        dialect="hermes",
        window=1024,
        engine="test",
        backend="cpu",
        kv_type="f16",
        deterministic=False,
        sampler=Sampler(),
    )
    tool = Tool("look", "Looks.", {"type": "object", "properties": {"far": {"type": "boolean"}}, "required": ["far"]})
    conversation = Conversation("", (Message("user", (Text("Look."),)),), (tool,))
    backend = ModelBackend(card, engine, None)

    async def answer(mode: str) -> Answer:
        ask = Ask("e", 0, None, 0, conversation, mode, 200, 1024, Sampler(), 0)  # type: ignore[arg-type]
        async for event in backend.answer(ask):
            if isinstance(event, Answer):
                return event
        raise AssertionError("no answer")

    try:
        forced = asyncio.run(answer("forced")).reply
        free = asyncio.run(answer("free")).reply
    finally:
        backend.close()
    assert [call.name for call in forced.calls][:1] == ["look"]
    assert forced.thinking == ""
    assert free.thinking != ""
