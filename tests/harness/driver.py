"""Starts the real harness runtime against a base address, runs prompts and cleans up after it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepseek_harness.client import HarnessClient, HarnessConfig  # type: ignore[import-untyped]
from deepseek_harness.models import Notification  # type: ignore[import-untyped]
from deepseek_harness_runtime import resolve_bundled_launch_args  # type: ignore[import-untyped]
from pydantic import BaseModel

# The runtime must lead a process group of its own, so that its shells and helpers end with it.
_LEAD = "import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])"

Rows = list[dict[str, Any]]


class _Nothing(BaseModel):
    pass


@dataclass(frozen=True)
class Run:
    """What a run left: the notifications of the whole tree in wire order, and the runtime's last lines on stderr."""

    notes: Sequence[Notification]
    stderr: Sequence[str]

    def events(self, kind: str, session: str | None = None) -> list[dict[str, Any]]:
        """The `data` of every session event of that type, of one session or of all."""
        found = []
        for note in self.notes:
            if note.method == "session.event" and session in (None, note.payload["sessionId"]):
                event = note.payload["event"]
                if event["type"] == kind:
                    found.append(event["data"])
        return found


def model_rows(*, window: int = 60_000, reply_tokens: int = 512, provider: Mapping[str, Any] | None = None) -> Rows:
    """Patch rows for a small window, one attempt a request, and nothing outbound besides the request."""
    config = {
        "apiKeyEnv": "DEEPSEEK_API_KEY",
        "defaultContextWindow": window,
        "maxTokens": reply_tokens,
        "streamIdleTimeoutMs": 172_800_000,
        "retryPolicy": {"mode": "normal", "maxRetries": 0},
    }
    return [
        {"id": "llm-deepseek", "config": config | dict(provider or {})},
        {"id": "session-log-deepseek", "disabled": True},
        {"id": "plugin-package-inventory-deepseek", "disabled": True},
    ]


# Rows of profile `sdk` that could reach the network.
OUTBOUND = (
    *("otel", "session-telemetry-otel", "tool-web", "web"),
    *("web-search-deepseek", "web-deepseek-api", "web-fetch-http"),
)


def sdk_rows() -> Rows:
    """Patch rows that profile `sdk` needs besides `model_rows`."""
    return [{"id": row, "disabled": True} for row in OUTBOUND]


def run_tree(
    base_url: str,
    *prompts: str,
    profile: str,
    workspace: Path,
    home: Path,
    rows: Rows,
    session: str = "session-0123456789abcdef0123456789abcdef",
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> Run:
    """Boot the runtime, send the prompts one after the other, each when the whole tree is idle, and end every process.

    The folders are created; the user's home is `home` too, and temporary files go to `scratch` beside it.

    Raises whatever the SDK raises, with the runtime's stderr in the text; TimeoutError after `timeout` seconds of
    waiting. The process group is killed in every case.
    """
    scratch = home.parent / "scratch"
    for folder in (workspace, home, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    patch = home.parent / f"{home.name}.patch.yml"
    patch.write_text(json.dumps(rows))
    settings = {
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "DSH_HOME": str(home),
        "DSH_TELEMETRY_MODE": "DISABLED",
        "DSH_PERMISSION_MODE": "danger-full-access",
        "DEEPSEEK_BASE_URL": base_url,
        "DEEPSEEK_API_KEY": "none",
        **(env or {}),
    }
    command = (sys.executable, "-c", _LEAD, *resolve_bundled_launch_args(), "--profile", profile, "--patch", str(patch))
    config = HarnessConfig(
        cwd=str(workspace), env=settings, initialize_timeout_seconds=timeout, request_timeout_seconds=timeout
    )
    client = HarnessClient(config, _launch_args=command)
    notes: list[Notification] = []
    group = 0
    wait: dict[str, Any] = {"sessionId": session}
    try:
        client.start()
        assert client._proc is not None
        group = client._proc.pid
        client.initialize(cwd=str(workspace), provider="deepseek-official", model="deepseek-v4-flash")
        with client.subscribe_session_notifications(session) as heard:
            try:
                for prompt in prompts:
                    client.session_prompt(session, [{"type": "text", "text": prompt}], notification_subscription=heard)
                    client.request("session/wait", wait, response_model=_Nothing, timeout_seconds=timeout)
            finally:
                with contextlib.suppress(Exception):
                    heard.drain(notes.append)
        return Run(notes, list(client._stderr_lines))
    finally:
        client.close()
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(group, signal.SIGKILL)
