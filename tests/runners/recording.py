"""A small real run, recorded once with its tape: two models, temperature 0, in the real harness.

To record it anew (after a change of dialect, grammar, scenario or harness; needs both models, and some minutes):

    python -m tests.runners.recording
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from runners.cli import run

RUN = Path(__file__).parent / "recorded"
MODELS = ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")
COMMAND = (
    *("run", "--scenario", "search-mirage", "--sampler", "temperature=0", "--horizon", "12"),
    *("--arms", "off,host,only:circuit-breaker@agent,only:loop-guard@host"),
    *(word for model in MODELS for word in ("--model", model)),
)


def record() -> int:
    """Plays the run into `RUN`, over what is there, and keeps what a replay needs."""
    shutil.rmtree(RUN, ignore_errors=True)
    status = run([*COMMAND, "--out", str(RUN)])
    for name in ("tape.sqlite.lock", "log.txt", "report.html", "report.md", "summary.csv"):
        (RUN / name).unlink(missing_ok=True)
    for path in RUN.glob("*.parquet"):
        path.unlink()
    for folder in ("figures", "proof", "failed"):
        shutil.rmtree(RUN / folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(record())
