"""The figures of one cell and arm for the second derivation: plain loops over its plain lists."""

from __future__ import annotations

from typing import Any

from tests.results.second_facts import (
    after,
    independent,
    loops,
    marked,
    order,
    p_value,
    primed,
    score,
    spent,
    tally,
    timed,
)

MEASURES = ("calls", "tokens", "output_tokens", "seconds", "summary_calls")
NUDGES = ("loop-guard", "repeat-reminder")
SAMPLER_ARMS = ("presence-penalty", "repeat-penalty", "dry")
CALLS = {
    "useful": ("novel", "needed"),
    "novel": ("novel",),
    "needed": ("needed",),
    "requested": ("requested",),
    "sterile_in_loop": ("sterile in",),
    "sterile_elsewhere": ("sterile out",),
}
TRIES = {"productive": ("productive",), "futile_in_loop": ("futile in",), "futile_elsewhere": ("futile out",)}

Episode = dict[str, Any]
Figure = tuple[Any, ...]


def figures(arm: str, group: list[Episode], twins: dict[Any, Episode]) -> dict[tuple[str, str, str], Figure]:
    """By (guard, plane, metric); figures of n 0 may be among them."""
    found = Group(group, twins)
    found.rate("solved", [(e["path"], e["success"]) for e in group if e["success"] is not None])
    found.rate("overflowed", [(e["path"], any(x["reason"] == "overflow" for x in e["ends"].values())) for e in group])
    if arm == "off":
        found.provoked()
        return found.rows
    found.rate("twin_provoked", [(path, loops(off)) for _, off, path in found.pairs])
    for guard, plane in found.guards:
        found.timing(guard, plane)
    for who in [] if arm in SAMPLER_ARMS else [None, *found.guards]:
        found.classes(who)
    found.harm()
    for measure in MEASURES:
        found.saved(measure)
    found.after()
    return found.rows


