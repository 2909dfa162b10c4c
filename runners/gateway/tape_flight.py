"""Single flight: one decode of a key at a time, among all threads and processes that use one tape."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from runners.gateway.tape_key import TapeKey
from runners.gateway.tape_lock import LockFile
from runners.gateway.tape_row import Completion

_SHORTEST_WAIT, _LONGEST_WAIT = 0.002, 0.05
"""Seconds between two looks at a lock that someone else holds."""


class Store(Protocol):
    """What flights need of a tape."""

    path: Path

    def get(self, key: TapeKey) -> Completion | None: ...

    def put(self, key: TapeKey, prompt: str, completion: Completion) -> Completion: ...


class Flight:
    """The right to decode one key. Released at the end of a `with` block, by `release`, or by the kernel when the
    process dies.

    stored: the completion that the tape had when the flight began, None where it is yet to be decoded.
    """

    def __init__(self, flights: Flights, key: TapeKey, offset: int) -> None:
        self.key = key
        self.stored: Completion | None = None
        self._flights = flights
        self._offset = offset

    def put(self, prompt: str, completion: Completion) -> Completion:
        """`Tape.put` for the flight's key."""
        return self._flights.store.put(self.key, prompt, completion)

    def release(self) -> None:
        """Lets the next one go ahead. A second call does nothing."""
        self._flights.land(self, self._offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Flights:
    """The flights of one open tape.

    A flight's lock is the byte of the lock file that the first 60 bits of the key's digest name: two keys that share it
    merely take turns. A thread that takes the flight of one key twice waits for itself.
    """

    def __init__(self, store: Store, locks: LockFile) -> None:
        self.store = store
        self._locks = locks
        self._process = os.getpid()
        self._closed = False
        self._flying: set[Flight] = set()
        self._mutex = threading.Lock()

    def try_take(self, key: TapeKey) -> Flight | None:
        """The flight, None where someone has it. The tape is looked at only when the lock is held."""
        flight = self._take_off(key)
        if flight is not None:
            try:
                flight.stored = self.store.get(key)
            except BaseException:
                flight.release()
                raise
        return flight

    def take(self, key: TapeKey, timeout_seconds: float | None) -> Flight:
        """Waits for the flight. TimeoutError after `timeout_seconds`; None waits for ever."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = _SHORTEST_WAIT
        while (flight := self.try_take(key)) is None:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self.store.path}: another decode of {key.digest()} took over {timeout_seconds} s")
            self._locks.wait(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
        return flight

    async def take_async(self, key: TapeKey) -> Flight:
        """Waits for the flight without holding up the event loop: the tape is read in another thread."""
        pause = _SHORTEST_WAIT
        while (flight := self._take_off(key)) is None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
        try:
            flight.stored = await asyncio.to_thread(self.store.get, key)
        except BaseException:
            flight.release()
            raise
        return flight

    def land(self, flight: Flight, offset: int) -> None:
        """Ends the flight, once."""
        if os.getpid() == self._process:
            with self._mutex:
                if flight in self._flying:
                    self._flying.remove(flight)
                    self._locks.release(offset)

    def close(self) -> None:
        """Ends every flight, and this use of the lock file. A second call does nothing, nor does one in a forked
        child.
        """
        if os.getpid() != self._process:
            return
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        for flight in tuple(self._flying):
            flight.release()
        self._locks.close()

    def _take_off(self, key: TapeKey) -> Flight | None:
        offset = int(key.digest()[:15], 16)
        if os.getpid() != self._process:
            raise RuntimeError(f"{self.store.path} was opened before a fork; open it in the child")
        with self._mutex:
            if self._closed:
                raise RuntimeError(f"{self.store.path} is closed")
            if not self._locks.try_acquire(offset):
                return None
            flight = Flight(self, key, offset)
            self._flying.add(flight)
            return flight
