"""Plays a course in the real harness: the world over MCP, a scripted server in the model's place, no guard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scenarios.base import Outcome, Scenario, World
from scenarios.course import Asked, Course
from tests.harness.driver import Run, model_rows, run_tree
from tests.harness.server import Answer, Request, ScriptedServer, reply, say, use
from tests.scenarios.serving import served

OTHER_TOOLS = ("tool-working-directory", "mcp-resources")
FILE_TOOLS = ("read", "write", "edit")


@dataclass(frozen=True)
class Played:
    """The run, the world after it, the requests as they came, and each call with what the model was shown for it."""

    run: Run
    world: World
    requests: list[Request]
    calls: list[tuple[Asked, Outcome]]

    def commits(self) -> list[tuple[int, int | None]]:
        """Each committed compaction: tool turns so far, and tool turns since the one before (None: the first)."""
        turns, found = 0, list[tuple[int, int | None]]()
        for note in self.run.notes:
            event = note.payload.get("event", {})
            if event.get("type") == "assistant/message":
                turns += any(block["type"] == "tool-call" for block in event["data"]["message"]["content"])
            elif event.get("type") == "compaction/summary":
                found.append((turns, turns - found[-1][0] if found else None))
        return found

    def ends(self) -> list[str]:
        return [data["reason"]["kind"] for data in self.run.events("turn/end")]


def play_in_harness(task: Scenario, course: Course, folder: Path, *, steps: int = 100) -> Played:
    """At most `steps` steps of the course; then the actor ends its turn."""
    needs, world = task.needs, task.world()
    own = needs.harness_tools
    asked, calls, last = iter(range(steps)), list[tuple[Asked, Outcome]](), list[Asked]()
    workspace = folder / "workspace"
    for path, text in task.files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)

    def script(request: Request) -> Answer:
        if request.compacting:
            return reply(say(course.summary))
        step = next(asked, None)
        if step is None:
            return reply(say("That is all."))
        results = tuple(_results(request))
        calls.extend(zip(last, results, strict=True))
        turn = course.turn(step, results)
        last[:] = turn.calls
        named = [(tool if tool in own else f"mcp__tools__{tool}", args) for tool, args in turn.calls]
        uses = [use(f"c{step}-{at}", tool, **args) for at, (tool, args) in enumerate(named)]
        return reply(*([say(turn.text)] if turn.text else []), *uses)

    with served(task, world) as url, ScriptedServer(script) as server:
        config = {"serverName": "tools", "transport": "streamable-http", "url": url, "failOnStartupError": True}
        rows = [
            *model_rows(window=needs.window or 60_000, reply_tokens=needs.reply_tokens),
            *({"id": each, "disabled": True} for each in OTHER_TOOLS),
            {"id": "persistent-bash", "disabled": True} if "bash" not in own else {"id": "persistent-bash"},
            {"id": "tool-fs", "config": {"readImage": False} | {each: each in own for each in FILE_TOOLS}},
            {"insert": [{"id": "world", "name": "@deepseek-ai/dsh-mcp-client", "config": config}]},
        ]
        if needs.engine is not None:
            rows.append({"id": "compaction-basic", "config": dict(needs.engine)})
        run = run_tree(
            server.url,
            task.prompt,
            profile="sdk-minimal",
            workspace=workspace,
            home=folder / "home",
            rows=rows,
            timeout=120,
        )
    return Played(run, world, server.requests, calls)


def _results(request: Request) -> Iterator[Outcome]:
    """The results that the last message carries."""
    for block in request.body["messages"][-1]["content"]:
        if block["type"] == "tool_result":
            content = block["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            yield Outcome(text, bool(block.get("is_error")))
