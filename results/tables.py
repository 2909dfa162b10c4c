"""The tables of a run: one row an episode, a call, a figure; equal traces give equal files, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guards.json_text import dump
from results.after_trip import MARKS, after_trip
from results.episode import Episode
from results.loops import first_loop
from results.pairs import OFF, Cell, Pair, Study, seed_order
from results.summary import Row

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = (
    *("runner", "harness", "model", "sha256", "actor", "decode_mode", "sampler"),
    *("scenario", "expect", "size", "priming", "horizon", "horizon_unit"),
)
"""The columns that name a cell, in every table. `horizon` -1 = not recorded."""

SUMMARY = (*IDENTITY, "arm", "guard", "plane", "metric", "count", "n", "unique", "value", "low", "high")
"""The columns of summary.csv. `count` is empty for what is no rate; an empty end of an interval: there is none."""


def identity(cell: Cell) -> dict[str, Any]:
    """The values of `IDENTITY` for a cell."""
    setting = cell.setting
    return {name: getattr(setting if hasattr(setting, name) else cell, name) for name in IDENTITY}


def episodes_frame(study: Study) -> pd.DataFrame:
    """One row an episode, failed ones (`failure` says why) included; sorted by cell, arm, seed, name.

    Empty = not known or not so; a seed that is no integer is empty. `provoked`, `loop`, `onset`, `loop_length` and
    `loop_ended` are the episode's own loop for `off`, the twin's for every other arm. `divergence` is the step (of
    the tree, from 1) where the prompts leave the twin's.
    """
    import pandas as pd

    every = sorted(study.episodes, key=lambda e: (study.cell(e), e.arm, seed_order(e.seed), e.name))
    table = pd.DataFrame([_episode(study, episode) for episode in every])
    return _typed(table)


def calls_frame(study: Study) -> pd.DataFrame:
    """One row an asked call, primed ones and those of failed episodes included; in the order of `episodes_frame`."""
    import pandas as pd

    every = sorted(study.episodes, key=lambda e: (study.cell(e), e.arm, seed_order(e.seed), e.name))
    return _typed(pd.DataFrame([row for episode in every for row in _calls(episode)], columns=_CALL_COLUMNS))


def summary_frame(found: Iterable[Row]) -> pd.DataFrame:
    """One row a figure, in the order given."""
    import pandas as pd

    records = []
    for row in found:
        value = row.estimate
        place = identity(row.cell) | {"arm": row.arm, "guard": row.guard, "plane": row.plane, "metric": row.metric}
        figures = {"count": value.count, "n": value.n, "unique": value.unique}
        records.append(place | figures | {"value": value.value, "low": value.low, "high": value.high})
    table = pd.DataFrame(records, columns=list(SUMMARY))
    return table.astype({"count": "Int64", "n": "Int64", "unique": "Int64"})


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """The table with numbers to 10 significant digits and lines that end in \\n."""
    path.write_bytes(table.to_csv(index=False, float_format="%.10g", lineterminator="\n").encode())


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """The table without anything that depends on time or place."""
    table.to_parquet(path, engine="pyarrow", index=False, compression="zstd")


_CALL_COLUMNS = (
    *("episode", "agent", "index", "id", "step", "tool", "args", "primed"),
    *("class", "why", "unit", "executed", "denied_by", "error", "nudged_by"),
)


def _calls(episode: Episode) -> list[dict[str, Any]]:
    nudges: dict[int, list[str]] = {}
    for act in episode.acts:
        if act.call is not None and not act.trip:
            name = f"{act.guard}@{act.plane}" if act.plane else act.guard
            nudges.setdefault(act.call.position, []).append(name)
    return [
        {
            "episode": episode.name,
            "agent": call.agent,
            "index": call.index,
            "id": call.id,
            "step": call.step,
            "tool": call.tool,
            "args": dump(call.args),
            "primed": call.primed,
            "class": call.judged,
            "why": call.why,
            "unit": call.unit,
            "executed": call.denied_by is None,
            "denied_by": call.denied_by,
            "error": call.error,
            "nudged_by": " ".join(sorted(nudges.get(call.position, []))) or None,
        }
        for call in episode.calls
    ]


def _episode(study: Study, episode: Episode) -> dict[str, Any]:
    cell = study.cell(episode)
    cost = episode.spent()
    own = [call for call in episode.calls if not call.primed]
    twin = study.twin(episode) if episode.failure is None else None
    loop = first_loop(twin) if twin else None
    apart = Pair(episode, twin).divergence if twin and episode.arm != OFF else None
    row = {
        "episode": episode.name,
        **identity(cell),
        "arm": episode.arm,
        "seed": episode.seed if isinstance(episode.seed, int) else None,
        "failure": episode.failure,
        "end": episode.end,
        "success": episode.success,
        "overflowed": episode.overflowed,
        "trajectory": episode.trajectory,
        "provoked": None if twin is None else loop is not None,
        "loop": loop.kind if loop else None,
        "onset": loop.onset if loop else None,
        "loop_length": loop.length if loop else None,
        "loop_ended": loop.ended if loop else None,
        "divergence": apart[0] if apart else None,
        "tool_turns": cost.turns,
        "asked": cost.asked,
        "executed": cost.calls,
        "denied": sum(call.denied_by is not None for call in own),
    }
    for judged in ("novel", "needed", "requested", "sterile"):
        row[judged] = sum(call.judged == judged for call in own)
    row |= {
        "nudges": sum(not act.trip for act in episode.acts),
        "refusals": sum(act.action == "refuse" for act in episode.acts),
        "attempts": cost.attempts,
        "committed": sum(each.outcome == "committed" for each in episode.attempts),
        "summary_calls": cost.summary_calls,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "seconds": cost.seconds,
    }
    after = after_trip(episode) if episode.failure is None else None
    row["trip"] = None if after is None else f"{after.trip.guard}@{after.trip.plane or ''}".rstrip("@")
    row["trip_agent"] = after.trip.agent if after else None
    row["trip_index"] = after.trip.index if after else None
    for mark in MARKS[:-1]:
        row[f"after_{mark}"] = getattr(after, mark) if after else None
    return row


_TYPES = {
    "Int64": "index step seed onset loop_length divergence summary_calls input_tokens output_tokens trip_index",
    "Float64": "seconds",
    "boolean": "success provoked " + " ".join(f"after_{mark}" for mark in MARKS[:-1]),
    "string": "episode agent id tool args class why denied_by nudged_by failure end loop loop_ended trip trip_agent",
}
"""Of the columns that may be empty, whatever a run happens to hold."""


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    types = {name: kind for kind, names in _TYPES.items() for name in names.split()}
    return table.astype({name: kind for name, kind in types.items() if name in table})
