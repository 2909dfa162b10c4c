"""What guards do to each other in the real harness, and that the composed policies do the same.

"Stack order and stacking effects" of the specification, one effect a test. Decisions are counted by hand, as (action,
place of the call, count, limit); a letter is a call of a tool of its own, which gives the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from guards.stack import Stack, StackGuard
from results.trace import Call as AskedCall
from results.trace import Guard, Header, Notice, Result, Step, Trace, blocks
from scenarios.base import Outcome
from scenarios.judge import MCP_PREFIX
from scenarios.tools import Tool
from tests.runners.corpus_decisions import live, replayed
from tests.runners.corpus_scenario import CorpusScenario, Part, Recorded
from tests.runners.corpus_stage import plugin, stage
from tests.runners.dsh_stage import cause, end, of

PLANES = ("host", "agent")
Acts = Mapping[str, Sequence[tuple[str, int, int, int]]]
Guards = Mapping[str, Mapping[str, Any]]

HOLD = """
import { defineTool } from '@deepseek-ai/dsh-tools'
export const name = 'side-by-side'
export const inject = ['tools']
export function apply(ctx, { tools, together }) {
  const properties = { text: { type: 'string', required: true } }
  const left = [...together]
  const held = []
  for (const tool of tools) {
    ctx.tools.register(defineTool({
      name: tool,
      description: 'Settles when all have begun that run beside it.',
      parameters: {},
      output: {
        schema: { type: 'object', additionalProperties: false, properties },
        render: (_args, { text }) => [{ type: 'text', text }],
      },
      isConcurrencySafe: () => true,
      execute: () => new Promise((settle) => {
        held.push(() => settle({ text: 'seen' }))
        if (held.length < left[0]) return
        left.shift()
        for (const go of held.splice(0)) go()
      }),
    }))
  }
}
"""
"""Tools that run side by side; `together` says how many of them do, one number for each step."""


def nudge(place: int, count: int, limit: int) -> tuple[str, int, int, int]:
    return ("nudge", place, count, limit)


def deny(place: int, count: int, limit: int) -> tuple[str, int, int, int]:
    return ("deny", place, count, limit)


def tool(letter: str) -> str:
    return f"look_{letter.lower()}"


class Letters(CorpusScenario):
    """Steps of calls, a letter each. `served`: by the world, whose tools the harness runs one after the other; else by
    a plugin, which lets them run side by side."""

    def __init__(self, steps: Sequence[str], *, served: bool = True) -> None:
        made = tuple(tuple(Recorded(tool(letter), {}, Outcome("seen")) for letter in step) for step in steps)
        super().__init__((Part("Look around.", made),))
        self.served = served

    @property
    def tools(self) -> tuple[Tool, ...]:
        return super().tools if self.served else ()

    def recording(self) -> Trace:
        """The same with no guard."""
        prefix = MCP_PREFIX if self.served else ""
        events: list[Step | AskedCall | Result] = []
        for n, step in enumerate(self.stream[0].steps, start=1):
            asked = [AskedCall(f"{n}.{at}", n, prefix + call.tool, call.args) for at, call in enumerate(step)]
            results = [Result(call.id, blocks("seen")) for call in asked]
            in_turn = [each for pair in zip(asked, results, strict=True) for each in pair]
            events += [Step(n, len(step)), *(in_turn if self.served else [*asked, *results])]
        return Trace(Header("letters"), tuple(events))


def played(
    folder: Path, guards: Guards, arm: str, *steps: str, wanted: Acts, together: Sequence[int] | None = None
) -> Trace:
    """The episode, once its guards did what is wanted, by guard or by GUARD@PLANE, and so do the policies on its own
    trace and on a recording without guards. `together` as for the plugin, None = the tools are the world's."""
    stack = Stack("stacking", tuple(StackGuard(name, config=dict(config)) for name, config in guards.items()))
    task = Letters(steps, served=together is None)
    rows, packages = [], {}
    if together is not None:
        config = {"tools": sorted({tool(letter) for letter in "".join(steps)}), "together": list(together)}
        rows = [{"id": "side-by-side", "name": "side-by-side", "config": config}]
        packages = {"side-by-side": plugin(folder, "side-by-side", HOLD)}
    with stage(folder, stack, rows=rows, packages=packages) as on:
        trace, mounted = on.play(task, arm), on.arm(arm)
    assert end(trace).reason == "completed", cause(trace)
    found = live(trace, mounted, stack)
    by = {name if "@" in name else f"{name}@{arm}": list(acts) for name, acts in wanted.items()}
    assert {
        each: [(row.action, row.index, row.count, row.limit) for row in found if row.by == each] for each in by
    } == by
    assert {row.by for row in found} <= set(by)
    assert replayed(trace, mounted, stack) == found
    assert replayed(task.recording(), mounted, stack) == found
    return trace


