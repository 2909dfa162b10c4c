"""A trace as the model was told it: aliases in place of what differs from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from results.trace import Call, End, Event, Guard, Notice, Result, User


def told(events: Iterable[Event], hide: Callable[[Any], Any]) -> list[Event]:
    """The events with every text and JSON value hidden by `hide`, which keeps what is no string."""
    return [_told(event, hide) for event in events]


def _told(event: Event, hide: Callable[[Any], Any]) -> Event:
    match event:
        case Result():
            return replace(event, content=tuple(hide(block) for block in event.content))
        case Call():
            return replace(event, args=hide(event.args), extra=hide(event.extra))
        case User() | Notice():
            return replace(event, text=hide(event.text))
        case Guard():
            return replace(event, reason=hide(event.reason))
        case End():
            return replace(event, extra=hide(event.extra))
    return event
