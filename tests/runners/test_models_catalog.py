"""The catalogue: the shipped one, and what a wrong one is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.errors import UserError
from runners.models import catalog

SHA = "0123456789abcdef" * 4
ONE = f"""
default = "tiny"
[models."tiny"]
file = "tiny.gguf"
size = 10
sha256 = "{SHA}"
licence = "MIT"
context_length = 64
dialect = "generic"
sampler = {{ temperature = 0.5 }}
hub = {{ repo = "someone/tiny", file = "tiny.gguf" }}
"""


def test_shipped_catalogue_has_the_promised_models_and_default():
    models = catalog.builtin()
    assert {"smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"} <= set(models.models)
    assert models.default == "qwen2.5-coder-0.5b"
    assert models.find("smollm2-135m").dialect == "generic"
    assert models.find("qwen2.5-coder-1.5b").dialect == "qwen-coder"


def test_every_shipped_model_has_wheels_and_a_hub_file_at_a_pinned_revision():
    for entry in catalog.builtin().models.values():
        assert entry.pypi
        assert entry.hub is not None
        assert entry.hub.revision is not None
        assert entry.licence == "Apache-2.0"


def test_shipped_wheels_are_all_different():
    parts = [part for entry in catalog.builtin().models.values() for part in entry.pypi]
    assert len({part.sha256 for part in parts}) == len(parts)
    assert len({(part.package, part.version) for part in parts}) == len(parts)


def test_name_of_an_entry_is_that_of_its_table():
    assert catalog.parse(ONE, "here").find("tiny").name == "tiny"


def test_sampler_gives_only_what_is_set():
    assert catalog.parse(ONE, "here").find("tiny").sampler.given() == {"temperature": 0.5}
    assert catalog.builtin().find("qwen2.5-coder-0.5b").sampler.given() == {
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
        "repeat_penalty": 1.05,
    }


def test_identify_finds_a_model_by_its_bytes_only():
    models = catalog.parse(ONE, "here")
    found = models.identify(SHA)
    assert found is not None
    assert found.name == "tiny"
    assert models.identify("f" * 64) is None


def test_unknown_name_is_told_the_nearest_and_all_names():
    with pytest.raises(UserError) as caught:
        catalog.builtin().find("qwen2.5-coder-05b")
    text = str(caught.value)
    assert "did you mean qwen2.5-coder-0.5b?" in text
    assert "smollm2-135m" in text
    assert "\n" not in text


def test_name_unlike_all_others_gets_no_guess():
    with pytest.raises(UserError, match="unknown model 'zz': known are"):
        catalog.builtin().find("zz")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("size = 10", "size = -10", r"here: models\.tiny\.size = -10: .*greater than 0"),
        (f'"{SHA}"', '"abc"', r"here: models\.tiny\.sha256 = 'abc': "),
        ("licence =", "license =", r"here: models\.tiny\.licence: Field required"),
        ("context_length = 64", "context_length = 64\nsped = 3", r"here: models\.tiny\.sped = 3: Extra inputs"),
        ("context_length = 64", 'context_length = 64\nname = "x"', r"models\.tiny\.name is given"),
        ("temperature = 0.5", "temperature = -1", r"here: models\.tiny\.sampler\.temperature = -1: "),
        ('file = "tiny.gguf"\nsize', 'file = "tiny.bin"\nsize', r"here: models\.tiny\.file = 'tiny\.bin': must end"),
        ('file = "tiny.gguf"\nsize', 'file = "../tiny.gguf"\nsize', r"here: models\.tiny\.file = '\.\./tiny\.gguf': "),
        ("hub = {", "#hub = {", r"here: models\.tiny: needs a source: pypi or hub"),
        ('default = "tiny"', 'default = "other"', r"default 'other' is none of tiny"),
        ('default = "tiny"', "default = ", r"here: not TOML: "),
    ],
)
def test_wrong_catalogue_names_key_and_value(old: str, new: str, expected: str):
    assert old in ONE
    with pytest.raises(UserError, match=expected) as caught:
        catalog.parse(ONE.replace(old, new), "here")
    assert "\n" not in str(caught.value)


def test_two_models_cannot_share_a_file():
    second = ONE[ONE.index("[models") :].replace('"tiny"]', '"other"]')
    with pytest.raises(UserError, match="two models have the same file"):
        catalog.parse(ONE + second, "here")


def test_catalogue_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        catalog.read(tmp_path / "none.toml")


@given(st.text(max_size=60))
def test_any_text_is_a_catalogue_or_a_user_error(text: str):
    with pytest.raises(UserError):
        catalog.parse(text, "here")
