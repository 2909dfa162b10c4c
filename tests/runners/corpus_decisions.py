"""Decisions as rows, those of the guards that stood in an episode and those of the Python policies on a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from guards import registry
from guards.policy import Policy
from guards.stack import Stack, StackGuard
from guards.stack_policy import StackPolicy
from results.trace import Call, Compaction, Guard, Trace
from results.trace_calls import link
from runners.arms import Arm, Mount
from runners.replay import replay
from scenarios.judge import MCP_PREFIX


@dataclass(frozen=True)
class Row:
    """A decision; `by` is GUARD@PLANE, `index` the place among the agent's calls, or among its attempts."""

    by: str
    agent: str
    action: str
    index: int
    count: int | None
    limit: int | None
    kind: str | None


def mapped(trace: Trace, agents: dict[str, str] | None = None) -> Trace:
    """The trace as a harness would name its tools, and with other names of agents."""
    agents = agents or {}
    events = []
    for event in trace.events:
        event = replace(event, agent=agents.get(event.agent, event.agent))  # noqa: PLW2901
        events.append(replace(event, tool=MCP_PREFIX + event.tool) if isinstance(event, Call) else event)
    return Trace(trace.header, tuple(events))


class Planes(StackPolicy):
    """Fresh policies in the order in which an arm mounts its guards, each by the name GUARD@PLANE: two of one guard can
    stand in a stack only under two names. Someone else's plugins, which have no policy, are left out."""

    def __init__(self, arm: Arm, stack: Stack) -> None:
        entries = {entry.name: entry for entry in stack.guards if entry.path is None}
        self._guards = {str(mount): mount.guard for mount in arm.mounts if mount.guard in entries}
        super().__init__([_policy(entries[mount.guard], mount) for mount in arm.mounts if mount.guard in entries])

    def reset(self, agent: str, guard: str) -> None:
        for name, known in self._guards.items():
            if known == guard:
                super().reset(agent, name)


def _policy(entry: StackGuard, mount: Mount) -> Policy:
    policy = registry.build(entry.name, entry.preset, entry.config)
    policy.__class__ = type(policy.__class__.__name__, (policy.__class__,), {"name": str(mount)})
    return policy


def replayed(trace: Trace, arm: Arm, stack: Stack) -> list[Row]:
    """What the policies of the arm decide on the trace, by guard and plane."""
    return _sorted(
        Row(each.guard, each.agent, each.action, each.index, each.count, each.limit, _kind(each.guard, each.kind))
        for each in replay(trace, Planes(arm, stack))
    )


def live(trace: Trace, arm: Arm, stack: Stack) -> list[Row]:
    """What our guards of the arm did in the episode, by guard and plane."""
    foreign = {entry.name for entry in stack.guards if entry.path is not None}
    places: dict[tuple[str, str], int] = {}
    counts: dict[tuple[str, type], int] = {}
    rows = []
    for event in trace.events:
        if isinstance(event, Call | Compaction):
            counts[event.agent, type(event)] = counts.get((event.agent, type(event)), 0) + 1
        if isinstance(event, Call):
            places[event.agent, event.id] = counts[event.agent, Call]
        elif isinstance(event, Guard) and event.action in ("deny", "nudge", "refuse") and event.guard not in foreign:
            by = f"{event.guard}@{event.plane}"
            assert by in map(str, arm.mounts), event
            if event.action == "refuse":
                # It stands before the attempt that it refuses, whose event is written when that is over.
                index = counts.get((event.agent, Compaction), 0) + 1
            else:
                index = places[event.agent, event.call or ""]
            rows.append(Row(by, event.agent, event.action, index, event.count, event.limit, _kind(by, event.kind)))
    return _sorted(rows)


def _kind(by: str, kind: str | None) -> str | None:
    """The harness's own reminder does not say what it is about: it knows one kind."""
    return None if by.startswith("repeat-reminder") else kind


def _sorted(rows: Iterable[Row]) -> list[Row]:
    """By guard and agent, each's own in the order in which they were made."""
    return sorted(rows, key=lambda row: (row.by, row.agent))


Settled = tuple[str, Any, str | None, bool, bool]
"""A call's tool, arguments, text, whether that is an error, and whether the call was denied."""


def settled(trace: Trace, agent: str = "root") -> list[Settled]:
    """An agent's calls with what they gave; the text of an error without what the harness puts before it. The text of
    a call that was denied is None: it is whoever denied it to say."""
    found = []
    for each in link(trace.events).asked:
        if each.agent == agent and each.result is not None:
            text = "".join(block["text"] for block in each.result.content)
            shown = None if each.denied_by else text.removeprefix("Error: ") if each.result.error else text
            found.append((each.call.tool, each.call.args, shown, each.result.error, each.denied_by is not None))
    return found
