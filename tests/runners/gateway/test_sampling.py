"""The shortlist of the sampler: what is drawn from it is what would have been drawn from the whole vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.gateway.grammar import Grammar
from runners.gateway.llama import EngineError, Model
from runners.gateway.sampler import Sampler
from runners.gateway.sampling import TokenSampler
from tests.tiny_gguf import Arch

WHOLE = {"dry_multiplier": 1e-6, "dry_allowed_length": 10**6}
"""DRY that never finds a repetition long enough: it changes nothing, but the sampler then looks at every token."""

PENALTIES = st.fixed_dictionaries(
    {
        "repeat_penalty": st.sampled_from([1.0, 1.05, 1.3, 0.8]),
        "frequency_penalty": st.sampled_from([0.0, 0.5, -0.5]),
        "presence_penalty": st.sampled_from([0.0, 1.0]),
        "repeat_last_n": st.sampled_from([0, 2, 6, 64, -1]),
    }
)


@pytest.fixture(scope="module")
def model(tiny: dict[Arch, Path]) -> Iterator[Model]:
    opened = Model(tiny["llama"])
    yield opened
    opened.close()


def rows(model: Model, seed: int, count: int) -> np.ndarray:
    """Logits without ties (a permutation of distinct values), some of them below zero."""
    dice = np.random.default_rng(seed)
    return np.array([dice.permutation(model.n_vocab) / 16 - 4 for _ in range(count)], np.float32)


def drawn(model: Model, sampler: Sampler, seed: int, grammar: Grammar | None = None, count: int = 12) -> list[int]:
    """What is drawn from `count` rows of logits; ends at the first end token, or where the grammar allows nothing."""
    history = [int(token) for token in np.random.default_rng(seed).integers(3, 250, 9)]
    chain = TokenSampler(model, sampler, seed, context=64, history=history, grammar=grammar)
    found = []
    for row in rows(model, seed, count):
        token = chain.sample(row)
        found.append(token)
        if model.ends(token):
            break
    chain.close()
    return found


@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 0.7, 3.0]),
    top_k=st.sampled_from([0, 1, 3, 7]),
    top_p=st.sampled_from([1.0, 0.6]),
    penalties=PENALTIES,
)
def test_a_shortlist_draws_what_the_whole_vocabulary_draws(
    model: Model, seed: int, temperature: float, top_k: int, top_p: float, penalties: dict[str, float]
) -> None:
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p} | penalties
    assert drawn(model, Sampler(**settings), seed) == drawn(model, Sampler(**settings | WHOLE), seed)


@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 2.0]),
    penalties=st.sampled_from([{}, {"repeat_penalty": 1.3, "repeat_last_n": 1}, {"repeat_penalty": 1.3}]),
    lazy=st.booleans(),
    gbnf=st.sampled_from(["root ::= [a-z]+", 'root ::= "q" ("u" | "a") [0-9]* "z"', "root ::= [q-z] [^a-y]+"]),
)
def test_a_grammar_finds_the_best_that_it_allows(
    model: Model, seed: int, temperature: float, penalties: dict[str, float], lazy: bool, gbnf: str
) -> None:
    settings = {"temperature": temperature, "top_k": 2} | penalties
    grammar = Grammar(gbnf, (r"([a-m]|q)$",) if lazy else ())
    short = drawn(model, Sampler(**settings), seed, grammar)
    assert short == drawn(model, Sampler(**settings | WHOLE), seed, grammar)


def test_the_only_allowed_token_may_be_the_worst(model: Model) -> None:
    (only,) = model.spell("w")
    row = np.arange(model.n_vocab, dtype=np.float32)
    row[only] = -100
    for sampler in (Sampler(), Sampler(temperature=1.0, top_k=3), Sampler(temperature=1.0)):
        chain = TokenSampler(model, sampler, 1, context=64, history=[5], grammar=Grammar('root ::= "w" "x"'))
        assert chain.sample(row) == only
        chain.close()


def test_the_next_best_is_taken_after_many_refused_at_a_trigger(model: Model) -> None:
    row = np.zeros(model.n_vocab, np.float32)
    for rank, token in enumerate(model.spell("abcdefghijklm3xyz")):
        row[token] = 90 - rank
    grammar = Grammar('root ::= "q"', (r"([a-m])$",))
    for sampler in (Sampler(), Sampler(temperature=0.5, top_k=1)):
        chain = TokenSampler(model, sampler, 1, context=64, history=[5], grammar=grammar)
        assert model.piece(chain.sample(row)) == b"3"
        chain.close()


def test_of_equal_logits_the_first_is_taken(model: Model) -> None:
    row = np.zeros(model.n_vocab, np.float32)
    row[[17, 90, 91]] = 3
    chain = TokenSampler(model, Sampler(), 1, context=64, history=[5], grammar=None)
    assert chain.sample(row) == 17
    chain.close()


def test_logits_that_are_no_numbers_are_an_error(model: Model) -> None:
    for sampler in (Sampler(), Sampler(temperature=1.0, top_k=3, repeat_penalty=1.2)):
        chain = TokenSampler(model, sampler, 1, context=64, history=[5], grammar=None)
        with pytest.raises(EngineError):
            chain.sample(np.full(model.n_vocab, np.nan, np.float32))
        chain.close()
