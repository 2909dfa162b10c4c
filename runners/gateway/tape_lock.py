"""One lock for each number, across threads and processes, that the kernel frees when its holder dies."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from pathlib import Path

_MOST_OFFSET = 2**62


class LockFile:
    """Exclusive locks on single bytes of a file that stays empty; a lock is named by its byte offset, 0 .. 2**62-1.

    All holders in one process share one object and one descriptor for a file (`open`, `close` count them): a set keeps
    threads apart, the kernel keeps processes apart. Locks are of the open file description (F_OFD_SETLK, Linux 3.15);
    elsewhere they are of the process (POSIX), which the shared descriptor makes equally safe. Either kind goes when
    the process dies, so there is no stale lock and no heartbeat. Do not open that file otherwise: where locks are of
    the process, closing any descriptor of it would drop them all. A fork inherits no lock and must open the file anew.

    The file may be deleted when nobody has it open; deleted earlier, processes on either side of that no longer see
    each other's locks.
    """

    def __init__(self, descriptor: int, identity: tuple[int, int], *, of_description: bool) -> None:
        self._descriptor = descriptor
        self._identity = identity
        self._of_description = of_description
        self._users = 0
        self._held: set[int] = set()
        self._changed = threading.Condition()

    @classmethod
    def open(cls, path: Path, *, of_description: bool | None = None) -> LockFile:
        """The process's object for that file, which is made if missing. OSError where that is impossible.

        of_description: the kind of lock; None takes the better one that the platform has. The kinds exclude each other.
        """
        global _fork_hook  # noqa: PLW0603
        with _registry_lock:
            if not _fork_hook:
                os.register_at_fork(after_in_child=_forget_all)
                _fork_hook = True
            # Looked up before it is opened: closing a second descriptor could drop the locks of the first.
            lock_file = _registry.get(_identity(os.stat(path))) if path.exists() else None  # noqa: PTH116
            if lock_file is None:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                identity = _identity(os.fstat(descriptor))
                kind = has_description_locks() if of_description is None else of_description
                lock_file = _registry[identity] = cls(descriptor, identity, of_description=kind)
            lock_file._users += 1
            return lock_file

    def try_acquire(self, offset: int) -> bool:
        """Takes the lock if nobody has it, another thread of this process included. Never waits."""
        if not 0 <= offset < _MOST_OFFSET:
            raise ValueError(f"lock offset {offset} is outside 0 .. 2**62-1")
        with self._changed:
            if self._descriptor < 0:
                raise RuntimeError("the lock file is closed")
            if offset in self._held:
                return False
            try:
                self._set(fcntl.F_WRLCK, offset)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return False
                raise
            self._held.add(offset)
            return True

    def release(self, offset: int) -> None:
        """Gives the lock back and wakes the threads in `wait`. Nothing happens where it is not held."""
        with self._changed:
            if offset in self._held:
                self._held.remove(offset)
                self._set(fcntl.F_UNLCK, offset)
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Sleeps until a thread of this process releases a lock, at most so long. Other processes do not wake it."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        """Ends one use; the last one closes the file and with it every lock."""
        with _registry_lock, self._changed:
            self._users -= 1
            if self._users == 0 and self._descriptor >= 0:
                _registry.pop(self._identity, None)
                self._forget()

    def _forget(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        self._held.clear()

    def _set(self, kind: int, offset: int) -> None:
        if self._of_description and sys.platform == "linux":
            # struct flock of Linux: type, whence (0: from the start), start, length, pid (must be 0), tail padding.
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, struct.pack("@hhqqi0q", kind, 0, offset, 1, 0))
        else:
            flags = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(self._descriptor, flags, 1, offset, os.SEEK_SET)


_registry: dict[tuple[int, int], LockFile] = {}
_registry_lock = threading.Lock()
_fork_hook = False


def has_description_locks() -> bool:
    """Whether this platform's locks can belong to an open file description."""
    return sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _forget_all() -> None:
    """In a forked child: closes the inherited descriptors, which would keep the parent's locks beyond its death."""
    global _registry_lock  # noqa: PLW0603
    _registry_lock = threading.Lock()
    for lock_file in _registry.values():
        lock_file._changed = threading.Condition()
        lock_file._forget()
    _registry.clear()
