"""All scenarios by name."""

from __future__ import annotations

from guards.errors import UserError
from scenarios.annotated_args import AnnotatedArgs
from scenarios.asked_repeat import AskedRepeat
from scenarios.base import Scenario, Size
from scenarios.batch_same_tool import BatchSameTool
from scenarios.cycle_of_three import CycleOfThree
from scenarios.delegated_loop import DelegatedLoop
from scenarios.failing_edit import FailingEdit
from scenarios.flaky_retry import FlakyRetry
from scenarios.long_tail_diff import LongTailDiff
from scenarios.paged_read import PagedRead
from scenarios.parallel_agents import ParallelAgents
from scenarios.ping_pong import PingPong
from scenarios.poll_file import PollFile
from scenarios.poll_progress import PollProgress
from scenarios.poll_queued import PollQueued
from scenarios.refill_chatty import RefillChatty
from scenarios.refill_healthy import RefillHealthy
from scenarios.refill_oversized import RefillOversized
from scenarios.refill_recovering import RefillRecovering
from scenarios.relist_directory import RelistDirectory
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
    DelegatedLoop,
    PollProgress,
    PollQueued,
    RereadAfterEdit,
    RefillOversized,
    RefillHealthy,
    AskedRepeat,
    BatchSameTool,
    FlakyRetry,
    LongTailDiff,
    PagedRead,
    PollFile,
    RelistDirectory,
    ParallelAgents,
    RefillChatty,
    RefillRecovering,
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
