"""The cache folder: model files, parts of downloads, known digests and locks."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from guards.errors import UserError

VARIABLE = "TRIPBENCH_CACHE"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Cache:
    """Paths under one cache folder. Nothing is made until it is written to."""

    root: Path

    @property
    def models(self) -> Path:
        return self.root / "models"

    def parts(self, name: str) -> Path:
        """Where the parts of that model lie until it is whole."""
        return self.root / "parts" / name

    @contextmanager
    def lock(self, name: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Holds the lock of that name among all processes; calls `waiting` with a line where another holds it."""
        path = self.root / "locks" / f"{name}.lock"
        make_folder(path.parent)
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting(f"{name}: another process is at it ({path} is locked); waiting for it to end")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def digest(self, path: Path) -> str:
        """The sha256 of a file. Remembered with the file's size, time of change and inode, which are looked at anew
        at each call, so that a file is read again only when one of them differs. OSError where it cannot be read."""
        stamp = _stamp(path)
        note = self._note(path)
        try:
            known = json.loads(note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = None
        if isinstance(known, dict) and known.get("stamp") == stamp and isinstance(known.get("sha256"), str):
            return str(known["sha256"])
        found = sha256(path)
        if _stamp(path) == stamp:
            self.remember(path, found)
        return found

    def remember(self, path: Path, digest: str) -> None:
        """Notes a digest that was just computed from the file as it is."""
        note = self._note(path)
        try:
            note.parent.mkdir(parents=True, exist_ok=True)
            temporary = note.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps({"path": str(path), "stamp": _stamp(path), "sha256": digest}))
            temporary.replace(note)
        except OSError:
            pass  # a cache that cannot be written (read-only, full) only costs the next digest

    def _note(self, path: Path) -> Path:
        return self.root / "digests" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]}.json"


def open_cache(root: Path | None = None) -> Cache:
    """The cache at `root`; None takes $TRIPBENCH_CACHE, else the user's cache folder."""
    if root is None:
        named = os.environ.get(VARIABLE)
        root = Path(named) if named else Path(platformdirs.user_cache_dir("tripbench"))
    if root.exists() and not root.is_dir():
        raise UserError(f"the cache {root} is not a folder: name another with --cache or {VARIABLE}")
    return Cache(root)


def make_folder(path: Path) -> None:
    """Makes a folder of the cache. UserError where that is not allowed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the cache folder {path} cannot be made ({error.strerror}): name another with --cache or {VARIABLE}"
        ) from error


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that `path` is on or would be on."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def sha256(path: Path) -> str:
    """The sha256 of a file's bytes, in hex. OSError where it cannot be read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _stamp(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ino]
