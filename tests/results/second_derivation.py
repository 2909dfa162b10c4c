"""Every number of a run's summary.csv once more, by plain loops over the lines of its traces.

Written from `metrics.md` and the docstrings of `results`, sharing no code with them: no records, data frames or scipy.
`differences(RUN)` is empty where both agree; by hand: `python -m tests.results.second_derivation RUN`.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

import zstandard

from tests.results.second_figures import figures

PENALTIES = ("presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n", "dry_")
SAMPLER_ARMS = ("presence-penalty", "repeat-penalty", "dry")
IDENTITY = ["runner", "harness", "model", "sha256", "actor", "decode_mode", "sampler", "scenario", "expect", "size"]
IDENTITY += ["priming", "horizon", "horizon_unit"]
NUMBERS = ("count", "n", "unique", "value", "low", "high")


def differences(directory: Path) -> list[str]:
    """What summary.csv says otherwise than this, one sentence a figure; empty where nothing differs."""
    with (directory / "summary.csv").open(newline="", encoding="utf-8") as file:
        written = {}
        for row in csv.DictReader(file):
            key = tuple(row[name] for name in [*IDENTITY, "arm", "guard", "plane", "metric"])
            if key in written:
                return [f"summary.csv has {key} twice"]
            written[key] = tuple(row[name] for name in NUMBERS)
    derived = {tuple(str(part) for part in key): figure for key, figure in derive(directory).items()}
    found = [f"only in summary.csv: {key}" for key in sorted(written.keys() - derived.keys())]
    found += [f"not in summary.csv: {key}" for key in sorted(derived.keys() - written.keys())]
    for key in sorted(written.keys() & derived.keys()):
        for name, text, number in zip(NUMBERS, written[key], derived[key], strict=True):
            equal = text == "" if number is None else text != "" and math.isclose(float(text), number, abs_tol=1e-8)
            if not equal:
                found.append(f"{key}: {name} is {text or 'empty'} in summary.csv and {number} here")
    return found


def derive(directory: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(count, n, unique, value, low, high) of every figure."""
    episodes = []
    for path in sorted((directory / "traces").glob("*.trace.jsonl.zst")):
        data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        lines = [json.loads(line) for line in data.decode().split("\n") if line]
        episode = read(lines)
        if episode is not None:
            episodes.append(episode)
    bases = [e["setting"] for e in episodes if e["arm"] == "off"]
    for e in episodes:
        if e["arm"] in SAMPLER_ARMS:
            alike = {base for base in bases if bare(base) == bare(e["setting"])}
            if len(alike) == 1:
                e["setting"] = alike.pop()
        e["cell"] = (*e["setting"], *e["place"])
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for cell in {e["cell"] for e in episodes}:
        for arm in {e["arm"] for e in episodes if e["cell"] == cell}:
            group = sorted((e for e in episodes if (e["cell"], e["arm"]) == (cell, arm)), key=lambda e: e["seed"])
            group = group[:1] if cell[4] else group
            twins = {e["seed"]: e for e in episodes if (e["cell"], e["arm"]) == (cell, "off")}
            for key, figure in figures(arm, group, twins).items():
                if figure[1]:
                    found[(*cell, arm, *key)] = figure
    return found


def bare(setting: tuple[Any, ...]) -> tuple[Any, ...]:
    sampler = {name: value for name, value in json.loads(setting[6]).items() if not name.startswith(PENALTIES)}
    return (*setting[:6], json.dumps(sampler, sort_keys=True))


