"""How the next token is chosen: the sampler's native chain, with a grammar beside it.

The order of the chain is llama.cpp's own: penalties, DRY, top-k, top-p, min-p, temperature, draw. The grammar stands
outside the chain, as in llama.cpp's `common_sampler`: the chain draws first, and only a token that the grammar refuses
makes a second draw, among what the grammar allows.

Where only the best tokens can be drawn, only these pass through chain and grammar: see `_reach`.
"""

from __future__ import annotations

import codecs
import ctypes
import re
from collections.abc import Sequence
from typing import Any, Final

import llama_cpp
import numpy as np
import numpy.typing as npt

from runners.gateway.conversation import THINK, THINK_END
from runners.gateway.grammar import Grammar
from runners.gateway.llama import EngineError, Logits, Model, Tokens
from runners.gateway.sampler import Sampler

_CANDIDATE: Final = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_MOST_REFUSED: Final = 256
"""Tokens that a lazy grammar may refuse at one position before it is taken to be broken."""

_WIDEN: Final = 16
"""By how much the shortlist grows when a grammar refuses too much of it."""


def _chain(model: Model, sampler: Sampler, seed: int, context: int) -> Any:
    params = llama_cpp.llama_sampler_chain_default_params()
    params.no_perf = True
    chain = llama_cpp.llama_sampler_chain_init(params)

    def add(link: Any) -> None:
        if not link:
            raise EngineError("llama.cpp made no sampler")
        llama_cpp.llama_sampler_chain_add(chain, link)

    if sampler.penalises:
        last = context if sampler.repeat_last_n < 0 else sampler.repeat_last_n
        add(
            llama_cpp.llama_sampler_init_penalties(
                model.n_vocab, last, sampler.repeat_penalty, sampler.frequency_penalty, sampler.presence_penalty
            )
        )
    if sampler.dry_multiplier > 0:
        last = context if sampler.dry_last_n < 0 else sampler.dry_last_n
        breakers = [text.encode() for text in sampler.dry_breakers]
        array = (ctypes.c_char_p * len(breakers))(*breakers)
        add(
            llama_cpp.llama_sampler_init_dry(
                model.vocab,
                sampler.dry_multiplier,
                sampler.dry_base,
                sampler.dry_allowed_length,
                last,
                array,
                len(breakers),
            )
        )
    if sampler.temperature == 0:
        add(llama_cpp.llama_sampler_init_greedy())
        return chain
    if sampler.top_k:
        add(llama_cpp.llama_sampler_init_top_k(sampler.top_k))
    if sampler.top_p < 1:
        add(llama_cpp.llama_sampler_init_top_p(sampler.top_p, 1))
    if sampler.min_p > 0:
        add(llama_cpp.llama_sampler_init_min_p(sampler.min_p, 1))
    add(llama_cpp.llama_sampler_init_temp(sampler.temperature))
    add(llama_cpp.llama_sampler_init_dist(seed))
    return chain


class _Rules:
    """A native strict grammar, and the state of a lazy one before its trigger.

    The trigger is found here and not by llama.cpp's lazy sampler: that one throws through the C interface, which ends
    the process, when the text at a trigger does not fit the grammar. Here such a token is refused like any other.
    """

    def __init__(self, model: Model, grammar: Grammar) -> None:
        self._model = model
        self._grammar = grammar
        self._patterns = [re.compile(pattern) for pattern in grammar.triggers]
        self._text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._native: Any = None
        if not self._patterns:
            self._native = self._fresh()

    def _fresh(self) -> Any:
        native = llama_cpp.llama_sampler_init_grammar(self._model.vocab, self._grammar.gbnf.encode(), b"root")
        if not native:
            raise EngineError("llama.cpp refuses the grammar")
        return native

    @property
    def active(self) -> bool:
        return self._native is not None

    def _fits(self, native: Any, token: int) -> bool:
        one = np.zeros(1, _CANDIDATE)
        one["id"] = token
        self._apply(native, one)
        return bool(np.isfinite(one["logit"][0]))

    @staticmethod
    def _apply(native: Any, candidates: npt.NDArray[Any]) -> None:
        array = _array(candidates)
        llama_cpp.llama_sampler_apply(native, ctypes.byref(array))

    def mask(self, candidates: npt.NDArray[Any]) -> None:
        """Sets the logits of what the active grammar refuses to minus infinity."""
        self._apply(self._native, candidates)

    def take(self, token: int) -> bool:
        """Moves on by a token; False, with nothing changed, where the grammar refuses it."""
        if self._native is not None:
            if not self._fits(self._native, token):
                return False
            llama_cpp.llama_sampler_accept(self._native, token)
            return True
        decoder = self._decoder.getstate()
        text = self._text + self._decoder.decode(self._model.piece(token))
        visible = self._visible(text)
        for pattern in self._patterns if visible is not None else ():
            found = pattern.search(text, visible or 0)
            if found is None:
                continue
            start = found.start(1) if found.re.groups else found.start()
            native = self._fresh()
            for piece in self._model.spell(text[start:]):
                if not self._fits(native, piece):
                    llama_cpp.llama_sampler_free(native)
                    self._decoder.setstate(decoder)
                    return False
                llama_cpp.llama_sampler_accept(native, piece)
            self._native = native
            break
        self._text = text
        return True

    def _visible(self, text: str) -> int | None:
        """Where the text outside of thinking begins; None inside of it."""
        opened, closed = text.rfind(THINK), text.rfind(THINK_END)
        if closed > opened:
            return closed + len(THINK_END)
        return None if opened >= 0 or self._grammar.thinking else 0

    def close(self) -> None:
        if self._native is not None:
            llama_cpp.llama_sampler_free(self._native)
            self._native = None


