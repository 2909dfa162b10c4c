"""Gateways to talk to: in a thread of the test's process, or as `tripbench serve` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx

from runners.gateway.app import Gateway
from runners.gateway.asking import Backend
from runners.gateway.engine_options import EngineOptions
from runners.gateway.episode import EpisodeSettings
from runners.gateway.opening import open_backend
from runners.gateway.server import GatewayServer, bind_port

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-c", "from runners.cli import main; main()"]
PATIENCE = 60.0
"""Seconds after which a test gives up waiting; nothing is asserted about shorter times."""


@dataclass
class Service:
    """A running gateway. `backend` is None where it runs in another process."""

    url: str
    backend: Backend | None = None
    clients: list[anthropic.Anthropic] = field(default_factory=list)
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=PATIENCE, trust_env=False))

    def at(self, episode: str | None = None) -> str:
        """The base address of an episode; None is the default one."""
        return self.url if episode is None else f"{self.url}/e/{episode}"

    def client(self, episode: str | None = None, **more: Any) -> anthropic.Anthropic:
        """The official client on it."""
        client = anthropic.Anthropic(base_url=self.at(episode), api_key="x", max_retries=0, timeout=PATIENCE, **more)
        self.clients.append(client)
        return client

    def post(self, body: Mapping[str, Any] | bytes, episode: str | None = None, **headers: str) -> httpx.Response:
        """One request to /v1/messages; a body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(f"{self.at(episode)}/v1/messages", content=data, headers=headers)

    def open(self, name: str, **settings: Any) -> httpx.Response:
        """Opens an episode with these settings."""
        return self.http.put(self.at(name), json=settings)

    def close(self, name: str) -> httpx.Response:
        """Closes an episode."""
        return self.http.delete(self.at(name))

    def summary(self, name: str) -> dict[str, Any]:
        """What GET says of an episode."""
        answer = self.http.get(self.at(name))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def health(self) -> dict[str, Any]:
        return dict(self.http.get(f"{self.url}/healthz").json())

    def wait_idle(self) -> dict[str, Any]:
        """Waits until no request is running or waiting; returns the health then."""
        return wait_for(lambda: (at := self.health())["active"] + at["waiting"] == 0 and at)

    def close_clients(self) -> None:
        for client in (*self.clients, self.http):
            client.close()


def wait_for(condition: Any) -> Any:
    """Asks until the condition holds, and returns what it gave; fails after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def serving(backend: Backend, default: EpisodeSettings | None = None) -> Iterator[Service]:
    """Serves a backend in a thread, and closes it in the end."""
    server = GatewayServer(Gateway(backend, default or EpisodeSettings()), [bind_port(0)])
    ready = threading.Event()
    thread = threading.Thread(target=server.run, args=(ready.set,), name="server")
    thread.start()
    service = Service(f"http://127.0.0.1:{server.port}", backend)
    try:
        assert ready.wait(PATIENCE)
        yield service
    finally:
        service.close_clients()
        server.stop()
        thread.join()


def tiny_backend(path: Path, cache: Path, *, tape: Path | None = None, **options: Any) -> Backend:
    """A small window, two slots, one thread."""
    chosen = {"n_ctx": 2048, "slots": 2, "batch": 128, "threads": 1} | options
    return open_backend(str(path), EngineOptions.model_validate(chosen), tape=tape, cache=cache)


class Command:
    """`tripbench serve ...` in a process of its own, with port 0."""

    def __init__(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
        command = [*COMMAND, "serve", "--port", "0", *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | (env or {})
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.service = Service(self._address())

    def _address(self) -> str:
        """Waits for the line that says where it serves."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(PATIENCE) else ""
        found = re.match(r"serving \S+ at (http://127\.0\.0\.1:\d+)", line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"no address in {line!r}; stderr: {self.process.communicate()[1]}")
        return found[1]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Sends a signal; returns exit status and stderr. Fails where the process does not end."""
        self.service.close_clients()
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        try:
            _, err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"does not end; stderr: {self.process.communicate()[1]}") from None
        return self.process.returncode, err


@contextlib.contextmanager
def commanding(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Iterator[Service]:
    """`tripbench serve` while the block runs; then it must end with status 0 and nothing on stderr."""
    command = Command(*arguments, env=env)
    try:
        yield command.service
    except BaseException:
        command.process.kill()
        command.process.communicate()
        raise
    assert command.end() == (0, "")


def events(response: httpx.Response | str) -> list[dict[str, Any]]:
    """The data of a stream's events; comments are left out."""
    text = response if isinstance(response, str) else response.text
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def assembled(response: httpx.Response | str) -> dict[str, Any]:
    """The message that a stream's events build, with the rules of the Anthropic format checked on the way."""
    seen = events(response)
    assert seen[0]["type"] == "message_start"
    assert [event["type"] for event in seen[-2:]] == ["message_delta", "message_stop"]
    message: dict[str, Any] = seen[0]["message"]
    assert message["content"] == []
    opened = False
    partial = ""
    for event in seen[1:-2]:
        match event["type"]:
            case "content_block_start":
                assert not opened
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                opened, partial = True, ""
            case "content_block_delta":
                assert opened
                assert event["index"] == len(message["content"]) - 1
                delta, block = event["delta"], message["content"][-1]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "input_json_delta":
                        partial += delta["partial_json"]
                    case other:
                        raise AssertionError(other)
            case "content_block_stop":
                assert opened
                opened = False
                if message["content"][-1]["type"] == "tool_use":
                    message["content"][-1]["input"] = json.loads(partial)
            case other:
                raise AssertionError(other)
    assert not opened
    message |= seen[-2]["delta"]
    message["usage"] |= seen[-2]["usage"]
    return message
