"""What is mounted in an episode: the patch over the harness' profile, equal for all arms but for the guards.

The scaffold is the same in every arm: profile `sdk-minimal` without its own tools (but those that the scenario asks
for), the world's tools over MCP, an agent preset that every root agent joins, the recorder in both planes, and the
compaction engine. The engine is the harness' own wherever no compaction-breaker stands, and a compaction-breaker is an
engine: it takes the place of the harness' own in its plane. A patch row's name only matches, it does not replace, so
rows are replaced by disabling one and inserting another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guards import registry
from guards.errors import UserError
from guards.stack import Stack, StackGuard
from runners.arms import NULL, REMINDER, Arm, Mount, Plane
from runners.harness.plugins import BREAKER, log_name, package_of, plugin_folder
from scenarios.base import Needs

PROFILE = "sdk-minimal"
PRESET = "eval"
ENGINE_PACKAGE = "@deepseek-ai/dsh-compaction-basic"
REMINDER_PACKAGE = "@deepseek-ai/dsh-repeat-tool-reminder"
SERVER = "tools"
"""Name of the world's MCP server: its tools are `mcp__tools__NAME` to the model and the guards (`judge.MCP_PREFIX`)."""
DEFAULT_ENGINE = {"thresholdRatio": 0.8, "retainRatio": 0.16, "headroomTokens": 256, "maxTokens": 512}
"""The engine's own defaults but for the two that count in tokens and kill it silently in a small window."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """A row that must be live. `guard` None is the scaffold's; `plane` tells where."""

    row: str
    package: str
    plane: Plane
    guard: str | None = None

    def __str__(self) -> str:
        return f"{self.guard or self.row}@{self.plane}"


@dataclass(frozen=True)
class Composition:
    """`rows` is the patch; `packages` are the plugin folders by the package names that they must be found under."""

    rows: tuple[Row, ...]
    packages: Mapping[str, Path]
    expected: tuple[Expected, ...]


@dataclass(frozen=True)
class Addresses:
    """What differs from episode to episode: the event log's path and the two addresses."""

    event_log: str
    control: str
    mcp: str


Composer = Callable[[Arm, Stack, Needs, int, Addresses], Composition]


def compose(arm: Arm, stack: Stack, needs: Needs, window: int, at: Addresses) -> Composition:
    """The composition of an arm. `window` is the context window in tokens. Raises UserError for a bad plugin folder,
    and for a guard that exists for replay alone, whether or not the arm mounts it."""
    for guard in stack.guards:
        if guard.path is None and guard.name not in registry.names():
            raise UserError(
                f"stack {stack.name}: {guard.name} is for replay alone, no harness has it; take it out of the stack, "
                "or give the stack to: tripbench replay TRACE... --stack FILE"
            )
    return _Composing(arm, stack, needs, at).compose(window)


