"""Guards that do not let go, or let go for the wrong reason; and compaction."""

from __future__ import annotations

from collections.abc import Iterator

from results.trace import Event
from tests.traces.reports.shape import Script, Shape


def latches() -> Iterator[Shape]:
    yield from _denials()
    yield from _compactions()


def _denials() -> Iterator[Shape]:
    script = Script().user("start the job")
    for _ in range(45):
        script.call("start", {"job": "j"}, "queue full", error=True)
    why = "denied or not, it goes on: the denials are right, and ending the run would be too, which no guard here does"
    yield Shape("R75-denied-and-on", "openclaw/openclaw#127701", ("LATCH",), "trip", why, script.done(), 2)

    script = Script().user("build it")
    for _ in range(9):
        script.call("build", {}, "no disk space", error=True)
    script.user("I have freed some space, go on").call("build", {}, "built").call("test", {}, "passed")
    why = "the loop is to be stopped, and the one try that the user asks for behind it is not"
    yield Shape(
        "R77-user-resumes", "docker/docker-agent#2237", ("LATCH",), "trip", why, script.done("completed"), 2, 10
    )

    script = Script().user("fix both files")
    for number in range(8):
        script.call("edit", {"path": "a.py", "old": "x", "new": "y"}, "no such text", error=True)
        script.call("edit", {"path": "b.py", "line": number}, "ok")
    why = "progress in one file is none in the other"
    yield Shape("R79-progress-elsewhere", "no-human-ai/no_human#224", ("LEAK",), "trip", why, script.done(), 3)

    events: list[Event] = []
    for name in ("ann", "bob", "cid"):
        script = Script(name).user("check your part").call("read", {"path": "README"}, "welcome")
        events += script.call("shell", {"command": "make check"}, "all passed").done("completed")
    why = "three agents that each do the same thing once"
    yield Shape("R81-three-agents", "newrelic-experimental/preflight#607", ("LEAK",), "quiet", why, tuple(events))


def _compactions() -> Iterator[Shape]:
    script = Script().user("read the dump")
    for part in range(6):
        script.call("read", {"path": "dump", "part": part}, "a lot").compacts()
    fresh = Script("fresh").user("hi").call("read", {"path": "small"}, "little").compacts()
    why = "a session that fills up at once is to be stopped, and the next, fresh one is not"
    events = (*script.done(), *fresh.done("completed"))
    yield Shape("R83-fresh-session", "anthropics/claude-code#82131", ("LATCH", "COMP"), "trip", why, events, 2)

    script = Script().user("read the dump")
    for part in range(5):
        script.call("read", {"path": "dump", "part": part}, "a lot").compacts()
    script.user("now do something else")
    for number in range(12):
        script.call("read", {"path": f"part {number}"}, "little")
    script.compacts()
    why = "after a new prompt and a dozen turns of other work, compaction is right again"
    yield Shape(
        "R83-new-prompt", "anthropics/claude-code#72857", ("LATCH", "COMP"), "trip", why, script.done("completed"), 2, 6
    )

    script = Script().user("go on")
    for number in range(20):
        script.call("step", {"n": number}, "ok").compacts()
    why = "a limit that is set wrong makes each step a compaction"
    yield Shape("R85-wrong-limit", "anomalyco/opencode#28543", ("COMP",), "trip", why, script.done(), 2)

    script = Script().user("port the module")
    for number in range(12):
        for name in ("a.py", "b.py", "c.py")[: 2 + number % 2]:
            script.call("read", {"path": name}, f"the whole of {name}")
        script.compacts()
    why = "the same files are read again after each compaction, two or three calls apart"
    yield Shape("R87-read-compact-read", "anthropics/claude-code#24179", ("COMP",), "trip", why, script.done(), 3)

    script = Script().user("go on")
    for number in range(8):
        script.call("step", {"n": number}, "ok").compacts("failed")
    why = "a compaction that fails will fail again"
    yield Shape("R89-compaction-fails", "openai/codex#24732", ("COMP",), "trip", why, script.done(), 3)

    script = Script().user("go on").call("step", {"n": 1}, "ok")
    for _ in range(7):
        script.compacts()
    why = "a count from before the compaction triggers the next one at once"
    yield Shape("R91-stale-count", "hydro-project/infinity#64", ("COMP",), "trip", why, script.done(), 2)

    script = Script().user("go on").call("read", {"path": "huge"}, "more than fits")
    for _ in range(6):
        script.compacts(trigger="overflow")
    why = "the prompt that does not fit comes back unchanged after each compaction"
    yield Shape("R93-overflow-again", "openclaw/openclaw#10613", ("COMP",), "trip", why, script.done("overflow"), 2)

    script = Script().user("book the flight in the browser")
    for number in range(3, 123):
        script.call("explore", {"query": f"stub {number}"}, f"nothing about stub {number}")
    why = "the tool that was needed is missing, and another one is called for nothing; 460 times in the report"
    yield Shape("R95-number-counts-up", "ZCode", ("FN",), "trip", why, script.done(), 4)