def _array(candidates: npt.NDArray[Any]) -> Any:
    return llama_cpp.llama_token_data_array(
        data=candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data)),
        size=len(candidates),
        selected=-1,
        sorted=False,
    )


def _reach(sampler: Sampler, accepted: int) -> int | None:
    """How many of the tokens with the highest logits can be drawn at all; None where any token can.

    The chain keeps `top_k` tokens (one where the temperature is 0) of those that it is given. Penalties that only
    lower logits touch at most as many tokens as they look back on, so that what is among the best k after them was
    among the best k + n before. `accepted` is the number of tokens accepted so far. DRY lowers any number of tokens.
    """
    keeps = 1 if sampler.temperature == 0 else sampler.top_k
    if not keeps or sampler.dry_multiplier > 0:
        return None
    if not sampler.penalises:
        return keeps
    if sampler.repeat_penalty < 1 or sampler.frequency_penalty < 0 or sampler.presence_penalty < 0:
        return None
    return keeps + (accepted if sampler.repeat_last_n < 0 else min(accepted, sampler.repeat_last_n))


def _best(logits: Logits, n: int) -> Tokens:
    """The ids of the n highest logits at least, ascending; with an id, all of a higher or equal logit are there."""
    rows = min(128, len(logits) // (4 * n))
    if rows < 4:
        return np.arange(len(logits), dtype=np.int32)
    # At least n columns have their maximum, and so one logit, at or above the n-th highest of these maxima.
    columns = len(logits) // rows
    peaks = logits[: rows * columns].reshape(rows, columns).max(axis=0)
    bound = np.partition(peaks, columns - n)[columns - n]
    return np.flatnonzero(logits >= bound).astype(np.int32)


class TokenSampler:
    """The native chain and grammar of one sequence. `context` is the window in tokens, for penalties over all of it.

    `history` is the prompt: the penalties see its tail, as in llama.cpp's server.
    """

    def __init__(
        self,
        model: Model,
        sampler: Sampler,
        seed: int,
        *,
        context: int,
        history: Sequence[int],
        grammar: Grammar | None,
    ) -> None:
        self._sampler = sampler
        self._rules = None if grammar is None else _Rules(model, grammar)
        self._chain = _chain(model, sampler, seed, context)
        self._accepted = 0
        if sampler.penalises or sampler.dry_multiplier > 0:
            for token in history:
                llama_cpp.llama_sampler_accept(self._chain, token)
            self._accepted = len(history)

    def _draw(self, candidates: npt.NDArray[Any]) -> int:
        array = _array(candidates)
        llama_cpp.llama_sampler_apply(self._chain, ctypes.byref(array))
        if not 0 <= array.selected < array.size:
            raise EngineError("the sampler chain selected no token")
        return int(array.data[array.selected].id)

    def _candidates(self, logits: Logits, more: int = 0) -> npt.NDArray[Any]:
        """What the chain may draw from, and the next `more` tokens."""
        reach = _reach(self._sampler, self._accepted)
        ids = np.arange(len(logits), dtype=np.int32) if reach is None else _best(logits, reach + more)
        candidates = np.zeros(len(ids), _CANDIDATE)
        candidates["id"] = ids
        candidates["logit"] = logits[ids] if len(ids) < len(logits) else logits
        return candidates

    def sample(self, logits: Logits) -> int:
        """The next token after these logits. Penalties and grammar move on by it."""
        token = self._draw(self._candidates(logits))
        if self._rules is not None and not self._rules.take(token):
            token = self._again(logits, token)
        llama_cpp.llama_sampler_accept(self._chain, token)
        self._accepted += 1
        return token

    def _again(self, logits: Logits, refused: int) -> int:
        """Draws once more among what the grammar allows."""
        rules = self._rules
        assert rules is not None
        barred = [refused]
        while not rules.active:
            # The refused token completed a trigger in a way that no call begins with: the next best one, then.
            candidates = self._candidates(logits, len(barred))
            candidates["logit"][np.isin(candidates["id"], barred)] = -np.inf
            token = self._draw(candidates)
            if rules.take(token):
                return token
            barred.append(token)
            if len(barred) > _MOST_REFUSED:
                raise EngineError(f"the lazy grammar refused {len(barred)} tokens in a row at its trigger")
        token = self._draw(self._allowed(logits, rules))
        if not rules.take(token):
            raise EngineError(f"the grammar refuses token {token}, which it had allowed")
        return token

    def _allowed(self, logits: Logits, rules: _Rules) -> npt.NDArray[Any]:
        """What the chain may draw from among the tokens that the active grammar allows."""
        reach = _reach(self._sampler, self._accepted)
        more = 0 if reach is None else 4 * reach
        while True:
            candidates = self._candidates(logits, more)
            rules.mask(candidates)
            allowed = int(np.isfinite(candidates["logit"]).sum())
            if len(candidates) == len(logits):
                break
            if reach is not None and allowed >= reach:
                return candidates
            more = _WIDEN * (more + 1)
        if not allowed:
            raise EngineError("the grammar allows no token")
        return candidates

    def close(self) -> None:
        """Frees the native parts; closing twice does nothing."""
        if self._chain:
            llama_cpp.llama_sampler_free(self._chain)
            self._chain = None
        if self._rules is not None:
            self._rules.close()
