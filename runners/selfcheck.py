"""Whether a model runs rightly on this machine: what `tripbench doctor --model` adds to the doctor's findings."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from runners.doctor import Finding
from runners.gateway.engine import Engine
from runners.gateway.engine_options import EngineOptions
from runners.gateway.generation import Generation, Request
from runners.gateway.grammar import Grammar
from runners.gateway.sampler import Sampler

LOGIT_TOLERANCE = 0.05
"""Most that a logit may move when a prefix of whole batches is reused: the rest is then computed in batches of the same
shape as without reuse, and nearly nothing moves; batches of another shape move logits by up to 0.8 in quantised models
(measured with SmolLM2-135M Q4_1 and Qwen2.5-Coder-0.5B Q4_K_M on a CPU), which would drown a wrong history."""

_PREFIX = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 13
_BATCHES = 2
_SUFFIXES = ("Then the fox", "Meanwhile, in another town, a cat", "The end of the story is")


def examine_model(path: Path, options: EngineOptions) -> list[Finding]:
    """Loads the model, generates with it, and compares logits after prefix reuse with those of a fresh prefill.

    Raises UserError where the file is no model that can be loaded. Takes seconds to a minute.
    """
    began = time.perf_counter()
    engine = Engine(path, options)
    loaded = time.perf_counter() - began
    try:
        kind = "memory can be cut at will" if engine.model.cuttable else "memory can not be cut: state snapshots"
        text = f"loaded in {loaded:.1f} s, backend {engine.model.backend}, {engine.threads} threads, {kind}"
        return [Finding("model", "ok", text, required=True), _speed(engine), _reuse(engine), _grammar(engine)]
    finally:
        engine.close()


def _run(engine: Engine, tokens: list[int], n: int, grammar: Grammar | None = None) -> Generation:
    return engine.complete(Request(tokens, n, Sampler(), grammar=grammar, keep_logits=True))


def _speed(engine: Engine) -> Finding:
    engine.forget()
    run = _run(engine, engine.model.tokenize(_PREFIX), 48, Grammar("root ::= [a-z ] root"))
    prefill = run.prompt_tokens / run.prefill_seconds
    decode = len(run.tokens) / run.decode_seconds
    text = f"prefill {prefill:.0f} tokens/s ({run.prompt_tokens} tokens), decode {decode:.1f} tokens/s with a grammar"
    return Finding("model speed", "ok", text, details={"prefill": prefill, "decode": decode})


def _reuse(engine: Engine) -> Finding:
    worst, reused, agree = 0.0, 0, True
    shared = _BATCHES * engine.options.batch_tokens
    words = engine.model.tokenize(_PREFIX)
    prefix = (words * (shared // len(words) + 1))[:shared]
    for suffix in _SUFFIXES:
        tokens = prefix + engine.model.tokenize(suffix)
        engine.forget()
        fresh = _run(engine, tokens, 1)
        engine.forget()
        # One token past the prefix: where memory can not be cut, the snapshot stands before a prompt's last token.
        _run(engine, [*prefix, words[2]], 1)
        again = _run(engine, tokens, 1)
        assert fresh.first_logits is not None
        assert again.first_logits is not None
        worst = max(worst, float(np.abs(fresh.first_logits - again.first_logits).max()))
        reused += again.reused_tokens
        agree = agree and fresh.tokens == again.tokens
    details = {"largest_difference": worst, "reused_tokens": reused, "same_token": agree}
    text = f"logits differ by {worst:.2g} at most from fresh ones ({len(_SUFFIXES)} prompts, {reused} tokens reused)"
    if worst <= LOGIT_TOLERANCE:
        return Finding("model prefix reuse", "ok", text, details=details)
    advice = "the cache can not be trusted here: please report this with the output of doctor --json"
    return Finding("model prefix reuse", "missing", text, advice, required=True, details=details)


def _grammar(engine: Engine) -> Finding:
    allowed = ("north", "south")
    run = _run(engine, engine.model.tokenize("Which way? "), 16, Grammar('root ::= "north" | "south"'))
    if run.text in allowed and run.finish == "stop":
        return Finding("model grammar", "ok", f"a strict grammar gave {run.text!r}")
    text = f"a strict grammar gave {run.text!r} ({run.finish})"
    return Finding("model grammar", "missing", text, "grammars do not work with this model", required=True)