@pytest.mark.parametrize("plane", PLANES)
def test_the_breaker_has_counted_what_the_loop_guard_denies(tmp_path: Path, plane: str) -> None:
    guards: Guards = {"circuit-breaker": {"duplicateLimit": 5}, "loop-guard": {"softThreshold": 0, "hardThreshold": 2}}
    wanted = {
        "loop-guard": [deny(3, 2, 2), deny(4, 2, 2)],
        "circuit-breaker": [deny(5, 5, 5), deny(6, 5, 5), deny(7, 5, 5)],
    }
    trace = played(tmp_path, guards, plane, *"AAAAAAA", wanted=wanted)
    who = [None, None, *["loop-guard"] * 2, *["circuit-breaker"] * 3]
    assert [result.denied_by for result in of(trace, Result)] == [name and f"{name}@{plane}" for name in who]


@pytest.mark.parametrize("plane", PLANES)
def test_a_denial_is_an_error_result_to_the_others_and_a_call_to_the_reminder(tmp_path: Path, plane: str) -> None:
    """From the 6th call on the loop-guard's chain is long enough, but the breaker is asked first."""
    guards: Guards = {
        "circuit-breaker": {"duplicateLimit": 3},
        "loop-guard": {"softThreshold": 2, "hardThreshold": 4},
        "repeat-reminder": {},
    }
    wanted = {
        "circuit-breaker": [deny(place, 3, 3) for place in range(3, 10)],
        "loop-guard": [nudge(2, 2, 2), nudge(4, 2, 2), nudge(5, 3, 2)],
        "repeat-reminder": [nudge(3, 3, 3), nudge(5, 5, 5), nudge(8, 8, 8)],
    }
    trace = played(tmp_path, guards, plane, *"AAAAAAAAA", wanted=wanted)
    reasons = [event.reason for event in of(trace, Guard) if event.action == "deny"]
    shown = [(result.content[0]["text"], result.error) for result in of(trace, Result)[2:]]
    assert shown == [(f"Error: {reason}", True) for reason in reasons]


@pytest.mark.parametrize("plane", ["agent"])
def test_the_cap_denies_where_the_loop_guard_would_have(tmp_path: Path, plane: str) -> None:
    guards: Guards = {
        "circuit-breaker": {"duplicateLimit": 0, "maxCallsPerAgent": 3},
        "loop-guard": {"softThreshold": 2, "hardThreshold": 3},
    }
    wanted = {
        "circuit-breaker": [deny(place, 3, 3) for place in (4, 5, 6, 7)],
        "loop-guard": [nudge(2, 2, 2), nudge(5, 2, 2)],
    }
    trace = played(tmp_path, guards, plane, *"AAAAAAA", wanted=wanted)
    assert {event.kind for event in of(trace, Guard) if event.action == "deny"} == {"cap"}


@pytest.mark.parametrize("plane", ["host"])
def test_what_one_guard_leaves_out_the_others_see(tmp_path: Path, plane: str) -> None:
    """The breaker does not count the L, and to the reminder they are not there."""
    guards: Guards = {
        "circuit-breaker": {"duplicateLimit": 3, "exempt": [MCP_PREFIX + tool("L")]},
        "loop-guard": {"softThreshold": 2, "hardThreshold": 4},
        "repeat-reminder": {"thresholds": [3], "exclude": ["*look_l"]},
    }
    wanted = {
        "circuit-breaker": [deny(10, 3, 3), deny(11, 3, 3)],
        "loop-guard": [nudge(2, 2, 2), nudge(3, 3, 2), deny(5, 4, 4), nudge(11, 2, 2)],
        "repeat-reminder": [nudge(10, 3, 3)],
    }
    played(tmp_path, guards, plane, *"LLLLLGLGLGG", wanted=wanted)


