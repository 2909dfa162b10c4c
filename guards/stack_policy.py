"""Several policies that act as one, with the effects that they have on each other in the harness.

For a call guards are asked in order, and the first that denies ends the asking: those before it have counted the call,
those after it never see it asked. When the call settles the denial's text reaches every other guard as an error result,
and the denier itself skips it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from guards.policy import Denial, Nudge, Outcome, Policy, Refusal, ToolOutcome, Trigger

Kind = TypeVar("Kind", Denial, Nudge, Refusal)


@dataclass(frozen=True, slots=True)
class Decided(Generic[Kind]):
    """A decision and the name of the guard that made it."""

    guard: str
    decision: Kind


class StackPolicy:
    """Policies in the order in which they are mounted; one alone is a stack too. Names must differ."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        if len({policy.name for policy in policies}) < len(policies):
            raise ValueError("two policies of one name in a stack")
        self._policies = tuple(policies)

    def before_call(self, agent: str, tool: str, args: Any, *, counted: bool = True) -> Decided[Denial] | None:
        """The first denial, or None where every guard allows the call.

        `counted` False: something outside the stack is known to stop the call. It is judged all the same, and counts
        for no guard if all allow it.
        """
        for place, policy in enumerate(self._policies):
            denial = policy.before_call(agent, tool, args, counted=counted)
            if denial is not None:
                if not counted:
                    # A guard of the stack stops it after all, and those before it were asked as always.
                    for earlier in self._policies[:place]:
                        earlier.before_call(agent, tool, args)
                return Decided(policy.name, denial)
        return None

    def after_call(
        self, agent: str, tool: str, args: Any, result: ToolOutcome, *, executed: bool, denied_by: str | None = None
    ) -> tuple[Decided[Nudge], ...]:
        """The nudges that follow a settled call, in the order of the stack.

        `denied_by` names the guard of this stack that denied the call; None = none of them did. `result` is then the
        denial as an error, see `denial_outcome`.
        """
        nudges: list[Decided[Nudge]] = []
        for policy in self._policies:
            if policy.name != denied_by:
                nudge = policy.after_call(agent, tool, args, result, executed=executed)
                if nudge is not None:
                    nudges.append(Decided(policy.name, nudge))
        return tuple(nudges)

    def before_compaction(self, agent: str, trigger: Trigger) -> Decided[Refusal] | None:
        """The first refusal, or None where every guard allows the attempt."""
        for policy in self._policies:
            refusal = policy.before_compaction(agent, trigger)
            if refusal is not None:
                return Decided(policy.name, refusal)
        return None

    def after_compaction(self, agent: str, trigger: Trigger, outcome: Outcome) -> None:
        self._each(lambda policy: policy.after_compaction(agent, trigger, outcome))

    def model_response(self, agent: str, calls: int) -> None:
        self._each(lambda policy: policy.model_response(agent, calls))

    def user_message(self, agent: str) -> None:
        self._each(lambda policy: policy.user_message(agent))

    def reset(self, agent: str, guard: str) -> None:
        """The reset command of the guard of that name, if it is in the stack."""
        self._each(lambda policy: policy.reset(agent) if policy.name == guard else None)

    def _each(self, tell: Callable[[Policy], None]) -> None:
        for policy in self._policies:
            tell(policy)


def denial_outcome(denial: Denial) -> ToolOutcome:
    """What the model, and every guard but the denier, is shown for a denied call."""
    return ToolOutcome(({"type": "text", "text": denial.reason},), error=True)