class Group:
    def __init__(self, group: list[Episode], twins: dict[Any, Episode]) -> None:
        self.group, self.twins = group, twins
        self.how = not group[0]["actor"], group[0]["greedy"]
        self.rows: dict[tuple[str, str, str], Figure] = {}
        both = [(e, twins[e["seed"]]) for e in group if e["seed"] in twins]
        self.pairs = [(e, off, off["path"] + "+" + e["path"]) for e, off in both]
        self.guards = sorted({each for e in group for each in e["armed"]}, key=lambda each: (each[0], each[1] or ""))

    def rate(self, metric: str, seen: list[tuple[str, Any]], guard: str = "", plane: str = "") -> None:
        kept = independent(seen, *self.how)
        ends = score(sum(bool(hit) for _, hit in kept) / len(kept), len(kept)) if kept else (None, None)
        count = sum(bool(hit) for _, hit in seen)
        share = count / len(seen) if seen else None
        self.rows[guard, plane, metric] = (count, len(seen), len({path for path, _ in seen}), share, *ends)

    def calls_rate(self, metric: str, seen: list[tuple[str, int, int]], guard: str, plane: str) -> None:
        seen = [each for each in seen if each[2]]
        kept = independent(seen, *self.how)
        count, n = sum(each[1] for each in seen), sum(each[2] for each in seen)
        ends: tuple[Any, Any] = (None, None)
        if kept:
            asked = sum(each[2] for each in kept)
            ends = score(sum(each[1] for each in kept) / asked, asked**2 / sum(each[2] ** 2 for each in kept))
        self.rows[guard, plane, metric] = (count, n, len({each[0] for each in seen}), count / n if n else None, *ends)

    def middle(self, metric: str, seen: list[tuple[str, Any]], guard: str = "", plane: str = "") -> None:
        seen = [each for each in seen if each[1] is not None]
        values = sorted(value for _, value in seen)
        half = len(values) // 2
        value = (values[half] + values[-half - 1]) / 2 if values else None
        ends = order(sorted(value for _, value in independent(seen, *self.how)))
        self.rows[guard, plane, metric] = (None, len(seen), len({path for path, _ in seen}), value, *ends)

    def total(self, metric: str, seen: list[tuple[str, Any]]) -> None:
        seen = [each for each in seen if each[1] is not None]
        unique = len({path for path, _ in seen})
        self.rows["", "", metric] = (None, len(seen), unique, sum(value for _, value in seen), None, None)

    def provoked(self) -> None:
        every = [(e["path"], loops(e)) for e in self.group]
        self.rate("provoked", every)
        for kind, unit in (("calls", "calls"), ("refill", "attempts")):
            mine = [(path, [loop for loop in each if loop["kind"] == kind]) for path, each in every]
            self.rate(f"provoked_{kind}", mine)
            self.middle(f"onset_{unit}", [(path, each[0]["onset"]) for path, each in mine if each])
        self.rate("self_recovered", [(path, each[0]["left"]) for path, each in every if each])

    def nudges(self, guard: str) -> bool:
        acts = [act for e in self.group for act in e["acts"]]
        return guard in NUDGES or any((act["guard"], act["action"]) == (guard, "nudge") for act in acts)

    def timing(self, guard: str, plane: Any) -> None:
        kind = "refill" if guard == "compaction-breaker" else "calls"
        seen = [(e, off, path, [loop for loop in loops(off) if loop["kind"] == kind]) for e, off, path in self.pairs]
        possible = [what for what in ("trip",) if guard != "repeat-reminder"]
        possible += [what for what in ("nudge",) if self.nudges(guard)]
        for what in possible:
            rows = [(path, timed(e, off, each[0], guard, plane, what)) for e, off, path, each in seen if each]
            for status in ("acted", "early", "primed", "missed"):
                self.rate(f"{what}_{status}", [(p, row["status"] == status) for p, row in rows], guard, plane or "")
            names = ["index", "delay", "attempts_before", "summary_calls_before"]
            names += [f"delay_{unit}" for unit in ("turns", "tokens", "output_tokens", "seconds")]
            for name in names:
                self.middle(f"{what}_{name}", [(path, row.get(name)) for path, row in rows], guard, plane or "")

    def classes(self, who: Any) -> None:
        guard, plane = who or ("", "")
        nudges, denies = who is None or self.nudges(guard), guard != "repeat-reminder"
        refuses = who is None or guard == "compaction-breaker"
        tallies = [(e["path"], *tally(e, self.twins.get(e["seed"]), who)) for e in self.group]
        verbs = [("denied", 0, CALLS, who is None or (denies and not refuses)), ("refused", 0, TRIES, refuses)]
        for verb, which, metrics, possible in [*verbs, ("nudged", 1, CALLS, nudges)]:
            for metric, names in metrics.items() if possible else ():
                seen = [
                    (path, sum(hits[which].get(each, 0) for each in names), sum(asked.get(each, 0) for each in names))
                    for path, hits, asked in tallies
                ]
                self.calls_rate(f"{verb}_{metric}", seen, guard, plane or "")
        if self.group[0]["place"][1] == "quiet":
            for metric, which, possible in (("false_positive", 0, denies), ("nudged_useful", 1, nudges)):
                right = ("novel", "needed", "productive")
                seen_in = [(path, any(hits[which].get(each) for each in right)) for path, hits, _ in tallies]
                if possible:
                    self.rate(f"quiet_{metric}", seen_in, guard, plane or "")

    def harm(self) -> None:
        known = [each for each in self.pairs if each[0]["success"] is not None and each[1]["success"] is not None]
        self.rate("harmed", [(path, not e["success"]) for e, off, path in known if off["success"]])
        self.rate("rescued", [(path, e["success"]) for e, off, path in known if not off["success"]])
        kept = [each[1:] for each in independent([(path, e, off) for e, off, path in known], *self.how)]
        if any(off["success"] for _, off in kept):
            worse = sum(off["success"] and not e["success"] for e, off in kept)
            p = p_value(worse, sum(e["success"] and not off["success"] for e, off in kept))
            self.rows["", "", "harm_p"] = (None, len(known), len({path for *_, path in known}), p, None, None)

    def saved(self, measure: str) -> None:
        seen: dict[str, list[tuple[str, Any, Any]]] = {"saved": [], "lost": []}
        for e, off, path in self.pairs:
            ours, theirs = spent(e)[measure], spent(off)[measure]
            less = None if ours is None or theirs is None else theirs - ours
            rest = after(off)[measure] if loops(off) and less is not None else None
            seen["saved" if loops(off) else "lost"].append((path, less, rest))
        for name, rows in seen.items():
            self.total(f"{name}_{measure}_total", [(path, less) for path, less, _ in rows])
            self.middle(f"{name}_{measure}", [(path, less) for path, less, _ in rows])
        self.middle(f"saved_{measure}_share", [(path, less / rest) for path, less, rest in seen["saved"] if rest])
        self.total(f"off_after_onset_{measure}_total", [(path, rest) for path, _, rest in seen["saved"]])

    def after(self) -> None:
        trips = [(e, [act for act in e["acts"] if act["action"] != "nudge" and not primed(act)]) for e in self.group]
        self.rate("tripped", [(e["path"], acts) for e, acts in trips])
        marks = [(e["path"], marked(e, acts[0])) for e, acts in trips if acts]
        for mark in ("completed", "changed", "stopped", "zombie", "evaded", "overflowed"):
            self.rate(f"after_{mark}", [(path, each[mark]) for path, each in marks])
