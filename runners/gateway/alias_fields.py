"""The texts of a conversation that reach a prompt, by the names of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from runners.gateway.conversation import Conversation, Json, Part, ToolCall

Change = Callable[[str], str]


def fields(conversation: Conversation) -> Iterator[tuple[str, str]]:
    """Every text in the order of the fields, each with its name, such as `messages[2].parts[0]`."""
    yield "system", conversation.system
    for at, tool in enumerate(conversation.tools):
        yield f"tools[{at}].description", tool.description
        yield from _strings(f"tools[{at}].schema", tool.schema)
    for at, message in enumerate(conversation.messages):
        for index, part in enumerate(message.parts):
            where = f"messages[{at}].parts[{index}]"
            if isinstance(part, ToolCall):
                yield from _strings(f"{where}.arguments", part.arguments)
            else:
                yield where, part.text


def changed(conversation: Conversation, change: Change) -> Conversation:
    """The conversation with `change` made in every text of `fields`."""

    def part_changed(part: Part) -> Part:
        if isinstance(part, ToolCall):
            return replace(part, arguments=json_changed(part.arguments, change))
        return replace(part, text=change(part.text))

    return Conversation(
        system=change(conversation.system),
        messages=tuple(replace(m, parts=tuple(map(part_changed, m.parts))) for m in conversation.messages),
        tools=tuple(
            replace(tool, description=change(tool.description), schema=json_changed(tool.schema, change))
            for tool in conversation.tools
        ),
    )


def json_changed(value: Json, change: Change) -> Any:
    """The JSON value with `change` made in every string at any depth.

    The keys of objects too, since a tool may take a table of paths; a key stays as it is where the object has the
    changed one as well.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [json_changed(item, change) for item in value]
    if isinstance(value, dict):
        names = {key: change(key) for key in value}
        return {
            key if names[key] != key and names[key] in value else names[key]: json_changed(item, change)
            for key, item in value.items()
        }
    return value


def _strings(where: str, value: Json) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(f"{where}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{where}, key", key
            yield from _strings(f"{where}.{key}", item)
