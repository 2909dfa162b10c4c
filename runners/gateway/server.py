"""Runs a gateway on loopback and on a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import uvicorn

from guards.errors import UserError
from runners.gateway.app import Gateway

LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 0.05
"""Between two looks at whether to stop."""


def bind_port(port: int) -> socket.socket:
    """A listening socket on loopback; port 0 takes a free one. Raises UserError where the port can not be had."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UserError(
                f"port {port} on {LOOPBACK} is in use; stop what uses it or choose another --port"
            ) from error
        raise UserError(f"port {port} on {LOOPBACK} can not be bound: {error}; choose another --port") from error
    listener.listen(256)
    return listener


def bind_socket(path: Path) -> socket.socket:
    """A listening Unix socket; a dead one left there is replaced. Raises UserError where it can not be made."""
    if path.exists():
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise UserError(f"--socket {path}: a file of another kind is there; choose another path")
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.closing(probe):
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()
            else:
                raise UserError(f"--socket {path} is in use; stop what uses it or choose another path")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise UserError(f"--socket {path}: {error.strerror or error}; choose another path") from error
    listener.listen(256)
    return listener


def socket_files(listeners: Iterable[socket.socket]) -> list[Path]:
    """The files of the Unix sockets among open ones."""
    return [Path(listener.getsockname()) for listener in listeners if listener.family == socket.AF_UNIX]


def release(listeners: Iterable[socket.socket], files: Iterable[Path]) -> None:
    """Closes listening sockets, open or not, and removes their files."""
    for listener in listeners:
        listener.close()
    for path in files:
        path.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: it raises a signal again when it ends, before anything is cleaned up."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class GatewayServer:
    """A gateway on listening sockets. `run` returns after a signal or `stop`; it closes the backend and the sockets."""

    def __init__(self, gateway: Gateway, listeners: list[socket.socket]) -> None:
        self._gateway = gateway
        self._listeners = listeners
        config = uvicorn.Config(
            gateway.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=600,
        )
        self._server = _Server(config)

    @property
    def port(self) -> int | None:
        """The TCP port; None where there is only a Unix socket."""
        for listener in self._listeners:
            if listener.family == socket.AF_INET:
                return int(listener.getsockname()[1])
        return None

    @property
    def stopping(self) -> bool:
        """Whether it was told to end."""
        return self._server.should_exit

    def stop(self) -> None:
        """Ends `run`; may be called from any thread."""
        self._server.should_exit = True

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Serves until stopped; `ready` is called once requests are answered."""
        files = socket_files(self._listeners)
        try:
            asyncio.run(self._serve(ready))
        finally:
            release(self._listeners, files)
            self._gateway.backend.close()

    async def _serve(self, ready: Callable[[], None] | None) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        serving = asyncio.ensure_future(self._server.serve(sockets=self._listeners))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        if self._server.started and ready is not None:
            ready()
        while not self._server.should_exit and not serving.done():
            await asyncio.sleep(_STOP_SECONDS)
        self._gateway.interrupt()
        await serving
