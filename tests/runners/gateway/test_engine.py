"""The engine on tiny random-weight models: reuse, batching, back-pressure, cancellation, determinism."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from guards.errors import UserError
from runners.gateway.engine import Engine
from runners.gateway.engine_options import EngineOptions
from runners.gateway.generation import Busy, Cancelled, EngineDead, Generation, Overflow, Request
from runners.gateway.grammar import Grammar
from runners.gateway.llama import EngineError
from runners.gateway.sampler import Sampler
from runners.gateway.sampling import _Rules
from tests.tiny_gguf import Arch

ARCHS: tuple[Arch, ...] = ("llama", "mamba", "hybrid", "swa")
TOLERANCE = 0.03
"""Rounding of logits between batches of different shape, flash attention included; a wrong history moves them by
0.3 and more (tests/test_tiny_gguf.py)."""

ENDLESS = Grammar("root ::= [a-z] root")
"""Never lets an end token through: only a limit ends the reply."""


class Watcher:
    """A listener that keeps everything and can be waited for."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.generation: Generation | None = None
        self.error: Exception | None = None
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.ends = 0

    def text(self, delta: str) -> None:
        self.texts.append(delta)
        self.begun.set()

    def done(self, generation: Generation) -> None:
        self.generation = generation
        self.ends += 1
        self.ended.set()

    def failed(self, error: Exception) -> None:
        self.error = error
        self.ends += 1
        self.ended.set()


