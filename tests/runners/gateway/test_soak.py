"""A bounded soak: many requests of every kind at once, cancelled and abandoned at random, at the limits of the window.

What may not be so afterwards: a KV cell, a byte of llama.cpp's state or a step that was not given back; a reply with
another's text in it; an answer that the request does not deserve. A forced call's argument is a constant of its own
(`id-NUMBER`), so that a reply shows whose it is, exactly and whatever else was in the batch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil
import pytest

from runners.gateway.engine_options import EngineOptions
from runners.gateway.model_backend import ModelBackend
from runners.gateway.opening import open_backend
from tests.runners.gateway.serving import PATIENCE, Service, assembled, serving, tiny_backend
from tests.tiny_gguf import Arch

GROWTH = 64 * 2**20
"""Bytes of resident memory that the second part of a soak may add to the first: allocators keep some, leaks of a
sequence's sampler or grammar (100 kB and more a request) or of its text would add more in so many requests."""


@dataclass(frozen=True)
class Plan:
    """One request. `leave` is what the client does before the end: nothing (None), or go away after so many seconds,
    or, in a stream, after so many pieces."""

    number: int
    kind: Literal["free", "lazy", "forced"]
    stream: bool
    length: int
    max_tokens: int
    overflow: bool
    leave: float | int | None
    hot: bool

    @property
    def own(self) -> str:
        return f"id-{self.number:04d}x"

    @property
    def body(self) -> dict[str, Any]:
        letters = random.Random(self.number)
        words = self.own + " " + "".join(letters.choice("abcdefgh \n") for _ in range(self.length))
        body: dict[str, Any] = {
            "model": "any",
            "max_tokens": self.max_tokens,
            "messages": [{"role": "user", "content": words}],
            "stream": self.stream,
        }
        if self.kind != "free":
            schema = {"type": "object", "properties": {"id": {"const": self.own}}, "required": ["id"]}
            body["tools"] = [{"name": "say", "input_schema": schema | {"additionalProperties": False}}]
        if self.kind == "forced":
            body["tool_choice"] = {"type": "any"}
        return body


