"""The quick ways to a key give the digests of the plain ones."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guards.json_text import parse, string_text, stringify
from guards.keys import call_key, canonical
from guards.loop_guard import result_key
from guards.policy import ToolOutcome
from tests.guards.plugins.choices import Choices
from tests.guards.plugins.generated import BYTES
from tests.guards.plugins.values import content, family, value

EDGES = [sign * (2**53 + step) for sign in (1, -1) for step in (-1, 0, 1)]
TEXTS = st.text(
    st.characters() | st.characters(categories=["Cs"]) | st.sampled_from("\ue000\uffff😀\ud83d\ude00"), max_size=5
)
SCALARS = st.none() | st.booleans() | st.integers() | st.sampled_from(EDGES) | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=5), max_leaves=15
)


def plain(tool: str, args: Any) -> bytes:
    text = f"[{string_text(tool)},{canonical(args)}]"
    return hashlib.sha256(text.encode()).digest()


def boxed(args: Any, times: int) -> Any:
    for number in range(times):
        args = [args] if number % 2 else {"a": args}
    return args


@given(TEXTS, VALUES, st.sampled_from((0, 1, 38, 39, 40, 41, 400)))
@example("t", {"\uffff": 1, "😀": 2, "\ud83d": 3}, 0)
@example("t", {"\ue000": 1, "😀": 2, "a": 3}, 0)
@example("t", [2**53 + 1, -(2**53) - 1, 10**400, 1.0, -0.0, 1e16, 1e-5, float("inf")], 0)
def test_the_key_is_the_digest_of_the_canonical_text(tool: str, args: Any, depth: int) -> None:
    args = boxed(args, depth)
    assert call_key(tool, args) == plain(tool, args)


def test_the_key_of_generated_arguments_is_the_digest_of_their_canonical_text() -> None:
    for number in range(400):
        choose = Choices(random.Random(number).randbytes(BYTES))
        for text in (*family(choose), value(choose, 3)):
            args = {} if text is None else parse(text)
            assert call_key("bash", args) == plain("bash", args), text


@pytest.mark.parametrize(
    "args",
    [(1, 2), {"a": (1, {"c": 1, "b": 2})}, [True, 1, 0, False], {"b": [], "a": {}}, {"true": True, "1": 1}, "[]", None],
)
def test_what_is_no_list_or_dictionary_of_text_and_numbers(args: Any) -> None:
    assert call_key("t", args) == plain("t", args)


class Word(str):
    """A text that is a word."""


class Many(dict[str, Any]):
    """A dictionary of another name."""


def test_subclasses_are_what_they_are_made_of() -> None:
    assert call_key(Word("t"), {Word("b"): Word("x"), "a": Many(c=1)}) == call_key("t", {"b": "x", "a": {"c": 1}})


@pytest.mark.parametrize("args", [{1: 2}, {"a": 1, 2: 3}, {None: 1}, {"a": b"x"}, [{1}], [object()], {"a": 1j}])
def test_what_is_no_json_value_has_no_key(args: Any) -> None:
    assert call_key("t", args) is None


def test_every_character_is_written_as_the_standard_library_writes_it() -> None:
    encoder = json.JSONEncoder(ensure_ascii=False)
    for begun in range(0, 0x110000, 0x100):
        if not 0xD800 <= begun < 0xE000:
            text = "".join(map(chr, range(begun, begun + 0x100)))
            assert string_text(text) == encoder.encode(text)


DIGESTS = [
    ("{}", "63661468ca90aa203b351ce876cd10724c8d1979a32bccc99cf0ee9074bc9500"),
    ("null", "6a176949c7db35a333efa942049262d84ce1a508e7007a8dbab5d1584e4981f2"),
    ('{"command":"ls -l"}', "83ec4c8d7e4fee390154841e83395cf0f1de0d477c6d443c87ff5a6bc814606c"),
    ('{"b":1,"a":[true,null,"x"]}', "48dab8a8efd3d9da08d16db62d27b145398059e00438230c01f6721644cdc60a"),
    (
        '{"a":1.0,"b":-0,"c":1e21,"d":9007199254740993}',
        "9f73706021291a170e3c15549ed4f9553e0f52363c8e0cffe16076688bb882a3",
    ),
    (
        '{"\\uffff":1,"\\ud83d\\ude00":2,"z":{"b":[],"a":{}}}',
        "3451780a8512ba850064058b83242325e0ebe706f966c52d792ef273559a3e02",
    ),
    ('"\\ud83d"', "bfadf969b8d1217dd5ad5d0a8581612604367a69401fd4a2a3a481594284f12c"),
    (
        '{"q":"\\u0000\\u001f\\u007f\\u2028\\"\\\\/"}',
        "62e9af0e62b2e3799b5759ea28c7036614bfc3979aa3aa6c01a9e7c9bc72daa7",
    ),
    ("1e400", "6a176949c7db35a333efa942049262d84ce1a508e7007a8dbab5d1584e4981f2"),
    ("[0.1,1e-7,123456789.125]", "89559e0c4ff30c6d37be248d09b0d20551ad596505b8f13d0cab9e79cc6d36ee"),
]


@pytest.mark.parametrize(("text", "digest"), DIGESTS)
def test_digests_are_what_they_were(text: str, digest: str) -> None:
    found = call_key("bash", parse(text))
    assert found is not None
    assert found.hex() == digest


def whole(result: ToolOutcome, characters: int) -> bytes:
    shown = list(result.content)
    text = stringify(["error", result.error_message, shown] if result.error else shown)
    return text.encode("utf-16-le")[: 2 * characters]


BLOCKS = st.one_of(
    TEXTS.map(lambda text: {"type": "text", "text": text}),
    TEXTS.map(lambda text: {"text": text, "type": "text"}),
    TEXTS.map(lambda text: {"type": "other", "text": text}),
    st.tuples(TEXTS, SCALARS).map(lambda pair: {"type": "text", "text": pair[0], "more": pair[1]}),
    st.dictionaries(TEXTS, SCALARS, max_size=3),
)


@given(st.lists(BLOCKS, max_size=4), st.booleans(), st.none() | TEXTS, st.integers(1, 90))
@example([{"type": "text", "text": "ab\ud83d\ude00"}], False, None, 27)
@example([{"type": "text", "text": "ab\ud83d\ude00"}], True, None, 12)
@example([{"type": "text", "text": "\ud83d\ude00" * 9}], True, "\ud83d\ude00" * 9, 15)
def test_a_result_is_cut_as_its_whole_text_is(
    blocks: list[dict[str, Any]], error: bool, message: str | None, characters: int
) -> None:
    blocks = [block for block in blocks if block.get("type") != "text" or isinstance(block.get("text"), str)]
    result = ToolOutcome(tuple(blocks), error, message)
    assert result_key(result, characters) == whole(result, characters)


def test_generated_results_are_cut_as_their_whole_texts_are() -> None:
    for number in range(400):
        choose = Choices(random.Random(number).randbytes(BYTES))
        text = content(choose)
        told = parse(text) if text is not None else []
        blocks = ({"type": "text", "text": told},) if isinstance(told, str) else tuple(told)
        for error in (False, True):
            if all(block.get("type") != "text" or isinstance(block.get("text"), str) for block in blocks):
                result = ToolOutcome(blocks, error)
                for characters in (1, 20, 24, 40, 60, 4000):
                    assert result_key(result, characters) == whole(result, characters), text


def test_a_block_that_is_no_json_behind_the_cut_still_makes_the_result_like_no_other() -> None:
    first, odd = {"type": "text", "text": "x" * 99}, {"type": "blob", "data": b"x"}
    assert result_key(ToolOutcome((first, odd)), 10) is None
    assert result_key(ToolOutcome((first,)), 10) is not None
