"""Made-up runs in the shape of the `quick` suite, to see reports and to derive their numbers a second time.

An agent is a draw from its own history, as with a tape: equal histories go on equally, so arms part where a guard acts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from results.trace import Trace
from results.trace_file import write_trace
from tests.results.script import ARMED, GUARDS, script

ALONE = ("circuit-breaker", "loop-guard", "compaction-breaker", "repeat-reminder")
ARMS = ("off", "host", "agent", "both", *(f"only:{guard}@host" for guard in ALONE))

SCENARIOS = {
    # expect; chances to enter a loop, leave it, leave after a nudge, stop after a denial; an honest call's class
    "search-mirage": ("trip", 0.30, 0.02, 0.25, 0.20, "n"),
    "annotated-args": ("trip", 0.25, 0.05, 0.30, 0.10, "n"),
    "poll-progress": ("quiet", 0.00, 0.00, 0.10, 0.20, "n"),
    "poll-queued": ("quiet", 0.02, 0.30, 0.50, 0.20, "e"),
    "reread-after-edit": ("quiet", 0.05, 0.20, 0.30, 0.20, "n"),
}
REFILLS = {"refill-oversized": ("trip", 0.9), "refill-healthy": ("quiet", 0.25)}
SAMPLERS = (({"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repeat_penalty": 1.05}, (1, 2, 3, 4, 5, 6, 7)),)
SAMPLERS = (*SAMPLERS, ({"temperature": 0.0}, (1,)))

SHORT = {full: short for short, full in GUARDS.items()}
ARMED |= {f"only:{guard}@host": (f"{SHORT[guard]}@host",) for guard in ALONE}


def run_directory(directory: Path, made: Iterable[Trace], **manifest: Any) -> Path:
    """Writes a run: a manifest and its traces."""
    (directory / "traces").mkdir(parents=True)
    for trace in made:
        write_trace(directory / "traces" / f"{trace.header.episode}.trace.jsonl.zst", trace)
    (directory / "manifest.json").write_text(json.dumps(MANIFEST | manifest))
    return directory


MANIFEST = {
    "tripbench": "0.1.0",
    "created": "2026-11-30T12:00:00Z",
    "suite": "quick",
    "models": [{"name": "tiny-0.5b", "sha256": "ab" * 32, "window": 8192}],
    "harness": {"name": "dsh", "version": "0.2.1rc2"},
    "hardware": {"cpu": "two cores", "memory_gib": 8},
    "arms": list(ARMS),
    "seeds": [1, 2, 3, 4, 5, 6, 7],
    "tokens": {"decoded": 41230, "reused": 180444, "by_arm": dict.fromkeys(ARMS, 27709)},
}


def quick(seed: int = 0, seeds: int = 7) -> Iterator[Trace]:
    """A run like one of the `quick` suite, in which two episodes are infrastructure errors."""
    for sampler, every in SAMPLERS:
        for arm in ARMS:
            for each in every[:seeds]:
                for scenario in (*SCENARIOS, *REFILLS):
                    yield _model(scenario, arm, each, sampler, seed)
    for arm in ARMS:
        for each in (1, 2):
            yield _actor(arm, each)


MARKS = (
    *("n", "n", "e", "r", "s", "s", "s", "s", "s", "u", "s!cb@host", "s!lg@host", "e!cb@host", "n!cb@agent"),
    *("s?lg@host", "n?rr@host", "s?lg@agent", "u!cb@host", "C", "C", "F", "M", "X@host", "X@agent"),
    *("A:s", "A:s", "A:s", "A:u", "A:n!cb@host", "A:C", "A:X@host"),
)


def anything(seed: int = 0) -> Iterator[Trace]:
    """Marks without rhyme or reason, for what a well-behaved run does not show: agents, priming, absent twins."""
    draw = random.Random(seed)
    for temperature in (0.0, 0.7):
        for arm in ("off", "host", "both", "only:loop-guard@host", "dry"):
            for scenario, expect in (("refill-healthy", "quiet"), ("search-mirage", "trip")):
                for each in range(1, 10):
                    if draw.random() < 0.1:
                        continue
                    marks = [f"p{mark}" for mark in draw.choices("nse", k=draw.choice((0, 0, 2, 3)))]
                    marks += draw.choices(MARKS, k=draw.randint(3, 25)) if draw.random() < 0.8 else ["s"] * 5
                    if arm in ("off", "dry"):
                        marks = [mark for mark in marks if not set("!?X") & set(mark)] or ["n"]
                    penalty = {"dry_multiplier": 0.8} if arm == "dry" else {}
                    yield script(
                        " ".join(marks),
                        arm=arm,
                        seed=each,
                        scenario=scenario,
                        expect=expect,
                        name=f"{scenario}.{temperature}.{arm.replace(':', '-')}.{each}",
                        end=draw.choice(["horizon", "horizon", "completed", "overflow", "max_tokens", "error"]),
                        success=draw.choice([True, False, False, None]),
                        priming=len([mark for mark in marks if mark[0] == "p"]) and 2,
                        sampler={"temperature": temperature} | penalty,
                    )


def _model(scenario: str, arm: str, seed: int, sampler: dict[str, float], run: int) -> Trace:
    given = {"arm": arm, "seed": seed, "sampler": sampler, "scenario": scenario}
    given["model"] = {"name": "tiny-0.5b", "sha256": "ab" * 32}
    given["name"] = f"{scenario}.t{sampler['temperature']}.{arm.replace(':', '-')}.{seed}"
    task = f"{run}/{scenario}/{seed}/{sampler['temperature']}"
    if arm == "host" and seed == 3 and scenario in ("poll-progress", "search-mirage") and sampler["temperature"]:
        return script("n n", end="error", success=None, expect=_expect(scenario), **given)
    if scenario in REFILLS:
        marks, end, success = _refill(scenario, arm, task)
        given |= {"horizon": 10, "horizon_unit": "compaction attempts"}
    else:
        marks, end, success = _calls(scenario, arm, task)
    return script(" ".join(marks), end=end, success=success, expect=_expect(scenario), tag=task, **given)


def _expect(scenario: str) -> str:
    return (SCENARIOS.get(scenario) or REFILLS[scenario])[0]


def _actor(arm: str, seed: int) -> Trace:
    given = {"model": {"name": "actor:honest", "sha256": None}, "actor": "honest", "sampler": {}, "arm": arm}
    marks = ["e"] * 10 + ["n"]
    if "cb" in str(ARMED[arm]):
        plane = "agent" if arm == "agent" else "host"
        marks = ["e"] * 5 + [f"e!cb@{plane}"] * 6
    ends = {"end": "completed", "success": "!" not in marks[-1], "expect": "quiet"}
    return script(" ".join(marks), scenario="poll-queued", name=f"honest.{arm}.{seed}", seed=seed, **ends, **given)


def _calls(scenario: str, arm: str, task: str) -> tuple[list[str], str, bool]:
    _, enter, leave, nudged, stop, honest = SCENARIOS[scenario]
    plane = "agent" if arm == "agent" else "host"
    guards = {name.partition("@")[0] for name in ARMED[arm]}
    marks: list[str] = []
    same = chain = 0
    looping = False
    for turn in range(24):
        draw = random.Random(f"{task}/{marks}")
        last = marks[-1] if marks else ""
        gone = nudged if "?" in last or "!" in last else leave
        looping = draw.random() >= gone if looping else draw.random() < enter
        if "!" in last and draw.random() < stop:
            return marks, "completed", False
        if not looping and turn > 8 and draw.random() < 0.25:
            return marks, "completed", draw.random() < 0.6
        letter = "s" if looping else honest
        same, chain = (same + 1, chain + 1) if letter == "s" else (same, 0)
        mark = letter
        if "cb" in guards and letter == "s" and same >= 6:
            mark += f"!cb@{plane}"
        elif "lg" in guards and letter == "s" and chain >= 9:
            mark += f"!lg@{plane}"
        elif "lg" in guards and letter == "s" and 4 <= chain < 8:
            mark += f"?lg@{plane}"
        if "rr" in guards and letter == "s" and chain in (3, 5, 8):
            mark += f"?rr@{plane}"
        if "cb" in guards and letter == "e" and turn >= 5 and draw.random() < 0.4:
            mark = f"e!cb@{plane}"
        marks.append(mark)
    return marks, "horizon", False


def _refill(scenario: str, arm: str, task: str) -> tuple[list[str], str, bool]:
    tight = REFILLS[scenario][1]
    plane = "agent" if arm == "agent" else "host"
    guarded = any(name.startswith("cmp") for name in ARMED[arm])
    marks: list[str] = []
    attempts = rapid = 0
    latched = False
    while attempts < 10:
        draw = random.Random(f"{task}/{marks}")
        if draw.random() < 0.04 and attempts:
            return marks, "overflow" if latched else "completed", False
        looping = draw.random() < tight
        marks += ["s"] if looping else ["n", "u", "u"]
        rapid = rapid + 1 if looping and attempts else 0
        latched = latched or (guarded and rapid >= 3)
        marks.append(f"X@{plane}" if latched else draw.choice(["C", "C", "F"]))
        attempts += 1
    return marks, "horizon", False
