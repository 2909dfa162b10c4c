"""A completion goes through the tape's columns unchanged, and only a whole one."""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.gateway.tape_row import COLUMNS, Completion, Finish, from_columns, to_columns
from tests.runners.gateway.tape_actors import completion_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SECONDS = st.floats(0, allow_nan=False, allow_infinity=False)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    finish: Finish = draw(st.sampled_from(get_args(Finish)))
    prompt_tokens = draw(st.integers(0, 2**31))
    return Completion(
        tokens=() if finish == "overflow" else tuple(draw(st.lists(st.integers(0, 2**31 - 1)))),
        text="" if finish == "overflow" else draw(TEXT),
        finish=finish,
        stop=draw(st.none() | TEXT.filter(bool)) if finish == "stop" else None,
        prompt_tokens=prompt_tokens,
        prefill_seconds=draw(SECONDS),
        decode_seconds=draw(SECONDS),
        reused_tokens=draw(st.integers(0, prompt_tokens)),
    )


@settings(deadline=None)
@given(completions())
def test_a_completion_is_read_back_from_its_columns(completion: Completion) -> None:
    again = from_columns(to_columns(completion))
    assert again == completion
    assert again.canonical() == completion.canonical()
    assert len(to_columns(completion)) == len(COLUMNS.split(", "))


@settings(deadline=None)
@given(completions(), completions())
def test_the_canonical_form_tells_completions_apart(one: Completion, other: Completion) -> None:
    assert (one.canonical() == other.canonical()) == (one == other)
    assert json.loads(one.canonical())[:2] == [list(one.tokens), one.text]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"text": "\ud800"}, ValueError),
        ({"text": None}, TypeError),
        ({"stop": "\udc00"}, ValueError),
        ({"stop": ""}, ValueError),
        ({"stop": "x", "finish": "length"}, ValueError),
        ({"tokens": (-1,)}, ValueError),
        ({"tokens": (2**31,)}, ValueError),
        ({"tokens": (1.0,)}, TypeError),
        ({"tokens": (True,)}, TypeError),
        ({"finish": "done"}, ValueError),
        ({"finish": "overflow"}, ValueError),
        ({"finish": "overflow", "text": ""}, ValueError),
        ({"prompt_tokens": -1, "reused_tokens": -1}, ValueError),
        ({"prompt_tokens": 10, "reused_tokens": 11}, ValueError),
        ({"prompt_tokens": 10.0}, TypeError),
        ({"prefill_seconds": -0.1}, ValueError),
        ({"decode_seconds": math.nan}, ValueError),
        ({"decode_seconds": math.inf}, ValueError),
        ({"decode_seconds": None}, TypeError),
        ({"decode_seconds": True}, TypeError),
    ],
)
def test_what_is_no_completion_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    whole = {name: getattr(completion_of(5), name) for name in Completion.__dataclass_fields__}
    assert Completion(**whole) == completion_of(5)
    with pytest.raises(error, match="|".join([*change, "surrogates"])):
        Completion(**(whole | change))


@pytest.mark.parametrize(
    "blob", [b"", b"no zlib", zlib.compress(b"abc"), zlib.compress(struct.pack("<i", -5)), None, "text"]
)
def test_tokens_that_no_tape_has_are_refused(blob: object) -> None:
    with pytest.raises((TypeError, ValueError, struct.error, zlib.error)):
        from_columns((blob, *to_columns(completion_of(1))[1:]))
