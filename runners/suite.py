"""Executes a plan: episodes one after the other or some at once, each written as it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from results.trace import Step, Trace
from runners.gateway.actors import as_text
from runners.plan import pair_of
from runners.run_directory import RunDirectory, failure_of
from runners.spec import EpisodeSpec, Interrupted, Played, Runner

_CONTEXT = 60
"""Characters shown on each side of the place where two prompts begin to differ."""


class PromptsDiffer(Exception):
    """Two arms of one pair did not begin with the same prompt: nothing of the pair could be compared."""


@dataclass(frozen=True)
class Finished:
    """An episode that is over. `failure` None where it is a result; `resumed`: it was there already."""

    spec: EpisodeSpec
    trace: Trace
    failure: str | None
    seconds: float
    resumed: bool = False


class Suite:
    """Plays the episodes of a plan into a run directory."""

    def __init__(self, runner: Runner, directory: RunDirectory, *, jobs: int, fresh: bool) -> None:
        """`jobs` episodes at once; `fresh` plays again what is there already."""
        self._runner = runner
        self._directory = directory
        self._jobs = jobs
        self._fresh = fresh
        self._lock = threading.Lock()

    def play(self, plan: Sequence[EpisodeSpec], report: Callable[[Finished], None]) -> list[Finished]:
        """Plays all of them; `report` hears of each as it ends, in this thread. Gives them in the plan's order.

        Raises KeyboardInterrupt with everything that was finished kept, and PromptsDiffer.
        """
        finished: dict[str, Finished] = {}
        left = list(plan)
        running: set[Future[Finished]] = set()
        pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="episode")
        try:
            while left or running:
                while left and len(running) < self._jobs:
                    running.add(pool.submit(self._one, left.pop(0)))
                # A bounded wait: a signal is only seen between two of them.
                done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    finished[result.spec.name] = result
                    report(result)
        except BaseException:
            self._runner.interrupt()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [finished[spec.name] for spec in plan]

    def _one(self, spec: EpisodeSpec) -> Finished:
        if not self._fresh and (there := self._directory.done(spec.name)) is not None:
            return Finished(spec, there, None, 0.0, resumed=True)
        began = time.monotonic()
        try:
            played = self._runner.run(spec)
        except Interrupted:
            # The main thread is on its way out; nothing of this episode is kept.
            raise KeyboardInterrupt from None
        failure = failure_of(played.trace)
        if failure is None:
            self._same_beginning(spec, played)
        self._directory.write_trace(played.trace)
        return Finished(spec, played.trace, failure, time.monotonic() - began)

    def _same_beginning(self, spec: EpisodeSpec, played: Played) -> None:
        """Raises PromptsDiffer where this episode's first prompt is not that of its pair."""
        if played.opening is None:
            return
        text, pair = as_text(played.opening), pair_of(spec)
        digest = next((each.prompt_digest for each in played.trace.events if isinstance(each, Step)), None)
        with self._lock:
            kept = self._directory.opening(pair)
            if kept is None:
                self._directory.keep_opening(pair, f"{digest}\n{text}")
                return
        known, _, before = kept.partition("\n")
        if known == str(digest) and before == text:
            return
        raise PromptsDiffer(f"{spec.name}: its first prompt is not that of the other arms: {difference(before, text)}")


def difference(before: str, after: str) -> str:
    """The first span in which two texts differ, with what stands around it."""
    pairs = zip(before, after, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))
    if at == len(before) == len(after):
        return "the texts are equal, and the digests differ: the prompts were rendered differently"
    start = max(0, at - _CONTEXT)
    return f"at character {at}: {before[start : at + _CONTEXT]!r} there, {after[start : at + _CONTEXT]!r} here"
