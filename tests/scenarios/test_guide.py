"""The guide: its worked example is a scenario as it stands there, and its table is the registry's."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from guards.stack import default_stack
from results.episode import Episode
from results.loops import loops
from results.trace import Call, Result
from runners.audit import play
from scenarios import play as plain
from scenarios.base import Scenario
from scenarios.registry import names, scenario

GUIDE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> type[Scenario]:
    """The scenario of the example, built from the page."""
    path = tmp_path_factory.mktemp("guide") / "delayed_train.py"
    path.write_text(EXAMPLE, encoding="utf-8")
    found = importlib.util.spec_from_file_location("delayed_train", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    (kind,) = (
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and issubclass(each, Scenario)
    )
    return kind


def test_the_example_is_one_module_of_less_than_120_lines():
    assert "`scenarios/delayed_train.py`" in GUIDE
    assert 60 < len(EXAMPLE.splitlines()) < 120


@pytest.mark.parametrize("size", ["small", "default", "large"])
@pytest.mark.parametrize("seed", [0, 1, 1000])
def test_its_honest_course_succeeds(example: type[Scenario], size: str, seed: int):
    made = example(seed, size)  # type: ignore[arg-type]
    episode = Episode(plain.play(made, made.honest()))
    assert (episode.end, episode.success) == ("completed", True)
    assert {call.judged for call in episode.calls} == {"novel"}
    assert [call.unit for call in episode.calls] == [False] * (len(episode.calls) - 1) + [True]
    assert loops(episode) == ()


@pytest.mark.parametrize("size", ["small", "default", "large"])
@pytest.mark.parametrize("seed", [0, 1, 1000])
def test_its_loop_begins_with_the_second_call(example: type[Scenario], size: str, seed: int):
    made = example(seed, size)  # type: ignore[arg-type]
    looping = made.looping()
    assert looping is not None
    episode = Episode(plain.play(made, looping))
    assert (episode.end, episode.success) == ("horizon", False)
    assert [call.judged for call in episode.calls] == ["novel", *["sterile"] * (made.needs.horizon - 1)]
    (loop,) = loops(episode)
    assert (loop.kind, loop.onset, loop.ended) == ("calls", 2, "horizon")


def test_the_guards_act_on_it_as_the_guide_says(example: type[Scenario]):
    assert "the repeat-reminder nudges at the third\nand that the circuit-breaker denies from the sixth on" in GUIDE
    acts = Episode(play(example(), "looping", default_stack())).acts
    assert next(act.index for act in acts if act.guard == "repeat-reminder") == 3
    denied = [act.index for act in acts if (act.guard, act.action) == ("circuit-breaker", "deny")]
    assert denied == list(range(6, 25))


def test_its_wrong_calls_are_answered_and_judged(example: type[Scenario]):
    made = example(0, "small")
    world = made.world()
    wrong = [("show_board", {"platform": 9}), ("buy_ticket", {"train": 1}), ("show_board", {"platform": "x"})]
    assert [world.judge("root", tool, args).judged for tool, args in wrong] == ["novel"] * 3
    texts = [world.call(tool, args).text for tool, args in wrong]
    assert texts[0] == "There are only 2 platforms."
    assert texts[1].startswith("Rejected: ")
    assert texts[2].startswith("Invalid arguments for show_board: platform: ")
    assert [world.judge("root", tool, args).judged for tool, args in wrong] == ["sterile"] * 3
    assert not world.finished


def test_the_way_out_is_said_where_the_loop_is(example: type[Scenario]):
    made = example()
    looping = made.looping()
    assert looping is not None
    trace = plain.play(made, looping)
    assert {event.text for event in trace.events if isinstance(event, Result)} == {
        next(event.text for event in trace.events if isinstance(event, Result))
    }
    assert "Other trains: platforms 2 to 4." in next(e.text for e in trace.events if isinstance(e, Result))
    assert [call.tool for call in trace.events if isinstance(call, Call)] == ["show_board"] * 24


def test_the_table_is_the_registry():
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (B?) \| (.*) \|$", GUIDE, re.MULTILINE)
    known = [scenario(name) for name in names()]
    assert rows == [(each.name, each.expect, "B" if each.needs.harness_tools else "", each.summary) for each in known]