class Held(Watcher):
    """Holds the engine's thread at its first text until `go` is set: what a test does meanwhile comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def text(self, delta: str) -> None:
        super().text(delta)
        assert self.go.wait(60)


@pytest.fixture
def engines(tiny: dict[Arch, Path]) -> Iterator[object]:
    opened: list[Engine] = []

    def make(arch: Arch = "llama", **options: object) -> Engine:
        settings = {"n_ctx": 512, "slots": 4, "batch": 64, "threads": 1} | options
        engine = Engine(tiny[arch], EngineOptions.model_validate(settings))
        opened.append(engine)
        return engine

    yield make
    for engine in opened:
        engine.close()


def prompt(seed: int, length: int) -> list[int]:
    return [random.Random(seed).randrange(3, 250) for _ in range(1)] + [
        random.Random(seed * 7919 + at).randrange(3, 250) for at in range(1, length)
    ]


def ask(tokens: list[int], n: int = 1, **more: object) -> Request:
    return Request(tokens, n, keep_logits=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [None, 2048])
@pytest.mark.parametrize("arch", ARCHS)
def test_logits_after_reuse_are_those_of_a_fresh_prefill(engines, arch: Arch, cells: int | None) -> None:
    """Histories that extend, branch early, branch late and repeat, over more than one batch and window."""
    base = prompt(1, 400)
    histories = [
        base[:300],
        base[:300],
        base[:400],
        base[:150] + prompt(2, 60),
        base[:398] + prompt(3, 20),
        base[:1] + prompt(4, 30),
        base[:400],
        base[:299],
    ]
    warm = engines(arch, cells=cells)
    reused = 0
    for history in histories:
        fresh = engines(arch)
        expected = fresh.complete(ask(history)).first_logits
        got = warm.complete(ask(history, 5))
        reused += got.reused_tokens
        assert expected is not None
        assert np.abs(got.first_logits - expected).max() < TOLERANCE
    assert reused > (900 if arch == "llama" else 250)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_reply_that_is_continued_is_reused(engines, arch: Arch) -> None:
    """What an agent does: the next prompt begins with the last one and its reply."""
    warm, fresh = engines(arch), engines(arch)
    first = prompt(5, 90)
    reply = warm.complete(ask(first, 12))
    longer = first + list(reply.tokens) + prompt(6, 40)
    again = warm.complete(ask(longer))
    assert again.reused_tokens >= len(first) - 1
    assert np.abs(again.first_logits - fresh.complete(ask(longer)).first_logits).max() < TOLERANCE


@pytest.mark.parametrize("cells", [None, 2048])
def test_a_running_sequence_shares_its_prefix(engines, cells: int | None) -> None:
    """From shared cells, or from a copy of them: both go on as if the prefix had been computed."""
    engine = engines(cells=cells)
    history = prompt(8, 300)
    watcher = Watcher()
    ticket = engine.submit(Request(history, 200), watcher)
    watcher.begun.wait(30)
    branch = engine.complete(ask(history[:280] + prompt(9, 10)))
    ticket.cancel()
    assert branch.reused_tokens == 280
    fresh = engines().complete(ask(history[:280] + prompt(9, 10)))
    assert np.abs(branch.first_logits - fresh.first_logits).max() < TOLERANCE


@pytest.mark.parametrize("cells", [None, 3072])
@pytest.mark.parametrize("arch", ARCHS)
def test_requests_in_one_batch_do_not_touch_each_other(engines, arch: Arch, cells: int | None) -> None:
    engine = engines(arch, deterministic=True)
    alone = [engine.complete(ask(prompt(20 + i, 30 + 40 * i), 20)) for i in range(6)]
    together = engines(arch, slots=6, cells=cells)
    watchers = [Watcher() for _ in alone]
    for i, watcher in enumerate(watchers):
        together.submit(ask(prompt(20 + i, 30 + 40 * i), 20), watcher)
    for watcher, expected in zip(watchers, alone, strict=True):
        assert watcher.ended.wait(60)
        assert watcher.generation is not None, watcher.error
        assert np.abs(watcher.generation.first_logits - expected.first_logits).max() < TOLERANCE
        assert "".join(watcher.texts) == watcher.generation.text


@pytest.mark.parametrize("arch", ARCHS)
def test_deterministic_completions_do_not_depend_on_what_ran_before(engines, arch: Arch) -> None:
    hot = Sampler(temperature=1.0, top_k=40, top_p=0.95, repeat_penalty=1.1)
    requests = [Request(prompt(1, 200) + prompt(i, 30), 25, hot, seed=i, keep_logits=True) for i in range(5)]
    one, other = engines(arch, deterministic=True), engines(arch, deterministic=True)
    forward = [one.complete(request) for request in requests]
    backward = [other.complete(request) for request in reversed(requests)][::-1]
    for a, b in zip(forward, backward, strict=True):
        assert a.tokens == b.tokens
        assert np.array_equal(a.first_logits, b.first_logits)
    if arch == "llama":
        assert sum(a.reused_tokens for a in forward) > 0


def test_what_was_generated_is_computed_anew_where_it_comes_back_in_a_prompt(engines) -> None:
    """Token by token and in whole batches are two roundings: a prompt that goes on from a completion is not helped by
    the cells of its generation, whatever ran before it."""
    engine, fresh = engines(deterministic=True, n_ctx=1024), engines(deterministic=True, n_ctx=1024)
    said = engine.complete(Request(prompt(1, 100), 150, Sampler(temperature=1.0), seed=1))
    assert len(said.tokens) > 40
    after = [*prompt(1, 100), *said.tokens, *prompt(2, 20)]
    went_on = engine.complete(ask(after, 20))
    assert went_on.reused_tokens == 64
    alone = fresh.complete(ask(after, 20))
    assert went_on.tokens == alone.tokens
    assert np.array_equal(went_on.first_logits, alone.first_logits)


def test_seed_decides_the_draw(engines) -> None:
    engine = engines(deterministic=True)
    hot = Sampler(temperature=2.0)
    replies = {engine.complete(Request(prompt(1, 20), 20, hot, seed=seed)).tokens for seed in (1, 2, 3, 1, 2, 3)}
    assert len(replies) == 3


def test_samplers_change_what_they_should(engines) -> None:
    engine = engines(deterministic=True)
    greedy = engine.complete(Request(prompt(1, 60), 60))
    narrow = engine.complete(Request(prompt(1, 60), 60, Sampler(temperature=5.0, top_k=1), seed=3))
    assert narrow.tokens == greedy.tokens
    nucleus = engine.complete(Request(prompt(1, 60), 60, Sampler(temperature=5.0, top_p=1e-6), seed=3))
    assert nucleus.tokens == greedy.tokens
    tokens = greedy.tokens
    repeats = len(tokens) - len(set(tokens))
    assert repeats > 0
    for sampler in (
        Sampler(repeat_penalty=5.0, repeat_last_n=-1),
        Sampler(presence_penalty=9.0, repeat_last_n=-1),
        Sampler(frequency_penalty=9.0, repeat_last_n=-1),
    ):
        other = engine.complete(Request(prompt(1, 60), 60, sampler)).tokens
        assert other != tokens
        assert len(other) - len(set(other)) < repeats


def test_dry_breaks_a_verbatim_repetition(engines) -> None:
    """After S t S, where the model would say t again: the twelve tokens of S match, so t is what DRY penalises."""
    engine = engines(deterministic=True)
    strong = Sampler(dry_multiplier=50.0, dry_base=2.0, dry_allowed_length=2, dry_breakers=("\x00",))
    found = 0
    for seed in range(60):
        part = prompt(seed, 12)
        (said,) = engine.complete(Request(part, 1)).tokens
        history = [*part, said, *part]
        if engine.complete(Request(history, 1)).tokens != (said,):
            continue
        found += 1
        assert engine.complete(Request(history, 1, strong)).tokens != (said,)
    assert found > 3


def test_strict_grammar_holds_from_the_first_token(engines) -> None:
    engine = engines()
    grammar = Grammar('root ::= "yes" | "no" [0-9] [0-9]')
    for seed in range(5):
        reply = engine.complete(Request(prompt(seed, 10), 20, Sampler(temperature=3.0), seed=seed, grammar=grammar))
        assert reply.finish == "stop"
        assert reply.text == "yes" or (reply.text[:2] == "no" and reply.text[2:].isdigit())


def test_lazy_grammar_takes_over_at_its_trigger(engines) -> None:
    engine = engines()
    lazy = Grammar('root ::= "q" [0-9] "z"', (r"(q)$",))
    seen = 0
    for seed in range(12):
        reply = engine.complete(Request(prompt(seed, 10), 300, Sampler(temperature=2.0), seed=seed, grammar=lazy))
        _, hit, after = reply.text.partition("q")
        if not hit:
            assert reply.finish in ("length", "stop")
            continue
        seen += 1
        assert reply.finish == "stop"
        assert after[0].isdigit()
        assert after[1:] == "z"
    assert seen > 3


def test_what_stands_in_a_thinking_span_triggers_nothing(engines) -> None:
    """The model writes freely, but for the trigger: so a `q` in it is proof that no grammar took over."""
    engine = engines()
    lazy = Grammar('root ::= "q" [0-9] "z"', (r"(q)",), thinking=True)
    replies = [
        engine.complete(Request(prompt(seed, 10), 120, Sampler(temperature=2.0), seed=seed, grammar=lazy)).text
        for seed in range(20)
    ]
    spoken = [text for text in replies if "q" in text and "</think>" not in text]
    assert len(spoken) > 3
    assert any(not re.search(r"q\dz$", text) for text in spoken)
    outside = Grammar("root ::= [a-z]", (r"(q)",))
    for text, visible in (
        ("<think>q", None),
        ("<think>q</think>", 16),
        ("a<think>q</think>b<think>", None),
        ("plain q", 0),
    ):
        rules = _Rules(engine.model, outside)
        assert rules._visible(text) == visible
        rules.close()


def test_a_trigger_that_the_grammar_refuses_is_not_taken(engines) -> None:
    """llama.cpp's own lazy sampler ends the process here."""
    engine = engines()
    lazy = Grammar('root ::= "never"', (r"([a-m])$",))
    plain = ""
    for seed in range(20):
        reply = engine.complete(Request(prompt(seed, 10), 80, Sampler(temperature=2.0), seed=seed, grammar=lazy))
        plain += re.sub(r"<\|\w+\|>", "", reply.text)
    assert len(plain) > 200
    assert not set(plain) & set("abcdefghijklm")


