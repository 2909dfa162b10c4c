"""How many completion tokens a run took from the model, and how many from its tape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from results.trace import Compaction, Step, Trace


def tokens(traces: Iterable[Trace]) -> dict[str, Any]:
    """`decoded` and `reused` completion tokens, whole and by arm, for traces in the order of the plan.

    A completion is counted as decoded where its tape key stands for the first time in that order, and as reused where
    it stands again: the same numbers come out however often the run was interrupted, and from a tape alone. Summaries
    are in them; replies that a script gave are not.
    """
    seen: set[str] = set()
    by_arm: dict[str, dict[str, int]] = {}
    for trace in traces:
        spent = by_arm.setdefault(str(trace.header.meta["arm"]), {"decoded": 0, "reused": 0})
        for keys, count in _completions(trace):
            new = not seen.issuperset(keys)
            seen.update(keys)
            spent["decoded" if new else "reused"] += count
    total = {kind: sum(spent[kind] for spent in by_arm.values()) for kind in ("decoded", "reused")}
    return {**total, "by_arm": by_arm}


def _completions(trace: Trace) -> Iterable[tuple[list[str], int]]:
    """Tape keys and completion tokens of every model response, and of the summaries of every attempt."""
    for event in trace.events:
        if isinstance(event, Step) and event.tape_key is not None and event.output_tokens is not None:
            yield [event.tape_key], event.output_tokens
        elif isinstance(event, Compaction) and event.extra.get("tape_keys"):
            yield event.extra["tape_keys"], event.extra["output_tokens"]