def plans(count: int, seed: int, *, room: int, most: int, pause: float) -> list[Plan]:
    """`room`: characters that surely fit the window beside tools; `most`: tokens asked; `pause`: seconds to leave."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        overflow = draw.random() < 0.08
        stream = draw.random() < 0.6
        leave: float | int | None = None
        if draw.random() < 0.3:
            leave = draw.randrange(1, 6) if stream and draw.random() < 0.5 else draw.uniform(0, pause)
        made.append(
            Plan(
                number=number,
                kind=draw.choice(("free", "lazy", "forced", "forced")),
                stream=stream,
                length=20 * room if overflow else draw.choice((draw.randrange(10), draw.randrange(room), room)),
                max_tokens=draw.choice((1, 30, most, 10**6 if draw.random() < 0.2 else most)),
                overflow=overflow,
                leave=leave,
                hot=draw.random() < 0.5,
            )
        )
    return made


async def perform(client: httpx.AsyncClient, service: Service, plan: Plan) -> tuple[int, str]:
    """Status and text; status 0 where the client went away."""
    url = service.at("hot" if plan.hot else "cold") + "/v1/messages"
    if not isinstance(plan.leave, int):
        answer = await client.post(url, json=plan.body)
        return answer.status_code, answer.text
    async with client.stream("POST", url, json=plan.body) as response:
        text, pieces = "", 0
        async for piece in response.aiter_text():
            text, pieces = text + piece, pieces + 1
            if pieces == plan.leave:
                return 0, text
        return response.status_code, text


async def run(service: Service, todo: list[Plan], at_once: int) -> list[tuple[Plan, int, str]]:
    """All of it, so many at once; the order in which they end is left to them."""
    gate = asyncio.Semaphore(at_once)

    async def one(client: httpx.AsyncClient, plan: Plan) -> tuple[Plan, int, str]:
        async with gate:
            seconds = plan.leave if isinstance(plan.leave, float) else PATIENCE
            try:
                status, text = await asyncio.wait_for(perform(client, service, plan), seconds)
            except TimeoutError:
                assert isinstance(plan.leave, float), f"no answer to {plan}"
                return plan, 0, ""
            return plan, status, text

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False, limits=limits) as client:
        return await asyncio.gather(*(one(client, plan) for plan in todo))


def judge(plan: Plan, status: int, text: str) -> str:
    """What came of it, in a word. Fails on anything that should not."""
    assert set(re.findall(r"id-\d{4}x", text)) <= {plan.own}, (plan, text)
    match status:
        case 0:
            return "left"
        case 400:
            assert plan.overflow, (plan, text)
            assert json.loads(text)["error"]["message"].startswith("prompt is too long for this model's context")
            return "overflow"
        case 529:
            assert json.loads(text)["error"]["type"] == "overloaded_error"
            return "busy"
    assert (status, plan.overflow) == (200, False), (plan, text)
    message = assembled(text) if plan.stream else json.loads(text)
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    assert all(call["input"] == {"id": plan.own} for call in calls)
    assert plan.kind != "free" or not calls
    assert (message["stop_reason"] == "tool_use") == bool(calls)
    assert 1 <= message["usage"]["output_tokens"] <= plan.max_tokens
    if plan.kind == "forced" and not calls:
        assert message["stop_reason"] == "max_tokens"
    return "called" if calls else "said"


def soak(backend: ModelBackend, todo: list[Plan], *, first: int, at_once: int, caplog: Any) -> Counter[str]:
    """Runs the plans in two parts, the first `first` and then the rest, and compares what is left after each."""
    engine = backend.engine
    assert engine is not None
    process = psutil.Process()
    engine.forget()
    bare = engine.state_bytes()
    ends: Counter[str] = Counter()
    memory = []
    with caplog.at_level(logging.WARNING), serving(backend) as service:
        service.open("hot", sampler={"temperature": 1.0})
        service.open("cold")
        for part in (todo[:first], todo[first:]):
            for plan, status, text in asyncio.run(run(service, part, at_once)):
                ends[judge(plan, status, text)] += 1
            assert service.wait_idle()["status"] == "ok"
            engine.forget()
            assert engine.used_cells == 0
            assert engine.state_bytes() == bare
            memory.append(process.memory_info().rss)
        answered = [step for name in ("hot", "cold") for step in service.summary(name)["steps"]]
        assert [service.summary(name)["failure"] for name in ("hot", "cold")] == [None, None]
        # A client may leave when its answer is complete already; every other step was given back.
        assert ends["called"] + ends["said"] <= len(answered) <= ends["called"] + ends["said"] + ends["left"]
    assert [record.getMessage() for record in caplog.records] == []
    assert memory[1] - memory[0] < GROWTH
    return ends


def check_mixture(todo: list[Plan], ends: Counter[str]) -> None:
    """That the soak was one. How many clients leave in time depends on the machine; who leaves at the first piece of a
    stream surely does, and who overflows and stays surely hears of it."""
    surely_left = sum(plan.leave == 1 and isinstance(plan.leave, int) for plan in todo)
    surely_refused = sum(plan.overflow and plan.leave is None for plan in todo)
    assert surely_left > 0
    assert surely_refused > 0
    assert ends["left"] >= surely_left
    assert ends["overflow"] >= surely_refused
    assert ends["called"] > 0


@pytest.mark.parametrize("arch", ["llama", "hybrid"])
def test_soak(tiny: dict[Arch, Path], tmp_path: Path, caplog: Any, arch: Arch) -> None:
    """500 requests to ordinary attention, 120 to memory that can not be cut."""
    count = 500 if arch == "llama" else 120
    backend = tiny_backend(tiny[arch], tmp_path, n_ctx=1024, slots=4, cells=3000, queue=8, batch=128)
    assert isinstance(backend, ModelBackend)
    todo = plans(count, 1, room=470, most=150, pause=0.15)
    ends = soak(backend, todo, first=count // 3, at_once=14, caplog=caplog)
    assert ends.total() == count
    check_mixture(todo, ends)


@pytest.mark.model
def test_soak_of_a_real_model(tmp_path: Path, caplog: Any) -> None:
    options = EngineOptions(n_ctx=320, slots=4, cells=900, queue=8, batch=128)
    backend = open_backend("smollm2-135m", options)
    assert isinstance(backend, ModelBackend)
    todo = plans(40, 2, room=40, most=36, pause=1.0)
    ends = soak(backend, todo, first=10, at_once=8, caplog=caplog)
    assert ends.total() == 40
    check_mixture(todo, ends)
