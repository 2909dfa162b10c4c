"""The key: every field counts, and nothing else does."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from guards.errors import UserError
from runners.gateway.tape_key import RANDOM_SEED, TapeKey, differences, prompt_digest, seed_of_digest
from tests.runners.gateway.tape_actors import finish, key_of, sha256, start

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
COUNT = st.integers(0, 2**40)
FLOAT = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0 or math.copysign(1, x) > 0)
VALUE = st.one_of(st.booleans(), st.integers(), FLOAT, TEXT, st.lists(TEXT, max_size=3).map(tuple))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "model": HEX,
    "engine": TEXT,
    "backend": TEXT,
    "n_ctx": st.integers(1, 2**20),
    "kv_type": TEXT,
    "deterministic": st.booleans(),
    "template": HEX,
    "dialect": TEXT,
    "decode_mode": st.sampled_from(["free", "lazy", "forced"]),
    "grammar": st.none() | HEX,
    "sampler": st.dictionaries(TEXT, VALUE, max_size=4),
    "max_tokens": COUNT,
    "stops": st.lists(TEXT, max_size=3).map(tuple),
    "prompt": HEX,
    "seed": COUNT,
    "agent": COUNT,
    "occurrence": COUNT,
}
KEYS = st.fixed_dictionaries(FIELDS).map(lambda values: TapeKey(**values))


def same(a: object, b: object) -> bool:
    """Equal in value and type at every level."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return type(a) is type(b) and a == b


def test_the_strategies_cover_every_field() -> None:
    assert list(FIELDS) == [field.name for field in dataclasses.fields(TapeKey)]


@pytest.mark.parametrize("name", FIELDS)
@settings(deadline=None)
@given(st.data(), KEYS)
def test_every_field_changes_the_digest(name: str, data: st.DataObject, key: TapeKey) -> None:
    value = data.draw(FIELDS[name])
    assume(not same(value, getattr(key, name)))
    other = dataclasses.replace(key, **{name: value})
    assert other.digest() != key.digest()
    assert other != key
    assert differences(key, other)


@settings(deadline=None)
@given(KEYS, st.randoms(use_true_random=False))
def test_the_order_of_the_sampler_does_not_count(key: TapeKey, random: Any) -> None:
    items = list(key.sampler.items())
    random.shuffle(items)
    other = dataclasses.replace(key, sampler=dict(items))
    assert (other.record, other.digest(), hash(other)) == (key.record, key.digest(), hash(key))
    assert other == key
    assert differences(key, other) == {}


@settings(deadline=None)
@given(KEYS)
def test_a_key_is_read_back_from_its_record(key: TapeKey) -> None:
    again = TapeKey.from_record(key.record)
    assert again == key
    assert same(dataclasses.asdict(again), dataclasses.asdict(key))
    assert pickle.loads(pickle.dumps(key)) == key


def test_the_record_is_what_the_docstring_says() -> None:
    key = key_of("\u00e9", sampler={"z": 1e-07, "a": 1, "b": [":", "\u00e9"]}, stops=["\U0001f600"], grammar=None)
    assert key.record == (
        '{"agent":0,"backend":"cpu","decode_mode":"lazy","deterministic":true,"dialect":"qwen-coder/1",'
        '"engine":"llama-cpp-python 0.3.36","grammar":null,"kv_type":"f16","max_tokens":512,'
        f'"model":"{sha256("model")}","n_ctx":4096,"occurrence":0,"prompt":"{sha256("é")}","sampler":{{"a":1,"b":[":","\\u00e9"],"z":1e-07}},"seed":0,'
        f'"stops":["\\ud83d\\ude00"],"tape_key":1,"template":"{sha256("template")}"}}'
    )
    assert key.digest() == sha256(key.record)
    assert key.digest() == "d3803b874e1254f2f198242c3f1b34961ad836ea4e555cc398e4e1a07bfa1a43"


def test_the_digest_is_the_same_in_every_process() -> None:
    actors = [start("digest", PYTHONHASHSEED=str(number)) for number in range(4)]
    assert {finish(actor) for actor in actors} == {key_of("x").digest()}


def test_the_callers_sampler_is_copied() -> None:
    sampler: dict[str, Any] = {"top_k": 40, "breakers": ["a"]}
    key = key_of("x", sampler=sampler)
    sampler["top_k"] = 41
    sampler["breakers"].append("b")
    assert key == key_of("x", sampler={"top_k": 40, "breakers": ["a"]})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, "", "\ud800", ["\ud800"], [""]])
def test_a_sampler_value_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"sampler\.x|surrogates"):
        key_of("x", sampler={"x": value})


@pytest.mark.parametrize("value", [None, {"a": 1}, b"a", [1], {1}, 1j])
def test_a_sampler_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"sampler\.x"):
        key_of("x", sampler={"x": value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "a" * 63),
        ("model", "A" * 64),
        ("template", "a" * 64 + "\n"),
        ("engine", ""),
        ("backend", "\udfff"),
        ("n_ctx", 0),
        ("max_tokens", -1),
        ("seed", -1),
        ("agent", -1),
        ("occurrence", -1),
        ("decode_mode", "strict"),
        ("stops", ("a", "")),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}|surrogates"):
        key_of("x", **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", b"a" * 64),
        ("n_ctx", 4096.0),
        ("seed", True),
        ("deterministic", 1),
        ("grammar", 0),
        ("stops", "ab"),
        ("sampler", [("top_k", 40)]),
        ("kv_type", None),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        key_of("x", **{name: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(tape_key=2),
        lambda values: values.pop("tape_key"),
        lambda values: values.pop("agent"),
        lambda values: values.update(more=1),
        lambda values: values.update(n_ctx="4096"),
    ],
)
def test_the_record_of_no_key_is_refused(change: Any) -> None:
    values = json.loads(key_of("x").record)
    change(values)
    with pytest.raises(UserError, match="not the record of a tape key"):
        TapeKey.from_record(json.dumps(values, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize("record", ["", "[]", "null", "{", key_of("x").record + " ", "[" * 100_000])
def test_text_that_is_no_record_is_refused(record: str) -> None:
    with pytest.raises(UserError, match="not the record of a tape key"):
        TapeKey.from_record(record)


@settings(deadline=None)
@given(HEX)
def test_a_seed_has_32_bits_and_is_never_llama_cpps_random_one(digest: str) -> None:
    assert 0 <= seed_of_digest(digest) < RANDOM_SEED


def test_the_seed_is_the_digests_first_usable_word() -> None:
    assert seed_of_digest("00000001" + "ab" * 28) == 1
    assert seed_of_digest("ffffffff" * 3 + "fffffffe" + "00" * 16) == 0xFFFFFFFE
    assert seed_of_digest("ff" * 32) == 0
    assert key_of("x").sampling_seed() == int(key_of("x").digest()[:8], 16)


def test_a_prompt_with_a_lone_surrogate_has_no_digest() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        prompt_digest("\ud800")
