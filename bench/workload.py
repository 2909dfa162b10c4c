"""What every contender is asked to do, and what it answers: the same prompts, lengths and samplers for all."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import psutil
from pydantic import BaseModel, ConfigDict

SamplerName = Literal["greedy", "card"]

CARD: Final[dict[str, float]] = {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repeat_penalty": 1.05}
"""The sampler of Qwen2.5-Coder's model card; `greedy` is temperature 0 with no penalties."""

REPEAT_LAST_N: Final = 64
"""Tokens that the repeat penalty looks back: the default of all three."""


SLACK: Final = 4
"""Prompt tokens that a contender may compute more or less than the last one of a cached prompt."""


class Job(BaseModel):
    """One measurement, run in a process of its own.

    `prompts` holds token ids, one list a request, in waves of `sequences` that are in flight together. Each wave is
    asked for one token, which computes the prompts, and then with each sampler for exactly `tokens` tokens, when all
    contenders have the prompts in their caches and only decode.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    """Path of the GGUF."""
    sequences: int
    prompts: list[list[int]]
    tokens: int
    samplers: list[SamplerName]
    threads: int
    window: int
    """Tokens that one request may take, prompt and completion."""


class Timing(BaseModel):
    """All prompts of a job once through, waves added up: wall seconds and CPU seconds of this process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float
    cpu_seconds: float
    others: float
    """Mean number of cores that were busy with anything but this process, stolen time included."""


class Outcome(BaseModel):
    """What a worker reports. `prefill`: the prompts and one token each; `decode`: all tokens after a known prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefill: Timing
    decode: dict[SamplerName, Timing]
    software: str
    settings: str


@dataclass(frozen=True)
class Answer:
    """What a contender says of one request, for the check that all did the same work."""

    prompt: int | None
    """Prompt tokens computed, reused ones not counted; None where the contender does not say."""
    generated: int


class BenchError(RuntimeError):
    """A measurement that may not be reported: the work done was not the work asked."""


Run = Callable[[list[list[int]], int, SamplerName], list[Answer]]
"""Answers the prompts of one wave with that many tokens each, all in flight together."""


def text(index: int) -> str:
    """A text that goes on without an end: a log of deliveries. No two begin alike, so no prefix is shared."""
    dice = random.Random(1000 + index)
    things = ["bolts", "lamps", "ropes", "crates", "valves", "tiles", "cables", "pumps", "filters", "hinges"]
    places = ["Oslo", "Turin", "Quito", "Perth", "Lagos", "Hanoi", "Leeds", "Izmir", "Osaka", "Accra"]
    name = ["North", "South", "East", "West", "Harbour", "Hill", "River", "Forest"][index % 8]
    lines = [f"{name} depot {index}, deliveries of the week, one a line:"]
    for number in range(1, 200):
        lines.append(
            f"{number}. {dice.randrange(2, 90)} {dice.choice(things)} from {dice.choice(places)} "
            f"to {dice.choice(places)}, {dice.randrange(100, 999)} kg, arrived at {dice.randrange(24)}:"
            f"{dice.randrange(60):02d}"
        )
    return "\n".join(lines)


def measure(job: Job, run: Run, software: str, settings: str) -> Outcome:
    """Warms up and measures. Raises BenchError where a request did more or less work than asked."""
    length = len(job.prompts[0])
    run([prompt[::-1][:32] for prompt in job.prompts[: job.sequences]], 4, "greedy")
    prefill: list[Timing] = []
    decode: dict[SamplerName, list[Timing]] = {sampler: [] for sampler in job.samplers}
    for at in range(0, len(job.prompts), job.sequences):
        wave = job.prompts[at : at + job.sequences]
        prefill.append(_timed(run, wave, 1, "greedy", length))
        for sampler in job.samplers:
            decode[sampler].append(_timed(run, wave, job.tokens, sampler, 1))
    return Outcome(
        prefill=_sum(prefill),
        decode={sampler: _sum(timings) for sampler, timings in decode.items()},
        software=software,
        settings=settings,
    )


def _timed(run: Run, wave: list[list[int]], tokens: int, sampler: SamplerName, computed: int) -> Timing:
    """One wave; `computed` is how many tokens of each prompt have to be computed, give or take `SLACK`."""
    before, own, began = _busy(), _own_cpu(), time.perf_counter()
    answers = run(wave, tokens, sampler)
    seconds, used = time.perf_counter() - began, _own_cpu() - own
    for at, answer in enumerate(answers):
        if answer.generated != tokens:
            raise BenchError(f"request {at} ({sampler}) ended after {answer.generated} of {tokens} tokens")
        if answer.prompt is not None and abs(answer.prompt - computed) > SLACK:
            raise BenchError(f"request {at} ({sampler}) computed {answer.prompt} prompt tokens and not {computed}")
    return Timing(seconds=seconds, cpu_seconds=used, others=max(0.0, (_busy() - before - used) / seconds))


def _sum(timings: list[Timing]) -> Timing:
    seconds = sum(timing.seconds for timing in timings)
    return Timing(
        seconds=seconds,
        cpu_seconds=sum(timing.cpu_seconds for timing in timings),
        others=sum(timing.others * timing.seconds for timing in timings) / seconds,
    )


def _busy() -> float:
    """Seconds that all cores of the machine together have been busy or stolen."""
    times: Any = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - guest)


def _own_cpu() -> float:
    """CPU seconds of this process, all threads."""
    used = os.times()
    return used.user + used.system
