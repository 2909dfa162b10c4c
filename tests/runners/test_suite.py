"""A plan's episodes into a run directory: order, going on, interruption, and equal first prompts.

The episodes are scripted: what the real harness does in them is tested elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.errors import UserError
from guards.stack import default_stack
from results.trace import Call, End, Header, Step, Trace
from results.trace_file import read_trace
from runners.dsh import DshRunner
from runners.gateway.conversation import Conversation, Message, Text
from runners.plan import Matrix, Player, plan
from runners.run_directory import RunDirectory
from runners.spec import EpisodeSpec, Interrupted, Played
from runners.suite import Finished, PromptsDiffer, Suite, difference

PATIENCE = 60.0


def specs(*arms: str, seeds: tuple[int, ...] = (0,)) -> tuple[EpisodeSpec, ...]:
    matrix = Matrix((("search-mirage", "small"),), arms or ("off", "host"), seeds)
    return plan(matrix, default_stack(), Player("actor:looping", None, "looping", None))


def played(spec: EpisodeSpec, *, prompt: str = "Find it.", digest: str = "d", error: str | None = None) -> Played:
    """An episode of one step."""
    end = End("horizon") if error is None else End("error", extra={"cause": error})
    events = (Step(1, 1, prompt_digest=digest), Call("c1", 1, "look"), end)
    conversation = Conversation("Be good.", (Message("user", (Text(prompt),)),))
    return Played(Trace(Header(episode=spec.name, source="test"), events), conversation)


class Script(DshRunner):
    """Plays what it is told, and keeps count."""

    def __init__(self, play: Callable[[EpisodeSpec], Played] = played) -> None:
        self._play = play
        self.played: list[str] = []
        self.interrupted = threading.Event()
        self._counting = threading.Lock()
        self._now = 0
        self.most = 0

    def interrupt(self) -> None:
        self.interrupted.set()

    def run(self, spec: EpisodeSpec) -> Played:
        with self._counting:
            self.played.append(spec.name)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            return self._play(spec)
        finally:
            with self._counting:
                self._now -= 1


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {})


def play(
    runner: Script,
    directory: RunDirectory,
    every: Sequence[EpisodeSpec],
    report: Callable[[Finished], None] = lambda _: None,
    *,
    jobs: int = 1,
    fresh: bool = False,
) -> list[Finished]:
    return Suite(runner, directory, jobs=jobs, fresh=fresh).play(every, report)


def written(directory: RunDirectory) -> list[str]:
    return sorted(path.name.removesuffix(".trace.jsonl.zst") for path in (directory.path / "traces").iterdir())


def test_every_episode_is_played_reported_and_written(directory: RunDirectory) -> None:
    every, heard = specs(seeds=(0, 1)), []
    finished = play(runner := Script(), directory, every, heard.append)
    assert runner.played == [spec.name for spec in every]
    assert heard == finished
    assert [(each.spec, each.failure, each.resumed) for each in finished] == [(spec, None, False) for spec in every]
    assert written(directory) == sorted(spec.name for spec in every)
    for each in finished:
        assert read_trace(directory.trace_path(each.spec.name)) == each.trace == played(each.spec).trace
        assert each.seconds >= 0.0


def test_results_come_in_the_plan_s_order_however_they_end(directory: RunDirectory) -> None:
    every = specs(seeds=tuple(range(4)))
    ended = {spec.name: threading.Event() for spec in every}
    after = dict(zip((spec.name for spec in every), [*(spec.name for spec in every[1:]), None], strict=True))

    def backwards(spec: EpisodeSpec) -> Played:
        """Each one ends when the next has ended."""
        later = after[spec.name]
        if later is not None:
            assert ended[later].wait(PATIENCE)
        return played(spec)

    heard: list[str] = []

    def report(each: Finished) -> None:
        heard.append(each.spec.name)
        ended[each.spec.name].set()

    runner = Script(backwards)
    finished = play(runner, directory, every, report, jobs=len(every))
    assert heard == [spec.name for spec in reversed(every)]
    assert [each.spec for each in finished] == list(every)
    assert runner.most == len(every)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_so_many_at_once_and_no_more(directory: RunDirectory, jobs: int) -> None:
    together = threading.Barrier(jobs)

    def meet(spec: EpisodeSpec) -> Played:
        together.wait(PATIENCE)
        return played(spec)

    runner = Script(meet)
    play(runner, directory, specs("off", "host", "agent", "both", "null", "stock"), jobs=jobs)
    assert runner.most == jobs


# -- going on --------------------------------------------------------------------------------------------------------


def test_what_is_there_is_not_played_again(directory: RunDirectory) -> None:
    every = specs(seeds=(0, 1))
    play(Script(), directory, every[:3])
    finished = play(runner := Script(), directory, every)
    assert runner.played == [every[3].name]
    assert [each.resumed for each in finished] == [True, True, True, False]
    assert [each.trace for each in finished] == [played(spec).trace for spec in every]


def test_unless_it_is_wanted_afresh(directory: RunDirectory) -> None:
    every = specs()
    play(Script(), directory, every)
    finished = play(runner := Script(), directory, every, fresh=True)
    assert runner.played == [spec.name for spec in every]
    assert not any(each.resumed for each in finished)


def test_failed_episodes_are_kept_told_and_due_again(directory: RunDirectory) -> None:
    every = specs()

    def fail(spec: EpisodeSpec) -> Played:
        return played(spec, error="no luck" if spec.arm.name == "host" else None)

    finished = play(Script(fail), directory, every)
    assert [each.failure for each in finished] == [None, "no luck"]
    assert written(directory) == sorted(spec.name for spec in every)
    finished = play(runner := Script(), directory, every)
    assert runner.played == [every[1].name]
    assert [each.failure for each in finished] == [None, None]


# -- interruption ----------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_is_finished_and_ends_what_is_not(directory: RunDirectory) -> None:
    every = specs(seeds=(0, 1, 2))
    second = threading.Event()

    def wait(spec: EpisodeSpec) -> Played:
        """The first ends by itself once the second has begun, the others when they are interrupted."""
        if spec is every[0]:
            assert second.wait(PATIENCE)
            return played(spec)
        second.set()
        assert runner.interrupted.wait(PATIENCE)
        raise Interrupted

    def stop(_each: Finished) -> None:
        raise KeyboardInterrupt

    runner = Script(wait)
    with pytest.raises(KeyboardInterrupt):
        play(runner, directory, every, stop, jobs=2)
    assert written(directory) == [every[0].name]
    again = Script()
    assert [each.resumed for each in play(again, directory, every)] == [True] + [False] * 5
    assert again.played == [spec.name for spec in every[1:]]


def test_an_episode_that_is_interrupted_interrupts_all(directory: RunDirectory) -> None:
    def interrupted(_spec: EpisodeSpec) -> Played:
        raise Interrupted

    runner = Script(interrupted)
    with pytest.raises(KeyboardInterrupt):
        play(runner, directory, specs())
    assert runner.interrupted.is_set()
    assert written(directory) == []


@pytest.mark.parametrize("error", [UserError("the folder is full"), RuntimeError("a bug")])
def test_what_is_no_result_of_an_episode_ends_the_run(directory: RunDirectory, error: Exception) -> None:
    every = specs(seeds=(0, 1))

    def fail(spec: EpisodeSpec) -> Played:
        if spec is every[1]:
            raise error
        return played(spec)

    runner = Script(fail)
    with pytest.raises(type(error), match=str(error)):
        play(runner, directory, every)
    assert runner.interrupted.is_set()
    assert written(directory) == [every[0].name]


# -- first prompts ---------------------------------------------------------------------------------------------------


def differing(**of: dict[str, str]) -> Callable[[EpisodeSpec], Played]:
    """Episodes whose arms are asked with something of their own."""
    return lambda spec: played(spec, **of.get(spec.arm.name, {}))  # type: ignore[arg-type]


def test_another_first_prompt_stops_the_run(directory: RunDirectory) -> None:
    every = specs("off", "host", "both")
    runner = Script(differing(host={"prompt": "Find it, please."}))
    with pytest.raises(PromptsDiffer) as error:
        play(runner, directory, every)
    at = len("Be good.\nuser: Find it")
    assert str(error.value) == (
        f"{every[1].name}: its first prompt is not that of the other arms: at character {at}: "
        "'Be good.\\nuser: Find it.' there, 'Be good.\\nuser: Find it, please.' here"
    )
    assert runner.interrupted.is_set()
    assert written(directory) == [every[0].name]


def test_the_same_text_rendered_differently_stops_it_too(directory: RunDirectory) -> None:
    with pytest.raises(PromptsDiffer, match="the texts are equal, and the digests differ"):
        play(Script(differing(host={"digest": "other"})), directory, specs())


def test_a_run_that_goes_on_remembers(directory: RunDirectory) -> None:
    every = specs()
    play(Script(), directory, every[:1])
    directory.trace_path(every[0].name).unlink()
    with pytest.raises(PromptsDiffer):
        play(Script(lambda spec: played(spec, prompt="Something else.")), directory, every[1:])


def test_seeds_have_prompts_of_their_own(directory: RunDirectory) -> None:
    every = specs(seeds=(0, 1))
    finished = play(Script(lambda spec: played(spec, prompt=f"Find number {spec.seed}.")), directory, every)
    assert len(finished) == 4


def test_a_failed_episode_s_prompt_is_no_measure(directory: RunDirectory) -> None:
    def fail(spec: EpisodeSpec) -> Played:
        return played(spec, **({"prompt": "Half", "error": "no luck"} if spec.arm.name == "off" else {}))  # type: ignore[arg-type]

    assert [each.failure for each in play(Script(fail), directory, specs())] == ["no luck", None]


def test_an_episode_that_never_asked_has_none(directory: RunDirectory) -> None:
    finished = play(Script(lambda spec: Played(played(spec).trace, None)), directory, specs())
    assert len(finished) == 2


@given(st.text(max_size=200), st.text(max_size=100), st.text(max_size=100))
def test_a_difference_is_shown_where_it_begins(same: str, one: str, other: str) -> None:
    before, after = same + one, same + other
    said = difference(before, after)
    if before == after:
        assert said.startswith("the texts are equal")
        return
    at = int(said.split(":")[0].removeprefix("at character "))
    assert before[:at] == after[:at]
    assert before[at : at + 1] != after[at : at + 1]
    shown: Any = said.partition(": ")[2]
    assert repr(before[max(0, at - 60) : at + 60]) in shown
    assert repr(after[max(0, at - 60) : at + 60]) in shown
