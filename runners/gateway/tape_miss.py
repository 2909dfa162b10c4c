"""Why a completion is not on a tape, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from guards.errors import UserError
from runners.gateway.tape_key import TapeKey, differences

_SHOWN = 60
"""Most characters that a value or an excerpt may take."""


class TapeMiss(UserError):
    """A completion was asked of a tape that may not be added to, and is not on it.

    episode: the episode's name. agent: ordinal of the agent. step: number of the agent's request, as the gateway counts
    them. tape: the file. reason: what `explain` said.
    """

    def __init__(self, episode: str, agent: int, step: int, tape: Path, reason: str) -> None:
        super().__init__(episode, agent, step, tape, reason)
        self.episode = episode
        self.agent = agent
        self.step = step
        self.tape = tape
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"episode {self.episode}, agent {self.agent}, step {self.step}: not on the tape {self.tape}: {self.reason}"
        )


def explain(
    asked: TapeKey,
    prompt: str | None,
    same_prompt: Iterable[TapeKey],
    everything: Callable[[], Iterable[TapeKey]],
    prompt_of: Callable[[str], str | None],
) -> str:
    """One sentence that compares the key that was asked for with the nearest stored one.

    Nearest is, in this order: among those of the same prompt, the one with the fewest different fields; among those of
    the same agent and seed, that one, and of several the one whose prompt shares the longest beginning with `prompt`;
    any. Ties go to the first in the order given. prompt: text that was asked, None where the caller does not have it
    (then prompts are not compared). everything: all stored keys, read only where no prompt agrees. prompt_of: stored
    prompt by digest.
    """
    same, kin, others = _Nearest(asked), _Nearest(asked), _Nearest(asked)
    for key in same_prompt:
        same.add(key)
    if same.keys:
        return f"the same prompt is stored, but {_listed(differences(same.keys[0], asked))}"
    total = 0
    for total, key in enumerate(everything(), start=1):  # noqa: B007
        (kin if (key.agent, key.seed) == (asked.agent, asked.seed) else others).add(key)
    if not total:
        return "the tape holds no completion at all"
    nearest = kin.keys or others.keys
    stored, shared = nearest[0], 0
    if prompt is not None:
        for key in nearest:
            length = _shared_length(prompt_of(key.prompt) or "", prompt)
            if length > shared:
                stored, shared = key, length
    rest = {name: pair for name, pair in differences(stored, asked).items() if name != "prompt"}
    where = f"agent {asked.agent} and seed {asked.seed}"
    text = f"its prompt is not stored; nearest of {total} completions is one " + (
        f"of {where}" if kin.keys else f"of another agent or seed, as nothing is stored for {where}"
    )
    if prompt is not None:
        text += f", whose prompt {_parting(prompt_of(stored.prompt) or '', prompt, shared)}"
    return text + (f"; besides, {_listed(rest)}" if rest else "")


class _Nearest:
    """Of the keys added, those with the fewest fields that differ from one key."""

    def __init__(self, asked: TapeKey) -> None:
        self._asked = asked
        self._fewest = 0
        self.keys: list[TapeKey] = []

    def add(self, key: TapeKey) -> None:
        count = len(differences(key, self._asked))
        if not self.keys or count < self._fewest:
            self.keys, self._fewest = [], count
        if count == self._fewest:
            self.keys.append(key)


def _shared_length(a: str, b: str) -> int:
    """Length of the longest common beginning, by bisection (comparing slices is quick)."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _parting(stored: str, asked: str, at: int) -> str:
    there, here = (_shown(text[at : at + _SHOWN]) if at < len(text) else "its end" for text in (stored, asked))
    return f"parts from the one asked after {at} of {len(asked)} characters: {there} there, {here} asked"


def _listed(pairs: dict[str, tuple[Any, Any]]) -> str:
    if len(pairs) == 1:
        [(name, (there, here))] = pairs.items()
        return f"{name} differs: {_shown(there)} there, {_shown(here)} asked"
    values = (f"{name} ({_shown(there)} there, {_shown(here)} asked)" for name, (there, here) in pairs.items())
    return f"{len(pairs)} fields differ: {', '.join(values)}"


def _shown(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}..."
