"""The outcome of a run as data, for `run --json`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from results.episode import Episode
from results.loops import first_loop
from results.pairs import Study
from results.trace import Trace


def outcome(directory: Path, traces: Iterable[Trace]) -> dict[str, Any]:
    """One row an episode, sorted by name; `provoked` is that of the `off` twin, None where there is no twin. `trips`
    holds the first of each guard, plane and action. An episode that ended in an infrastructure error (`end` is `error`)
    is no observation: all that could be measured is None."""
    study = Study(traces)
    return {"run": str(directory), "episodes": [_row(study, episode) for episode in study.episodes]}


def _row(study: Study, episode: Episode) -> dict[str, Any]:
    meta = episode.meta
    row: dict[str, Any] = {
        "scenario": episode.trace.header.scenario,
        "model": meta["model"]["name"],
        "arm": episode.arm,
        "seed": episode.seed,
        "end": episode.end,
    }
    if episode.failure is not None:
        nothing: dict[str, Any] = {"success": None, "provoked": None, "calls": None, "executed": None, "trips": []}
        return row | nothing
    twin = study.twin(episode)
    return row | {
        "success": episode.success,
        "provoked": None if twin is None else first_loop(twin) is not None,
        "calls": len(episode.calls),
        "executed": sum(call.denied_by is None for call in episode.calls),
        "trips": _trips(episode),
    }


def _trips(episode: Episode) -> list[dict[str, Any]]:
    firsts: dict[tuple[str, str | None, str], dict[str, Any]] = {}
    for act in episode.acts:
        event = episode.events[act.position]
        firsts.setdefault(
            (act.guard, act.plane, act.action),
            {
                "guard": act.guard,
                "plane": act.plane,
                "action": act.action,
                "index": act.index,
                "count": getattr(event, "count", None),
                "agent": act.agent,
            },
        )
    return list(firsts.values())
