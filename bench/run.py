"""Decode throughput of the engine beside other ways to run the same model: `python bench/run.py [--model NAME|PATH]`.

Each measurement runs in a process of its own (`worker.py`), one at a time, and the contenders take turns in rounds.
Exit status: 0 done, 1 a measurement failed, 2 bad usage.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from summary import DISTURBED, Cell, disturbed, rates, ratios, table, text
from workload import BenchError, Job, Outcome, SamplerName

from guards.errors import UserError
from runners.models.resolve import resolve

SEQUENCES: Final = [1, 4, 8]
SAMPLERS: Final[list[SamplerName]] = ["greedy", "card"]
WINDOW: Final = 512
"""Tokens that each request may take; a context holds this many times the sequences."""

ALONE: Final = 2
"""Requests of a measurement that asks one at a time."""

TIMEOUT: Final = 900.0
"""Seconds after which a worker is given up."""


def main() -> int:
    options = _options()
    try:
        model = resolve(options.model)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        report = bench(str(model.path), model.name, options.rounds, options.tokens, options.prompt)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report, indent=1) if options.json else text(report))
    return 0


def bench(path: str, name: str, rounds: int, tokens: int, length: int) -> dict[str, Any]:
    """Runs all rounds. Raises BenchError where a worker fails or did other work than asked."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = max(SEQUENCES)
    prompts = json.loads(_work("tokens", json.dumps({"model": path, "count": most, "length": length})))
    cells: list[Cell] = [("create_completion", 1)]
    cells += [(contender, n) for n in SEQUENCES for contender in ("engine", "server")]
    measured: list[dict[Cell, dict[str, dict[str, float]]]] = []
    outcomes: list[tuple[Cell, Outcome]] = []
    for number in range(rounds):
        one: dict[Cell, dict[str, dict[str, float]]] = {}
        for contender, n in cells:
            print(f"round {number + 1} of {rounds}: {contender}, {n} in flight", file=sys.stderr)
            # What runs one at a time gets a few prompts only: each of its tokens takes as long as a batch of others.
            asked = prompts[: max(n, ALONE)]
            job = Job(
                model=path,
                sequences=n,
                prompts=asked,
                tokens=tokens,
                samplers=SAMPLERS,
                threads=threads,
                window=WINDOW,
            )
            outcome = Outcome.model_validate_json(_work(contender, job.model_dump_json()))
            outcomes.append(((contender, n), outcome))
            one[contender, n] = rates(outcome, len(asked), length, tokens)
        measured.append(one)
    others = [disturbed(outcome) for _, outcome in outcomes]
    return {
        "model": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "threads": threads,
        "prompt_tokens": length,
        "tokens": tokens,
        "rounds": rounds,
        "contenders": {
            contender: {"software": outcome.software, "settings": outcome.settings}
            for (contender, _), outcome in outcomes
        },
        "rates": table(measured),
        "ratios": ratios(measured, SAMPLERS, SEQUENCES),
        "grammar": json.loads(_work("grammar", json.dumps({"model": path}))),
        "measurements": len(others),
        "disturbed": sum(other > DISTURBED for other in others),
        "others": max(others),
    }


def _work(name: str, job: str) -> str:
    """Runs a worker to its end and returns what it printed. Raises BenchError with its last line where it fails."""
    worker = Path(__file__).with_name("worker.py")
    try:
        done = subprocess.run(
            [sys.executable, str(worker), name], input=job, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{name}: not done after {TIMEOUT:.0f} s") from None
    if done.returncode != 0 or not done.stdout:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise BenchError(f"{name}: exit {done.returncode}: {lines[-1]}")
    return done.stdout


def _machine() -> str:
    """Processor, cores and system in one line."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{processor}, {os.cpu_count()} cores, {system}"


def _options() -> argparse.Namespace:
    def positive(value: str) -> int:
        number = int(value)
        if number < 1:
            raise ValueError
        return number

    parser = argparse.ArgumentParser(prog="bench/run.py", description="Decode throughput beside other ways to run it.")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="a model's name or a path to a GGUF")
    parser.add_argument("--json", action="store_true", help="print data only")
    parser.add_argument("--rounds", type=positive, default=3, help="times that each contender is measured (3)")
    parser.add_argument("--tokens", type=positive, default=32, help="tokens that each request generates (32)")
    parser.add_argument("--prompt", type=positive, default=160, help="tokens of each prompt (160)")
    options = parser.parse_args()
    if options.prompt + options.tokens > WINDOW:
        parser.error(f"--tokens {options.tokens} --prompt {options.prompt}: {WINDOW} together at most")
    return options


if __name__ == "__main__":
    sys.exit(main())
