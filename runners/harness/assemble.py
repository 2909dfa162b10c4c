"""From an episode's event log to its trace: who said, asked, denied and compacted what, in causal order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from results import trace as records
from runners.harness.attempts import Attempt, Attempts
from runners.harness.eventlog import Line
from scenarios.judge import MCP_PREFIX

EndReason = Literal["completed", "horizon", "stopped", "blocked", "overflow", "max_tokens", "error"]
OVERFLOW_CODE = "CONTEXT_WINDOW_EXCEEDED"
REMINDER_SOURCE = "repeat-tool-reminder"
_SILENT = {"runtime-context", "compact-checkpoint"}
"""Sources of user messages that are the harness' own bookkeeping of the prompt, in every arm alike."""
_ENDS: dict[str, EndReason] = {"completed": "completed", "max-tokens": "max_tokens"}
_STOPPED: dict[str | None, EndReason] = {"finished": "completed", "horizon": "horizon", "error": "error"}
_GUARD_LINES = {"arm", "consulted", "nudge", "deny", "refuse", "announce", "incident", "reset"}


class Inconsistent(Exception):
    """The log contradicts itself: infrastructure, never an outcome."""


def assemble(
    lines: Sequence[Line], *, engines: Sequence[str], reminders: Sequence[str], stopped_by: str | None
) -> list[records.Event]:
    """The events of all agents, each agent's last one its `end`. `engines` and `reminders` are the planes that hold a
    compaction engine and the harness' own repeat reminder. Raises Inconsistent."""
    assembler = _Assembler(
        engines, reminders, {line["agent"]: line["ordinal"] for line in lines if line["ev"] == "answer"}
    )
    for line in lines:
        assembler.read(line)
    return assembler.finish(stopped_by)


