"""An audit as tables for people and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from results.loops import KINDS
from runners.audit import Audit, Honest, Looping, Stop

if TYPE_CHECKING:
    from rich.table import Table

_HONEST = (
    "n: honest courses, one a scenario and size whatever the seeds. Hurt: a novel, needed or requested call was "
    "denied, or an attempt with work before it refused; failed: the task was not solved then; nudged: such a call "
    "was nudged."
)
_HURT = "Denied or refused: all of the course, by class, with the guard's denials shown to the actor as error results."
_LOOPING = (
    "n: loops of looping courses, one a scenario and size. A trip is the first denial, for loops of refills the first "
    "refusal: at which call (attempt), and how many after the onset of the loop, which is +0."
)


def data(found: Audit) -> dict[str, Any]:
    """The audit as JSON has it: a summary of each guard, and all rows with the keys of their records."""
    return {
        "sizes": list(found.sizes),
        "seeds": list(found.seeds),
        "scenarios": list(found.scenarios),
        "guards": [summary(found, guard) for guard in found.guards],
        "honest": [asdict(row) for row in found.honest],
        "looping": [asdict(row) | {"delay": row.delay} for row in found.looping],
    }


def summary(found: Audit, guard: str) -> dict[str, Any]:
    """What a guard did to all courses. `n` counts honest courses, one a scenario and size whatever the seeds; one is
    hurt, failed or nudged where it is with any of the seeds. `first` is the earliest hurt, by calls asked; None where
    nothing is hurt. `loops` and `tripped` count the same way."""
    rows = [row for row in found.honest if row.guard == guard]
    loops = [row for row in found.looping if row.guard == guard]
    first = _earliest(rows)
    return {
        "guard": guard,
        "n": _courses(rows),
        "hurt": _courses([row for row in rows if row.hurt is not None]),
        "failed": _courses([row for row in rows if not row.success]),
        "nudged": _courses([row for row in rows if row.nudge is not None]),
        "first": None
        if first is None
        else {
            "scenario": first[0].scenario,
            "size": first[0].size,
            "seed": first[0].seed,
            "call": first[1].asked,
            "tool": first[1].tool,
            "class": first[1].judged,
            "success": first[0].success,
        },
        "loops": len({(row.scenario, row.size, row.loop) for row in loops}),
        "tripped": len({(row.scenario, row.size, row.loop) for row in loops if row.trip is not None}),
    }


def tables(found: Audit) -> Iterator[Table]:
    """What each guard did to the honest courses, every hurt one, and the loops."""
    yield _honest(found)
    if any(row.hurt for row in found.honest):
        yield _hurt(found)
    if found.looping:
        yield _looping(found)


def _honest(found: Audit) -> Table:
    table = _table("Honest courses", _HONEST, "guard", "n", "hurt", "failed", "nudged", "hurt first", "call", "class")
    for guard in found.guards:
        told = summary(found, guard)
        first = _earliest([row for row in found.honest if row.guard == guard])
        where = ("", "", "") if first is None else (_name(found, first[0]), _call(first[1]), first[1].judged)
        table.add_row(guard, *(str(told[key]) for key in ("n", "hurt", "failed", "nudged")), *where)
    return table


def _hurt(found: Audit) -> Table:
    columns = ("guard", "honest course", "hurt at call", "class", "count of limit", "denied or refused", "then")
    table = _table("Honest courses that are hurt", _HURT, *columns)
    before = None
    for row in found.honest:
        if row.hurt is None:
            continue
        if row.guard != before:
            table.add_section()
        guard, before = "" if row.guard == before else row.guard, row.guard
        stopped = ", ".join(f"{count} {name}" for name, count in row.stopped.items())
        count = "" if row.hurt.count is None else f"{row.hurt.count} of {row.hurt.limit}"
        then = "succeeds" if row.success else f"fails ({row.end})"
        table.add_row(guard, _name(found, row), _call(row.hurt), row.hurt.judged, count, stopped, then)
    return table


def _looping(found: Audit) -> Table:
    columns = ("guard", "n", "tripped", "first trip: call (from the onset)", "first nudge", "never tripped")
    table = _table("Looping courses", _LOOPING, *columns)
    for guard in found.guards:
        for kind in KINDS:
            rows = [row for row in found.looping if (row.guard, row.loop) == (guard, kind)]
            if rows:
                tripped = [row for row in rows if row.trip is not None]
                missed = ", ".join(dict.fromkeys(_name(found, row) for row in rows if row.trip is None))
                missed = missed if tripped else "all"
                unit = "" if kind == "calls" else " (refills)"
                trips = _grouped(found, [(row, row.trip) for row in rows])
                nudges = _grouped(found, [(row, row.nudge) for row in rows])
                table.add_row(guard + unit, str(len(rows)), str(len(tripped)), trips, nudges, missed)
    return table


def _grouped(found: Audit, acts: Sequence[tuple[Looping, Stop | None]]) -> str:
    """Scenarios by where the guard first acted, earliest first."""
    places: dict[tuple[int, int], list[str]] = {}
    for row, stop in acts:
        if stop is not None:
            places.setdefault((stop.index, stop.index - row.onset), []).append(_name(found, row))
    return "\n".join(f"{index} ({delay:+d}): {', '.join(where)}" for (index, delay), where in sorted(places.items()))


def _table(title: str, caption: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for column in columns:
        numeric = column in ("n", "hurt", "failed", "nudged", "tripped")
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    return table


def _earliest(rows: Sequence[Honest]) -> tuple[Honest, Stop] | None:
    hurt = [(row, row.hurt) for row in rows if row.hurt is not None]
    return min(hurt, key=lambda each: each[1].asked, default=None)


def _courses(rows: Sequence[Honest]) -> int:
    return len({(row.scenario, row.size) for row in rows})


def _name(found: Audit, row: Honest | Looping) -> str:
    """The scenario, with size and seed where there are several."""
    size = f":{row.size}" if len(found.sizes) > 1 else ""
    return f"{row.scenario}{size}" + (f" s{row.seed}" if len(found.seeds) > 1 else "")


def _call(stop: Stop) -> str:
    return f"{stop.asked} {stop.tool}" if stop.tool else f"after {stop.asked}: attempt {stop.index}"
