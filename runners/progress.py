"""How far a run is, and how long the rest may take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from runners.spec import EpisodeSpec
from runners.suite import Finished

_LINE_SECONDS = 15.0
"""Between two plain lines, where there is no terminal."""
_ACTOR_SECONDS, _TURN_SECONDS = 4.0, 3.0
"""First guesses, before anything was measured: an actor's episode; a model's tool turn on two cores."""
_BATCHED = 0.5
"""What a model's episode takes where several share batches, as a part of the above (0.4 for the quick suite)."""


def guess(spec: EpisodeSpec) -> float:
    """Seconds that an episode may take, by nothing but its kind."""
    if spec.actor is not None:
        return _ACTOR_SECONDS
    per_unit = _TURN_SECONDS if spec.horizon.unit == "tool turns" else 8 * _TURN_SECONDS
    return _ACTOR_SECONDS + per_unit * spec.horizon.count * (0.6 if spec.arm.name != "off" else 1.0)


def estimate(specs: Sequence[EpisodeSpec], *, batched: bool = False) -> str:
    """For a dry run; `batched` is how a model's episodes would be decoded."""
    seconds = sum(guess(spec) * (_BATCHED if batched and spec.actor is None else 1.0) for spec in specs)
    return f"about {_span(seconds)} by rule of thumb for a 0.5B model on 2 cores (nothing was measured)"


class Progress:
    """A bar on a terminal, plain lines elsewhere; both on stderr."""

    def __init__(
        self, specs: Sequence[EpisodeSpec], *, tty: bool, jobs: Callable[[EpisodeSpec], int] = lambda _spec: 1
    ) -> None:
        """`jobs` says how many are played at once of those that are like an episode."""
        self._jobs = jobs
        self._left = {spec.name: spec for spec in specs}
        self._total = len(specs)
        self._tty = tty
        self._took: dict[tuple[str, bool], list[float]] = {}
        self._began = self._said = time.monotonic()
        self._failed = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._tty:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def finished(self, each: Finished) -> None:
        """Hears of an episode that is over."""
        self._left.pop(each.spec.name, None)
        self._failed += each.failure is not None
        if not each.resumed:
            self._took.setdefault((each.spec.scenario.name, each.spec.arm.name == "off"), []).append(each.seconds)
        now = time.monotonic()
        if self._tty:
            print(f"\r\x1b[K{self._text(each)}", end="", file=sys.stderr, flush=True)
        elif now - self._said > _LINE_SECONDS or not self._left:
            print(self._text(each), file=sys.stderr, flush=True)
            self._said = now

    def _text(self, each: Finished) -> str:
        done = self._total - len(self._left)
        failed = f", {self._failed} failed" if self._failed else ""
        spent = _span(time.monotonic() - self._began)
        return f"{done} of {self._total} episodes{failed}; {spent} so far, {self._rest()} ({each.spec.name})"

    def _rest(self) -> str:
        """By what episodes of the same scenario took here, and by the mean of all for the others."""
        if not self._left:
            return "nothing left"
        measured = [seconds for took in self._took.values() for seconds in took]
        if not measured:
            return "time left not known"
        seconds = 0.0
        known = 0
        mean = sum(measured) / len(measured)
        for spec in self._left.values():
            took = self._took.get((spec.scenario.name, spec.arm.name == "off"))
            known += took is not None
            seconds += (sum(took) / len(took) if took else mean) / self._jobs(spec)
        doubt = "" if known == len(self._left) else ", kinds not seen yet taken as the mean"
        return f"about {_span(seconds)} left{doubt}"


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
