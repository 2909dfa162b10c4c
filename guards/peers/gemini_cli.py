"""Gemini CLI: a cycle of one to five tool calls, five times in a row.

Source: google-gemini/gemini-cli, packages/core/src/services/loopDetectionService.ts at 5411f113ca (autumn 2026).

Rule: the keys of the last calls of one prompt are kept. Where they end in a cycle of `maxCycleLength` calls or fewer,
`threshold` times over, the call that completes it is dropped and the rest of that response is not read; the model gets
one more turn with feedback. The history stays, so that the next call of the cycle trips again, and from the second trip
of a prompt on the product stops. Arguments are compared as the text of JSON.stringify, so the order of names matters;
results are never looked at. A user message begins a new prompt.

Left out: repeated text in the model's answer (traces hold no answers); the judgement of a second model after 30 turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, ordered_key, reason
from guards.policy import Denial


class GeminiCliConfig(GuardConfig):
    guard: ClassVar[str] = "peer:gemini-cli"

    disable_loop_detection: Flag = False
    threshold: Integer = Field(5, ge=2, description="an integer >= 2")
    max_cycle_length: Integer = Field(5, ge=1, description="an integer >= 1")
    history_size: Integer = Field(25, ge=1, description="an integer >= threshold")

    def check(self) -> None:
        if self.history_size < self.threshold:
            self.refuse("historySize", self.history_size, f" (threshold is {self.threshold})")


@dataclass(slots=True)
class Prompt:
    history: deque[Hashable]
    trips: int = 0


class GeminiCli(Peer[Prompt]):
    name: ClassVar[str] = GeminiCliConfig.guard
    config_type = GeminiCliConfig
    config: GeminiCliConfig

    def fresh(self) -> Prompt:
        return Prompt(deque(maxlen=self.config.history_size))

    def key(self, tool: str, args: Any) -> Hashable:
        return ordered_key(tool, args)

    def judge(self, session: Session[Prompt], call: Asked) -> Denial | None:
        if self.config.disable_loop_detection:
            return None
        seen, times = session.seen, self.config.threshold
        seen.history.append(call.key)
        length = cycle_length(list(seen.history), times, self.config.max_cycle_length)
        if length is None:
            return None
        seen.trips += 1
        what = f"the last calls are the same cycle of {length}, {times} times over"
        denial = Denial(f"cycle-{length}", times, times, reason("Gemini CLI", what))
        return session.stop(denial, lasts=seen.trips > 1)


def cycle_length(keys: Sequence[Hashable], times: int, longest: int) -> int | None:
    """The length of the shortest cycle, at most `longest`, that `keys` end in `times` times; None = there is none."""
    for length in range(1, longest + 1):
        tail = keys[-length * times :]
        if len(tail) == length * times and all(tail[at] == tail[at - length] for at in range(length, len(tail))):
            return length
    return None
