"""Public reports of tool loops, missed loops and false alarms, as call patterns in our own words and names."""

from __future__ import annotations

from tests.traces.reports.alarms import quiet
from tests.traces.reports.latches import latches
from tests.traces.reports.loops import loops
from tests.traces.reports.missed import missed
from tests.traces.reports.shape import Shape


def shapes() -> tuple[Shape, ...]:
    """All of them, in the order of their numbers."""
    return tuple(sorted((*loops(), *missed(), *quiet(), *latches()), key=lambda shape: shape.name))
