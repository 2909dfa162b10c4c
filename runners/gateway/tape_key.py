"""The key of a tape row: everything that decides a completion, and its digest."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args

from guards.errors import UserError

DecodeMode = Literal["free", "lazy", "forced"]
SamplerValue = bool | int | float | str | tuple[str, ...]

RECORD_VERSION = 1
"""Version of the record that is digested. A change of form or meaning raises it and so retires every older row."""

RANDOM_SEED = 0xFFFFFFFF
"""What llama.cpp takes as "choose a seed at random" (`LLAMA_DEFAULT_SEED` in llama.h): never a seed of ours."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, eq=False)
class TapeKey:
    """Everything that decides a completion. Two keys are equal exactly when their digests are.

    model, template, prompt: sha256 as 64 lower-case hex digits, of the GGUF file, of the chat template's text in
    UTF-8, and of the rendered prompt's text in UTF-8. The prompt's text and the model fix the prompt's tokens, as long
    as engine and dialect cut the whole text into tokens in one way; whoever changes that way raises the dialect's
    version.

    engine: name and version ("llama-cpp-python 0.3.36"). backend: where the layers ran ("cpu", "cuda 29/29") and
    whatever else of the device changes the arithmetic. n_ctx: context length of one sequence, in tokens. kv_type: type
    of the KV cells ("f16"). deterministic: one sequence at a time.

    dialect: name and version ("qwen-coder/1"). decode_mode: "free", "lazy" or "forced". grammar: sha256 of all that is
    given to the grammar sampler (text, root, triggers), None where no grammar is used.

    sampler: names to numbers, strings or lists of strings, as the engine takes them. 1, 1.0 and True are three
    different values here: the caller gives each parameter its type once. max_tokens: most tokens to sample, as the
    request asks after clamping. stops: stop strings in the order asked.

    seed: index of the seed, from 0. agent: ordinal of the agent in its episode, 0 for the root, in spawn order.
    occurrence: how many times this very prompt came before in that agent's episode, from 0. These three number the
    draws; where the temperature is 0 nothing is drawn, and all three are 0.

    Raises TypeError for a value of another type, ValueError for one that is out of range: a negative or too small
    number, -0.0, NaN, an infinity, text with a lone surrogate, an empty stop string.
    """

    model: str
    engine: str
    backend: str
    n_ctx: int
    kv_type: str
    deterministic: bool
    template: str
    dialect: str
    decode_mode: DecodeMode
    grammar: str | None
    sampler: Mapping[str, SamplerValue]
    max_tokens: int
    stops: tuple[str, ...]
    prompt: str
    seed: int
    agent: int
    occurrence: int

    def __post_init__(self) -> None:
        for name in ("model", "template", "prompt"):
            _check_sha256(name, getattr(self, name))
        if self.grammar is not None:
            _check_sha256("grammar", self.grammar)
        for name in ("engine", "backend", "kv_type", "dialect"):
            _check_text(name, getattr(self, name))
        for name, least in (("n_ctx", 1), ("max_tokens", 0), ("seed", 0), ("agent", 0), ("occurrence", 0)):
            _check_int(name, getattr(self, name), least)
        if type(self.deterministic) is not bool:
            raise TypeError(f"deterministic: {self.deterministic!r} is no bool")
        if self.decode_mode not in get_args(DecodeMode):
            raise ValueError(f"decode_mode: {self.decode_mode!r}, allowed are {get_args(DecodeMode)}")
        object.__setattr__(self, "stops", _text_tuple("stops", self.stops))
        if not isinstance(self.sampler, Mapping):
            raise TypeError(f"sampler: {self.sampler!r} is no mapping")
        object.__setattr__(self, "sampler", {name: _sampler_value(name, v) for name, v in self.sampler.items()})

    @cached_property
    def record(self) -> str:
        """The key as canonical JSON: what the digest is taken of, and what the tape stores.

        One object with the field "tape_key" (the record's version, 1) and one field for each of this class, under the
        same name; tuples are arrays, None is null. Written as Python's `json` does with object keys sorted by code
        point at every level, no spaces, everything outside ASCII as \\u escapes (UTF-16 halves, lower-case hex),
        integers in decimal and floats by `repr` (shortest text that reads back equal; always with "." or "e").
        """
        record: dict[str, Any] = {"tape_key": RECORD_VERSION}
        record.update((f.name, getattr(self, f.name)) for f in fields(self))
        return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

    @classmethod
    def from_record(cls, record: str) -> TapeKey:
        """The key whose `record` is that text. UserError where no key has that record."""
        try:
            values = json.loads(record)
            version = values.pop("tape_key")
            if version != RECORD_VERSION:
                raise ValueError(f"key record version {version!r}, known is {RECORD_VERSION}")
            key = cls(**values)
            if key.record != record:
                raise ValueError("the key record is not in its canonical form")
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(f"not the record of a tape key ({error}): {record[:120]!r}") from error
        return key

    def digest(self) -> str:
        """sha256 of `record` in ASCII, 64 lower-case hex digits."""
        return hashlib.sha256(self.record.encode("ascii")).hexdigest()

    def sampling_seed(self) -> int:
        """The sampler chain's seed: see `seed_of_digest`."""
        return seed_of_digest(self.digest())

    def __eq__(self, other: object) -> bool:
        return self.record == other.record if isinstance(other, TapeKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.record)


