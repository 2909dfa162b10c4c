"""Conversations and a full alias map for the tests of aliases."""

from __future__ import annotations

from datetime import UTC, datetime

from runners.gateway.aliases import AliasMap
from runners.gateway.conversation import Conversation, Message, Part, Text, Tool, ToolCall, ToolResult

ROOT_ID = "session-0123456789abcdef0123456789abcdef"
CHILDREN = ("5bcb3582-7a73-4eec-8a8c-33349e6e8803", "5a05824c-6b81-4509-a77c-03adc9867329")
WORKSPACE, HOME = "/srv/runs/r1/ws1", "/srv/runs/r1/h_1"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def talk(*messages: Message, system: str = "", tools: tuple[Tool, ...] = ()) -> Conversation:
    """A conversation of these messages."""
    return Conversation(system, messages, tools)


def user(*parts: Part | str) -> Message:
    """A user message; strings are texts."""
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: Part) -> Message:
    """An assistant message."""
    return Message("assistant", parts)


def spawn_calls(*prompts: str, first: int = 0) -> tuple[ToolCall, ...]:
    """Calls that start children, with the ids `call-FIRST` and on."""
    return tuple(ToolCall(f"call-{first + at}", "subagent", {"prompt": text}) for at, text in enumerate(prompts))


def results(calls: tuple[ToolCall, ...], *texts: str) -> Conversation:
    """A parent's request after one step with these calls and results."""
    parts = (ToolResult(call.id, text) for call, text in zip(calls, texts, strict=True))
    return talk(user("go"), assistant(*calls), user(*parts))


def spawned(*children: str) -> Conversation:
    """A parent's request after one step that started the children in that order."""
    return results(spawn_calls(*("work" for _ in children)), *(f"started subagent {child}" for child in children))


def full_map() -> AliasMap:
    """An episode at noon of 30 November 2026: workspace, home, a temporary folder, a host, a root and two children."""
    made = AliasMap(
        workspace=WORKSPACE,
        home=HOME,
        root_session=ROOT_ID,
        extra={"/srv/runs/r1/t": "/var/scratch", "vm-7f3a": "host"},
        watch=("/srv/runs/r1",),
        clock=lambda: NOON,
    )
    made.learn(ROOT_ID, spawned(*CHILDREN))
    return made
