"""The alias map of an episode: what differs from run to run does not reach the model, and the model's words still work.

For one request of an agent the gateway asks for the agent's `number`, lets the map `learn` from the request, renders
what is `hidden` of it, and `check`s that nothing is left. When the reply goes out, the arguments of each call are
`reveal`ed, and `sent` is told of the calls.

Child agents are called `agent-1`, `agent-2` ... by the numbers that `Agents` gives them. Other ids that the harness
makes up (`_SHAPES`: background jobs, goals, files of spilled output) get an alias when an agent's request first shows
them, with the agent's name and a count in it, such as `bash-agent-1-2`: agents that run at once do not disturb each
other's counts. Nothing else is guessed: a UUID in a scenario's own text is left alone.

DeepSeek Harness 0.2.1rc2 puts no date or time, user, host or state of git into a request (found by experiment), so
there is no rule for them; a tool's output may hold them, and then `check` finds them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from guards.errors import UserError
from runners.gateway.alias_agents import Agents
from runners.gateway.alias_fields import changed, fields, json_changed
from runners.gateway.alias_leftovers import Clock, Finding, VolatileLeft, Watch
from runners.gateway.alias_pairs import Pairs
from runners.gateway.conversation import Conversation, Json, Text, ToolCall, ToolResult

__all__ = ["SPAWN_TOOLS", "AliasMap", "Finding", "VolatileLeft"]

WORKSPACE = "/workspace"
HOME = "/home/agent"
ROOT = "session-root"

SPAWN_TOOLS = frozenset({"subagent", "subagent_fork"})
"""The tools of DeepSeek Harness that start a child; the child's first message begins with the argument `prompt`."""

_STARTED = re.compile(r"started subagent ([A-Za-z0-9][A-Za-z0-9_\-]*[A-Za-z0-9])")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# What stands in an id, the id as the harness writes it, and its alias: `{agent}` is the agent's name, `{count}` counts
# from 1.
_SHAPES = tuple(
    (mark, re.compile(rf"(?<![A-Za-z0-9_.~\-]){shape}(?![A-Za-z0-9_\-])"), alias)
    for mark, shape, alias in (
        ("-", r"(?P<kind>bash|pwsh|workflow)-[0-9a-f]{16}", "{kind}-{agent}-{count}"),
        ("goal-", rf"goal-{_UUID}", "goal-{agent}-{count}"),
        (
            "dsh-spill-",
            r"dsh-spill-[A-Za-z0-9]{6}/session-[0-9a-f]{12}/[0-9a-f]{12}-(?P<kind>[A-Za-z0-9._\-]*[A-Za-z0-9_])",
            "dsh-spill/{agent}-{count}-{kind}",
        ),
        (
            "dsh-subprocess-",
            r"dsh-subprocess-[A-Za-z0-9]{6}/dsh-subprocess-[0-9]+-[0-9]+-[0-9a-f]{12}-(?P<kind>[a-z]+\.log)",
            "dsh-subprocess/{agent}-{count}-{kind}",
        ),
    )
)


