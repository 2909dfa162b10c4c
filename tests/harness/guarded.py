"""Runs the real harness with our guards mounted in one plane or both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.driver import Rows, Run, model_rows, run_tree
from tests.harness.server import Answer, Request, ScriptedServer, reply, say, use

PLUGINS = Path(__file__).resolve().parents[2] / "guards" / "plugins"
MOUNTED = ("circuit-breaker", "loop-guard", "compaction-breaker", "preset-joiner")
PROBE = Path(__file__).with_name("guard_probe.mjs")
SESSION = "session-0123456789abcdef0123456789abcdef"
PRESET = "eval"

PLANES = ("host", "agent")

Config = Mapping[str, Any]
Script = Callable[[Request], Answer]


def package(plugin: str) -> str:
    """The name of a plugin's package."""
    return str(json.loads((PLUGINS / plugin / "package.json").read_text(encoding="utf-8"))["name"])


def row(plugin: str, plane: str, config: Config) -> dict[str, Any]:
    """One row that mounts a plugin."""
    return {"id": f"{plugin}-{plane}", "name": package(plugin), "config": {"plane": plane, **config}}


def isolated(*rows: dict[str, Any]) -> dict[str, Any]:
    """A compaction engine, and what needs it, as a row of a preset."""
    group = {"group": True, "isolate": {"compaction": True}, "config": list(rows)}
    return {"id": "compaction", "name": "cordis:group", **group}


def preset(*rows: dict[str, Any]) -> Rows:
    """Rows of the host plane that put `rows` into the agent plane."""
    registry = "@deepseek-ai/dsh-agent-preset-registry"
    return [
        {"id": "agent-preset-registry", "name": registry, "config": {"default": PRESET}},
        {"id": "preset", "name": "@deepseek-ai/dsh-agent-preset", "config": {"id": PRESET, "plugins": list(rows)}},
        {"id": "preset-joiner", "name": package("preset-joiner"), "config": {"preset": PRESET}},
    ]


def mount(plugin: str, plane: str, config: Config) -> Rows:
    """Rows to insert that mount one guard in one plane."""
    own = row(plugin, plane, config)
    if plane == "host":
        return [own]
    return preset(isolated(own) if plugin == "compaction-breaker" else own)


@dataclass(frozen=True)
class Guarded:
    """What a run left: the harness's events, the requests, the guards' event log, and the lines of the probe.

    `order` holds "attempt" and "settled", of a compaction-breaker, and "start", where the harness begins to summarise.
    """

    run: Run
    requests: Sequence[Request]
    events: Sequence[dict[str, Any]]
    logged: Sequence[dict[str, Any]]
    order: Sequence[str]

    def results(self) -> list[tuple[bool, str]]:
        """Of each tool result whether it is an error, and its text."""
        messages = [each["message"] for each in self.run.events("tool/result")]
        return [(message["isError"], message["content"][0]["text"]) for message in messages]

    def notices(self) -> list[dict[str, Any]]:
        """The messages that guards have put into the conversation."""
        ours = ("loop-guard", "repeat-tool-reminder")
        return [each for each in self.run.events("user/message") if each["source"]["kind"] in ours]


def play(
    folder: Path,
    script: Script,
    insert: Callable[[str], Rows],
    *prompts: str,
    profile: str = "sdk-minimal",
    window: int = 60_000,
    without: Sequence[str] = (),
    commands: Sequence[Sequence[str]] = (),
    bundles: Sequence[str] = (),
) -> Guarded:
    """Play the prompts with the rows that `insert` gives for the path of the event log.

    `bundles` are plugins that the profile has as `dsh plugin add` leaves them there.
    """
    home, log, probed = folder / "home", folder / "events.jsonl", folder / "probe.jsonl"
    modules = home / "profiles" / profile / "node_modules"
    modules.mkdir(parents=True)
    for plugin in MOUNTED:
        if plugin in bundles:
            (modules / package(plugin)).symlink_to(PLUGINS / plugin)
        else:
            shutil.copytree(PLUGINS / plugin, modules / package(plugin))
    if bundles:
        linked = {package(plugin): f"link:{PLUGINS / plugin}" for plugin in bundles}
        layers = {"bundles": [f"@deepseek-ai/dsh-{profile}", *linked]}
        manifest = {"name": "profile", "private": True, "dependencies": linked, "dsh": {"profile": layers}}
        (modules.parent / "package.json").write_text(json.dumps(manifest), encoding="utf-8")
    looks = {"log": str(probed), "eventLog": str(log), "commands": commands}
    probe = {"id": "guard-probe", "name": str(PROBE), "config": looks}
    off: Rows = [{"id": name, "disabled": True} for name in without]
    rows = [*model_rows(window=window), *off, {"insert": [probe, *insert(str(log))]}]
    with ScriptedServer(script) as server:
        run = run_tree(
            server.url, *prompts, profile=profile, workspace=folder / "ws", home=home, rows=rows, session=SESSION
        )
    lines = _lines(log)
    events = [line for line in lines if line["ev"] != "start"]
    order = [line["ev"] for line in lines if line["ev"] in ("attempt", "start", "settled")]
    return Guarded(run, server.requests, events, _lines(probed), order)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def commands(*lines: str) -> Script:
    """A model that runs one command a step; an empty line ends a turn, and so does the end of the lines."""
    told = iter(lines)
    count = 0

    def script(request: Request) -> Answer:
        nonlocal count
        if request.compacting:
            return reply(say("Logs were read."))
        line = next(told, "")
        if not line:
            return reply(say("Done."))
        count += 1
        return reply(use(f"c{count}", "bash", command=line))

    return script


def of(events: Sequence[Mapping[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    """The events, without the arming, by these keys."""
    return [tuple(event.get(key) for key in keys) for event in events if event["ev"] not in ("arm", "consulted")]


def logging(plugin: str, plane: str, **config: Any) -> Callable[[str], Rows]:
    """The rows for `play` that mount one guard, with the event log."""
    return lambda log: mount(plugin, plane, {"eventLog": log, **config})
