"""All scenarios by name."""

from __future__ import annotations

from guards.errors import UserError
from scenarios.annotated_args import AnnotatedArgs
from scenarios.base import Scenario, Size
from scenarios.cycle_of_three import CycleOfThree
from scenarios.failing_edit import FailingEdit
from scenarios.ping_pong import PingPong
from scenarios.poll_progress import PollProgress
from scenarios.poll_queued import PollQueued
from scenarios.refill_healthy import RefillHealthy
from scenarios.refill_oversized import RefillOversized
from scenarios.reread_after_edit import RereadAfterEdit
from scenarios.reworded_search import RewordedSearch
from scenarios.search_budgeted import SearchBudgeted
from scenarios.search_mirage import SearchMirage
from scenarios.wasted_read import WastedRead

SCENARIOS: tuple[type[Scenario], ...] = (
    SearchMirage,
    SearchBudgeted,
    AnnotatedArgs,
    RewordedSearch,
    PingPong,
    CycleOfThree,
    FailingEdit,
    WastedRead,
    PollProgress,
    PollQueued,
    RereadAfterEdit,
    RefillOversized,
    RefillHealthy,
)


def names() -> tuple[str, ...]:
    """All names, the `trip` scenarios first."""
    return tuple(each.name for each in sorted(SCENARIOS, key=lambda each: each.expect != "trip"))


def scenario(name: str, seed: int = 0, size: Size = "default") -> Scenario:
    """Raises UserError for a name, seed or size that does not exist."""
    for each in SCENARIOS:
        if each.name == name:
            return each(seed, size)
    raise UserError(f"no scenario {name!r}: give one of {', '.join(names())}")
