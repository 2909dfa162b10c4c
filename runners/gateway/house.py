"""A gateway in a thread of its own, for runners that open and close episodes from other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as WaitTimeout
from types import TracebackType
from typing import Any, TypeVar

from runners.gateway.app import Gateway, Guest
from runners.gateway.cast import Cast, Role
from runners.gateway.episode import Episode, EpisodeSettings
from runners.gateway.server import LOOPBACK, GatewayServer, bind_port

T = TypeVar("T")
_START_SECONDS = 30.0
_CALL_SECONDS = 60.0


class HouseGone(Exception):
    """The gateway's thread does not answer any more: infrastructure, never an outcome."""


class House:
    """Serves a cast on a free loopback port while the `with` block lasts."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self._gateway = Gateway(cast, EpisodeSettings())
        self._server = GatewayServer(self._gateway, [bind_port(0)])
        self._stays: dict[str, _Stay] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self.port = self._server.port

    def __enter__(self) -> House:
        self._thread.start()
        if not self._ready.wait(_START_SECONDS) or self._failure is not None:
            raise HouseGone(f"the gateway did not start: {self._failure or 'no answer'}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the gateway, its answers under way and the model behind it; once is enough, twice does no harm."""
        self._server.stop()
        self._thread.join(timeout=_START_SECONDS)

    def address(self, episode: str) -> str:
        """The base address of an episode."""
        return f"http://{LOOPBACK}:{self.port}/e/{episode}"

    def open(self, name: str, settings: EpisodeSettings, role: Role, guest: Guest | None) -> Episode:
        """Begins an episode. Raises UserError as `Gateway.open` does, HouseGone."""

        async def begin() -> Episode:
            episode = self._gateway.open(name, settings, guest=guest)
            try:
                self.cast.assign(name, role)
                if guest is not None:
                    stay = _Stay(guest)
                    await stay.begin()
                    self._stays[name] = stay
            except BaseException:
                await self._end(name)
                raise
            return episode

        return self.call(begin())

    def close(self, name: str) -> None:
        """Ends an episode; nothing happens where none is open under that name. Raises HouseGone."""
        self.call(self._end(name))

    async def _end(self, name: str) -> None:
        self._gateway.close(name)
        self.cast.release(name)
        if (stay := self._stays.pop(name, None)) is not None:
            await stay.end()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the gateway's event loop and waits for it. Raises HouseGone where that has ended, or is about
        to: answers may be missing then that nobody knows of."""
        loop = self._loop
        if loop is None or self._server.stopping or not self._thread.is_alive():
            work.close()
            raise HouseGone("the gateway has ended")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(_CALL_SECONDS)
        except WaitTimeout:
            future.cancel()
            raise HouseGone("the gateway does not answer") from None

    def _run(self) -> None:
        def ready() -> None:
            self._loop = asyncio.get_running_loop()
            self._ready.set()

        try:
            self._server.run(ready)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()


class _Stay:
    """A guest's context, entered and left in one task, as its task groups demand."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._open, self._leave = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._hold())
        opened = asyncio.create_task(self._open.wait())
        await asyncio.wait({self._task, opened}, return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if self._task.done():
            self._task.result()

    async def end(self) -> None:
        self._leave.set()
        if self._task is not None:
            await self._task

    async def _hold(self) -> None:
        async with self._guest.running():
            self._open.set()
            await self._leave.wait()
