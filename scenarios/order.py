"""Who goes on, where there are subagents: one agent at a time, in an order that is the same in every run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class _Agent:
    parent: str | None
    waits: bool = True
    steps: int = 0


class Order:
    """The root agent and its subagents; where no subagent is ever started, the root always goes next.

    An agent with subagents below it that are not done waits for them. Of the others the one with the fewest steps goes
    next, and of these the one that was started first. The recorder in the harness (turns.js) has the same rule.
    """

    def __init__(self, root: str = "root") -> None:
        self._agents = {root: _Agent(None)}

    def started(self, agent: str, parent: str) -> None:
        """`parent` started `agent`, which has not been there before."""
        self._agents[agent] = _Agent(parent)

    def done(self, agent: str) -> None:
        """The agent takes no further step, unless it is woken."""
        self._agents[agent].waits = False

    def woken(self, agent: str) -> None:
        """There is something for the agent to go on with."""
        self._agents[agent].waits = True

    def waiting(self) -> tuple[str, ...]:
        """The agents that are not done, in the order in which they were started."""
        return tuple(name for name, agent in self._agents.items() if agent.waits)

    def next(self) -> str | None:
        """The agent whose step is next, which counts as taken; None where all are done."""
        waiting = self.waiting()
        busy = {above for name in waiting for above in self._above(name)}
        free = [name for name in waiting if name not in busy]
        if not free:
            return None
        chosen = min(free, key=lambda name: self._agents[name].steps)
        self._agents[chosen].steps += 1
        return chosen

    def _above(self, name: str) -> Iterator[str]:
        """Who started the agent, who started that one, and so on."""
        parent = self._agents[name].parent
        while parent is not None:
            yield parent
            parent = self._agents[parent].parent
