"""The harness' process: started in a session of its own, driven over its SDK, and ended with everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from deepseek_harness.client import HarnessClient, HarnessConfig  # type: ignore[import-untyped]
from deepseek_harness_runtime import resolve_bundled_launch_args  # type: ignore[import-untyped]
from pydantic import BaseModel

PROVIDER = "deepseek-official"
MODEL = "deepseek-v4-flash"
BOOT_SECONDS = 60.0
SHUTDOWN_SECONDS = 2.0
MARK = "TRIPBENCH_PROCESS"
"""Environment variable that every process of an episode carries, wherever it has moved to."""

# The runtime leads a session of its own: a terminal's Ctrl-C must reach tripbench alone.
_LEAD = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"
_END_SECONDS = 10.0
_CLIENTS_OWN = ("stdin close failed:", "shutdown request failed:")


class _Nothing(BaseModel):
    pass


class RuntimeFailed(Exception):
    """The runtime did not boot, died, or did not answer in time. `when` is `boot`, `prompt` or `wall limit`."""

    def __init__(self, when: str, cause: str, stderr: Sequence[str]) -> None:
        super().__init__(f"{when}: {cause}")
        self.when = when
        self.cause = cause
        self.stderr = tuple(stderr)


def runtime_command() -> tuple[str, ...]:
    """How the bundled runtime is started."""
    return tuple(resolve_bundled_launch_args())


class Runtime:
    """One process of the harness. `end` is to be called whatever happened."""

    def __init__(
        self, *, profile: str, patch: Path, workspace: Path, env: Mapping[str, str], mark: str, command: Sequence[str]
    ) -> None:
        """`env` is added to the process's own environment; `mark` is unique to this episode on this machine."""
        self._mark = mark
        self._workspace = workspace
        self._lock = threading.Lock()
        self._ended = False
        config = HarnessConfig(
            cwd=str(workspace),
            env={**env, MARK: mark},
            initialize_timeout_seconds=BOOT_SECONDS,
            request_timeout_seconds=BOOT_SECONDS,
            shutdown_timeout_seconds=SHUTDOWN_SECONDS,
        )
        launch = (sys.executable, "-c", _LEAD, *command, "--profile", profile, "--patch", str(patch))
        self._client = HarnessClient(config, _launch_args=launch)

    def boot(self) -> None:
        """Starts the process and waits until it is ready. Raises RuntimeFailed."""
        try:
            with self._lock:
                if self._ended:
                    raise RuntimeFailed("boot", "it was ended before it began", ())
                self._client.start()
            self._client.initialize(cwd=str(self._workspace), provider=PROVIDER, model=MODEL)
        except RuntimeFailed:
            raise
        except Exception as error:
            raise RuntimeFailed("boot", _first_line(error), self.stderr()) from error

    def prompt(self, session: str, text: str, *, seconds: float) -> None:
        """Sends a user message and waits until the whole agent tree is idle. Raises RuntimeFailed."""
        until = time.monotonic() + seconds
        wait: dict[str, Any] = {"sessionId": session}
        try:
            with self._client.subscribe_session_notifications(session) as heard:
                blocks = [{"type": "text", "text": text}]
                self._client.session_prompt(session, blocks, notification_subscription=heard)
                left = max(0.1, until - time.monotonic())
                self._client.request("session/wait", wait, response_model=_Nothing, timeout_seconds=left)
        except TimeoutError as error:
            raise RuntimeFailed("wall limit", f"the episode did not end in {seconds:g} s", self.stderr()) from error
        except Exception as error:
            raise RuntimeFailed("prompt", _first_line(error), self.stderr()) from error

    def stderr(self) -> tuple[str, ...]:
        """The last lines that the process wrote there, without the client's own about its end."""
        return tuple(line for line in self._client._stderr_lines if not line.startswith(_CLIENTS_OWN))

    def end(self, *, kill: bool = False) -> None:
        """Ends the process and all that carry its mark; `kill` leaves out the polite part. May be called from any
        thread, and more than once."""
        with self._lock:
            self._ended = True
            process = self._client._proc
        if process is None:
            return
        if kill:
            kill_marked(self._mark)
        with contextlib.suppress(Exception):
            self._client.close()
        kill_marked(self._mark)
        # The client leaves its ends of the pipes to the garbage collector.
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()


def kill_marked(mark: str) -> None:
    """Kills every process that carries the mark, until none is left. Processes of other users are not looked at."""
    until = time.monotonic() + _END_SECONDS
    while found := marked(mark):
        for process in found:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs(found, timeout=0.2)
        if time.monotonic() > until:
            raise RuntimeError(f"processes of an ended episode can not be killed: {[p.pid for p in found]}")


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry the mark; zombies carry none."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.pid != os.getpid():
                found.append(process)
    return found


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"
