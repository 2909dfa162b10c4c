"""From an episode's event log to its trace: who said, asked, denied and compacted what, in causal order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from guards.json_text import parse
from guards.keys import call_key
from results import trace as records
from runners.harness.attempts import Attempt, Attempts
from runners.harness.eventlog import Inconsistent, Line
from runners.harness.sessions import Session, Sessions
from scenarios.judge import MCP_PREFIX

__all__ = ["Inconsistent", "assemble"]

REMINDER_SOURCE = "repeat-tool-reminder"
_SILENT = {"runtime-context", "compact-checkpoint"}
"""Sources of user messages that are the harness' own bookkeeping of the prompt, in every arm alike."""
_GUARD_LINES = {"arm", "consulted", "nudge", "deny", "refuse", "announce", "incident", "reset"}
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def assemble(
    lines: Sequence[Line],
    *,
    engines: Sequence[str],
    reminders: Sequence[str],
    stopped_by: str | None,
    foreign: Mapping[str, str] | None = None,
) -> list[records.Event]:
    """The events of all agents, each agent's last one its `end`. `engines` and `reminders` are the planes that hold a
    compaction engine and the harness' own repeat reminder. `foreign` are the patterns on their denials' texts of
    guards that write no log, by GUARD@PLANE; the first that fits names the denier.
    Raises Inconsistent, also for a line that is not as its
    kind should be: the harness writes other events then than those that this was made for."""
    assembler = _Assembler(engines, reminders, lines, foreign or {})
    at = "its beginning"
    try:
        for number, line in enumerate(lines, start=1):
            at = " ".join([f"line {number}:", line["ev"], *([line["type"]] if "type" in line else [])])
            assembler.read(line)
        at = "its end"
        return assembler.finish(stopped_by)
    except _MALFORMED as error:
        raise Inconsistent(f"{at}: not as it should be: {type(error).__name__}: {error}") from error