class _Composing:
    def __init__(self, arm: Arm, stack: Stack, needs: Needs, at: Addresses) -> None:
        self._arm = arm
        self._entries = {entry.name: entry for entry in stack.guards}
        self._needs = needs
        self._at = at
        self._packages: dict[str, Path] = {}
        self._expected: list[Expected] = []

    def compose(self, window: int) -> Composition:
        recorder = self._recorder("host")
        host = [recorder]
        host += [self._guard(mount) for mount in self._of("host")]
        host += self._engine("host")
        preset = [self._recorder("agent")]
        preset += [self._guard(mount) for mount in self._of("agent")]
        preset += [_isolated(row) for row in self._engine("agent")]
        recorder["config"]["calls"] = bool(self._needs.harness_tools)
        own = {each.package for each in self._expected if each.plane == "agent" and each.guard is not None}
        recorder["config"]["probe"] = sorted(own & self._packages.keys())
        recorder["config"] |= {"subagents": True} if self._needs.subagents else {}
        subagents = self._subagents()
        joiner = self._package(plugin_folder("preset-joiner"))
        rows = [
            *self._profile(window),
            {
                "insert": [
                    *host,
                    {
                        "id": "world",
                        "name": "@deepseek-ai/dsh-mcp-client",
                        "config": {
                            "serverName": SERVER,
                            "transport": "streamable-http",
                            "url": self._at.mcp,
                            "failOnStartupError": True,
                        },
                    },
                    {
                        "id": "agent-preset-registry",
                        "name": "@deepseek-ai/dsh-agent-preset-registry",
                        "config": {"default": PRESET},
                    },
                    {
                        "id": "preset-eval",
                        "name": "@deepseek-ai/dsh-agent-preset",
                        "config": {"id": PRESET, "plugins": preset},
                    },
                    {"id": "preset-joiner", "name": joiner, "config": {"preset": PRESET}},
                    *subagents,
                ]
            },
        ]
        scaffold = (
            Expected("world", "@deepseek-ai/dsh-mcp-client", "host"),
            Expected("agent-preset-registry", "@deepseek-ai/dsh-agent-preset-registry", "host"),
            Expected("preset-eval", "@deepseek-ai/dsh-agent-preset", "host"),
            Expected("preset-joiner", joiner, "host"),
        )
        return Composition(tuple(rows), self._packages, (*scaffold, *self._expected))

    def _of(self, plane: Plane) -> list[Mount]:
        """The mounts of a plane that are no engines."""
        return [mount for mount in self._arm.mounts if mount.plane == plane and mount.guard != BREAKER]

    def _profile(self, window: int) -> list[Row]:
        """The rows of the profile that are changed, with all their keys: a config in a patch replaces the whole one."""
        tools = self._needs.harness_tools
        files = {"read": "read" in tools, "readImage": False, "write": "write" in tools, "edit": "edit" in tools}
        rows: list[Row] = [
            {
                "id": "llm-deepseek",
                "config": {
                    "apiKeyEnv": "DEEPSEEK_API_KEY",
                    "defaultContextWindow": window,
                    "maxTokens": self._needs.reply_tokens,
                    "streamIdleTimeoutMs": 172_800_000,
                    "retryPolicy": {"mode": "normal", "maxRetries": 0},
                },
            },
            {"id": "tool-fs", "config": files} if any(files.values()) else {"id": "tool-fs", "disabled": True},
        ]
        disabled = ["session-log-deepseek", "plugin-package-inventory-deepseek", "mcp-resources"]
        disabled += ["tool-working-directory", "compaction-basic"]
        disabled += [] if "bash" in tools else ["persistent-bash"]
        return rows + [{"id": row, "disabled": True} for row in disabled]

    def _subagents(self) -> list[Row]:
        """The harness' own rows for subagents, as its larger profiles have them: who starts one may write to it, and
        it to him; for a message to one that is done its session is looked up. Without forks, workflows and lists."""
        if not self._needs.subagents:
            return []
        rows: dict[str, tuple[str, Row]] = {
            "session-query-sqlite": ("dsh-session-query-sqlite", {"path": ":memory:", "openAt": "never"}),
            "subagent": ("dsh-subagent", {}),
            "subagent-spawn-in-process": ("dsh-subagent-spawn-in-process", {"providerName": "spawn"}),
            "tool-subagent-control": ("dsh-tool-subagent-control", {}),
            "tool-subagent": ("dsh-tool-subagent", {"provider": "spawn", "toolName": "subagent"}),
        }
        return [
            self._row(row, f"@deepseek-ai/{package}", dict(config), "host", None)
            for row, (package, config) in rows.items()
        ]

    def _recorder(self, plane: Plane) -> Row:
        config = {"eventLog": self._at.event_log, "control": self._at.control, "plane": plane}
        return self._row(f"recorder-{plane}", self._package(plugin_folder("recorder")), config, plane, None)

    def _guard(self, mount: Mount) -> Row:
        identifier = f"{mount.guard}-{mount.plane}"
        entry = self._entries.get(mount.guard)
        if mount.guard == NULL and entry is None:
            package = self._package(plugin_folder("null-guard"))
            return self._row(identifier, package, self._instruments(mount.plane), mount.plane, NULL)
        config = dict(entry.effective()) if entry is not None else {}
        if mount.guard == REMINDER and (entry is None or entry.path is None):
            return self._row(identifier, REMINDER_PACKAGE, config, mount.plane, mount.guard)
        assert entry is not None
        return self._row(identifier, *self._plugin(entry, config, mount), mount.plane, mount.guard)

    def _engine(self, plane: Plane) -> list[Row]:
        """The compaction engine of a plane: none, the harness' own, or a breaker."""
        own = {**DEFAULT_ENGINE, **(self._needs.engine or {})}
        for mount in self._arm.mounts:
            if mount == Mount(BREAKER, plane):
                entry = self._entries[BREAKER]
                config = {**own, **entry.effective()}
                return [self._row(f"{BREAKER}-{plane}", *self._plugin(entry, config, mount), plane, BREAKER)]
        if plane == "host" and not any(mount.guard == BREAKER for mount in self._arm.mounts):
            return [self._row("engine-host", ENGINE_PACKAGE, own, plane, None)]
        return []

    def _plugin(self, entry: StackGuard, config: Mapping[str, Any], mount: Mount) -> tuple[str, Row]:
        """Package name and config of a guard's plugin. One from a user's folder gets no key that it may not know."""
        folder = entry.path or plugin_folder(entry.name)
        instruments = self._instruments(mount.plane) if entry.path is None or log_name(folder) == entry.name else {}
        return self._package(folder), {**config, **instruments}

    def _instruments(self, plane: Plane) -> Row:
        return {"eventLog": self._at.event_log, "plane": plane}

    def _package(self, folder: Path) -> str:
        name = package_of(folder)
        if (other := self._packages.setdefault(name, folder)) != folder:
            raise UserError(f"{folder} and {other} are both the package {name!r}: only one of them could be mounted")
        return name

    def _row(self, identifier: str, package: str, config: Row, plane: Plane, guard: str | None) -> Row:
        self._expected.append(Expected(identifier, package, plane, guard))
        return {"id": identifier, "name": package, "config": config}


def _isolated(engine: Row) -> Row:
    """An engine in a preset needs a realm of its own for its service, or the harness refuses it as a second one."""
    return {"id": "engine", "name": "cordis:group", "group": True, "isolate": {"compaction": True}, "config": [engine]}
