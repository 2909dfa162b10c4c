"""Actors: scripted models, deterministic, behind the same wire formats as real ones."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guards.errors import UserError
from runners.gateway.asking import Accepted, Answer, Ask, ContextOverflow, Delta, Event
from runners.gateway.conversation import Call, Conversation, Reply, Text, Thinking, ToolCall, ToolResult
from runners.gateway.sampler import Sampler
from runners.gateway.tape_key import prompt_digest

CHARS_PER_TOKEN = 4
"""Actors have no tokenizer: their token counts are characters divided by this, rounded up."""


class Actor(Protocol):
    """Plays a course: one reply for each ask, from nothing but the ask."""

    name: str

    def reply(self, ask: Ask) -> Reply: ...


class ActorBackend:
    """Serves an actor as a backend. `window` is in the actor's estimated tokens."""

    def __init__(self, actor: Actor, *, window: int) -> None:
        self.name = f"actor:{actor.name}"
        self.sampler = Sampler()
        self.window = window
        self._actor = actor

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        async with aclosing(scripted(ask, self._actor.reply(ask))) as events:
            async for event in events:
                yield event

    def healthy(self) -> str | None:
        return None

    def load(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


async def scripted(ask: Ask, reply: Reply, *, primed: bool = False) -> AsyncGenerator[Event]:
    """The events of an answer that no model gave. Raises ContextOverflow by the estimate of the prompt's length."""
    prompt = as_text(ask.conversation)
    tokens = estimate(prompt)
    if tokens >= ask.window:
        raise ContextOverflow(tokens, ask.window)
    yield Accepted(tokens)
    if reply.thinking:
        yield Delta("thinking", reply.thinking)
    if reply.text:
        yield Delta("text", reply.text)
    written = reply.thinking + reply.text + "".join(json.dumps(call.arguments) + call.name for call in reply.calls)
    yield Answer(
        reply,
        finish="stop",
        stop=None,
        input_tokens=tokens,
        output_tokens=max(1, estimate(written)),
        prefill_seconds=0.0,
        decode_seconds=0.0,
        tape_key=None,
        prompt_digest=prompt_digest(prompt),
        decoded=False,
        primed=primed,
    )


def estimate(text: str) -> int:
    """Characters by `CHARS_PER_TOKEN`, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def as_text(conversation: Conversation) -> str:
    """The conversation as one text: what an actor's prompt digest and token count are taken of, and what is compared
    where two first prompts differ."""
    lines = [conversation.system]
    lines += [f"{tool.name} {tool.description} {_json(tool.schema)}" for tool in conversation.tools]
    for message in conversation.messages:
        for part in message.parts:
            match part:
                case Text(text) | Thinking(text):
                    lines.append(f"{message.role}: {text}")
                case ToolCall(_, name, arguments):
                    lines.append(f"call: {name} {_json(arguments)}")
                case ToolResult(_, text, error):
                    lines.append(f"{'error' if error else 'result'}: {text}")
    return "\n".join(lines)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class ScriptedCall(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ScriptedReply(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()


class Script(BaseModel):
    """A script file: the root agent's replies in order, by step; every other agent plays `child` in the same way.

    After the last reply the actor ends its turn with an empty one, or, with `repeat`, gives the last one for ever.
    `summary` answers the harness' requests for a summary.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    replies: tuple[ScriptedReply, ...] = Field(min_length=1)
    child: tuple[ScriptedReply, ...] = ()
    repeat: bool = False
    summary: str = "Nothing of note."
    window: int = Field(default=32768, ge=64)


class ScriptedActor:
    """Plays a script file (JSON, see `Script`)."""

    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self.script = script

    @classmethod
    def load(cls, path: Path) -> ScriptedActor:
        """Raises UserError where the file is missing or no script."""
        try:
            return cls(path.stem, Script.model_validate_json(path.read_bytes()))
        except OSError as error:
            raise UserError(f"actor script {path}: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"]) or "file"
            raise UserError(f"actor script {path}: {where}: {first['msg']}") from error

    def reply(self, ask: Ask) -> Reply:
        if ask.compaction:
            return Reply(text=self.script.summary)
        course = self.script.replies if ask.agent == 0 else self.script.child
        if not course:
            return Reply()
        if ask.step >= len(course) and not self.script.repeat:
            return Reply()
        played = course[min(ask.step, len(course) - 1)]
        calls = tuple(Call(call.name, call.arguments) for call in played.calls)
        return Reply(text=played.text, thinking=played.thinking, calls=calls)