class _Assembler:
    def __init__(
        self, engines: Sequence[str], reminders: Sequence[str], lines: Sequence[Line], foreign: Mapping[str, str]
    ) -> None:
        self._foreign = {name: re.compile(pattern) for name, pattern in foreign.items()}
        self._sessions = Sessions(lines)
        self._reminder_planes = tuple(reminders)
        self._events: list[records.Event] = []
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
            agent = self._sessions.of(line["agent"])
            if not line["compaction"]:
                agent.answers.append(line)
        elif kind == "world":
            self._world.append(line)
        elif kind in _GUARD_LINES:
            self._guard(line)
        elif kind == "spawn":
            self._spawn(line)
        elif kind == "event":
            self._event(line)

    def finish(self, stopped_by: str | None) -> list[records.Event]:
        for attempt in self._attempts.rest():
            self._compaction(attempt)
        whole = True
        for agent in self._sessions.all():
            reason, cause = agent.end(stopped_by)
            whole = whole and reason != "error"
            extra = {} if cause is None else {"cause": cause}
            self._events.append(records.End(agent=agent.name, t=self._now, reason=reason, extra=extra))
        # What was cut off in the midst of a call has no result for it.
        if whole and self._world:
            raise Inconsistent(
                f"the world executed {self._world[0]['tool']!r}, and no call of the harness asked for it"
            )
        return self._events

    # -- what the harness did ------------------------------------------------------------------------------------

    def _event(self, line: Line) -> None:
        kind, data, session = line["type"], line["data"], line["agent"]
        self._sessions.follow(session, line["seq"])
        if kind == "assistant/message":
            self._step(self._sessions.of(session), data)
        elif kind == "tool/call":
            self._call(self._sessions.of(session), data)
        elif kind == "tool/result":
            self._result(self._sessions.of(session), data)
        elif kind == "user/message":
            self._message(session, data)
        elif kind == "turn/end":
            self._sessions.of(session).turn_end = data["reason"]

    def _step(self, agent: Session, data: dict[str, Any]) -> None:
        if data.get("interrupted"):
            return
        agent.steps += 1
        if len(agent.answers) < agent.steps:
            raise Inconsistent(f"{agent.name}: the harness had {agent.steps} replies, the gateway gave fewer")
        answer = agent.answers[agent.steps - 1]
        if agent.open_call is not None:
            raise Inconsistent(f"{agent.name}: a reply before the call {agent.open_call!r} was settled")
        ids = [block["id"] for block in data["message"]["content"] if block["type"] == "tool-call"]
        calls = len(ids)
        agent.due = ids
        agent.repeats.clear()
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

    def _call(self, agent: Session, data: dict[str, Any]) -> None:
        call = data["callId"]
        if call not in agent.due:
            raise Inconsistent(f"{agent.name}: the call {call!r}, which the last reply does not hold or held once")
        agent.due.remove(call)
        tool, args = data["name"], _parsed(data["arguments"])
        agent.asked[call], agent.keys[call] = tool, call_key(tool, args)
        self._events.append(
            records.Call(
                agent=agent.name,
                t=self._now,
                id=call,
                step=agent.steps,
                tool=tool,
                args=args,
                primed=agent.answers[agent.steps - 1]["primed"],
            )
        )

    def _result(self, agent: Session, data: dict[str, Any]) -> None:
        message = data["message"]
        call = message["toolCallId"]
        if call in agent.settled:
            return  # a pruner's replacement of a result that stands there already
        if call not in agent.asked:
            raise Inconsistent(f"{agent.name}: a result for {call!r}, which nobody asked for")
        agent.settled.add(call)
        tool, denied_by = agent.asked.pop(call), agent.denied.get(call)
        if denied_by is not None and not message.get("isError"):
            raise Inconsistent(f"{agent.name}: {denied_by} denied the call {call!r}, and its result is no error")
        agent.latest[tool] = call
        agent.repeated(call, tool)
        denied_by = denied_by or self._by_text(agent, call, message)
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

    def _by_text(self, agent: Session, call: str, message: dict[str, Any]) -> str | None:
        """Who denied the call, told by the text of its result: all that there is of a guard that writes no log."""
        text = "".join(block.get("text", "") for block in message["content"]).removeprefix("Error: ")
        for name, pattern in self._foreign.items():
            if message.get("isError") and pattern.search(text):
                guard, _, plane = name.rpartition("@")
                self._events.append(
                    records.Guard(
                        agent=agent.name,
                        t=self._now,
                        guard=guard,
                        plane=plane,
                        action="deny",
                        call=call,
                        reason=text,
                        extra={"by": "text"},
                    )
                )
                return name
        return None

    def _world_call(self, agent: Session, tool: str, denied_by: str | None, data: dict[str, Any]) -> None:
        """A call of the world's that ran must be one that the world executed, and no other may."""
        if not tool.startswith(MCP_PREFIX) or denied_by is not None or "error" in data:
            return
        name = tool.removeprefix(MCP_PREFIX)
        # Not only the first: agents that work side by side may get their results in another order.
        at = next((at for at, line in enumerate(self._world) if line["tool"] == name), None)
        if at is None:
            shown = json.dumps(data["message"]["content"])[:200]
            raise Inconsistent(f"{agent.name}: {tool} ran, but never reached the world; the model was shown {shown}")
        self._world.pop(at)

    def _message(self, session: str, data: dict[str, Any]) -> None:
        source = data["source"]["kind"]
        if source in _SILENT:
            return
        agent = self._sessions.of(session)
        text = "".join(block.get("text", "") for block in data["content"] if block.get("type") == "text")
        if source == "user":
            agent.spoken_to()
            self._events.append(records.User(agent=agent.name, t=self._now, text=text))
        else:
            if source == REMINDER_SOURCE:
                self._reminder(agent, data["source"].get("summary", ""))
            self._events.append(records.Notice(agent=agent.name, t=self._now, text=text, source=source))

    def _reminder(self, agent: Session, summary: str) -> None:
        """The harness' own reminder writes no log: it says tool and count in its message, which comes after all results
        of the step. It is about the call that made the count full; the last of the tool where none did, as tools may be
        left out of its counting. Where it stands in both planes, the agent's speaks first: its listener is the outer
        one."""
        tool, _, count = summary.rpartition(" × ")
        if not tool or not count.isdigit():
            raise Inconsistent(f"{agent.name}: a reminder says {summary!r}, which is no tool and count")
        call = agent.repeats.get((tool, int(count)), agent.latest.get(tool))
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

    def _spawn(self, line: Line) -> None:
        """The parent's call started a subagent. Its result follows, and with it names the subagent."""
        agent = self._sessions.of(line["agent"])
        if line["call"] not in agent.asked:
            raise Inconsistent(
                f"{agent.name}: {line['call']!r} started an agent, and is no call that waits for a result"
            )
        child = self._sessions.of(line["child"])
        self._events.append(records.Spawn(agent=agent.name, t=self._now, child=child.name, purpose=line.get("purpose")))

    # -- what the guards did -------------------------------------------------------------------------------------

    def _guard(self, line: Line) -> None:
        session = line.get("agent")
        name = "root" if session is None else self._sessions.of(session).name
        if line["ev"] == "deny":
            self._denial(line)
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

    def _denial(self, line: Line) -> None:
        agent, call, by = self._sessions.of(line["agent"]), line["call"], f"{line['guard']}@{line['plane']}"
        if call not in agent.asked:
            raise Inconsistent(f"{agent.name}: {by} denied {call!r}, which is no call that waits for its result")
        agent.denied.setdefault(call, by)

    def _compaction(self, attempt: Attempt) -> None:
        self._events.append(
            records.Compaction(
                agent=self._sessions.of(attempt.agent).name,
                t=self._now,
                trigger=attempt.trigger,
                outcome=attempt.outcome,
                plane=attempt.plane,
                summary_calls=attempt.summary_calls,
                tokens_before=attempt.tokens_before,
                tokens_after=attempt.tokens_after,
                seconds=attempt.seconds,
                extra={
                    "input_tokens": attempt.input_tokens,
                    "output_tokens": attempt.output_tokens,
                    "tape_keys": list(attempt.tape_keys),
                },
            )
        )


def _parsed(arguments: str) -> Any:
    """The value, or the text itself where it is none."""
    try:
        return parse(arguments)
    except ValueError:
        return arguments
