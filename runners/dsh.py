"""Episodes in the real harness: a scenario, an arm and a player go in, a trace comes out.

One process of the runtime, one home and one workspace an episode. An episode that can not be trusted ends with reason
`error` and a cause that names guard and plane; it is never a quiet run without the guard.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from guards.stack import Stack
from results.trace import End, Event, Header, Trace
from runners.arms import REMINDER
from runners.gateway.aliases import SPAWN_TOOLS, AliasMap
from runners.gateway.cast import Role
from runners.gateway.conversation import Call as AskedCall
from runners.gateway.conversation import Conversation, Reply
from runners.gateway.episode import Episode, EpisodeSettings
from runners.gateway.house import House, HouseGone
from runners.harness.assemble import Inconsistent, assemble
from runners.harness.attest import SCAFFOLD, Failure, check, joined
from runners.harness.composition import PROFILE, Addresses, Composer, Composition, compose
from runners.harness.control import Control, RecordedWorld
from runners.harness.eventlog import EventLog, EventLogBroken, Line
from runners.harness.guard_check_survey import Outside, grant, outside
from runners.harness.layout import Layout, Scratch
from runners.harness.mounted import Mounted, blame, lost
from runners.harness.plugins import BREAKER, install
from runners.harness.preflight import preflight
from runners.harness.runtime import Runtime, RuntimeFailed, runtime_command
from runners.harness.telling import told
from runners.harness.watch import WorkspaceWatch, with_files
from runners.player import Player
from runners.spec import EpisodeSpec, Interrupted, Played
from scenarios.judge import MCP_PREFIX, judge
from scenarios.mcp_server import WorldServer
from scenarios.workspace import FilesWorld

DISTRIBUTION = "deepseek-harness-sdk"
DEFAULT_WINDOW = 8192
WALL_SECONDS = 1800.0
"""An episode that lasts longer is an infrastructure error, never a result."""


class DshRunner:
    """Plays episodes, several at once where they are asked for from several threads."""

    def __init__(
        self,
        house: House,
        stack: Stack,
        scratch: Scratch,
        *,
        kept: Path | None = None,
        wall_seconds: float = WALL_SECONDS,
        command: Sequence[str] | None = None,
        composer: Composer = compose,
        heard: Callable[[str, Sequence[Line]], None] | None = None,
    ) -> None:
        """`kept` is where the event log and stderr of failed episodes go; None keeps none. `command` None is the
        bundled runtime; `composer` says what is mounted; `heard` is given each episode's name and event log at its
        end."""
        self._house = house
        self._stack = stack
        self._scratch = scratch
        self._kept = kept
        self._wall_seconds = wall_seconds
        self._command = tuple(command) if command is not None else runtime_command()
        self._composer = composer
        self._heard = heard
        self._outside: list[Outside] | None = None
        self._lock = threading.Lock()
        self._live: dict[str, tuple[Control, Runtime]] = {}
        self._flown: dict[str, list[Failure]] = {}
        self._stopped = False

    def interrupt(self) -> None:
        """Ends every episode under way and lets none begin; may be called from any thread."""
        with self._lock:
            self._stopped = True
            live = list(self._live.values())
        for control, runtime in live:
            control.interrupt()
            runtime.end(kill=True)

    def outside(self) -> Sequence[Outside]:
        """The plugins of the stack that declare themselves made for other harness versions, found out once. They are
        mounted all the same: their home grants them what `dsh plugin allow-version` does. Raises UserError."""
        with self._lock:
            if self._outside is None:
                folders = [guard.path for guard in self._stack.guards if guard.path is not None]
                self._outside = outside(folders, self._scratch, self._command)
            return self._outside

    def run(self, spec: EpisodeSpec) -> Played:
        """Plays one episode to its end. Raises Interrupted, and UserError for what the user can mend."""
        layout = self._scratch.layout(f"e{uuid.uuid4().hex[:8]}")
        try:
            return _Play(self, spec, layout).run()
        finally:
            layout.remove()


class _Play:
    """One episode while it runs."""

    def __init__(self, runner: DshRunner, spec: EpisodeSpec, layout: Layout) -> None:
        self._runner = runner
        self._spec = spec
        self._layout = layout
        self._log = EventLog(layout.log)
        # Letters first: an episode's name stands in addresses, and the runtime's session ids are of this form.
        self._key = "e-" + layout.root.name
        self._session = "session-" + hashlib.sha256(spec.name.encode()).hexdigest()[:32]
        self._failures: list[Failure] = []
        self._stderr: tuple[str, ...] = ()
        self._opening: Conversation | None = None
        self._watch: WorkspaceWatch | None = None
        self._aliases: AliasMap | None = None
        self._mounted = Mounted(spec.arm, runner._stack)
        mounted = {mount.guard for mount in spec.arm.mounts}
        paths = {guard.path for guard in runner._stack.guards if guard.name in mounted}
        self._outside = [each for each in runner.outside() if each.folder in paths]
        needs = spec.scenario.needs
        self._window = needs.window or min(DEFAULT_WINDOW, runner._house.cast.window)
        base = runner._house.address(self._key)
        at = Addresses(event_log=str(layout.log), control=f"{base}/control", mcp=f"{base}/mcp")
        self._composition: Composition = runner._composer(spec.arm, runner._stack, needs, self._window, at)
        engines = {each.plane for each in self._composition.expected if each.guard == BREAKER}
        self._planes = tuple(sorted(engines)) or ("host",)

    def run(self) -> Played:
        runner, spec = self._runner, self._spec
        self._lay_out()
        inner = spec.scenario.world()
        self._recorded = RecordedWorld(inner, self._log)
        server = WorldServer(self._recorded, spec.scenario.tools)
        if isinstance(inner, FilesWorld):
            self._watch = WorkspaceWatch(inner, self._layout.workspace, self._log)
        control = Control(
            log=self._log,
            finished=lambda: inner.finished,
            server=server,
            horizon=spec.horizon,
            planes=self._planes,
            attest=self._attest,
            watch=self._watch,
            joined=joined,
        )
        runtime = Runtime(
            profile=PROFILE,
            patch=self._layout.patch,
            workspace=self._layout.workspace,
            env=self._environment(),
            mark=self._key + "-" + uuid.uuid4().hex,
            command=runner._command,
        )
        with runner._lock:
            if runner._stopped:
                raise Interrupted
            runner._live[self._key] = (control, runtime)
        try:
            self._play(control, runtime)
        finally:
            try:
                runtime.end()
            finally:
                with runner._lock:
                    del runner._live[self._key]
        if control.interrupted:
            raise Interrupted
        self._failures = [*control.failures, *self._failures]
        return self._finish(control)

    # -- the way through ---------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        for path, text in self._spec.scenario.files.items():
            target = self._layout.workspace / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        packages = self._layout.packages(PROFILE)
        packages.mkdir(parents=True)
        for name, folder in self._composition.packages.items():
            install(folder, name, packages)
        grant(self._layout.profile(PROFILE), self._outside)
        self._layout.patch.write_text(json.dumps(list(self._composition.rows)), encoding="utf-8")

    def _play(self, control: Control, runtime: Runtime) -> None:
        self._failures += self._flight_check()
        if self._failures:
            return
        episode: Episode | None = None
        try:
            episode = self._open(control)
            runtime.boot()
            runtime.prompt(self._session, self._spec.scenario.prompt, seconds=self._runner._wall_seconds)
        except RuntimeFailed as failed:
            self._log.update()
            self._failures.append(blame(failed, self._composition.expected, self._log.lines))
        except HouseGone as gone:
            self._failures.append(Failure("gateway", None, str(gone)))
        finally:
            self._stderr = runtime.stderr()
            if episode is not None:
                if episode.failure is not None:
                    self._failures.append(Failure("gateway", None, episode.failure))
                self._opening, self._aliases = episode.opening, episode.aliases
                try:
                    self._runner._house.close(self._key)
                except HouseGone as gone:
                    self._failures.append(Failure("gateway", None, str(gone)))

    def _flight_check(self) -> list[Failure]:
        """Once for each arm and set of needs: only addresses and paths differ between their patches."""
        runner = self._runner
        kind = f"{self._spec.arm} {self._spec.scenario.needs} {self._window}"
        with runner._lock:
            known = runner._flown.get(kind)
        if known is None:
            known = preflight(
                self._composition, self._layout.patch, self._layout.workspace, self._environment(), runner._command
            )
            with runner._lock:
                runner._flown[kind] = known
        return known

    def _open(self, control: Control) -> Episode:
        spec, layout = self._spec, self._layout
        settings = EpisodeSettings(
            seed=spec.seed,
            decode_mode=spec.decode_mode,
            sampler=spec.sampler,
            window=self._window,
            root_session=self._session,
            workspace=str(layout.workspace),
            home=str(layout.home),
            volatile={str(layout.scratch): "/var/scratch"},
            watch=(layout.root.name,),
            allow=(spec.scenario.prompt,),
        )
        episode = self._runner._house.open(self._key, settings, self._role(), control)
        episode.on_step = self._log.answered
        control.number = episode.aliases.announce
        self._recorded.hide = episode.aliases.hide_json
        return episode

    def _role(self) -> Role:
        """Who plays, and the replies that the script puts first: the looping course's own."""
        spec = self._spec
        own = {*spec.scenario.needs.harness_tools, *(SPAWN_TOOLS if spec.scenario.needs.subagents else ())}

        def named(tool: str) -> str:
            return tool if tool in own else MCP_PREFIX + tool

        primed = [
            tuple(
                Reply(turn.text, calls=tuple(AskedCall(named(tool), args) for tool, args in turn.calls))
                for turn in each
            )
            for each in (spec.scenario.primed(spec.priming) if spec.priming else ())
        ]
        return Role(Player.of(spec), primed[0] if primed else (), dict(enumerate(primed[1:], start=1)))

    def _environment(self) -> dict[str, str]:
        return self._layout.environment(self._runner._house.address(self._key))

    # -- what went wrong -----------------------------------------------------------------------------------------

    def _attest(self, live: dict[str, Any], lines: list[Line]) -> list[Failure]:
        live_runtime = self._runner._live.get(self._key)
        stderr = live_runtime[1].stderr() if live_runtime is not None else ()
        return check(self._composition.expected, live, lines, self._mounted.own, stderr)

    # -- the trace -----------------------------------------------------------------------------------------------

    def _finish(self, control: Control) -> Played:
        events: list[Event] = []
        try:
            if self._watch is not None:
                self._watch.look(None)
            self._log.update()
            reminders = tuple(mount.plane for mount in self._spec.arm.mounts if mount.guard == REMINDER)
            events = assemble(
                self._log.lines,
                engines=self._planes,
                reminders=reminders,
                stopped_by=control.stopped_by,
                foreign=self._mounted.patterns(self._log.lines),
            )
            events = with_files(events, self._log.lines)
            if self._aliases is not None:
                events = told(events, self._aliases.hide_json)
            if not self._failures:
                self._failures += lost(self._log.lines)
                self._failures += self._mounted.unconsulted(events, self._log.lines)
        except (Inconsistent, EventLogBroken, KeyError) as error:
            self._failures.append(Failure(SCAFFOLD, None, f"{type(error).__name__}: {error}"))
        if not events and not self._failures:
            self._failures.append(Failure(SCAFFOLD, None, "the harness ended without a word"))
        if self._runner._heard is not None:
            self._runner._heard(self._spec.name, self._log.lines)
        events = self._ended(events) if self._failures else [*self._mounted.armed(), *events]
        trace = Trace(self._header(), tuple(events))
        if not _failed(trace):
            labels, success = judge(self._spec.scenario, trace)
            ended = (
                replace(each, success=success) if isinstance(each, End) and each.agent == "root" else each
                for each in events
            )
            trace = Trace(trace.header, (*ended, *labels))
        else:
            self._keep()
        return Played(trace, self._opening)

    def _ended(self, events: list[Event]) -> list[Event]:
        """With the failures as the root agent's end."""
        cause = "; ".join(dict.fromkeys(str(failure) for failure in self._failures))
        kept = [event for event in events if not _is_root_end(event)]
        return [*kept, End(reason="error", extra={"cause": cause})]

    def _header(self) -> Header:
        keys = [line["tape_key"] for line in self._log.lines if line["ev"] == "answer" and line["tape_key"]]
        header = self._spec.header(
            runner="dsh",
            harness={"name": "dsh", "version": metadata.version(DISTRIBUTION)},
            stack=self._runner._stack.digest,
            recommended=self._runner._house.cast.sampler,
            window=self._window,
            tape=hashlib.sha256("\n".join(keys).encode()).hexdigest() if keys else None,
        )
        if not self._outside:
            return header
        return replace(header, meta={**header.meta, "outside": [each.data() for each in self._outside]})

    def _keep(self) -> None:
        """Leaves what a failed episode can be understood by."""
        if self._runner._kept is None:
            return
        self._runner._kept.mkdir(parents=True, exist_ok=True)
        stem = self._runner._kept / self._spec.name
        stem.with_name(stem.name + ".events.jsonl").write_bytes(self._layout.log.read_bytes())
        stem.with_name(stem.name + ".stderr.txt").write_text("\n".join(self._stderr) + "\n", encoding="utf-8")


def _is_root_end(event: Event) -> bool:
    return isinstance(event, End) and event.agent == "root"


def _failed(trace: Trace) -> bool:
    return any(isinstance(event, End) and event.reason == "error" for event in trace.events)
