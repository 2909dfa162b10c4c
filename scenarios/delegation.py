"""Tasks that are given to subagents, with the harness's own tools for it.

In the harness these tools are its own and the world hears nothing of them; the judge does, and steps its copy of the
world over them as over any call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from scenarios.base import Outcome, Verdict, World
from scenarios.tools import Args
from scenarios.workspace import HarnessArgs


class Subagent(HarnessArgs):
    """Give a task to a subagent, which works on it by itself and knows only what the prompt says. Returns its id at
    once; you are told when it has finished."""

    tool: ClassVar[str] = "subagent"
    description: str = Field(description="What the task is, in three to five words")
    prompt: str = Field(description="The whole task, with everything that the subagent needs to know")


class SendMessage(HarnessArgs):
    """Send a message to an agent."""

    tool: ClassVar[str] = "send_message"
    agent_id: str = Field(description="The agent's id")
    message: str = Field(description="The message")


STARTED = "started subagent"
"""What the call that starts an agent gives, before the agent's id, which a world does not know."""


class DelegatingWorld(World):
    """A world that can be worked on by subagents of the root. `due` is how many subagents the task needs.

    The tools of `inner` are everybody's. A delegation is worth something while fewer than `due` were started, or if
    nobody was given the same task before. Subagents start none, as the harness has it by default: who runs the world
    refuses that.
    """

    def __init__(self, inner: World, due: int) -> None:
        super().__init__((Subagent, SendMessage))
        self._inner = inner
        self._due = due
        self._given: list[str] = []

    def call(self, tool: str, args: Any, agent: str = "root") -> Outcome:
        if tool in self._calls:
            outcome = super().call(tool, args, agent)
        else:
            outcome = self._inner.call(tool, args, agent)
            self.finished, self.success = self._inner.finished, self._inner.success
        # Delegations move nothing: in the harness the world does not hear of them.
        self.ticks = self._inner.ticks
        return outcome

    def judge(self, agent: str, tool: str, args: Any) -> Verdict:
        return super().judge(agent, tool, args) if tool in self._calls else self._inner.judge(agent, tool, args)

    def compacted(self, agent: str) -> None:
        self._inner.compacted(agent)

    def observe(self, changed: Mapping[str, str | None]) -> None:
        self._inner.observe(changed)

    def run(self, args: Args, agent: str) -> Outcome:
        self.learn(agent, self._fact(args))
        if isinstance(args, SendMessage):
            return Outcome(f"message delivered to agent {args.agent_id}")
        assert isinstance(args, Subagent)
        if agent == "root":
            self._given.append(args.prompt)
        return Outcome(STARTED)

    def worth(self, args: Args, agent: str) -> Verdict:
        if isinstance(args, SendMessage):
            return self.first(agent, self._fact(args), "that its message was delivered")
        assert isinstance(args, Subagent)
        if agent != "root":
            return self.first(agent, self._fact(args), "that a subagent starts none")
        if args.prompt not in self._given:
            return Verdict("novel", "a task that nobody was given before")
        if len(self._given) < self._due:
            return Verdict("needed", f"{self._due} subagents are to do the same, and {len(self._given)} were started")
        return Verdict("sterile", "somebody was given this task before")

    def _fact(self, args: Args) -> tuple[str, ...]:
        if isinstance(args, SendMessage):
            return ("sent", args.agent_id, args.message)
        return ("no depth",)