def test_a_grammar_that_does_not_parse_fails_its_request_alone(engines) -> None:
    engine = engines()
    with pytest.raises(EngineError, match="grammar"):
        engine.complete(Request(prompt(1, 10), 5, grammar=Grammar("root ::= (")))
    assert engine.complete(Request(prompt(1, 10), 5)).tokens


def test_ends_and_counts(engines) -> None:
    engine = engines(n_ctx=128)
    cut = engine.complete(Request(prompt(1, 100), 5))
    assert (cut.finish, len(cut.tokens), cut.prompt_tokens) == ("length", 5, 100)
    full = engine.complete(Request(prompt(1, 100), 1000, grammar=ENDLESS))
    assert (full.finish, len(full.tokens)) == ("context", 28)
    stopped = engine.complete(
        Request(prompt(1, 20), 60, grammar=Grammar('root ::= "abcdef" [g-z]*'), stops=("cd", "e"))
    )
    assert (stopped.finish, stopped.stop, stopped.text) == ("stop", "cd", "ab")
    with pytest.raises(Overflow) as caught:
        engine.complete(Request(prompt(1, 128), 1))
    assert (caught.value.prompt_tokens, caught.value.window) == (128, 128)
    assert engine.complete(Request(prompt(1, 127), 1)).finish == "length"


