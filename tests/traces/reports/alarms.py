"""False alarms: reports of honest work that was stopped."""

from __future__ import annotations

from collections.abc import Iterator

from tests.traces.reports.shape import Script, Shape


def quiet() -> Iterator[Shape]:
    yield from _polls()
    yield from _work()
    yield from _asked_for()


def _shape(name: str, report: str, tags: tuple[str, ...], why: str, script: Script) -> Shape:
    return Shape(name, report, tags, "quiet", why, script.done("completed"))


def _polls() -> Iterator[Shape]:
    script = Script().user("tell me when it is done")
    for percent in range(0, 90, 9):
        script.call("check_status", {}, f"{percent} % done")
    why = "a poll whose answers move"
    yield _shape("R51-poll-that-moves", "StartupHakk/OpenMonoAgent.ai#47", ("FP",), why, script)

    script = Script().user("lead the team")
    for number in range(8):
        script.call("task_list", {}, f"{number} of 9 tasks done by the others")
    why = "a board that others change"
    yield _shape("R53-board-that-others-change", "QwenLM/qwen-code#9450", ("FP",), why, script)

    script = Script()
    for number in range(12):
        script.user("tick", t=300.0 * number).call("exec", {"command": "sync"}, "nothing to do")
    why = "one call each time that the clock asks for it, five minutes apart"
    yield _shape("R55-timed-job", "openclaw/openclaw#71612", ("FP", "LEAK"), why, script)


def _work() -> Iterator[Shape]:
    script = Script().user("find the bug")
    for number in range(20):
        script.call("shell", {"command": f"debug --at {number}"}, f"value {number * number}")
        script.call("edit", {"path": "a.py", "line": number}, "ok")
    why = "long work with other calls and other results"
    yield _shape("R57-long-debugging", "open-gsd/gsd-pi#1206", ("FP",), why, script)

    script = Script().user("add the files to the letter")
    for name in "abcdefg":
        script.call("add_file", {"letter": 1, "file": f"{name}.txt"}, "true")
    why = "one result for many different calls"
    yield _shape("R59-same-result", "vstorm-co/pydantic-deepagents#208", ("FP",), why, script)

    script = Script().user("merge what is approved")
    for number in (12, 11, 8, 7, 5, 4, 2):
        script.call("shell", {"command": f"forge merge {number}"}, "merged")
    why = "a number in the arguments can be all the difference"
    yield _shape("R61-only-the-number", "adolfousier/opencrabs#1397", ("FP",), why, script)

    script = Script().user("sum up this project")
    script.together([("read_file", {"path": f"{name}.md"}, f"about {name}") for name in "abcde"])
    why = "five files at once, at the very start"
    yield _shape("R63-cold-start", "QwenLM/qwen-code#3236", ("FP",), why, script)

    script = Script().user("compare the three")
    script.together([("read", {"path": f"{name}.txt"}, "done") for name in "abc"])
    why = "three reads at once whose ends look the same"
    yield _shape("R65-parallel-reads", "daymanondev/pi-auto-pilot#46", ("PAR", "FP"), why, script)

    script = Script().user("clean up")
    denied = [("remove", {"path": f"{name}.tmp"}, "remove is denied") for name in "abcdef"]
    script.together(denied, error=True, denied_by="policy@host").call("list", {"path": "."}, "a.tmp b.tmp")
    why = "one response of calls that a policy denied, before the model has seen a single denial"
    yield _shape("R67-batch-denied", "QwenLM/qwen-code#10916", ("PAR", "FP"), why, script)

    script = Script().user("align the samples")
    for number in range(60):
        script.call("align", {"sample": f"s{number}", "reference": "g1"}, f"s{number}: {90 + number % 9} % mapped")
    why = "the same tool on sixty samples"
    yield _shape("R69-batch-work", "bytedance/deer-flow#2511", ("FP",), why, script)

    script = Script().user("fetch the rates")
    for _ in range(6):
        script.call("fetch", {"url": "/rates"}, "503: try again later", error=True)
    script.call("fetch", {"url": "/rates"}, "rates: 1.2")
    why = "an overloaded server is no loop of the agent, and the seventh try succeeds"
    yield _shape("R71-overloaded", "OpenSwarm#262", ("FP",), why, script)


def _asked_for() -> Iterator[Shape]:
    script = Script().user("save this list, and do that 5 times over")
    for _ in range(5):
        script.call("todo_write", {"todos": ["one", "two"]}, "ok")
    why = "the user asked for it in so many words"
    yield Shape(
        "R73-list-five-times", "deepseek-ai/deepseek-harness", ("FP",), "requested", why, script.done("completed")
    )

    script = Script().user("list the folder; I want five separate runs")
    for _ in range(5):
        script.call("shell", {"command": "ls"}, "a b c")
    why = "the user asked for it in so many words"
    yield Shape(
        "R73-ls-five-times", "OpenHands/software-agent-sdk", ("FP",), "requested", why, script.done("completed")
    )