def test_in_both_planes_the_host_denies_and_the_agents_listeners_still_run(tmp_path: Path) -> None:
    """The agent's guards are not asked about what the host's deny, and see it as an error result; so the host's own
    denial is a link of the agent's chain and none of its own. Nudges come twice."""
    guards: Guards = {"circuit-breaker": {"duplicateLimit": 5}, "loop-guard": {"softThreshold": 2, "hardThreshold": 3}}
    wanted = {
        "loop-guard@host": [nudge(2, 2, 2), deny(4, 3, 3), nudge(6, 2, 2)],
        "circuit-breaker@host": [deny(place, 5, 5) for place in (5, 6, 7, 8)],
        "loop-guard@agent": [nudge(2, 2, 2), nudge(6, 2, 2)],
        "circuit-breaker@agent": [],
    }
    trace = played(tmp_path, guards, "both", *"AAAAAAAA", wanted=wanted)
    assert [notice.source for notice in of(trace, Notice)] == ["loop-guard"] * 4
    consulted = {(event.guard, event.plane) for event in of(trace, Guard) if event.action == "consulted"}
    assert consulted == {(guard, plane) for guard in guards for plane in PLANES}


def test_the_agents_chain_is_another_than_the_hosts(tmp_path: Path) -> None:
    """The host's loop-guard denies the A for good, whose text to the agent's is the same result again and again."""
    guards: Guards = {"loop-guard": {"softThreshold": 2, "hardThreshold": 3}}
    wanted = {
        "loop-guard@host": [nudge(2, 2, 2), *[deny(place, 3, 3) for place in range(4, 9)]],
        "loop-guard@agent": [nudge(2, 2, 2), nudge(5, 2, 2)],
    }
    played(tmp_path, guards, "both", *"AAAAAAAA", wanted=wanted)


@pytest.mark.parametrize("plane", ["agent"])
def test_a_denial_in_the_middle_of_a_step(tmp_path: Path, plane: str) -> None:
    """The world's tools run one after the other, also where one response asks for several."""
    guards: Guards = {
        "circuit-breaker": {"duplicateLimit": 3},
        "loop-guard": {"softThreshold": 2, "hardThreshold": 9},
        "repeat-reminder": {"thresholds": [3]},
    }
    wanted = {
        "circuit-breaker": [deny(4, 3, 3), deny(6, 3, 3), deny(7, 3, 3), deny(8, 3, 3)],
        "loop-guard": [nudge(2, 2, 2), nudge(7, 2, 2), nudge(8, 3, 2)],
        "repeat-reminder": [nudge(8, 3, 3)],
    }
    trace = played(tmp_path, guards, plane, "AABABAA", "A", wanted=wanted)
    assert [step.calls for step in of(trace, Step)] == [7, 1, 0]


@pytest.mark.parametrize("plane", PLANES)
def test_a_denial_among_calls_that_run_side_by_side(tmp_path: Path, plane: str) -> None:
    guards: Guards = {
        "circuit-breaker": {"duplicateLimit": 4},
        "loop-guard": {"softThreshold": 2, "hardThreshold": 9},
        "repeat-reminder": {"thresholds": [3]},
    }
    wanted = {
        "circuit-breaker": [deny(5, 4, 4), deny(7, 4, 4), deny(8, 4, 4)],
        "loop-guard": [nudge(2, 2, 2), nudge(3, 3, 2), nudge(8, 2, 2)],
        "repeat-reminder": [nudge(3, 3, 3)],
    }
    trace = played(tmp_path, guards, plane, "AAABABA", "A", wanted=wanted, together=[5])
    kinds = [event.type for event in trace.events if event.type in ("call", "result")]
    assert kinds[:14] == ["call"] * 7 + ["result"] * 7


@pytest.mark.parametrize("plane", ["host"])
def test_calls_that_run_side_by_side_are_all_asked_before_the_first_settles(tmp_path: Path, plane: str) -> None:
    """So the chain gets longer than the loop-guard allows; of calls that run in turn the third is denied."""
    guards: Guards = {"loop-guard": {"softThreshold": 0, "hardThreshold": 2}}
    at_once = {"loop-guard": [deny(5, 4, 2)]}
    played(tmp_path, guards, plane, "AAAA", *"ABA", wanted=at_once, together=[4, 1, 1])


@pytest.mark.parametrize("plane", ["agent"])
def test_calls_that_run_in_turn_are_asked_after_the_one_before_has_settled(tmp_path: Path, plane: str) -> None:
    guards: Guards = {"loop-guard": {"softThreshold": 0, "hardThreshold": 2}}
    in_turn = {"loop-guard": [deny(3, 2, 2), deny(4, 2, 2), deny(5, 2, 2)]}
    played(tmp_path, guards, plane, "AAAA", *"ABA", wanted=in_turn)