def test_cells_run_short_and_requests_wait(engines) -> None:
    """Six requests that each may need half of the cells: all are answered, in their turn, and nothing fails."""
    engine = engines(n_ctx=256, cells=512, slots=4)
    watchers = [Watcher() for _ in range(6)]
    for i, watcher in enumerate(watchers):
        engine.submit(Request(prompt(i, 150), 100, grammar=ENDLESS), watcher)
    for watcher in watchers:
        assert watcher.ended.wait(60)
        assert watcher.generation is not None, watcher.error
        assert len(watcher.generation.tokens) == 100
    assert engine.used_cells <= 512


def test_a_short_prompt_does_not_wait_for_a_long_one(engines) -> None:
    """Both are admitted at the same moment, the long one first: the gate holds the engine until both are there."""
    engine = engines(n_ctx=2048, slots=2, batch=32)
    order: list[str] = []
    opened = threading.Event()

    class Gate(Watcher):
        def done(self, generation: Generation) -> None:
            opened.wait(60)
            super().done(generation)

    class Named(Watcher):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def done(self, generation: Generation) -> None:
            order.append(self.name)
            super().done(generation)

    engine.submit(Request(prompt(1, 5), 1), Gate())
    watchers = [Named("long"), Named("short")]
    for watcher, length in zip(watchers, (1500, 100), strict=True):
        engine.submit(Request(prompt(length, length), 1), watcher)
    opened.set()
    assert all(watcher.ended.wait(60) for watcher in watchers)
    assert order == ["short", "long"]


def test_a_full_queue_is_refused_and_drains(engines) -> None:
    engine = engines(slots=1, queue=2)
    held = Held()
    engine.submit(Request(prompt(0, 60), 10, grammar=ENDLESS), held)
    assert held.begun.wait(60)
    watchers = [Watcher() for _ in range(2)]
    for i, watcher in enumerate(watchers):
        engine.submit(Request(prompt(i, 60), 10, grammar=ENDLESS), watcher)
    for _ in range(3):
        with pytest.raises(Busy, match="2 requests are waiting"):
            engine.submit(Request(prompt(9, 60), 10), Watcher())
    held.go.set()
    assert all(watcher.ended.wait(60) for watcher in (held, *watchers))
    assert [len(watcher.generation.tokens) for watcher in (held, *watchers)] == [10] * 3
    assert engine.complete(Request(prompt(1, 10), 1)).tokens


def test_cancelling_frees_the_slot_and_the_cells(engines) -> None:
    engine = engines(slots=1)
    base = engine.state_bytes()
    running, waiting = Held(), Watcher()
    long = Request(prompt(1, 20), 400, grammar=ENDLESS)
    first = engine.submit(long, running)
    second = engine.submit(long, waiting)
    assert running.begun.wait(30)
    second.cancel()
    first.cancel()
    first.cancel()
    running.go.set()
    assert running.ended.wait(30)
    assert waiting.ended.wait(30)
    assert isinstance(running.error, Cancelled)
    assert isinstance(waiting.error, Cancelled)
    assert engine.complete(Request(prompt(2, 20), 2)).finish == "length"
    first.cancel()
    engine.forget()
    assert (running.ends, waiting.ends) == (1, 1)
    assert (engine.used_cells, engine.state_bytes()) == (0, base)


