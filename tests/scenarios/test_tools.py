"""Tools as a model sees them, and the arguments that they take."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.draws import Draws
from scenarios.mirage import WebSearch
from scenarios.registry import SCENARIOS
from scenarios.tools import MOST_CHARACTERS, Args, names_file
from scenarios.workspace import HarnessArgs

KINDS = sorted({kind for each in SCENARIOS for kind in (*each.calls, *each.stand_ins)}, key=lambda kind: kind.tool)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**20),
    st.floats(allow_nan=False),
    st.sampled_from([1.0, 2.0, 0.5]),
    st.text("ab \n\tä\U0001f600", max_size=5),
    st.lists(st.integers(), max_size=1),
    st.dictionaries(st.text("ab", max_size=1), st.integers(), max_size=1),
)
GOOD: dict[str, Any] = {"string": "x", "integer": 1, "boolean": True}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.tool for kind in KINDS])
def test_a_tool_reads_like_a_real_one(kind: type[Args]):
    tool = kind.described()
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    assert tool.name == kind.tool
    assert tool.description.endswith(".")
    assert "  " not in tool.description
    assert "title" not in tool.parameters
    assert tool.parameters["type"] == "object"
    assert bool(tool.parameters.get("required")) == bool(tool.parameters["properties"])
    for each in tool.parameters["properties"].values():
        assert each["type"] in ("string", "integer", "boolean")
        assert each["description"]
        assert "title" not in each


@pytest.mark.parametrize("kind", KINDS, ids=[kind.tool for kind in KINDS])
def test_the_schema_and_the_world_agree_on_what_is_valid(kind: type[Args]):
    tool = kind.described()
    names = (*tool.parameters["properties"], "zz")

    good = {name: GOOD[each["type"]] for name, each in tool.parameters["properties"].items()}

    @given(st.sets(st.sampled_from(names), max_size=2), st.dictionaries(st.sampled_from(names), VALUES, max_size=2))
    def agree(without: set[str], changed: dict[str, Any]) -> None:
        args = {name: value for name, value in good.items() if name not in without} | changed
        parsed = kind.parse(args)
        assert isinstance(parsed, Args) is jsonschema.Draft202012Validator(tool.parameters).is_valid(args), parsed

    agree()


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({}, "query: Field required"),
        ({"query": "x", "q": 1, "zz": 2}, "q: Extra inputs are not permitted; zz: Extra inputs are not permitted"),
        ({"query": 3}, "query: Input should be a valid string"),
        ({"query": "a" * (MOST_CHARACTERS + 1)}, "query: text is longer than 4000 characters"),
        ({"query": "a\x0b"}, "query: text holds control characters"),
        ({"query": "\ud800"}, "query: text is not valid Unicode"),
        ({"query": "x", "y" * 100: 1}, "y" * 60 + "...: Extra inputs are not permitted"),
        ({"query": "x", "\n": 1}, "\n: Extra inputs are not permitted"),
        ({"query": "x", "ä": 1}, "\\xe4: Extra inputs are not permitted"),
        ("{", "arguments: must be a JSON object"),
        (
            {"query": "x"} | {f"n{at}": 1 for at in range(9)},
            "; ".join(f"n{at}: Extra inputs are not permitted" for at in range(3)),
        ),
    ],
)
def test_a_problem_is_told_in_words(args: Any, problem: str):
    assert WebSearch.parse(args) == problem


@pytest.mark.parametrize("text", ["a" * MOST_CHARACTERS, "a\tb\r\nc", "", "é\u0085 \U0001f600"])
def test_text_is_taken_as_it_is(text: str):
    assert WebSearch.parse({"query": text}) == WebSearch(query=text)


def test_what_we_do_not_know_of_the_harness_s_tools_is_its_own_business():
    for kind in KINDS:
        args = dict.fromkeys(kind.described().parameters["required"], "x") | {"item": 1, "description": "why", "zz": 1}
        assert isinstance(kind.parse(args), Args) is issubclass(kind, HarnessArgs)


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_draws_are_within_their_bounds(seed: int, count: int):
    draws, options = Draws("name", seed), tuple("abcdefghi")
    chosen = draws.some("some", options, count)
    assert len(set(chosen)) == len(chosen) == count
    assert set(chosen) <= set(options)
    assert draws.some("some", options, 9)[:count] == chosen
    assert 3 <= draws.number("number", 3, 5) <= 5
    assert draws.pick("pick", options) in options
    assert len(draws.code("code", count)) == count


def test_draws_are_what_they_were():
    """Published tables name seeds: their tasks must stay."""
    draws = Draws("search-mirage", 7)
    assert (draws.pick("place", range(100)), draws.number("n", 0, 999), draws.code("code")) == (24, 161, "MTEXSJ")
    assert {Draws("a", seed).pick("x", range(5)) for seed in range(60)} == set(range(5))
    assert Draws("a", 1).rank("b", "c") != Draws("a", 1).rank("b\0", "c") != Draws("a", 11).rank("b", "c")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("stock/week-3.txt", True),
        (" ./stock/week-3.txt\n", True),
        ("/workspace/stock/week-3.txt", True),
        ("/stock/week-3.txt", True),
        ("week-3.txt", False),
        ("/workspace/week-3.txt", False),
        ("/workspace/livestock/week-3.txt", False),
        ("../stock/week-3.txt", False),
        ("old/stock/week-3.txt", False),
        ("", False),
    ],
)
def test_a_file_is_named_by_its_path_or_an_absolute_one(path: str, named: bool) -> None:
    assert names_file(path, "stock/week-3.txt") is named
