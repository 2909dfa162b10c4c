"""A scripted Anthropic-Messages server on loopback, and the bytes that it plays.

It stands where the gateway stands, so that the real harness can be driven without a model: a script is called with
each request and says what is answered.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route


@dataclass(frozen=True)
class Request:
    """One request as it came: `number` counts from 0 over the server's life, in order of arrival."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def session(self) -> str:
        """The harness's id of the agent that asks; empty where the header is missing."""
        return self.headers.get("x-deepseek-harness-session-id", "")

    @property
    def compacting(self) -> bool:
        """Whether the harness asks for a summary instead of a step."""
        return self.headers.get("x-deepseek-harness-compact") == "1"


@dataclass(frozen=True)
class Answer:
    """What is sent back: bytes and pauses in seconds, in order. `kind` is the content type."""

    parts: tuple[bytes | float, ...]
    status: int = 200
    kind: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)


Script = Callable[[Request], Answer]


def event(kind: str, **fields: Any) -> bytes:
    """One server-sent event whose data carries its own type, as the Anthropic stream does."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, separators=(',', ':'))}\n\n".encode()


def say(text: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": text}


def think(text: str, signature: str | None = None) -> dict[str, Any]:
    """A thinking block; None leaves the signature out."""
    block = {"type": "thinking", "thinking": text}
    return block if signature is None else block | {"signature": signature}


def use(call_id: str, name: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def block_events(index: int, block: Mapping[str, Any], pieces: int = 1) -> list[bytes]:
    """A block as start, deltas and stop. A tool call's input is sent as JSON text in that many deltas."""
    kind = block["type"]
    start: dict[str, Any]
    if kind == "text":
        start = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": block["text"]}] if block["text"] else []
    elif kind == "thinking":
        start = {"type": "thinking", "thinking": ""}
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
        if "signature" in block:
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        start = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
        text = json.dumps(block["input"])
        size = -(-len(text) // pieces)
        cuts = [text[at : at + size] for at in range(0, len(text), size)]
        deltas = [{"type": "input_json_delta", "partial_json": cut} for cut in cuts]
    return [
        event("content_block_start", index=index, content_block=start),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def reply(*blocks: Mapping[str, Any], stop: str | None = None) -> Answer:
    """A whole streamed reply. `stop` None is `tool_use` where a block is a tool call, else `end_turn`."""
    reason = stop or ("tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn")
    parts = [opening()]
    for index, block in enumerate(blocks):
        parts += block_events(index, block)
    return Answer((*parts, *closing(reason)))


def opening(usage: Mapping[str, int] | None = None) -> bytes:
    """The `message_start` event."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": dict(usage or {"input_tokens": 10, "output_tokens": 1}),
    }
    return event("message_start", message=message)


def closing(reason: str) -> tuple[bytes, bytes]:
    """The `message_delta` and `message_stop` events."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage={"output_tokens": 5}), event("message_stop")


def refusal(status: int, kind: str, message: str) -> Answer:
    """An error in the wire format's own form."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
    return Answer((body.encode(),), status=status, kind="application/json")


class ScriptedServer:
    """Serves `script` on a free loopback port while the `with` block lasts, and keeps every request."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.failures: list[BaseException] = []
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "DELETE"])])
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
        if error is None and self.failures:
            raise self.failures[0]

    def bodies(self, session: str | None = None) -> Sequence[dict[str, Any]]:
        """The bodies of one session's requests, or of all, in order of arrival."""
        return [request.body for request in self.requests if session in (None, request.session)]

    async def _serve(self, http: HttpRequest) -> Response:
        raw = await http.body()
        try:
            with self._lock:
                body = json.loads(raw) if raw else {}
                got = Request(len(self.requests), http.method, http.url.path, dict(http.headers), body)
                self.requests.append(got)
                answer = self._script(got)
        except Exception as error:  # a wrong script must fail the test, not only the harness's request
            self.failures.append(error)
            answer = refusal(500, "api_error", f"the script failed: {error!r}")
        return StreamingResponse(_play(answer), answer.status, dict(answer.headers), answer.kind)


async def _play(answer: Answer) -> AsyncIterator[bytes]:
    for part in answer.parts:
        if isinstance(part, float):
            await asyncio.sleep(part)
        else:
            yield part
