"""Traces of several agents: a root of ours starts one subagent for each, and each asks what its agent asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from results.trace import Trace
from runners.gateway.conversation import Call, Reply
from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script
from scenarios.judge import MCP_PREFIX
from scenarios.tools import Args, Tool
from tests.harness.stage import Course as Staged
from tests.harness.stage import StagedBackend
from tests.runners.corpus_scenario import NEEDS, Part, Recorded, parts, tools

ROWS = (
    {"id": "subagent", "name": "@deepseek-ai/dsh-subagent"},
    {"id": "spawn", "name": "@deepseek-ai/dsh-subagent-spawn-in-process", "config": {"providerName": "spawn"}},
    {
        "id": "tool-subagent",
        "name": "@deepseek-ai/dsh-tool-subagent",
        "config": {"provider": "spawn", "toolName": "subagent"},
    },
)
"""What the small profile lacks to let an agent start another one."""


class CorpusAgents(Scenario):
    """The agents of a trace that call tools, each as a subagent."""

    name = "corpus-agents"
    expect = "quiet"
    summary = "a recorded trace of several agents, played again"
    calls: tuple[type[Args], ...] = ()  # type: ignore[misc]
    prompt = "Let each of them do its part."

    def __init__(self, trace: Trace) -> None:
        """Raises ValueError where equal calls gave different results: the world does not know who asks."""
        super().__init__()
        streams = {agent: parts(trace, agent) for agent in dict.fromkeys(event.agent for event in trace.events)}
        self._streams = {agent: stream for agent, stream in streams.items() if any(part.steps for part in stream)}
        self.agents = {agent: f"agent-{number}" for number, agent in enumerate(self._streams, start=1)}
        """The names of the subagents, by those of the trace."""
        found: dict[str, tuple[Any, Outcome]] = {}
        for call in self._recorded():
            if found.setdefault(_key(call.tool, call.args), (call.args, call.outcome))[1] != call.outcome:
                raise ValueError(f"{call.tool} gave one agent this and another that")
        self._outcomes = {key: outcome for key, (_, outcome) in found.items()}

    def _recorded(self) -> list[Recorded]:
        return [call for stream in self._streams.values() for part in stream for step in part.steps for call in step]

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tools(self._recorded())

    @property
    def needs(self) -> Needs:
        return NEEDS

    def world(self) -> World:
        return _World(self._outcomes)

    def honest(self) -> Course:
        """Not to be played: a course is one agent's. See `backend`."""
        return Script(())

    def backend(self) -> StagedBackend:
        """What plays all of them, in the model's place."""
        spawns = tuple(
            Call("subagent", {"description": agent, "prompt": f"{agent}: {stream[0].prompt}"})
            for agent, stream in self._streams.items()
        )
        replies: dict[int, Sequence[Reply]] = {0: (Reply(calls=spawns), *[Reply("Waiting.")] * (2 + len(spawns)))}
        for number, stream in enumerate(self._streams.values(), start=1):
            replies[number] = (*_replies(stream), Reply("Done."))
        return StagedBackend(Staged(replies))


def _replies(stream: Sequence[Part]) -> list[Reply]:
    (part,) = stream
    return [Reply(calls=tuple(Call(MCP_PREFIX + call.tool, call.args) for call in step)) for step in part.steps]


def _key(tool: str, args: Any) -> str:
    return f"{tool} {args}"


class _World(World):
    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        super().__init__(())
        self._outcomes = outcomes

    def call(self, tool: str, args: Any, agent: str = "root") -> Outcome:
        return self._outcomes.get(_key(tool, args), Outcome("The recording has no such call.", error=True))

    def judge(self, agent: str, tool: str, args: Any) -> Verdict:
        return Verdict("novel", "recordings are not judged")

    def run(self, args: Args, agent: str) -> Outcome:
        raise NotImplementedError

    def worth(self, args: Args, agent: str) -> Verdict:
        raise NotImplementedError
