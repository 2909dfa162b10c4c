"""Loops of equal calls: reports in which a guard had to act and did too late or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from tests.traces.reports.shape import Script, Shape


def loops() -> Iterator[Shape]:
    yield from _identical()
    yield from _cycles()


def _identical() -> Iterator[Shape]:
    script = Script().user("make the build pass")
    for first, count in (("ls src", 20), ("cat notes", 16), ("git log -3", 16)):
        script.call("shell", {"command": first}, f"output of {first}")
        for _ in range(count):
            script.call("shell", {"command": "make -j2 check"}, "3 failed, 81 passed", error=True)
    why = "the same command with the same outcome, whatever the model thinks in between"
    yield Shape("R01-same-command-thrice", "PrimeIntellect-ai/prime-agent#1326", ("TP",), "trip", why, script.done(), 3)

    script = Script().user("where is the port read")
    for word in ("port", "listen", "bind"):
        script.call("grep", {"pattern": word, "path": "src"}, f"src/net.c: {word}")
    for _ in range(35):
        script.call("grep", {"pattern": "port", "path": "src"}, "src/net.c: port")
    why = "enough was known before the repeats: stop them, and answer from what there is"
    yield Shape("R03-search-again", "anthropics/claude-code#59318", ("TP",), "trip", why, script.done(), 4)

    script = Script().user("what is going on")
    for minute in range(32):
        script.call("status", {}, f"1 session, idle, uptime {minute + 3} min")
    why = "empty arguments are arguments, and a clock in the result is no news; a warning alone is not enough"
    yield Shape("R05-status-without-arguments", "openclaw/openclaw#73763", ("TP",), "trip", why, script.done(), 2)

    script = Script().user("plot the data").call("shell", {"command": "pip install plots"}, "installed plots 1.2")
    for _ in range(8):
        script.call("shell", {"command": "pip install plots"}, "already there: plots 1.2")
    why = "a success is a reason to go on, not to do it again"
    yield Shape("R07-install-again", "gptme/gptme#3459", ("TP",), "trip", why, script.done(), 2)

    script = Script().user("write down how the cache works")
    for _ in range(11):
        script.call("read", {"path": "cache.py"}, "class Cache: ...")
    why = "the model says that it has read enough, and reads the same file"
    yield Shape("R09-read-again", "anthropics/claude-code#53578", ("TP",), "trip", why, script.done(), 2)

    script = Script().user("play the song")
    for _ in range(5):
        script.call("find_song", {"query": "blue train"}, '{"found": 0}')
    for query in ("blue", "train", "the blue train", "blue train song", "blue train live"):
        script.call("find_song", {"query": query}, '{"found": 0}')
    why = "a tool that finds nothing twice is worth a hint, also when the words change"
    yield Shape("R11-nothing-found", "ebongard/renfield#229", ("TP", "empty"), "trip", why, script.done(), 2)

    script = Script().user("fix the test")
    for _ in range(8):
        script.call("apply_patch", {"path": "sum.py", "patch": "-a\n+a"}, "ok")
        script.call("run_tests", {}, "1 failed: test_sum", error=True)
    why = "a successful edit that changes nothing is no progress"
    yield Shape("R13-edit-without-effect", "mrdushidush/claudette#77", ("TP",), "trip", why, script.done(), 3)

    script = Script().user("read the page")
    for _ in range(15):
        script.call("visit", {"url": "/docs/gone"}, "200: <div id=app></div>")
    why = "a tool that may change things is still looping when its result does not change"
    yield Shape("R15-empty-page", "NousResearch/hermes-agent#34610", ("TP",), "trip", why, script.done(), 2)

    script = Script().user("open the dashboard")
    for _ in range(9):
        script.call("open_window", {"url": "/dash"}, "no display", error=True)
    why = "nine equal failures"
    yield Shape("R17-open-fails", "agent-afk#723", ("TP",), "trip", why, script.done(), 2)


def _cycles() -> Iterator[Shape]:
    script = Script().user("find the crash")
    for number in range(4):
        script.call("look_for", {"pattern": f"lead {number}"}, f"hit {number}")
    for _ in range(9):
        for word in ("alloc", "free", "lock"):
            script.call("look_for", {"pattern": word}, f"hits of {word}")
    why = "three calls of one tool in turn"
    yield Shape("R19-three-in-turn", "google/syzkaller#7121", ("FN",), "trip", why, script.done(), 8)

    script = Script().user("what did we decide")
    for _ in range(16):
        script.call("find_note", {"about": "decision"}, "note 7")
        script.call("open_note", {"note": 7}, "empty")
    why = "two calls in turn; both halves have to be stopped, or the other one goes on"
    yield Shape("R21-two-in-turn", "openclaw/openclaw#64500", ("FN",), "trip", why, script.done(), 3)

    script = Script().user("make the test pass")
    for _ in range(8):
        script.call("read", {"path": "a.py"}, "x = 1")
        script.call("edit", {"path": "a.py", "old": "x = 2", "new": "x = 3"}, "no such text", error=True)
        script.call("test", {}, "1 failed", error=True)
    why = "read, failing edit, failing test, in turn"
    yield Shape("R23-read-edit-test", "macanderson/stella#359", ("FN",), "trip", why, script.done(), 4)

    script = Script().user("go")
    for _ in range(25):
        script.call("a", {}, "one").call("b", {}, "two")
    why = "fifty rounds of two calls"
    yield Shape("R25-fifty-rounds", "yologdev/yoagent#145", ("FN",), "trip", why, script.done(), 3)

    script = Script().user("sum up the log")
    for number in range(24):
        offset = 200 * (number % 2)
        script.call("read", {"path": "out.log", "offset": offset, "limit": 200}, f"lines from {offset}")
    why = "the same two ranges of a file over and over; paging onwards would be fine"
    yield Shape("R27-same-ranges", "everruns/everruns#2295", ("FN",), "trip", why, script.done(), 3)
