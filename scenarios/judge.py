"""The judge: what each asked call of an episode was worth, from task state alone."""

from __future__ import annotations

from results.trace import Call, Compaction, End, Label, Result, Trace
from scenarios.base import Scenario

MCP_PREFIX = "mcp__tools__"
"""What the harness puts before the names of the tools that a world serves."""


def judge(scenario: Scenario, trace: Trace) -> tuple[tuple[Label, ...], bool]:
    """The labels of all calls, in the order of the calls, and whether the task was solved.

    A copy of the world is stepped over the executed calls (nobody denied them; a call without a result counts as
    executed), parallel ones in the order asked. Every asked call is judged just before it, denied and primed ones too:
    what it would have given. Labels of the trace are not looked at.
    """
    world = scenario.world()
    denied = _denied(trace)
    labels: list[Label] = []
    for at, event in enumerate(trace.events):
        if isinstance(event, Call | End) and "workspace" in event.extra:
            world.observe(event.extra["workspace"]["changed"])
        if isinstance(event, Call):
            tool = event.tool.removeprefix(MCP_PREFIX)
            verdict = world.judge(event.agent, tool, event.args)
            labels.append(
                Label(call=event.id, judged=verdict.judged, why=verdict.why, unit=verdict.unit, agent=event.agent)
            )
            if at not in denied:
                world.call(tool, event.args, event.agent)
        elif isinstance(event, Compaction) and event.outcome == "committed":
            world.compacted(event.agent)
    return tuple(labels), world.success


def _denied(trace: Trace) -> set[int]:
    """The positions of the calls that a guard stopped: a result belongs to the latest unsettled call with its id."""
    waiting: dict[tuple[str, str], list[int]] = {}
    denied: set[int] = set()
    for at, event in enumerate(trace.events):
        if isinstance(event, Call):
            waiting.setdefault((event.agent, event.id), []).append(at)
        elif isinstance(event, Result):
            calls = waiting.get((event.agent, event.id))
            if calls:
                call = calls.pop()
                if event.denied_by is not None:
                    denied.add(call)
    return denied
