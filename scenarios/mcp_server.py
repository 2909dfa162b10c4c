"""Serves a world to a harness: its tools over MCP streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pydantic_core
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from guards.json_text import dump, parse
from scenarios.base import World
from scenarios.tools import Tool

MOST_BYTES = 64 * 1024 * 1024
"""Longer requests are refused before they are read: HTTP 413."""

_Context = ServerRequestContext[dict[str, Any]]


class WorldServer:
    """An ASGI app for one address, whatever it is, as long as `running()` lasts.

    Stateless: a client may come and go, the world stays. Calls are executed one at a time, in the order in which they
    arrive. An error outcome is a tool result with `isError` and nothing but the outcome's text.
    """

    def __init__(self, world: World, tools: Sequence[Tool]) -> None:
        self.world = world
        self._tools = [
            types.Tool(name=each.name, description=each.description, input_schema=each.parameters) for each in tools
        ]
        server: Server[dict[str, Any]] = Server("tools", on_list_tools=self._list, on_call_tool=self._call)
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MOST_BYTES + 1
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Once only: afterwards the server is closed for good."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            body = await _body(Request(scope, receive))
            if body is None:
                await Response(status_code=413)(scope, receive, send)
                return
            answer = self._unreadable(body)
            if answer is not None:
                await Response(answer, media_type="application/json")(scope, receive, send)
                return
            receive = _again(body, receive)
        await self._manager.handle_request(scope, receive, send)

    def _unreadable(self, body: bytes) -> str | None:
        """The answer to a tool call that the library can not read: too deep, a lone surrogate, arguments that are no
        object. It would be a protocol error, and a model needs an error result."""
        try:
            request = pydantic_core.from_json(body)
        except ValueError:
            try:
                request = parse(body.decode())
            except ValueError:
                return None
        else:
            if not isinstance(request, dict) or isinstance(_params(request).get("arguments", {}), dict):
                return None
        params = _params(request)
        if (
            not isinstance(request, dict)
            or request.get("method") != "tools/call"
            or not isinstance(params.get("name"), str)
        ):
            return None
        outcome = self.world.call(params["name"], params.get("arguments", {}))
        result = {"content": [{"type": "text", "text": outcome.text}], "isError": outcome.error}
        return dump({"jsonrpc": "2.0", "id": request.get("id"), "result": result})

    async def _list(self, _: _Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def _call(self, _: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        outcome = self.world.call(params.name, {} if params.arguments is None else params.arguments)
        text = types.TextContent(type="text", text=outcome.text)
        return types.CallToolResult(content=[text], is_error=outcome.error)


def _params(request: Any) -> dict[str, Any]:
    params = request.get("params") if isinstance(request, dict) else None
    return params if isinstance(params, dict) else {}


async def _body(request: Request) -> bytes | None:
    """The whole body; None where it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return None
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body once more, then what comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
