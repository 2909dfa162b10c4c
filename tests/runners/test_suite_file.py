"""Suite files: what they say, and each mistake in them on one line with file, key, value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scenarios
from guards.errors import UserError
from guards.stack import default_stack
from runners.arms import parse_arms
from runners.gateway.sampler import Sampler
from runners.plan import Matrix, Mode, greedy
from runners.suite_file import load_suite, parse_seeds, parse_settings, seed_list

BASE = 'name = "mine"\nscenarios = ["search-mirage"]\narms = ["off"]\n'
MODE = "[[mode]]\n"


def load(folder: Path, text: str) -> tuple[str, Matrix]:
    path = folder / "mine.toml"
    path.write_text(text)
    return load_suite(str(path))


def test_everything_that_a_suite_can_say(tmp_path: Path) -> None:
    text = """
        name = "mine"
        scenarios = ["search-mirage", "poll-queued:large"]
        arms = ["off", "only:loop-guard@agent"]
        seeds = [3, 0]
        horizon = 12
        priming = 2
        [[mode]]
        decode_mode = "forced"
        sampler = { temperature = 0, top_k = 5 }
        seeds = 1
        [[mode]]
        sampler = "card"
        [[mode]]
        sampler = "greedy"
    """
    assert load(tmp_path, text) == (
        "mine",
        Matrix(
            scenarios=(("search-mirage", "default"), ("poll-queued", "large")),
            arms=("off", "only:loop-guard@agent"),
            seeds=(3, 0),
            modes=(
                Mode("forced", {"temperature": 0.0, "top_k": 5}, 1),
                Mode("lazy", None, None),
                Mode("lazy", greedy()),
            ),
            priming=2,
            horizon=12,
        ),
    )


def test_what_a_suite_need_not_say(tmp_path: Path) -> None:
    assert load(tmp_path, BASE + MODE) == ("mine", Matrix((("search-mirage", "default"),), ("off",), (0,), (Mode(),)))


@pytest.mark.parametrize(
    "path", sorted(Path(scenarios.__file__).parent.glob("suites/*.toml")), ids=lambda path: path.stem
)
def test_ours_are_sound(path: Path) -> None:
    name, matrix = load_suite(path.stem)
    assert name == path.stem
    assert parse_arms(",".join(matrix.arms), default_stack())
    assert load_suite(str(path)) == (name, matrix)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name", "no TOML: "),
        (MODE, "name is missing"),
        (BASE, "mode is missing"),
        (BASE + "mode = 3", "mode = 3: Input should be a valid list"),
        (BASE + "mode = []", "mode = []: "),
        ('name = ""\n' + MODE, "name = '': "),
        (BASE.replace('["off"]', '"off"') + MODE, "arms = 'off': Input should be a valid list"),
        (BASE.replace('"off"', "3") + MODE, "arms.0 = 3: Input should be a valid string"),
        (BASE.replace('"off"', "") + MODE, "arms = []: "),
        (BASE.replace("mirage", "miracle") + MODE, "no scenario 'search-miracle': give one of search-mirage, "),
        (BASE.replace("mirage", "mirage:huge") + MODE, "scenario search-mirage: no size 'huge': give"),
        (BASE + "seeds = true\n" + MODE, "seeds = True: Input should be a valid integer; give how many, from 0, or"),
        (BASE + 'seeds = "3"\n' + MODE, "seeds = '3': Input should be a valid integer; give how many, from 0, or"),
        (BASE + "seeds = 0\n" + MODE, "seeds: 0: give how many seeds (1 or more)"),
        (BASE + "seeds = [1, 1]\n" + MODE, "seeds: (1, 1): give how many seeds"),
        (BASE + "seeds = [-1]\n" + MODE, "seeds: (-1,): give how many seeds"),
        (BASE + "horizon = 0\n" + MODE, "horizon = 0: Input should be greater than or equal to 1"),
        (BASE + "horizon = 2.0\n" + MODE, "horizon = 2.0: Input should be a valid integer"),
        (BASE + "priming = -1\n" + MODE, "priming = -1: "),
        (BASE + "sedes = 1\n" + MODE, "unknown key sedes; keys: name, scenarios, arms, seeds, horizon, priming, mode"),
        (BASE + MODE + "sampeld = 1", "unknown key mode.0.sampeld; keys: decode_mode, sampler, seeds"),
        (BASE + MODE + "seeds = 0", "mode.0.seeds = 0: "),
        (BASE + MODE + 'decode_mode = "wild"', "mode.0.decode_mode = 'wild': Input should be 'free', 'lazy' or"),
        (
            BASE + MODE + 'sampler = "crad"',
            "mode.0.sampler = 'crad': Input should be 'card' or 'greedy'; give \"card\", \"greedy\", or settings",
        ),
        (BASE + MODE + "sampler = { warmth = 1 }", "sampler warmth = 1: Extra inputs are not permitted; keys: temp"),
        (BASE + MODE + "sampler = { temperature = -1 }", "sampler temperature = -1: Input should be greater"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path, text)
    said = str(error.value)
    assert said.startswith(f"{tmp_path / 'mine.toml'}: {says}")
    assert "\n" not in said


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--suite nothing: .*No such file.*known: .*quick.*or give a file"):
        load_suite("nothing")
    with pytest.raises(UserError, match=r"--suite .*nothing.toml: .*No such file"):
        load_suite(str(tmp_path / "nothing.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"bytes.toml: no TOML: "):
        load_suite(str(tmp_path / "bytes.toml"))


# -- seeds and settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1", (0,)),
        ("3", (0, 1, 2)),
        ("2..4", (2, 3, 4)),
        ("7..7", (7,)),
        ("5,0,9", (5, 0, 9)),
        ("1000..1002", (1000, 1001, 1002)),
    ],
)
def test_seeds(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "x", "1.5", "3..", "..3", "3..1", "-2..1", "1,1", "1,", "1,-1", "1..2..3"]
)
def test_seeds_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match="--seeds"):
        parse_seeds(text)


@given(st.lists(st.integers(0, 10**6), min_size=2, unique=True))
def test_a_list_of_seeds_is_read_as_it_stands(seeds: list[int]) -> None:
    assert parse_seeds(",".join(map(str, seeds))) == tuple(seeds) == seed_list(tuple(seeds), "seeds")


def test_settings_are_those_that_were_given() -> None:
    assert parse_settings({"temperature": 0, "repeat_last_n": -1}) == {"temperature": 0.0, "repeat_last_n": -1}
    assert parse_settings({}) == {}
    with pytest.raises(UserError, match=f"sampler temprature = 1: .*keys: {', '.join(Sampler.model_fields)}"):
        parse_settings({"temprature": 1})
