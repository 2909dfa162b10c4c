"""A scenario's course, played as the model behind the gateway."""

from __future__ import annotations

from collections.abc import Sequence

from runners.gateway.asking import Ask
from runners.gateway.conversation import Call, Conversation, Reply, ToolCall, ToolResult
from runners.spec import EpisodeSpec
from scenarios.base import Outcome
from scenarios.course import Course, Turn, course_of

_ERROR = "Error: "
"""What the harness puts before the text of every failed call."""


class Player:
    """Plays a course; tools are called by the names under which the asking side offers them."""

    def __init__(self, name: str, course: Course) -> None:
        self.name = name
        self._course = course

    @classmethod
    def of(cls, spec: EpisodeSpec) -> Player | None:
        """The actor that an episode names; None where a model plays."""
        if spec.actor is None:
            return None
        course = spec.scenario.looping() if spec.actor == "looping" else spec.scenario.honest()
        assert course is not None, "a plan holds no looping actor where the scenario has none"
        return cls(spec.actor, course)

    def reply(self, ask: Ask) -> Reply:
        if ask.compaction:
            return Reply(text=course_of(self._course, ask.agent).summary)
        turn = course_of(self._course, ask.agent).turn(ask.step, last_results(ask.conversation))
        return as_reply(turn, ask.conversation)


def as_reply(turn: Turn, conversation: Conversation) -> Reply:
    """A turn as a reply in this conversation."""
    calls = tuple(Call(offered(tool, conversation), args) for tool, args in turn.calls)
    return Reply(text=turn.text, calls=calls)


def offered(tool: str, conversation: Conversation) -> str:
    """The name under which a world's tool is offered: its own, or with the prefix of its server; itself if neither."""
    names = [each.name for each in conversation.tools]
    return next((name for name in names if name == tool or name.endswith(f"__{tool}")), tool)


def last_results(conversation: Conversation) -> Sequence[Outcome]:
    """What the last calls gave, in their order; empty where there were none or a compaction took them away."""
    asked: list[str] = []
    found: dict[str, Outcome] = {}
    for message in reversed(conversation.messages):
        for part in message.parts:
            if isinstance(part, ToolResult):
                text = part.text.removeprefix(_ERROR) if part.error else part.text
                found.setdefault(part.call_id, Outcome(text, part.error))
            elif isinstance(part, ToolCall):
                asked.append(part.id)
        if message.role == "assistant":
            break
    return [found[call] for call in asked if call in found]
