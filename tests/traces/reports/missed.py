"""Loops that hide: other arguments each time, fresh ids, other planes, one response."""

from __future__ import annotations

from collections.abc import Iterator

from tests.traces.reports.shape import Script, Shape


def missed() -> Iterator[Shape]:
    yield from _varying()
    yield from _holes()


def _varying() -> Iterator[Shape]:
    script = Script().user("copy the key to the host")
    for number in range(49):
        script.call("shell", {"command": f"ssh -o Try={number} host true"}, "permission denied", error=True)
    why = "the answer is the same whatever the flags are"
    yield Shape("R29-other-flags-same-refusal", "openclaw/openclaw#34574", ("FN",), "trip", why, script.done(), 3)

    script = Script().user("which of the twenty items are in stock")
    for number in range(20):
        script.call("lookup", {"item": f"i{number}", "request": number}, f"i{number}: unknown")
    for number in range(43):
        script.call("lookup", {"item": f"i{number % 20}", "request": 20 + number}, f"i{number % 20}: unknown")
    why = "43 calls without a new item; the request's number hides it"
    yield Shape("R31-volatile-field", "Illospace/illospace#506", ("FN",), "trip", why, script.done(), 21)

    script = Script().user("who wrote the song")
    for number in range(30):
        script.call("web_search", {"query": f"song writer wording {number}"}, "no relevant hits")
    why = "other words for the same question, and never a hit"
    yield Shape("R33-other-words", "google-gemini/gemini-cli#28037", ("FN",), "trip", why, script.done(), 4)

    script = Script().user("rename the variable")
    for number in range(12):
        script.call("edit", {"path": "a.py", "line": number + 1, "old": "x", "new": "y"}, "no such text", error=True)
    why = "a failing edit that only moves from line to line"
    yield Shape("R35-other-lines", "anomalyco/opencode#32187", ("FN", "FP"), "trip", why, script.done(), 4)


def _holes() -> Iterator[Shape]:
    edit = ("edit", {"path": "a.py", "old": "x", "new": "y"}, "no such text")
    script = Script().user("rename the variable").together([edit] * 5, error=True)
    why = "five identical calls of one response: none but the first can help"
    yield Shape("R37-five-in-one-response", "anomalyco/opencode#25254", ("FN",), "trip", why, script.done(), 2)

    script = Script().user("split the work")
    for number in range(10):
        script.call(
            "start_helpers", {"task": "index", "count": 3}, f"started job-{number * 7919 % 1000} in {number + 11} ms"
        )
    why = "a fresh id in each result is no progress"
    yield Shape("R39-fresh-ids", "MarimerLLC/rockbot#464", ("FN",), "trip", why, script.done(), 2)

    script = Script().user("look it up")
    names = ("query", "limit", "site")
    for number in range(10):
        order = (*names[number % 3 :], *names[: number % 3])
        values = {"query": "rates", "limit": 5, "site": {"a": 1, "b": 2} if number % 2 else {"b": 2, "a": 1}}
        script.call("fetch", {name: values[name] for name in order}, "rates: none")
    why = "the order of names says nothing"
    yield Shape("R41-order-of-names", "architehc/selfware#61", ("FN",), "trip", why, script.done(), 2)

    script = Script().user("is it there")
    for _ in range(9):
        script.call("mcp__files__stat", {"path": "a"}, "not there")
    why = "a prefix before a tool's name changes nothing"
    yield Shape("R43-prefixed-name", "OpenRouterTeam/typescript-agent#74", ("FN",), "trip", why, script.done(), 2)

    script = Script().user("find the owner")
    for _ in range(6):
        script.call("list_people", {}, "ann, bob").call("get_person", {"name": "ann"}, "no owner")
    why = "six rounds of two calls: a threshold that a short history can not reach is none"
    yield Shape("R45-six-rounds", "NousResearch/hermes-agent#6784", ("FN",), "trip", why, script.done(), 3)

    script = Script("explorer").user("look around")
    for _ in range(9):
        script.call("ls", {"path": "."}, "src tests")
    why = "an agent that another one started loops like any other"
    yield Shape(
        "R47-in-a-subagent", "QwenLM/qwen-code#6505", ("LEAK", "FN"), "trip", why, script.done(), 2, agent="explorer"
    )

    script = Script().user("review the module").call("read", {"path": "a.py"}, "def f(): ...")
    for name in ("b.py", "c.py"):
        script.call("read", {"path": name}, f"text of {name}")
        script.call("read", {"path": "a.py"}, '{"error": "unchanged since you read it"}')
    why = "a tool's own refusal that speaks of an error is no failure, and three reads are no loop"
    yield Shape(
        "R49-refusal-speaks-of-error",
        "NousResearch/hermes-agent#114848",
        ("FP",),
        "quiet",
        why,
        script.done("completed"),
    )
