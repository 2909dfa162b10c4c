"""Decisions as rows, those of the guards that stood in an episode and those of the Python policies on a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from guards import registry
from guards.policy import Policy
from guards.stack import Stack
from guards.stack_policy import StackPolicy
from results.trace import Call, Compaction, Guard, Result, Trace
from runners.arms import Arm, Mount
from runners.replay import replay
from scenarios.judge import MCP_PREFIX


class Row(NamedTuple):
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


def policies(arm: Arm, stack: Stack) -> list[Policy]:
    """Fresh policies in the order in which the arm mounts them, each by the name GUARD@PLANE. Someone else's plugins,
    which have none, are left out."""
    entries = {entry.name: entry for entry in stack.guards}
    return [_named(entries[mount.guard].name, mount, stack) for mount in arm.mounts if entries[mount.guard].path is None]


def _named(guard: str, mount: Mount, stack: Stack) -> Policy:
    (entry,) = (each for each in stack.guards if each.name == guard)
    policy = registry.build(entry.name, entry.preset, entry.config)
    # Two of one guard can stand in a stack only under two names.
    policy.__class__ = type(policy.__class__.__name__, (policy.__class__,), {"name": str(mount)})
    return policy


def replayed(trace: Trace, arm: Arm, stack: Stack) -> list[Row]:
    """What the policies of the arm decide on the trace, by guard and plane."""
    found = replay(trace, StackPolicy(policies(arm, stack)))
    return _sorted(
        Row(each.guard, each.agent, each.action, each.index, each.count, each.limit, _kind(each.guard, each.kind))
        for each in found
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


def ran(trace: Trace) -> list[tuple[str, bool]]:
    """Text and error of the results of the calls that nobody denied."""
    return [
        ("".join(block["text"] for block in event.content), event.error)
        for event in trace.events
        if isinstance(event, Result) and event.denied_by is None
    ]