def seed_of_digest(digest: str) -> int:
    """A 32-bit seed: the first of the digest's eight big-endian words that llama.cpp does not read as "random".

    A digest of 256 one bits gives 0.
    """
    words = (int(digest[start : start + 8], 16) for start in range(0, 64, 8))
    return next((word for word in words if word != RANDOM_SEED), 0)


def prompt_digest(prompt: str) -> str:
    """sha256 of the prompt's text in UTF-8, 64 lower-case hex digits. UnicodeEncodeError (a ValueError) for a lone
    surrogate.
    """
    return hashlib.sha256(prompt.encode("utf-8")).hexdigest()


def differences(stored: TapeKey, asked: TapeKey) -> dict[str, tuple[Any, Any]]:
    """Names of the fields that differ (a sampler's parameters as "sampler.NAME"), each with the stored and the asked
    value.

    A parameter that one of the two does not have is None there.
    """
    there, here = _flat(stored), _flat(asked)
    names = sorted(there.keys() | here.keys())
    pairs = {name: (there.get(name), here.get(name)) for name in names}
    return {name: (a, b) for name, (a, b) in pairs.items() if type(a) is not type(b) or a != b}


def _flat(key: TapeKey) -> dict[str, Any]:
    flat = {f.name: getattr(key, f.name) for f in fields(key) if f.name != "sampler"}
    return flat | {f"sampler.{name}": value for name, value in key.sampler.items()}


def _check_sha256(name: str, value: object) -> None:
    if type(value) is not str:
        raise TypeError(f"{name}: {value!r} is no str")
    if not _SHA256.fullmatch(value):
        raise ValueError(f"{name}: {value[:80]!r} is no sha256 (64 lower-case hex digits)")


def _check_text(name: str, value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{name}: {value!r} is no str")
    if not value:
        raise ValueError(f"{name} is empty")
    value.encode("utf-8")  # UnicodeEncodeError is a ValueError
    return value


def _check_int(name: str, value: object, least: int) -> None:
    if type(value) is not int:
        raise TypeError(f"{name}: {value!r} is no int")
    if value < least:
        raise ValueError(f"{name}: {value} is below {least}")


def _text_tuple(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name}: {value!r} is no list of str")
    return tuple(_check_text(name, item) for item in value)


def _sampler_value(name: object, value: object) -> SamplerValue:
    where = f"sampler.{_check_text('name of a sampler parameter', name)}"
    if isinstance(value, list | tuple):
        return _text_tuple(where, value)
    if type(value) is float:
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            raise ValueError(f"{where}: {value!r} is not allowed")
        return value
    if type(value) is str:
        return _check_text(where, value)
    if type(value) is bool or type(value) is int:
        return value
    raise TypeError(f"{where}: {value!r} is no bool, int, float, str or list of str")
