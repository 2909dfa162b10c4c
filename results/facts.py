"""The facts that an episode consists of: asked calls, compaction attempts, what guards did, what was spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A call that the model asked for. `position` is its place among the trace's events.

    `index` is its 1-based place among its agent's calls, primed ones included (as `tripbench replay` counts).
    `denied_by` is "GUARD@PLANE" (or "GUARD" where there are no planes), None = it ran. `judged` is None only in
    episodes that failed.
    """

    position: int
    agent: str
    index: int
    id: str
    tool: str
    args: Any
    step: int | None
    primed: bool
    judged: str | None
    why: str
    unit: bool
    denied_by: str | None
    error: bool

    @property
    def useful(self) -> bool:
        """Novel or needed: the calls that a guard must leave alone."""
        return self.judged in {"novel", "needed"}


@dataclass(frozen=True)
class Attempt:
    """A compaction attempt; `index` is its 1-based place among its agent's `compaction` events, manual ones included.

    `futile`: the agent completed no unit of the task since its automatic attempt before. The first is never futile.
    This is the class of an attempt, taken from task state like that of a call. `primed`: it happened before the
    agent's last primed call. A manual attempt is the user's, so it is neither futile nor counted in a loop.
    """

    position: int
    agent: str
    index: int
    trigger: str
    outcome: str
    plane: str | None
    summary_calls: int | None
    futile: bool
    primed: bool


@dataclass(frozen=True)
class Act:
    """A nudge, deny or refuse. `index` counts calls, for a refusal attempts, as `Asked` and `Attempt` do."""

    position: int
    guard: str
    plane: str | None
    action: str
    agent: str
    index: int
    call: Asked | None
    attempt: Attempt | None

    @property
    def trip(self) -> bool:
        return self.action != "nudge"

    @property
    def primed(self) -> bool:
        """Whether it met the scripted history and not a choice of the model."""
        about = self.call or self.attempt
        return about is not None and about.primed


@dataclass(frozen=True)
class Cost:
    """What was spent in a part of an episode. Primed steps and calls are not the model's and are left out.

    Tokens are those of model responses, and of summaries where the runner wrote them on the `compaction` event
    (`input_tokens`, `output_tokens`); seconds are model seconds of responses and summaries. None = some part is not
    known.
    """

    turns: int
    asked: int
    calls: int
    """Executed calls."""
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    attempts: int
    summary_calls: int | None

    @property
    def tokens(self) -> int | None:
        """Model tokens: read and written."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens
