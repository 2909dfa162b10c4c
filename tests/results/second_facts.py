"""What the second derivation counts in one episode or pair, and its own statistics."""

from __future__ import annotations

import math
from typing import Any

Z = 1.959963984540054

Episode = dict[str, Any]


def independent(seen: list[Any], model: bool, greedy: bool) -> list[Any]:
    if not model:
        return []
    if not greedy:
        return seen
    kept: list[Any] = []
    for each in seen:
        if all(each[0] != other[0] for other in kept):
            kept.append(each)
    return kept


def score(share: float, n: float) -> tuple[float, float]:
    """The roots of (share - r)^2 = Z^2 r (1 - r) / n."""
    a, b, c = 1 + Z * Z / n, 2 * share + Z * Z / n, share * share
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return (b - root) / (2 * a), (b + root) / (2 * a)


def order(values: list[float]) -> tuple[Any, Any]:
    n, rank = len(values), 0
    while sum(math.comb(n, k) for k in range(rank + 1)) / 2**n <= 0.025:
        rank += 1
    return (values[rank - 1], values[-rank]) if rank else (None, None)


def p_value(worse: int, better: int) -> float:
    n = worse + better
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(min(worse, better) + 1)) / 2**n)


def loops(e: Episode) -> list[dict[str, Any]]:
    found = []
    for agent in {line["agent"] for line in e["events"]}:
        run: list[Any] = []
        for call in [c for c in e["calls"] if c["agent"] == agent and not c["primed"]] + [None]:
            if call is not None and call["class"] == "sterile":
                run.append(call)
                continue
            if len(run) >= 3:
                loop = {"kind": "calls", "agent": agent, "onset": run[0]["index"], "at": run[0]["at"]}
                found.append(loop | {"left": call is not None})
            run = []
        tries = [t for t in e["tries"] if t["agent"] == agent and not t["primed"] and t["trigger"] != "manual"]
        run = []
        for attempt in [*tries, None]:
            if attempt is not None and (attempt["futile"] or not run):
                run.append(attempt)
                continue
            if len(run) >= 3:
                later = [c for c in e["calls"] if c["agent"] == agent and c["at"] > run[-1]["at"]]
                loop = {"kind": "refill", "agent": agent, "onset": run[0]["index"], "at": run[0]["at"]}
                found.append(loop | {"left": any(c["unit"] and not c["denied"] for c in later)})
            run = [attempt] if attempt is not None else []
    return sorted(found, key=lambda loop: (loop["at"], loop["kind"]))


def primed(act: dict[str, Any]) -> bool:
    return bool(act["about"] and act["about"]["primed"])


def timed(e: Episode, off: Episode, loop: Any, guard: str, plane: Any, what: str) -> dict[str, Any]:
    for act in e["acts"]:
        if (act["guard"], act["plane"], act["agent"]) != (guard, plane, loop["agent"]):
            continue
        if (act["action"] == "nudge") != (what == "nudge"):
            continue
        start = [c for c in e["calls"] if c["agent"] == loop["agent"] and c["primed"]]
        here = spent(e, 0, act["place"], loop["agent"])
        if start:
            there = spent(e, 0, start[-1]["at"], loop["agent"])
            tries = [t for t in e["tries"] if t["agent"] == loop["agent"] and t["at"] < start[-1]["at"]]
            origin = start[-1]["index"] if loop["kind"] == "calls" else len(tries)
        else:
            there, origin = spent(off, 0, loop["at"], loop["agent"]), loop["onset"]
        row = {"status": "primed" if primed(act) else "early" if act["index"] < loop["onset"] else "acted"}
        row |= {"index": act["index"], "delay": act["index"] - origin}
        for unit in ("turns", "tokens", "output_tokens", "seconds"):
            unknown = here[unit] is None or there[unit] is None
            row[f"delay_{unit}"] = None if unknown else here[unit] - there[unit]
        if act["action"] == "refuse":
            before = [t for t in e["tries"] if t["agent"] == act["agent"] and t["at"] < act["place"]]
            row["attempts_before"] = len(before)
            row["summary_calls_before"] = add([t["summaries"] for t in before])
        return row
    return {"status": "missed"}


