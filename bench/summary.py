"""From the rounds' outcomes to rates, ratios and their spread, and both to text."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from workload import Outcome, SamplerName

Cell = tuple[str, int]
"""A contender and the sequences that it has in flight."""

BASE: Final[Cell] = ("create_completion", 1)
DISTURBED: Final = 0.2
"""Cores busy with other things from which on a measurement is not to be trusted."""

AIMS: Final = {"engine 8 / create_completion 1": 1.5, "engine 8 / server 8": 1.0}


def rates(outcome: Outcome, prompts: int, length: int, tokens: int) -> dict[str, dict[str, float]]:
    """Tokens a second of one measurement: `prefill`, and for each sampler `decode` and `whole`.

    `decode` counts the generated tokens over the time that they took with the prompts already computed; `whole` counts
    them over that time and the prompts' together.
    """
    first = outcome.prefill.seconds
    found: dict[str, dict[str, float]] = {"prefill": {"prefill": prompts * length / first}}
    for sampler, timing in outcome.decode.items():
        found[sampler] = {
            "decode": prompts * tokens / timing.seconds,
            "whole": prompts * tokens / (first + timing.seconds),
            "cpu": timing.cpu_seconds / (prompts * tokens) * 1e3,
        }
    return found


def disturbed(outcome: Outcome) -> float:
    """The most cores that others kept busy during any part of a measurement."""
    return max(timing.others for timing in (outcome.prefill, *outcome.decode.values()))


def spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "most": max(values)}


def table(rounds: list[dict[Cell, dict[str, dict[str, float]]]]) -> list[dict[str, Any]]:
    """One row a contender, number of sequences and sampler, with median and spread over the rounds."""
    rows = []
    for cell in rounds[0]:
        for sampler in (name for name in rounds[0][cell] if name != "prefill"):
            row: dict[str, Any] = {"contender": cell[0], "sequences": cell[1], "sampler": sampler}
            for kind in ("decode", "whole", "cpu"):
                row[kind] = spread([one[cell][sampler][kind] for one in rounds])
            row["prefill"] = spread([one[cell]["prefill"]["prefill"] for one in rounds])
            rows.append(row)
    return rows


def ratios(
    rounds: list[dict[Cell, dict[str, dict[str, float]]]], samplers: list[SamplerName], sequences: list[int]
) -> list[dict[str, Any]]:
    """Ratios within each round, then median and spread over the rounds."""
    pairs: list[tuple[Cell, Cell]] = [(("engine", n), BASE) for n in sequences]
    pairs += [(("engine", n), ("server", n)) for n in sequences]
    pairs += [(("engine", n), ("engine", 1)) for n in sequences if n != 1]
    found = []
    for above, below in pairs:
        if above not in rounds[0] or below not in rounds[0]:
            continue
        name = f"{above[0]} {above[1]} / {below[0]} {below[1]}"
        for sampler in samplers:
            row: dict[str, Any] = {"ratio": name, "sampler": sampler, "aim": AIMS.get(name)}
            for kind in ("decode", "whole", "cpu"):
                row[kind] = spread([one[above][sampler][kind] / one[below][sampler][kind] for one in rounds])
            found.append(row)
    return found


def text(report: dict[str, Any]) -> str:
    """The report for a person."""
    lines = [
        f"{report['model']}, {report['date']}",
        f"{report['machine']}; {report['threads']} threads each",
        f"{report['prompt_tokens']} prompt tokens, {report['tokens']} generated, {report['rounds']} rounds; "
        "medians, least and most in brackets",
        "x1: one request after another; xN: N in flight; all prompts different; no reply ended before its last token",
    ]
    lines += [f"{name}: {about['software']}; {about['settings']}" for name, about in report["contenders"].items()]
    lines += ["", f"{'tokens a second':30}{'decode only':>24}{'end to end':>24}{'prefill':>24}{'CPU ms a token':>24}"]
    for row in report["rates"]:
        label = f"{row['contender']} x{row['sequences']} {row['sampler']}"
        figures = [
            _cell(row[kind], digits) for kind, digits in (("decode", 1), ("whole", 1), ("prefill", 0), ("cpu", 1))
        ]
        lines.append(f"{label:30}" + "".join(f"{figure:>24}" for figure in figures))
    lines += ["", f"{'ratio':38}{'decode only':>24}{'end to end':>24}"]
    for row in report["ratios"]:
        label = f"{row['ratio']} {row['sampler']}"
        aim = "" if row["aim"] is None else f"   aim {row['aim']}: {_verdict(row, report['disturbed'])}"
        lines.append(f"{label:38}{_cell(row['decode'], 2):>24}{_cell(row['whole'], 2):>24}{aim}")
    cost = report["grammar"]
    lines += [
        "",
        f"sampling on one core, ms a token: {cost['plain']:.2f} without a grammar, {cost['lazy']:.2f} with a lazy "
        f"grammar and a tool call, {cost['refused']:.1f} where it allows none of the best tokens",
    ]
    if report["disturbed"]:
        lines.append(
            f"DISTURBED: in {report['disturbed']} of {report['measurements']} measurements other programs kept more "
            f"than {DISTURBED} cores busy (up to {report['others']:.1f}); run again when it is idle"
        )
    return "\n".join(lines)


def _cell(value: dict[str, float], digits: int) -> str:
    return f"{value['median']:.{digits}f} [{value['least']:.{digits}f}, {value['most']:.{digits}f}]"


def _verdict(row: dict[str, Any], disturbed: int) -> str:
    if disturbed:
        # Threads that wait with much spinning suffer most from other programs, which would flatter the engine.
        return "not judged, disturbed"
    reached = [kind for kind in ("decode", "whole") if row[kind]["median"] >= row["aim"]]
    return {2: "reached", 1: f"reached in {'decode' if 'decode' in reached else 'end to end'} only"}.get(
        len(reached), "not reached"
    )
