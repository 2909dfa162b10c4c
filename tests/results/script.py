"""Hand-written episodes: a line of marks becomes a trace, so that every number in a test can be worked out by eye.

Marks, separated by spaces; each but a compaction is a model response (100 tokens read, 10 written, 2 seconds) and call:

    n e r s      a novel, needed, requested or sterile call that ran (e: nEeded)
    u            a novel call that completes a unit
    !GUARD@PLANE, ?GUARD@PLANE   after a call: denied, nudged
    p            before a call: primed
    C  F  M      a compaction attempt: committed, failed (2 summaries), manual and committed; 5 seconds a summary
    X@PLANE      an attempt that compaction-breaker@PLANE refused
    A:           before a mark: agent A does it, not root

Guards have short names: cb, lg, cmp, rr.
"""

from __future__ import annotations

import hashlib
from typing import Any

from results.episode import Episode
from results.trace import Call, Compaction, End, Event, Guard, Header, Label, Result, Step, Trace

GUARDS = {"cb": "circuit-breaker", "lg": "loop-guard", "cmp": "compaction-breaker", "rr": "repeat-reminder"}
CLASSES = {"n": "novel", "e": "needed", "r": "requested", "s": "sterile", "u": "novel"}
ARMED = {
    "off": (),
    "host": ("cb@host", "lg@host", "cmp@host"),
    "agent": ("cb@agent", "lg@agent", "cmp@agent"),
    "both": ("cb@host", "lg@host", "cmp@host", "cb@agent", "lg@agent", "cmp@agent"),
    "only:loop-guard@host": ("lg@host",),
}


def meta(**given: Any) -> dict[str, Any]:
    """The meta of a run's trace, with what a test does not care about filled in."""
    return {
        "size": "default",
        "arm": "off",
        "stack": None,
        "seed": 1,
        "model": {"name": "tiny", "sha256": "ab" * 32},
        "actor": None,
        "harness": {"name": "dsh", "version": "0.2.1rc2"},
        "runner": "dsh",
        "horizon": 24,
        "horizon_unit": "tool turns",
        "priming": 0,
        "decode_mode": "lazy",
        "sampler": {"temperature": 0.7},
        "tape": None,
        "expect": "trip",
    } | given


def script(
    marks: str,
    *,
    end: str | None = "horizon",
    success: bool | None = False,
    scenario: str = "search-mirage",
    name: str | None = None,
    tag: str = "",
    **given: Any,
) -> Trace:
    """A trace of one episode. `tag` goes into args and prompts, so that seeds can have trajectories of their own."""
    facts = meta(**given)
    events: list[Event] = []
    labels: list[Label] = []
    counts: dict[str, int] = {}
    for armed in ARMED.get(facts["arm"], ()):
        guard, _, plane = armed.partition("@")
        events.append(Guard(GUARDS[guard], plane, action="arm"))
    for mark in marks.split():
        agent, _, rest = mark.rpartition(":")
        agent = agent or "root"
        if rest[0] in "CFMX":
            events += _attempt(agent, rest)
            continue
        counts[agent] = counts.get(agent, 0) + 1
        _call(events, labels, agent, counts[agent], rest, tag)
    agents = dict.fromkeys(["root", *(event.agent for event in events)])
    if end is not None:
        events += [End(end, success if agent == "root" else None, agent=agent) for agent in agents]
    size = "" if facts["size"] == "default" else f".{facts['size']}"
    episode = name or f"{scenario}{size}.{facts['arm'].replace(':', '-')}.{facts['seed']}"
    return Trace(Header(episode, scenario, "a test", facts), (*events, *labels))


def episode(marks: str, **given: Any) -> Episode:
    return Episode(script(marks, **given))


def _attempt(agent: str, mark: str) -> list[Event]:
    if mark[0] == "X":
        plane = mark.partition("@")[2] or None
        return [
            Compaction(trigger="pressure", outcome="refused", plane=plane, summary_calls=0, agent=agent),
            Guard("compaction-breaker", plane, action="refuse", kind="rapid-refill", count=2, limit=3, agent=agent),
        ]
    outcome = {"C": "committed", "F": "failed", "M": "committed"}[mark[0]]
    asked = 2 if mark[0] == "F" else 1
    trigger = "manual" if mark[0] == "M" else "pressure"
    return [
        Compaction(
            trigger=trigger, outcome=outcome, plane="host", summary_calls=asked, seconds=5.0 * asked, agent=agent
        )
    ]


def _call(events: list[Event], labels: list[Label], agent: str, number: int, mark: str, tag: str) -> None:
    primed = mark[0] == "p"
    letter, rest = (mark[1], mark[2:]) if primed else (mark[0], mark[1:])
    seen = [e for e in events if e.agent == agent and not (isinstance(e, Guard) and e.action == "arm")]
    prompt = hashlib.sha256(f"{tag}{seen}".encode()).hexdigest()[:12]
    same = letter in "sr"
    name = f"c{number}"
    step = Step(number, 1, 100, 10, 2.0, "tool_calls", f"k{number}", prompt, primed, agent=agent)
    args = {"q": f"{tag}{letter if same else number}"}
    events += [step, Call(id=name, step=number, tool="search", args=args, primed=primed, agent=agent)]
    denied = None
    notices: list[Event] = []
    for part in rest.replace("!", " !").replace("?", " ?").split():
        short, _, plane = part[1:].partition("@")
        action = "deny" if part[0] == "!" else "nudge"
        acted = Guard(GUARDS[short], plane or None, action=action, call=name, count=number, limit=6, agent=agent)
        if action == "deny":
            denied = f"{GUARDS[short]}@{plane}" if plane else GUARDS[short]
            events.append(acted)
        else:
            notices.append(acted)
    text = "denied" if denied else f"answer {letter if same else number}"
    events += [Result(name, ({"type": "text", "text": text},), denied is not None, denied, agent=agent), *notices]
    labels.append(Label(name, CLASSES[letter], "by hand", letter == "u", agent=agent))  # type: ignore[arg-type]
