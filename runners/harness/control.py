"""What stands beside an episode's model while it runs: its world, and the say whether it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.types import ASGIApp

from runners.harness.attempts import Attempts
from runners.harness.attest import Failure
from runners.harness.eventlog import EventLog, Line
from runners.harness.watch import WorkspaceWatch
from runners.spec import Horizon
from scenarios.base import Outcome, Verdict, World
from scenarios.mcp_server import WorldServer
from scenarios.tools import Args

MOST_CALLS_A_TURN = 8
MOST_TOKENS_A_TURN = 1024
"""Caps on asked calls and on completion tokens, per unit of the horizon: what exceeds them is cut off there too."""


class RecordedWorld(World):
    """A world that writes each call that it executes into the event log, before the caller has the result."""

    def __init__(self, world: World, log: EventLog) -> None:
        super().__init__(())
        self._world = world
        self._log = log
        self.hide: Callable[[Any], Any] = lambda value: value
        """Puts the aliases back into arguments: a world must not see what differs from run to run."""

    def call(self, tool: str, args: Any, agent: str = "root") -> Outcome:
        outcome = self._world.call(tool, self.hide(args), agent)
        self.finished = self._world.finished
        self._log.append({"ev": "world", "tool": tool, "error": outcome.error, "text": outcome.text})
        return outcome

    def run(self, args: Args, agent: str) -> Outcome:
        return self._world.run(args, agent)

    def worth(self, args: Args, agent: str) -> Verdict:
        return self._world.worth(args, agent)


class Control:
    """Answers the recorder. All of it is called on the gateway's event loop but `interrupt`.

    `attest` is given what is live at the first question of the root agent, with the log's lines so far, and `joined`
    what is live at that of each further one.
    """

    def __init__(
        self,
        *,
        log: EventLog,
        finished: Callable[[], bool],
        server: WorldServer,
        horizon: Horizon,
        planes: tuple[str, ...],
        attest: Callable[[dict[str, Any], list[Line]], list[Failure]],
        watch: WorkspaceWatch | None = None,
        joined: Callable[[str, dict[str, Any]], list[Failure]] = lambda agent, live: [],
    ) -> None:
        """`watch` is for scenarios of files, None for those whose world serves its own tools."""
        self._joined = joined
        self.number: Callable[[str, str], int] | None = None
        """Gives a subagent's number by its session and the call that started it, before its first step. Raises
        LookupError where nobody made that call; None where there are no subagents."""
        self._watch = watch
        self._log = log
        self._finished = finished
        self._server = server
        self._horizon = horizon
        self._attest = attest
        self._attempts = Attempts(planes)
        self._turns = self._calls = self._tokens = 0
        self._reading = asyncio.Lock()
        self._asked = False
        self._denied: set[str] = set()
        self.failures: list[Failure] = []
        self.stopped_by: str | None = None
        """Why no further step was allowed: `finished`, `horizon`, `error`; None = it ended by itself."""
        self.interrupted = False
        """Whatever is recorded after this is no episode, even if it had been stopped before: its end is not known."""

    @property
    def mcp(self) -> ASGIApp:
        return self._server

    def running(self) -> AbstractAsyncContextManager[None]:
        return self._server.running()

    def interrupt(self) -> None:
        """No further step is allowed; may be called from any thread."""
        self.interrupted = True

    async def control(self, question: dict[str, Any]) -> dict[str, Any]:
        # One at a time: agents ask side by side, and lines count in their order.
        async with self._reading:
            # Off the loop: the file is read, and the log may be long.
            for line in await asyncio.to_thread(self._log.update):
                self._count(line)
        if question["at"] != "pre-step":
            self._call(question)
            return {"go": True}
        if "live" in question:
            if self._asked:
                self.failures += self._joined(question["agent"], question["live"])
            else:
                self._asked = True
                self.failures += self._attest(question["live"], self._log.lines)
        self.stopped_by = self.stopped_by or self._why()
        why = "interrupted" if self.interrupted else self.stopped_by
        return {"go": why is None, "why": why}

    def _call(self, question: dict[str, Any]) -> None:
        """Before or after a call of the harness' own tools."""
        assert self._watch is not None, "the recorder tells of calls only where it was asked to"
        if question["at"] == "pre-call":
            self._watch.look(question["call"])
        elif question["call"] not in self._denied:
            self._watch.settled(question["tool"], question.get("args"), question["text"])

    def _why(self) -> str | None:
        if self.failures:
            return "error"
        if self._finished():
            return "finished"
        attempts = len(self._attempts.settled)
        over = (
            attempts >= self._horizon.count
            if self._horizon.unit == "compaction attempts"
            else self._turns + attempts >= self._horizon.count
        )
        most = self._horizon.turns
        if over or self._turns >= most or self._calls >= most * MOST_CALLS_A_TURN:
            return "horizon"
        return "horizon" if self._tokens >= most * MOST_TOKENS_A_TURN else None

    def _count(self, line: Line) -> None:
        self._attempts.read(line)
        if line["ev"] == "deny":
            self._denied.add(line["call"])
        if line["ev"] == "spawn":
            self._number(line["child"], line["call"])
        if line["ev"] == "answer" and not line["compaction"]:
            self._turns += line["calls"] > 0
            self._calls += line["calls"]
            self._tokens += line["output_tokens"]

    def _number(self, child: str, call: str) -> None:
        """A call started an agent: its number stands in the log before the agent takes its first step."""
        if self.number is None:
            return
        try:
            number = self.number(child, call)
        except LookupError as error:
            self.failures.append(Failure("gateway", None, f"the call {call!r} started an agent: {error}"))
        else:
            self._log.append({"ev": "number", "agent": child, "ordinal": number})
