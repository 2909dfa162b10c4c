"""A trace as the model was told it: aliases in place of what differs from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from results.trace import Call, End, Event, Guard, Notice, Result, Spawn, User


def told(events: Iterable[Event], hide: Callable[[Any], Any]) -> list[Event]:
    """The events with every text and JSON value hidden by `hide`, which keeps what is no string."""
    return [_told(event, hide) for event in events]


def _told(event: Event, hide: Callable[[Any], Any]) -> Event:
    changes: dict[str, Any] = {}
    match event:
        case Result():
            changes = {"content": tuple(hide(block) for block in event.content)}
        case Call():
            changes = {"args": hide(event.args), "extra": hide(event.extra)}
        case User() | Notice():
            changes = {"text": hide(event.text)}
        case Guard():
            changes = {"reason": hide(event.reason)}
        case Spawn():
            changes = {"purpose": hide(event.purpose)}
        case End():
            changes = {"extra": hide(event.extra)}
    return replace(event, **changes) if changes else event
