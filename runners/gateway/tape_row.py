"""A completion as the tape keeps it, and its columns."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Finish = Literal["stop", "length", "context", "overflow"]

COLUMNS = "tokens, text, finish, stop, prompt_tokens, reused_tokens, prefill_seconds, decode_seconds"
"""The completion's columns, in the order of `to_columns` and `from_columns`."""

_MOST_TOKEN = 2**31 - 1


@dataclass(frozen=True)
class Completion:
    """What a model answered to one prompt, whole. A cancelled or failed decode is none.

    tokens: the sampled tokens in order; their number is the usage figure of the reply. text: exactly what the dialect
    reads. finish: "stop" (end-of-generation token or stop string), "length" (max_tokens reached), "context" (the
    sequence's context is full), "overflow" (refused: the prompt does not fit; no tokens and no text). stop: the stop
    string that ended it, else None. prompt_tokens: length of the prompt. reused_tokens: how many of those had their KV
    from the prefix cache when it was decoded; information only. prefill_seconds, decode_seconds: measured once, when
    it was decoded.

    Raises TypeError or ValueError for values outside of that: a lone surrogate in the text (the engine decodes with
    errors="replace", so there is none), negative or non-finite numbers, tokens outside 0 .. 2**31-1.
    """

    tokens: tuple[int, ...]
    text: str
    finish: Finish
    stop: str | None
    prompt_tokens: int
    prefill_seconds: float
    decode_seconds: float
    reused_tokens: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        if not all(type(token) is int for token in self.tokens):
            raise TypeError("tokens: not all are int")
        if self.tokens and not (min(self.tokens) >= 0 and max(self.tokens) <= _MOST_TOKEN):
            raise ValueError(f"tokens: not all are in 0 .. {_MOST_TOKEN}")
        for name, text in (("text", self.text), ("stop", "" if self.stop is None else self.stop)):
            if type(text) is not str:
                raise TypeError(f"{name}: {text!r} is no str")
            text.encode("utf-8")  # UnicodeEncodeError is a ValueError
        self._check_finish()
        for name in ("prompt_tokens", "reused_tokens"):
            number = getattr(self, name)
            if type(number) is not int:
                raise TypeError(f"{name}: {number!r} is no int")
            if not 0 <= number <= self.prompt_tokens:
                raise ValueError(f"{name}: {number} of {self.prompt_tokens} prompt tokens")
        for name in ("prefill_seconds", "decode_seconds"):
            seconds = getattr(self, name)
            if type(seconds) not in (float, int):
                raise TypeError(f"{name}: {seconds!r} is no number")
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ValueError(f"{name}: {seconds!r} is no duration")
            object.__setattr__(self, name, float(seconds) + 0.0)  # -0.0 becomes 0.0

    def _check_finish(self) -> None:
        if self.finish not in get_args(Finish):
            raise ValueError(f"finish: {self.finish!r}, allowed are {get_args(Finish)}")
        if self.finish == "overflow" and (self.tokens or self.text):
            raise ValueError("finish: 'overflow' has neither tokens nor text")
        if self.stop is not None and (self.finish != "stop" or not self.stop):
            raise ValueError(f"stop: {self.stop!r} with finish {self.finish!r}")

    def canonical(self) -> str:
        """The fields in the order of the class as a JSON array: no spaces, ASCII only, floats by `repr`."""
        return json.dumps([getattr(self, f.name) for f in fields(self)], separators=(",", ":"), allow_nan=False)


def to_columns(completion: Completion) -> tuple[Any, ...]:
    """Values for `COLUMNS`. The tokens are little-endian int32, deflated by zlib."""
    tokens = struct.pack(f"<{len(completion.tokens)}i", *completion.tokens)
    return (
        zlib.compress(tokens, 6),
        completion.text,
        completion.finish,
        completion.stop,
        completion.prompt_tokens,
        completion.reused_tokens,
        completion.prefill_seconds,
        completion.decode_seconds,
    )


def from_columns(columns: Sequence[Any]) -> Completion:
    """The inverse. TypeError, ValueError, struct.error or zlib.error where the columns are of no completion."""
    blob, text, finish, stop, prompt_tokens, reused_tokens, prefill_seconds, decode_seconds = columns
    tokens = zlib.decompress(blob)
    return Completion(
        tokens=struct.unpack(f"<{len(tokens) // 4}i", tokens),
        text=text,
        finish=finish,
        stop=stop,
        prompt_tokens=prompt_tokens,
        reused_tokens=reused_tokens,
        prefill_seconds=prefill_seconds,
        decode_seconds=decode_seconds,
    )
