"""llama.cpp's own grammar matcher on a vocabulary of single bytes (a test aid)."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path
from typing import Literal

import llama_cpp

Verdict = Literal["refused", "unfinished", "complete"]


class ByteVocabulary:
    """The vocabulary of a tiny GGUF, whose tokens are single bytes."""

    def __init__(self, path: Path) -> None:
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self._model
        self.pointer = llama_cpp.llama_model_get_vocab(self._model)
        self._end = llama_cpp.llama_vocab_eot(self.pointer)
        pieces: dict[bytes, int] = {}
        buffer = ctypes.create_string_buffer(16)
        for token in range(llama_cpp.llama_vocab_n_tokens(self.pointer)):
            size = llama_cpp.llama_token_to_piece(self.pointer, token, buffer, 16, 0, False)
            pieces[buffer.raw[:size]] = token
        self._bytes = [pieces[bytes([value])] for value in range(256)]

    def verdict(self, gbnf: str, text: str) -> Verdict:
        """What the grammar says of a text: refused, a beginning, or whole (it may still go on)."""
        sampler = llama_cpp.llama_sampler_init_grammar(self.pointer, gbnf.encode(), b"root")
        assert sampler, "llama.cpp can not read the grammar"
        try:
            for value in text.encode():
                if not self._fits(sampler, self._bytes[value]):
                    return "refused"
                llama_cpp.llama_sampler_accept(sampler, self._bytes[value])
            return "complete" if self._fits(sampler, self._end) else "unfinished"
        finally:
            llama_cpp.llama_sampler_free(sampler)

    def walk(self, gbnf: str, choose: random.Random, *, free: int, most: int, closing: bytes) -> tuple[str, int]:
        """A text that the grammar allows, and its length in bytes: `free` bytes at random, then `closing` bytes where
        the grammar allows one, in that order of preference, until it may end or `most` bytes are reached."""
        sampler = llama_cpp.llama_sampler_init_grammar(self.pointer, gbnf.encode(), b"root")
        assert sampler, "llama.cpp can not read the grammar"
        taken = bytearray()
        try:
            while len(taken) < most and not (len(taken) >= free and self._fits(sampler, self._end)):
                allowed = [value for value, fits in enumerate(self._fit(sampler, self._bytes)) if fits]
                if not allowed:
                    break
                preferred = [value for value in closing if value in allowed] if len(taken) >= free else []
                # llama.cpp lets bytes pass that are no UTF-8, so a random byte above 127 only where it must be.
                value = preferred[0] if preferred else choose.choice([v for v in allowed if v < 128] or allowed)
                llama_cpp.llama_sampler_accept(sampler, self._bytes[value])
                taken.append(value)
            assert self._fits(sampler, self._end), bytes(taken)
            return taken.decode(), len(taken)
        finally:
            llama_cpp.llama_sampler_free(sampler)

    def _fits(self, sampler: object, token: int) -> bool:
        return self._fit(sampler, [token])[0]

    @staticmethod
    def _fit(sampler: object, tokens: list[int]) -> list[bool]:
        data = (llama_cpp.llama_token_data * len(tokens))(*((token, 0.0, 0.0) for token in tokens))
        array = llama_cpp.llama_token_data_array(data, len(tokens), -1, False)
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
        return [entry.logit == 0.0 for entry in data]
