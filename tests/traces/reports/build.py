"""Writes the traces of the shapes, `expected.json` and `TABLE.md`: python -m tests.traces.reports.build

`expected.json` pins what our guards decide at their defaults, right or wrong, beside what would be right; look at what
changes in it. `TABLE.md` is made of the same replays, and of those of the detectors of other products.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guards import registry
from guards.stack import default_stack
from guards.stack_policy import StackPolicy
from results.trace_file import write_trace
from runners.replay import Replayed, replay
from tests.traces.reports.shape import Shape
from tests.traces.reports.shapes import shapes
from tests.traces.reports.verdict import judge, word

HERE = Path(__file__).parent
ROW = ("agent", "action", "kind", "call", "index", "count", "limit")


def decisions(shape: Shape, guard: str) -> list[Replayed]:
    """What a guard decides at its defaults."""
    return list(replay(shape.trace(), registry.build(guard)))


def together(shape: Shape) -> list[Replayed]:
    """What the full stack decides."""
    return list(replay(shape.trace(), StackPolicy(default_stack().policies())))


def expected() -> str:
    """The text of `expected.json`: a line a guard."""
    parts = []
    for shape in shapes():
        told = {"want": shape.want, "onset": shape.onset, "resumes": shape.resumes, "agent": shape.agent}
        about = told | {"report": shape.report, "tags": list(shape.tags), "why": shape.why}
        rows = [
            {"guard": guard, "config": {}, "decisions": [_row(each) for each in decisions(shape, guard)]}
            for guard in registry.names()
        ]
        lines = ",\n    ".join(json.dumps(row) for row in rows)
        head = json.dumps(about)[:-1]
        parts.append(f'  {json.dumps(shape.name)}: {head}, "rows": [\n    {lines}\n  ]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def table() -> str:
    """The text of `TABLE.md`."""
    guards = registry.names()
    lines = [
        "# What the guards do on the patterns of public reports",
        "",
        "Made by `python -m tests.traces.reports.build`; not to be edited by hand. A cell holds the first nudge and",
        "the first denial or refusal of one guard alone at its defaults, by the place of the call or of the compaction",
        "attempt; what is in bold ought not to be stopped. The last column is the full stack at its defaults.",
        "",
        f"| report | pattern | want | {' | '.join(guards)} | together |",
        f"|---|---|---|{'---|' * len(guards)}---|",
    ]
    for shape in shapes():
        trace = shape.trace()
        cells = [judge(shape, trace, decisions(shape, guard)).text() for guard in guards]
        verdict = word(shape, judge(shape, trace, together(shape)))
        number, _, name = shape.name.partition("-")
        lines.append(f"| {number} | {name.replace('-', ' ')} | {shape.want} | {' | '.join(cells)} | {verdict} |")
    lines += ["", "## Where ours fall short", ""]
    for shape in shapes():
        verdict = word(shape, judge(shape, shape.trace(), together(shape)))
        if verdict != "right":
            lines.append(f"- {shape.name} ({shape.report}): {verdict}: {shape.why}.")
    lines += ["", "## All detectors on the same patterns", "", *_counts()]
    return "\n".join(lines) + "\n"


def _counts() -> list[str]:
    """One row a detector: how often it is right, over calls and over compaction apart."""
    lines = [
        "Each alone at its defaults, with what is off by default off; breakers of compaction on the patterns of",
        "compaction, the others on the rest. `false alarm`: stopped where that is wrong, also in patterns that want a",
        "trip. The patterns are few and of our making: this compares rules, and is no rate of anything.",
        "",
        "| detector | stopped | only nudged | missed | false alarm | quiet and requested left alone |",
        "|---|---|---|---|---|---|",
    ]
    for name in (*registry.names(), *registry.peer_names()):
        compaction = "refill" in name or name in ("compaction-breaker", "peer:claude-code")
        fitting = [shape for shape in shapes() if ("COMP" in shape.tags) == compaction]
        verdicts = [(shape, judge(shape, shape.trace(), decisions(shape, name))) for shape in fitting]
        wanted = [(shape, verdict) for shape, verdict in verdicts if shape.want == "trip"]
        words = Counter(
            "stopped" if verdict.stopped else "only nudged" if verdict.nudged else "missed" for _, verdict in wanted
        )
        alarms = sum(verdict.alarm is not None for _, verdict in verdicts)
        rest = [verdict for shape, verdict in verdicts if shape.want != "trip"]
        left = f"{sum(verdict.alarm is None for verdict in rest)} of {len(rest)}" if rest else "-"
        stopped, nudged, missed = f"{words['stopped']} of {len(wanted)}", words["only nudged"], words["missed"]
        lines.append(f"| {name} | {stopped} | {nudged} | {missed} | {alarms} | {left} |")
    return lines


def _row(each: Replayed) -> dict[str, Any]:
    row = each.row()
    return {key: row[key] for key in ROW}


def main(folder: Path = HERE, made: Sequence[Shape] | None = None) -> None:
    for shape in made or shapes():
        write_trace(folder / f"{shape.name}.trace.jsonl", shape.trace())
    (folder / "expected.json").write_text(expected(), encoding="utf-8")
    (folder / "TABLE.md").write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
