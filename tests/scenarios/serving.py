"""Serves a world over MCP from a thread, at /e/ep1/mcp of a free loopback port."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from runners.gateway.server import bind_port
from scenarios.base import Scenario, World
from scenarios.mcp_server import WorldServer


@contextmanager
def served(task: Scenario, world: World) -> Iterator[str]:
    """The world's address."""
    server = WorldServer(world, task.tools)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.running():
            yield

    app = Starlette(routes=[Route("/e/ep1/mcp", server)], lifespan=lifespan)
    socket = bind_port(0)
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    thread = threading.Thread(target=running.run, args=([socket],), daemon=True)
    thread.start()
    try:
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}/e/ep1/mcp"
    finally:
        running.should_exit = True
        thread.join(timeout=20)
        socket.close()