def read(lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    """One trace as plain lists; None for an infrastructure error."""
    meta = lines[0]["meta"]
    events, over, labels = [], set(), []
    for line in lines[1:]:
        line.setdefault("agent", "root")
        if line["type"] == "label":
            labels.append(line)
        elif line["agent"] not in over:
            events.append(line)
            if line["type"] == "end":
                over.add(line["agent"])
    ends = {line["agent"]: line for line in events if line["type"] == "end"}
    root = "root" if any(line["agent"] == "root" for line in events) else events[0]["agent"]
    if root not in ends or any(end["reason"] == "error" for end in ends.values()):
        return None
    model, harness = meta.get("model") or {}, meta.get("harness") or {}
    sampler = json.dumps(meta.get("sampler") or {}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    calls, tries, acts = facts(events, labels)
    episode = {
        "arm": meta.get("arm") or "off",
        "seed": meta.get("seed"),
        "setting": (
            meta.get("runner") or "",
            f"{harness.get('name') or ''} {harness.get('version') or ''}".strip(),
            model.get("name") or "",
            model.get("sha256") or "",
            meta.get("actor") or "",
            meta.get("decode_mode") or "",
            sampler,
        ),
        "place": (
            lines[0].get("scenario") or "",
            meta.get("expect") or "",
            meta.get("size") or "",
            meta.get("priming") or 0,
            -1 if meta.get("horizon") is None else meta["horizon"],
            meta.get("horizon_unit") or "",
        ),
        "greedy": (meta.get("sampler") or {}).get("temperature") == 0,
        "actor": meta.get("actor"),
        "events": events,
        "calls": calls,
        "tries": tries,
        "acts": acts,
        "ends": ends,
        "root": root,
        "success": ends[root].get("success"),
    }
    episode["armed"] = {(e["guard"], e.get("plane")) for e in events if e["type"] == "guard" and e["action"] == "arm"}
    episode["armed"] |= {(act["guard"], act["plane"]) for act in acts}
    episode["path"] = json.dumps(
        [
            [[c["agent"], c["tool"], c["args"], c["primed"], c["denied"], c["error"], c["class"]] for c in calls],
            [[t["agent"], t["trigger"], t["outcome"], t["plane"], t["futile"]] for t in tries],
            [[a["guard"], a["plane"], a["action"], a["agent"], a["index"]] for a in acts],
            [[agent, ends[agent]["reason"], ends[agent].get("success")] for agent in sorted(ends)],
        ]
    )
    return episode


def facts(events: list[dict[str, Any]], labels: list[dict[str, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Calls with class and fate, compaction attempts, and what guards did."""
    calls: list[dict[str, Any]] = []
    for at, line in enumerate(events):
        if line["type"] == "call":
            same = sum(c["agent"] == line["agent"] and c["id"] == line["id"] for c in calls)
            mine = [x for x in labels if (x["agent"], x["call"]) == (line["agent"], line["id"])]
            calls.append(
                {
                    "at": at,
                    "agent": line["agent"],
                    "id": line["id"],
                    "index": 1 + sum(c["agent"] == line["agent"] for c in calls),
                    "tool": line["tool"],
                    "args": line.get("args", {}),
                    "primed": line.get("primed", False),
                    "class": mine[same]["class"],
                    "unit": mine[same].get("unit", False),
                    "denied": None,
                    "error": False,
                    "settled": False,
                }
            )
        elif line["type"] == "result":
            waiting = [c for c in calls if (c["agent"], c["id"], c["settled"]) == (line["agent"], line["id"], False)]
            if waiting:
                waiting[-1].update(settled=True, denied=line.get("denied_by"), error=line.get("error", False))
    guards = [
        (at, x) for at, x in enumerate(events) if x["type"] == "guard" and x["action"] in ("nudge", "deny", "refuse")
    ]
    abouts = {}
    for at, line in guards:
        if line.get("call") is not None:
            mine = [c for c in calls if (c["agent"], c["id"]) == (line["agent"], line["call"])]
            earlier = [c for c in mine if c["at"] < at]
            abouts[at] = earlier[-1] if earlier else mine[0]
            if line["action"] == "deny" and not abouts[at]["denied"]:
                abouts[at]["denied"] = f"{line['guard']}@{line['plane']}" if line.get("plane") else line["guard"]
    tries = attempts(events, calls)
    unused = [t for t in tries if t["outcome"] == "refused"]
    acts = []
    for at, line in guards:
        about = abouts.get(at)
        if line.get("call") is None:
            mine = [t for t in unused if (t["agent"], t["plane"]) == (line["agent"], line.get("plane"))]
            if mine:
                about = mine[0]
                unused.remove(about)
        index = about["index"] if about else 1 + sum(t["at"] < at and t["agent"] == line["agent"] for t in tries)
        acts.append(
            {"guard": line["guard"], "plane": line.get("plane"), "action": line["action"], "agent": line["agent"]}
            | {"index": index, "at": at, "place": about["at"] if about else at, "about": about}
        )
    for call in calls:
        told = any(act["about"] is call and act["action"] == "deny" for act in acts)
        if call["denied"] and not told:
            guard, _, plane = call["denied"].partition("@")
            acts.append(
                {"guard": guard, "plane": plane or None, "action": "deny", "agent": call["agent"]}
                | {"index": call["index"], "at": call["at"], "place": call["at"], "about": call}
            )
    return calls, tries, sorted(acts, key=lambda act: act["at"])


def attempts(events: list[dict[str, Any]], calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tries: list[dict[str, Any]] = []
    for at, line in enumerate(events):
        if line["type"] != "compaction":
            continue
        trigger = line.get("trigger", "pressure")
        automatic = [t for t in tries if t["agent"] == line["agent"] and t["trigger"] != "manual"]
        progress = True
        if automatic:
            progress = any(
                c["unit"] and not c["denied"]
                for c in calls
                if c["agent"] == line["agent"] and automatic[-1]["at"] < c["at"] < at
            )
        last = max([c["at"] for c in calls if c["agent"] == line["agent"] and c["primed"]], default=-1)
        tries.append(
            {
                "at": at,
                "agent": line["agent"],
                "index": 1 + sum(t["agent"] == line["agent"] for t in tries),
                "trigger": trigger,
                "outcome": line["outcome"],
                "plane": line.get("plane"),
                "summaries": line.get("summary_calls"),
                "futile": trigger != "manual" and not progress,
                "primed": at < last,
            }
        )
    return tries


if __name__ == "__main__":
    wrong = differences(Path(sys.argv[1]))
    print("\n".join(wrong) or "summary.csv agrees")
    sys.exit(bool(wrong))
