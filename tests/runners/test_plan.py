"""The matrix of a run: which episodes there are, in which order, under which names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.errors import UserError
from guards.stack import default_stack
from runners.arms import SAMPLER_ARMS
from runners.gateway.sampler import Sampler
from runners.plan import Matrix, Mode, Player, greedy, pair_of, parse_actor, parse_scenarios, plan
from runners.spec import EpisodeSpec, Horizon
from scenarios.registry import names, scenario

STACK = default_stack()
CARD = Sampler(temperature=0.7, top_p=0.8)
MODEL = Player("some-model", "sha", None, CARD)
LOOPING = Player("actor:looping", None, "looping", None)
HONEST = Player("actor:honest", None, "honest", None)
GREEDY, AS_CARD = Mode(settings={"temperature": 0.0}), Mode()
SMALL = Matrix((("search-mirage", "small"),), ("off", "host"), (0, 1))


def planned(matrix: Matrix = SMALL, player: Player = MODEL, **changes: Any) -> tuple[EpisodeSpec, ...]:
    return plan(replace(matrix, **changes), STACK, player)


def short(specs: tuple[EpisodeSpec, ...]) -> list[str]:
    return [spec.name for spec in specs]


def test_names_say_all_that_differs() -> None:
    assert short(planned()) == [
        "search-mirage.small.some-model.lazy-t0.off.s0",
        "search-mirage.small.some-model.lazy-t0.host.s0",
        "search-mirage.small.some-model.lazy-t0.off.s1",
        "search-mirage.small.some-model.lazy-t0.host.s1",
    ]
    assert short(planned(player=LOOPING, arms=("only:loop-guard@agent",), seeds=(7,), priming=2)) == [
        "search-mirage.small.actor-looping.k2.only-loop-guard-agent.s7"
    ]


def test_off_comes_first_in_each_pair() -> None:
    specs = planned(arms=("both", "host", "off", "agent"), seeds=(3, 1))
    assert [(spec.seed, spec.arm.name) for spec in specs] == [
        (seed, arm) for seed in (3, 1) for arm in ("off", "both", "host", "agent")
    ]


def test_a_mode_may_take_fewer_seeds() -> None:
    specs = planned(arms=("off",), seeds=(4, 5, 6), modes=(replace(GREEDY, seeds=1), AS_CARD))
    assert short(specs) == [
        "search-mirage.small.some-model.lazy-t0.off.s4",
        *(f"search-mirage.small.some-model.lazy-card.off.s{seed}" for seed in (4, 5, 6)),
    ]


def test_the_sampler_is_the_card_s_then_the_mode_s_then_the_arm_s() -> None:
    modes = (AS_CARD, Mode("free", {"top_p": 0.5, "repeat_penalty": 1.1}))
    specs = planned(arms=("off", "repeat-penalty"), seeds=(0,), modes=modes)
    penalty = SAMPLER_ARMS["repeat-penalty"]
    assert [spec.sampler for spec in specs] == [
        CARD,
        CARD.model_copy(update=dict(penalty)),
        CARD.model_copy(update={"top_p": 0.5, "repeat_penalty": 1.1}),
        CARD.model_copy(update={"top_p": 0.5, **penalty}),
    ]
    assert [spec.decode_mode for spec in specs] == ["lazy", "lazy", "free", "free"]


def test_modes_that_come_to_the_same_are_one() -> None:
    """A card without recommendations is greedy: the report could not tell its episodes from those of a mode that is."""
    greedy = replace(MODEL, sampler=Sampler())
    modes = (replace(GREEDY, seeds=1), AS_CARD, Mode("free"))
    assert short(planned(player=greedy, modes=modes, arms=("off",), seeds=(4, 5))) == [
        f"search-mirage.small.some-model.{mode}.off.s{seed}"
        for mode, seed in (("lazy-t0", 4), ("lazy-card", 5), ("free-card", 4), ("free-card", 5))
    ]
    assert len(planned(modes=modes, arms=("off",), seeds=(4, 5))) == 5


@pytest.mark.parametrize(
    ("mode", "label"),
    [
        (Mode(), "lazy-card"),
        (Mode(settings={}), "lazy-card"),
        (Mode("forced", {"temperature": 0.0}), "forced-t0"),
        (Mode("forced", greedy()), "forced-greedy"),
        (Mode("free", {"temperature": 0.5}), "free-temperature0.5"),
        (Mode(settings={"top_k": 5, "temperature": 0.0}), "lazy-temperature0.0-top_k5"),
        (Mode(settings={"dry_breakers": ("\n", "a b")}), "lazy-dry_breakers-n-a-b-"),
    ],
)
def test_labels_of_modes(mode: Mode, label: str) -> None:
    assert mode.label == label


def test_an_actor_plays_each_episode_once() -> None:
    specs = planned(player=HONEST, modes=(GREEDY, AS_CARD, Mode("free")), arms=("off",), seeds=(0,))
    (spec,) = specs
    assert (spec.model, spec.sha256, spec.actor, spec.sampler) == ("actor:honest", None, "honest", None)


def test_a_looping_actor_plays_where_there_is_something_to_loop_on() -> None:
    matrix = Matrix(tuple((name, "small") for name in names()), ("off",), (0,))  # type: ignore[misc]
    looping = {name for name in names() if scenario(name).looping() is not None}
    assert {spec.scenario.name for spec in plan(matrix, STACK, LOOPING)} == looping
    assert {spec.scenario.name for spec in plan(matrix, STACK, HONEST)} == set(names())
    assert 0 < len(looping) < len(names())


def test_priming_needs_a_looping_course_whoever_plays() -> None:
    matrix = Matrix(tuple((name, "small") for name in names()), ("off",), (0,), priming=3)  # type: ignore[misc]
    looping = {name for name in names() if scenario(name).looping() is not None}
    specs = plan(matrix, STACK, MODEL)
    assert {spec.scenario.name for spec in specs} == looping
    assert {spec.priming for spec in specs} == {3}


def test_the_horizon_is_the_scenario_s_unless_it_is_given() -> None:
    both: Any = (("search-mirage", "default"), ("refill-oversized", "default"))
    own = [Horizon(made.needs.horizon, made.needs.horizon_unit) for made in (scenario(name) for name, _ in both)]
    assert [spec.horizon for spec in planned(scenarios=both, arms=("off",), seeds=(0,))] == own
    given = [spec.horizon for spec in planned(scenarios=both, arms=("off",), seeds=(0,), horizon=5)]
    assert given == [Horizon(5, each.unit) for each in own]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scenarios": (("nothing", "small"),)}, "no scenario 'nothing'"),
        ({"scenarios": (("search-mirage", "huge"),)}, "no size 'huge'"),
        ({"seeds": (-1,)}, "seed -1 is negative"),
        ({"arms": ("nothing",)}, "'nothing' is no arm"),
        ({"arms": ()}, "name at least one arm"),
        ({"arms": ("off", "off")}, "'off' stands there twice"),
        ({"seeds": (0, 0)}, r"episode search-mirage.small.some-model.lazy-t0.off.s0 stands in the plan twice"),
        ({"modes": (GREEDY, GREEDY)}, "stands in the plan twice"),
        ({"modes": (Mode(), Mode(settings={}))}, "stands in the plan twice"),
        ({"scenarios": (("search-mirage", "small"),) * 2}, "stands in the plan twice"),
    ],
)
def test_what_makes_no_plan(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        planned(**changes)


ARMS = st.lists(
    st.sampled_from(["off", "stock", "null", "host", "both", "dry", "only:loop-guard@agent"]), min_size=1, unique=True
)
MODES = st.lists(
    st.sampled_from([GREEDY, AS_CARD, Mode("free"), Mode("forced", {"top_k": 3}, seeds=2)]), min_size=1, unique_by=id
)
SCENARIOS = st.lists(
    st.tuples(st.sampled_from(names()), st.sampled_from(["small", "default", "large"])),
    min_size=1,
    max_size=4,
    unique=True,
)
SEEDS = st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True)


@given(SCENARIOS, ARMS, SEEDS, MODES)
def test_every_combination_stands_there_once_and_pairs_stand_together(
    scenarios: list[Any], arms: list[str], seeds: list[int], modes: list[Mode]
) -> None:
    specs = plan(Matrix(tuple(scenarios), tuple(arms), tuple(seeds), tuple(modes)), STACK, MODEL)
    assert len(specs) == len(scenarios) * len(arms) * sum(len(seeds[: mode.seeds]) for mode in modes)
    assert set(Counter(spec.name for spec in specs).values()) == {1}
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", spec.name) for spec in specs)
    pairs = [list(group) for _, group in groupby(specs, pair_of)]
    assert len(pairs) == len({pair_of(spec) for spec in specs}) == len(specs) // len(arms)
    for pair in pairs:
        assert sorted(spec.arm.name for spec in pair) == sorted(arms)
        assert "off" not in arms or pair[0].arm.name == "off"
        same = {(s.scenario.name, s.scenario.size, s.seed, s.decode_mode, s.model, s.priming) for s in pair}
        assert len(same) == 1


def test_pairs_of_different_sizes_and_priming_are_different() -> None:
    names_of = [
        pair_of(spec)
        for changes in ({}, {"scenarios": (("search-mirage", "large"),)}, {"priming": 2}, {"modes": (AS_CARD,)})
        for spec in planned(arms=("off",), **changes)
    ]
    assert len(set(names_of)) == len(names_of) == 8


# -- what the options say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size", "found"),
    [
        ("search-mirage", "default", [("search-mirage", "default")]),
        ("search-mirage", "large", [("search-mirage", "large")]),
        ("search-mirage:small , poll-progress", "large", [("search-mirage", "small"), ("poll-progress", "large")]),
        ("search-mirage:small,search-mirage", "large", [("search-mirage", "small"), ("search-mirage", "large")]),
    ],
)
def test_scenarios_by_name_and_size(text: str, size: Any, found: list[tuple[str, str]]) -> None:
    assert list(parse_scenarios(text, size)) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no scenario ''"),
        ("search-mirage,", "no scenario ''"),
        ("search", "no scenario 'search': give one of search-mirage, "),
        ("search-mirage:", "no size ''"),
        ("search-mirage:huge", "no size 'huge': give one of small, default, large"),
        ("search-mirage,search-mirage", "'search-mirage' stands there twice"),
        ("search-mirage,search-mirage:default", "'search-mirage:default' stands there twice"),
    ],
)
def test_scenarios_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_scenarios(text)


def test_actors_by_name() -> None:
    assert parse_actor("actor:honest") == "honest"
    assert parse_actor("actor:looping") == "looping"
    assert parse_actor("qwen2.5-coder-0.5b") is None
    for text in ("actor:", "actor:lazy", "actor:script.json"):
        with pytest.raises(UserError, match=f"--model {text}: there is no such actor; use actor:honest or actor:loop"):
            parse_actor(text)