class _Agent:
    """What is known of one agent so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.answers: list[Line] = []
        self.asked: dict[str, str] = {}
        """Tool by call id, of calls without a result."""
        self.settled: set[str] = set()
        self.denied: dict[str, str] = {}
        self.latest: dict[str, str] = {}
        """The last settled call of each tool."""
        self.reminded: tuple[str, int] | None = None
        self.turn_end: dict[str, Any] | None = None


class _Assembler:
    def __init__(self, engines: Sequence[str], reminders: Sequence[str], ordinals: Mapping[str, int]) -> None:
        self._ordinals = ordinals
        self._reminder_planes = tuple(reminders)
        self._events: list[records.Event] = []
        self._agents: dict[str, _Agent] = {}
        self._attempts = Attempts(engines)
        self._world: list[Line] = []
        self._clock: float | None = None
        self._now: float | None = None

    def read(self, line: Line) -> None:
        if "ms" in line:
            self._clock = line["ms"] if self._clock is None else self._clock
            self._now = round((line["ms"] - self._clock) / 1000, 3)
        for attempt in self._attempts.read(line):
            self._compaction(attempt)
        kind = line["ev"]
        if kind == "answer":
            agent = self._agent(line["agent"])
            if not line["compaction"]:
                agent.answers.append(line)
        elif kind == "world":
            self._world.append(line)
        elif kind in _GUARD_LINES:
            self._guard(line)
        elif kind == "event":
            self._event(line)

    def finish(self, stopped_by: str | None) -> list[records.Event]:
        for attempt in self._attempts.rest():
            self._compaction(attempt)
        if self._world:
            raise Inconsistent(
                f"the world executed {self._world[0]['tool']!r}, and no call of the harness asked for it"
            )
        for agent in self._agents.values():
            reason, cause = _reason(agent.turn_end, stopped_by)
            extra = {} if cause is None else {"cause": cause}
            self._events.append(records.End(agent=agent.name, t=self._now, reason=reason, extra=extra))
        return self._events

    # -- what the harness did ------------------------------------------------------------------------------------

    def _event(self, line: Line) -> None:
        kind, data, session = line["type"], line["data"], line["agent"]
        if kind == "assistant/message":
            self._step(self._agent(session), data)
        elif kind == "tool/call":
            agent = self._agent(session)
            arguments = _parsed(data["arguments"])
            agent.asked[data["callId"]] = data["name"]
            call = records.Call(
                agent=agent.name, t=self._now, id=data["callId"], step=agent.steps, tool=data["name"], args=arguments,
                primed=agent.answers[agent.steps - 1]["primed"],
            )  # fmt: skip
            self._events.append(call)
        elif kind == "tool/result":
            self._result(self._agent(session), data)
        elif kind == "user/message":
            self._message(session, data)
        elif kind == "turn/end":
            self._agent(session).turn_end = data["reason"]

    def _step(self, agent: _Agent, data: dict[str, Any]) -> None:
        if data.get("interrupted"):
            return
        agent.steps += 1
        if len(agent.answers) < agent.steps:
            raise Inconsistent(f"{agent.name}: the harness had {agent.steps} replies, the gateway gave fewer")
        answer = agent.answers[agent.steps - 1]
        calls = sum(block["type"] == "tool-call" for block in data["message"]["content"])
        if calls != answer["calls"]:
            raise Inconsistent(
                f"{agent.name}, step {agent.steps}: {calls} calls here, {answer['calls']} at the gateway"
            )
        primed = answer["primed"]
        self._events.append(
            records.Step(
                agent=agent.name,
                t=self._now,
                n=agent.steps,
                calls=calls,
                input_tokens=None if primed else answer["input_tokens"],
                output_tokens=None if primed else answer["output_tokens"],
                seconds=None if primed else answer["prefill_seconds"] + answer["decode_seconds"],
                finish=answer["finish"],
                tape_key=answer["tape_key"],
                prompt_digest=answer["prompt_digest"],
                primed=primed,
            )
        )

    def _result(self, agent: _Agent, data: dict[str, Any]) -> None:
        message = data["message"]
        call = message["toolCallId"]
        if call in agent.settled:
            return  # a pruner's replacement of a result that stands there already
        if call not in agent.asked:
            raise Inconsistent(f"{agent.name}: a result for {call!r}, which nobody asked for")
        agent.settled.add(call)
        tool, denied_by = agent.asked.pop(call), agent.denied.get(call)
        agent.latest[tool] = call
        self._world_call(agent, tool, denied_by, data)
        self._events.append(
            records.Result(
                agent=agent.name,
                t=self._now,
                id=call,
                content=records.blocks(message["content"]),
                error=bool(message.get("isError")),
                denied_by=denied_by,
            )
        )

    def _world_call(self, agent: _Agent, tool: str, denied_by: str | None, data: dict[str, Any]) -> None:
        """A call of the world's that ran must be one that the world executed, and no other may."""
        if not tool.startswith(MCP_PREFIX) or denied_by is not None or "error" in data:
            return
        name = tool.removeprefix(MCP_PREFIX)
        if not self._world or self._world[0]["tool"] != name:
            shown = json.dumps(data["message"]["content"])[:200]
            raise Inconsistent(f"{agent.name}: {tool} ran, but never reached the world; the model was shown {shown}")
        self._world.pop(0)

    def _message(self, session: str, data: dict[str, Any]) -> None:
        source = data["source"]["kind"]
        if source in _SILENT:
            return
        agent = self._agent(session)
        text = "".join(block.get("text", "") for block in data["content"] if block.get("type") == "text")
        if source == "user":
            self._events.append(records.User(agent=agent.name, t=self._now, text=text))
        else:
            if source == REMINDER_SOURCE:
                self._reminder(agent, data["source"].get("summary", ""))
            self._events.append(records.Notice(agent=agent.name, t=self._now, text=text, source=source))

    def _reminder(self, agent: _Agent, summary: str) -> None:
        """The harness' own reminder writes no log: it says tool and count in its message. Where it stands in both
        planes, the agent's speaks first: its listener is the outer one."""
        tool, _, count = summary.rpartition(" × ")
        if not tool or not count.isdigit():
            raise Inconsistent(f"{agent.name}: a reminder says {summary!r}, which is no tool and count")
        call = agent.latest.get(tool)
        planes = self._reminder_planes
        second = agent.reminded == (call, int(count))
        agent.reminded = (call or "", int(count))
        self._events.append(
            records.Guard(
                agent=agent.name,
                t=self._now,
                guard="repeat-reminder",
                plane=planes[0] if len(planes) == 1 else ("host" if second else "agent"),
                action="nudge",
                call=call,
                count=int(count),
                limit=int(count),
            )
        )

    # -- what the guards did -------------------------------------------------------------------------------------

    def _guard(self, line: Line) -> None:
        session = line.get("agent")
        name = "root" if session is None else self._agent(session).name
        if line["ev"] == "deny" and session is not None:
            self._agents[session].denied.setdefault(line["call"], f"{line['guard']}@{line['plane']}")
        self._events.append(
            records.Guard(
                agent=name,
                t=self._now,
                guard=line["guard"],
                plane=line["plane"],
                action=line["ev"],
                call=line.get("call"),
                kind=line.get("kind"),
                count=line.get("count"),
                limit=line.get("limit"),
                reason=line.get("reason"),
            )
        )

    def _compaction(self, attempt: Attempt) -> None:
        self._events.append(
            records.Compaction(
                agent=self._agent(attempt.agent).name,
                t=self._now,
                trigger=attempt.trigger,
                outcome=attempt.outcome,
                plane=attempt.plane,
                summary_calls=attempt.summary_calls,
                tokens_before=attempt.tokens_before,
                tokens_after=attempt.tokens_after,
                seconds=attempt.seconds,
                extra={"input_tokens": attempt.input_tokens, "output_tokens": attempt.output_tokens},
            )
        )

    # -- who is who ----------------------------------------------------------------------------------------------

    def _agent(self, session: str) -> _Agent:
        """The agent of a session: `root`, or `agent-N` in the order in which they were started."""
        if session not in self._agents:
            number = self._ordinals.get(session, max(self._ordinals.values(), default=-1) + 1)
            self._agents[session] = _Agent("root" if number == 0 else f"agent-{number}")
        return self._agents[session]


def _reason(turn_end: dict[str, Any] | None, stopped_by: str | None) -> tuple[EndReason, str | None]:
    """How an agent ended, and why where that is infrastructure. The harness' own word for it comes first."""
    if turn_end is None:
        return ("horizon", None) if stopped_by == "horizon" else ("error", "the session has no end")
    kind = turn_end["kind"]
    if kind in _ENDS:
        return _ENDS[kind], None
    if kind == "blocked":
        return _STOPPED.get(stopped_by, "blocked"), None
    if kind == "error":
        error = turn_end.get("error") or {}
        if error.get("code") == OVERFLOW_CODE:
            return "overflow", None
        return "error", f"{error.get('code')}: {error.get('message')}"
    return "error", f"the turn ended as {kind}: {json.dumps(turn_end)[:200]}"


def _parsed(arguments: str) -> Any:
    """The value, or the text itself where it is none."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
