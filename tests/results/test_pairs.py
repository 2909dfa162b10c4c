"""Cells, twins and the point of divergence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guards.errors import UserError
from results.episode import Episode
from results.pairs import Pair, Study
from results.trace import Step
from tests.results.script import episode, script


def test_a_twin_shares_everything_but_the_arm():
    same = {"seed": 4, "priming": 1}
    others = [{"seed": 5}, {"size": "small"}, {"priming": 2}, {"horizon": 48}, {"decode_mode": "forced"}]
    others += [{"sampler": {"temperature": 0.0}}, {"model": {"name": "big", "sha256": "cd" * 32}}, {"runner": "native"}]
    others += [{"harness": {"name": "dsh", "version": "0.3"}}, {"actor": "honest"}, {"horizon_unit": "attempts"}]
    offs = [script("n", name=f"off{place}", **(same | other)) for place, other in enumerate(others)]
    guarded = script("n", arm="host", name="guarded", **same)
    assert Study([*offs, guarded]).twin(Study([guarded]).episodes[0]) is None
    study = Study([*offs, guarded, script("n", name="off", **same)])
    mine = next(each for each in study.episodes if each.name == "guarded")
    assert study.twin(mine).name == "off"
    assert len(study.pairs(study.cell(mine), "host")) == 1


def test_the_same_episode_twice_is_refused():
    with pytest.raises(UserError, match=r"^episodes a and b are the same scenario, arm and seed"):
        Study([script("n", name="b"), script("n", name="a")])


def test_errors_are_apart_and_leave_no_pair():
    study = Study(
        [script("n", end="error"), script("n", arm="host"), script("n", seed=2), script("n", arm="host", seed=2)]
    )
    assert [each.name for each in study.failed] == ["search-mirage.off.1"]
    (cell,) = study.cells
    assert [pair.guarded.seed for pair in study.pairs(cell, "host")] == [2]
    assert [each.seed for each in study.observed(cell, "host")] == [1, 2]


def test_an_actor_is_one_observation_whatever_the_seeds():
    given = {"actor": "honest", "model": {"name": "actor:honest", "sha256": None}}
    traces = [script("n", arm=arm, seed=seed, **given) for arm in ("off", "host") for seed in (10, 9, 2)]
    study = Study(traces)
    (cell,) = study.cells
    assert [each.seed for each in study.observed(cell, "host")] == [2]
    assert [pair.off.seed for pair in study.pairs(cell, "host")] == [2]
    assert [each.seed for each in study.seeds(cell, "host")] == [2, 9, 10]


def test_arms_and_settings_have_an_order_of_their_own():
    arms = ["only:loop-guard@host", "both", "dry", "off", "agent", "host", "null", "stock"]
    traces = [script("n", arm=arm) for arm in arms]
    traces.append(script("n", name="actor", actor="honest", model={"name": "actor:honest"}))
    study = Study(traces)
    model, actor = study.settings
    assert (model.actor, actor.actor) == ("", "honest")
    cell = next(cell for cell in study.cells if cell.setting == model)
    assert study.arms(cell) == ("off", "stock", "null", "host", "agent", "both", "only:loop-guard@host", "dry")


def test_a_sampler_arm_meets_the_off_of_its_unchanged_sampler():
    warm, cold = {"temperature": 0.7, "repeat_penalty": 1.05}, {"temperature": 0.0, "repeat_penalty": 1.05}
    offs = [script("n", name="warm", sampler=warm), script("n", name="cold", sampler=cold)]
    arm = script("n", arm="dry", sampler=warm | {"dry_multiplier": 0.8, "repeat_penalty": 1.0})
    study = Study([*offs, arm])
    mine = next(each for each in study.episodes if each.arm == "dry")
    assert study.twin(mine).name == "warm"
    guarded = script("n", arm="host", sampler=warm | {"dry_multiplier": 0.8})
    study = Study([*offs, guarded])
    assert study.twin(next(each for each in study.episodes if each.arm == "host")) is None


@pytest.mark.parametrize(
    ("off", "guarded", "step"),
    [
        ("s s s s", "s s s s", None),
        # The nudge after the second call is in the third prompt.
        ("s s s s", "s s?lg@host s s", 3),
        ("s s s s", "s s s!cb@host", 4),
        ("s s s", "s s s s", 4),
    ],
)
def test_divergence_is_the_first_prompt_that_differs(off, guarded, step):
    pair = Pair(episode(guarded, arm="host"), episode(off))
    assert (pair.divergence[0] if pair.divergence else None) == step


def test_divergence_is_unknown_without_digests():
    found = script("s s?lg@host s", arm="host")
    events = [replace(event, prompt_digest=None) if isinstance(event, Step) else event for event in found.events]
    assert Pair(Episode(replace(found, events=tuple(events))), episode("s s s")).divergence is None