class AliasMap:
    """The aliases of one episode; lives on one thread.

    workspace, home: absolute paths as given to the harness; symbolic links are resolved, and both spellings are hidden,
    as `/workspace` and `/home/agent`. root_session: the root's session id, shown as `session-root`; None takes the
    first agent that asks. extra: further value -> alias pairs; an alias should be no word that a model would write of
    itself, since it is revealed wherever it stands. watch: further values that must not reach a prompt and have no
    alias, such as the run directory; a user's or host's name only where it is a distinctive one. None hides nothing. A
    value that is its own alias already (`/workspace` in a container) is left as it is.

    Raises UserError for values that could not be hidden and revealed beyond doubt (`Pairs.add` says which).
    """

    def __init__(
        self,
        *,
        workspace: str | None = None,
        home: str | None = None,
        root_session: str | None = None,
        extra: Mapping[str, str] | None = None,
        watch: Iterable[str] = (),
        clock: Clock = lambda: datetime.now(UTC),
    ) -> None:
        self._pairs = Pairs()
        self._watch = Watch(clock)
        self._agents = Agents(root_session)
        self._counts: dict[tuple[int, int], int] = {}
        self._named: set[str] = set()
        for what, folder, alias in (("workspace", workspace, WORKSPACE), ("home", home, HOME)):
            if folder is not None:
                self._add(what, *_spellings(what, Path(folder)), alias=alias)
        self._name_agents()
        for value, alias in (extra or {}).items():
            self._add("value", value, alias=alias)
        for value in watch:
            self._watch.add("a watched value", value)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All (value, alias) pairs so far, in the order in which they became known."""
        return tuple(self._pairs)

    def number(self, session: str | None, conversation: Conversation) -> int | None:
        """The number of the agent that asks, 0 for the root; None while it can not be told (`Agents` says when).

        `conversation` is the request as it came. On None ask again after the parent's next request, or `assume`.
        """
        number = self._agents.number(session, self._opening(conversation))
        self._name_agents()
        return number

    def assume(self, session: str | None, conversation: Conversation) -> int:
        """As `number`, but by order of arrival where no rule decides: for a parent that never asks again.

        Two runs may then differ, so the caller records that it had to assume.
        """
        number = self._agents.assumed(session, self._opening(conversation))
        self._name_agents()
        return number

    def sent(self, calls: Iterable[ToolCall]) -> None:
        """Take note of the calls of a reply in their order, before the reply's end is sent; hidden or revealed."""
        for call in calls:
            prompt = call.arguments.get("prompt") if isinstance(call.arguments, dict) else None
            if call.name in SPAWN_TOOLS and isinstance(prompt, str):
                self._agents.called(call.id, self.hide(prompt))

    def announce(self, session: str, call_id: str) -> int:
        """Say which call started an agent; gives the agent's number.

        Raises LookupError where `sent` was told of no such call.
        """
        number = self._agents.announced(session, call_id)
        self._name_agents()
        return number

    def learn(self, session: str | None, conversation: Conversation) -> None:
        """Take in the ids that an agent's request shows, as it came. Raises LookupError while it has no number."""
        number = self._agents.known(session)
        if number is None:
            raise LookupError(f"agent {session!r} has no number yet")
        parts = [part for message in conversation.messages for part in message.parts]
        spawns = {part.id for part in parts if isinstance(part, ToolCall) and part.name in SPAWN_TOOLS}
        for part in parts:
            if isinstance(part, ToolResult) and part.call_id in spawns:
                started = _STARTED.match(part.text)
                if started is None:
                    self._agents.refused(part.call_id)
                else:
                    self._agents.started(started.group(1), part.call_id)
        self._name_agents()
        for _, text in fields(conversation):
            self._name_shapes(number, text)

    def hide(self, text: str) -> str:
        """The text as the model may see it. Idempotent."""
        return self._pairs.hide(text)

    def hide_json(self, value: Json) -> Json:
        """The JSON value with every string hidden, keys of objects included."""
        hidden: Json = json_changed(value, self._pairs.hide)
        return hidden

    def hidden(self, conversation: Conversation) -> Conversation:
        """The conversation as it is rendered: texts, arguments, and the tools' descriptions and schemas hidden."""
        return changed(conversation, self._pairs.hide)

    def reveal(self, value: Json) -> Json:
        """A call's arguments as the harness must get them: aliases in strings, keys included, become their values.

        Wherever the model wrote the alias of itself, the value comes too, and is hidden again in the next request.
        """
        revealed: Json = json_changed(value, self._pairs.reveal)
        return revealed

    def allow(self, text: str) -> None:
        """Take the dates that stand in `text` as the scenario's own: they are never leftovers."""
        self._watch.allow(text)

    def leftovers(self, text: str, where: str) -> list[Finding]:
        """The volatile spans that remain in a hidden text of the field `where` (`Watch` says what counts)."""
        return self._watch.findings(text, where)

    def check(self, hidden: Conversation) -> None:
        """Raise VolatileLeft, which names the fields, if anything volatile remains in a hidden conversation."""
        found = [finding for where, text in fields(hidden) for finding in self.leftovers(text, where)]
        if found:
            raise VolatileLeft(found)

    def _opening(self, conversation: Conversation) -> str:
        first = next((part for message in conversation.messages[:1] for part in message.parts), None)
        return self.hide(first.text) if isinstance(first, Text) else ""

    def _name_agents(self) -> None:
        for session, number in self._agents:
            if session not in self._named:
                self._add("session id", session, alias=f"agent-{number}" if number else ROOT)

    def _name_shapes(self, number: int, text: str) -> None:
        agent = f"agent-{number}" if number else "root"
        for shape, (mark, expression, alias) in enumerate(_SHAPES):
            for found in expression.finditer(text) if mark in text else ():
                if found.group() not in self._named:
                    count = self._counts[number, shape] = self._counts.get((number, shape), 0) + 1
                    name = alias.format(agent=agent, count=count, **found.groupdict())
                    self._add("harness id", found.group(), alias=name)

    def _add(self, what: str, *values: str, alias: str) -> None:
        self._pairs.add(what, *values, alias=alias)
        self._named.update(values)
        for value in values:
            if value != alias:
                self._watch.add(f"the {what}", value)


def _spellings(what: str, folder: Path) -> tuple[str, ...]:
    """The folder with its symbolic links resolved, as the harness names it, and as it was given."""
    if not folder.is_absolute() or folder == folder.parent:
        raise UserError(f"{what} {str(folder)!r} must be an absolute path below the root folder")
    return tuple(dict.fromkeys((os.path.realpath(folder), os.path.normpath(folder))))
