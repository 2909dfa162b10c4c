"""What is said while a run goes on; seconds are those that episodes are said to have taken."""

from __future__ import annotations

import re

import pytest

from guards.stack import default_stack
from results.trace import Header, Trace
from runners.plan import Matrix, Mode, Player, plan
from runners.progress import Progress, estimate, guess
from runners.spec import EpisodeSpec
from runners.suite import Finished

CLEAR = "\r\x1b[K"


def specs(*scenarios: str, arms: tuple[str, ...] = ("off",), model: str = "actor:looping") -> tuple[EpisodeSpec, ...]:
    actor = model.partition(":")[2] or None
    matrix = Matrix(tuple((name, "small") for name in scenarios), arms, (0,), (Mode(),))
    return plan(matrix, default_stack(), Player(model, None, actor, None))


def over(spec: EpisodeSpec, seconds: float = 0.0, failure: str | None = None, *, resumed: bool = False) -> Finished:
    return Finished(spec, Trace(Header(episode=spec.name)), failure, seconds, resumed)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What stands on stderr, with the time spent so far left out."""
    out, err = capsys.readouterr()
    assert out == ""
    return re.sub(r"; \d+ s so far", "; so far", err)


def test_plain_lines_are_few_and_the_last_one_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    every = specs("search-mirage", arms=("off", "host", "both"))
    with Progress(every, tty=False) as progress:
        for spec in every:
            progress.finished(over(spec, 1.0))
    assert said(capsys) == f"3 of 3 episodes; so far, nothing left ({every[-1].name})\n"


def test_a_terminal_sees_each_and_is_left_clean(capsys: pytest.CaptureFixture[str]) -> None:
    off, host, both, other = specs("search-mirage", "refill-oversized", arms=("off",)) + specs(
        "search-mirage", arms=("host", "both")
    )
    with Progress((off, host, both, other), tty=True) as progress:
        progress.finished(over(off, 10.0))
        assert said(capsys) == (
            f"{CLEAR}1 of 4 episodes; so far, about 30 s left, kinds not seen yet taken as the mean ({off.name})"
        )
        progress.finished(over(both, 20.0))
        # One of a kind that took 20 s, one of a kind not seen yet.
        assert "2 of 4 episodes; so far, about 35 s left, kinds not seen" in said(capsys)
    assert said(capsys) == CLEAR


def test_the_rest_is_what_its_kinds_took(capsys: pytest.CaptureFixture[str]) -> None:
    every = specs("search-mirage", arms=("off", "host", "agent", "both"))
    off, *guarded = every
    with Progress(every, tty=True) as progress:
        progress.finished(over(off, 100.0))
        said(capsys)
        progress.finished(over(guarded[0], 10.0))
        assert "2 of 4 episodes; so far, about 20 s left (" in said(capsys)
        progress.finished(over(guarded[1], 30.0))
        assert "3 of 4 episodes; so far, about 20 s left (" in said(capsys)
        progress.finished(over(guarded[2], 30.0))
        assert "4 of 4 episodes; so far, nothing left (" in said(capsys)


def test_what_is_played_side_by_side_takes_less(capsys: pytest.CaptureFixture[str]) -> None:
    every = specs("search-mirage", arms=("host", "agent", "both"))
    with Progress(every, tty=True, jobs=lambda spec: 4 if spec.actor == "looping" else 1) as progress:
        progress.finished(over(every[0], 20.0))
        assert "about 10 s left" in said(capsys)


def test_failures_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    every = specs("search-mirage", arms=("off", "host"))
    with Progress(every, tty=False) as progress:
        progress.finished(over(every[0], 1.0, "no luck"))
        progress.finished(over(every[1], 1.0))
    assert said(capsys).startswith("2 of 2 episodes, 1 failed; so far, nothing left")


def test_what_was_there_already_tells_nothing_about_time(capsys: pytest.CaptureFixture[str]) -> None:
    every = specs("search-mirage", arms=("off", "host", "both"))
    with Progress(every, tty=True) as progress:
        progress.finished(over(every[0], resumed=True))
        assert "1 of 3 episodes; so far, time left not known (" in said(capsys)
        progress.finished(over(every[1], 8.0))
        assert "2 of 3 episodes; so far, about 8 s left" in said(capsys)


@pytest.mark.parametrize(("seconds", "words"), [(89.0, "89 s"), (90.0, "2 min"), (5399.0, "90 min"), (7200.0, "2.0 h")])
def test_spans_in_words(capsys: pytest.CaptureFixture[str], seconds: float, words: str) -> None:
    every = specs("search-mirage", arms=("host", "both"))
    with Progress(every, tty=True) as progress:
        progress.finished(over(every[0], seconds))
        assert f"about {words} left" in said(capsys)


def test_the_estimate_of_a_dry_run() -> None:
    turns, attempts = specs("search-mirage", "refill-oversized", model="some-model")
    (guarded,) = specs("search-mirage", arms=("both",), model="some-model")
    (acted,) = specs("search-mirage")
    assert guess(acted) < guess(guarded) < guess(turns)
    assert guess(attempts) > guess(acted)
    assert re.fullmatch(
        r"about \d+ (s|min) by rule of thumb for a 0.5B model on 2 cores \(nothing was measured\)", estimate([turns])
    )
    alone, together = (int(estimate([attempts], batched=batched).split()[1]) for batched in (False, True))
    assert alone > together
    assert estimate([acted], batched=True) == estimate([acted])
    assert estimate([]) == "about 0 s by rule of thumb for a 0.5B model on 2 cores (nothing was measured)"