def test_closing_fails_what_is_left(engines) -> None:
    engine = engines(slots=1)
    running, waiting = Held(), Watcher()
    engine.submit(Request(prompt(1, 20), 480, grammar=ENDLESS), running)
    engine.submit(Request(prompt(1, 20), 5), waiting)
    assert running.begun.wait(60)
    closing = threading.Thread(target=engine.close)
    closing.start()
    while engine.alive:
        time.sleep(0.001)
    running.go.set()
    closing.join()
    assert isinstance(waiting.error, EngineDead)
    assert isinstance(running.error, EngineDead)
    with pytest.raises(EngineDead, match="closed"):
        engine.submit(Request(prompt(1, 20), 5), Watcher())


def test_an_error_in_a_listener_ends_the_engine_loudly(engines) -> None:
    class Broken(Watcher):
        def text(self, delta: str) -> None:
            raise RuntimeError("listener bug")

    engine = engines()
    engine.submit(Request(prompt(1, 20), 20, grammar=ENDLESS), Broken())
    other = Watcher()
    try:
        engine.submit(Request(prompt(2, 20), 400, grammar=ENDLESS), other)
        assert other.ended.wait(30)
        assert isinstance(other.error, EngineDead)
    except EngineDead:
        pass
    with pytest.raises(EngineDead, match="listener bug"):
        engine.complete(Request(prompt(1, 20), 5))
    assert not engine.alive


@pytest.mark.parametrize("arch", ARCHS)
def test_a_long_mixture_comes_back_to_the_baseline(engines, arch: Arch) -> None:
    """Random lengths, prefixes, cancellations and grammars at the limit of the cells."""
    engine = engines(arch, n_ctx=256, cells=600, slots=3, queue=200)
    base = engine.state_bytes()
    dice = random.Random(11)
    watchers: list[tuple[Watcher, object, bool]] = []
    for _ in range(70):
        length = dice.randrange(1, 255)
        history = prompt(dice.randrange(4), length)
        grammar = ENDLESS if dice.random() < 0.5 else None
        watcher = Watcher()
        ticket = engine.submit(
            Request(history, dice.randrange(1, 80), Sampler(temperature=1.0), dice.randrange(99), grammar), watcher
        )
        cancelled = dice.random() < 0.3
        if cancelled:
            ticket.cancel()
        watchers.append((watcher, ticket, cancelled))
    for watcher, _, cancelled in watchers:
        assert watcher.ended.wait(120)
        assert watcher.ends == 1
        assert watcher.generation is not None or (cancelled and isinstance(watcher.error, Cancelled)), watcher.error
    assert engine.used_cells <= 600
    engine.forget()
    assert (engine.used_cells, engine.state_bytes(), engine.active, engine.waiting) == (0, base, 0, 0)


def test_what_is_no_text_model_is_refused(tiny: dict[Arch, Path], tmp_path: Path) -> None:
    for arch in ("encoder", "embedding"):
        with pytest.raises(UserError, match=str(tiny[arch])):
            Engine(tiny[arch], EngineOptions(n_ctx=128))
    with pytest.raises(UserError, match=r"--n-ctx 4096 .* 2048"):
        Engine(tiny["llama"], EngineOptions(n_ctx=4096))
    with pytest.raises(UserError, match="--kv-type: 'f17'"):
        Engine(tiny["llama"], EngineOptions(n_ctx=128, kv_type="f17"))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(UserError, match="can not load"):
        Engine(broken, EngineOptions())


def test_quantised_kv_cells_work(engines) -> None:
    plain, packed = engines(), engines(kv_type="q8_0")
    history = prompt(2, 200)
    a, b = (engine.complete(ask(history)).first_logits for engine in (plain, packed))
    assert 0 < np.abs(a - b).max() < 0.5