def tally(e: Episode, off: Any, who: Any) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Hits by class, of denials and refusals and of nudges; and what was asked, by class."""
    asked: dict[str, int] = {}
    classes: dict[int, str] = {}
    for each in [*e["calls"], *e["tries"]]:
        if each["primed"] or each.get("trigger") == "manual":
            continue
        call = "class" in each
        name = each["class"] if call else "futile" if each["futile"] else "productive"
        if name in ("sterile", "futile"):
            kind = "calls" if call else "refill"
            mine = [x for x in loops(off) if (x["kind"], x["agent"]) == (kind, each["agent"])] if off else []
            name += " unknown" if off is None else " in" if mine and each["index"] >= mine[0]["onset"] else " out"
        classes[each["at"]] = name
        asked[name] = asked.get(name, 0) + 1
    hits: list[dict[str, int]] = [{}, {}]
    for which in (0, 1):
        struck = set()
        for act in e["acts"]:
            if (
                (act["action"] == "nudge") == bool(which)
                and act["about"]
                and who in (None, (act["guard"], act["plane"]))
            ):
                struck.add(act["about"]["at"])
        for at in struck & classes.keys():
            hits[which][classes[at]] = hits[which].get(classes[at], 0) + 1
    return hits, asked


def spent(e: Episode, start: int = 0, stop: Any = None, agent: Any = None) -> dict[str, Any]:
    stop = len(e["events"]) if stop is None else stop
    part = [x for x in e["events"][start:stop] if agent in (None, x["agent"])]
    steps = [x for x in part if x["type"] == "step" and not x.get("primed")]
    tries = [x for x in part if x["type"] == "compaction"]
    own = [c for c in e["calls"] if start <= c["at"] < stop and agent in (None, c["agent"]) and not c["primed"]]
    seconds = [x.get("seconds") for x in steps] + [
        0 if x.get("summary_calls") == 0 else x.get("seconds") for x in tries
    ]
    found = {
        "turns": sum(x["calls"] >= 1 for x in steps),
        "calls": sum(not c["denied"] for c in own),
        "output_tokens": add([x.get("output_tokens") for x in steps] + [x.get("output_tokens", 0) for x in tries]),
        "seconds": add(seconds),
        "summary_calls": add([x.get("summary_calls") for x in tries]),
    }
    read = add([x.get("input_tokens") for x in steps] + [x.get("input_tokens", 0) for x in tries])
    found["tokens"] = add([read, found["output_tokens"]])
    return found


def add(values: list[Any]) -> Any:
    return None if any(value is None for value in values) else sum(values)


def after(off: Episode) -> dict[str, Any]:
    """What `off` spent from the onset of its first loop on."""
    loop = loops(off)[0]
    start = loop["at"]
    if loop["kind"] == "calls":
        steps = [at for at, x in enumerate(off["events"]) if x["type"] == "step" and x["agent"] == loop["agent"]]
        start = max([at for at in steps if at <= loop["at"]], default=loop["at"])
    return spent(off, start)


def marked(e: Episode, trip: dict[str, Any]) -> dict[str, bool]:
    later = [c for c in e["calls"] if c["agent"] == trip["agent"] and c["at"] > trip["place"] and not c["primed"]]
    end = (e["ends"].get(trip["agent"]) or e["ends"][e["root"]])["reason"]
    if trip["action"] == "refuse":
        tries = [t for t in e["tries"] if t["agent"] == trip["agent"] and t["at"] > trip["place"]]
        tries = [t for t in tries if t["trigger"] != "manual"]
        idle = not any(
            c["unit"] and not c["denied"]
            for c in e["calls"]
            if c["agent"] == trip["agent"] and c["at"] >= trip["place"]
        )
        stuck = bool(tries) and all(t["outcome"] == "refused" for t in tries) and idle
        evaded = any(t["futile"] and t["outcome"] != "refused" for t in tries)
    else:
        stuck = bool(later) and all(c["denied"] for c in later)
        evaded = any(c["class"] == "sterile" and not c["denied"] for c in later)
    return {
        "completed": e["success"] is True,
        "changed": any(c["class"] in ("novel", "needed") for c in later[:3]),
        "stopped": end == "completed" and e["success"] is not True,
        "zombie": stuck and end == "horizon",
        "evaded": evaded,
        "overflowed": any(x["reason"] == "overflow" for x in e["ends"].values()),
    }
