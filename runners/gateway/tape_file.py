"""The SQLite file of a tape: opening, creating, transactions, and what SQLite's errors mean."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from guards.errors import UserError

APPLICATION_ID = 0x54524950
"""In the SQLite header of every tape ("TRIP")."""

SCHEMA_VERSION = 1
"""In the SQLite header (`user_version`) of every tape that this code reads and writes."""

BUSY_SECONDS = 60.0
"""How long an operation waits for other processes that hold the file; each holds it for milliseconds."""

_SCHEMA = (
    "CREATE TABLE prompts(digest TEXT PRIMARY KEY NOT NULL, deflated BLOB NOT NULL)",
    """CREATE TABLE completions(
        created INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, record TEXT NOT NULL, prompt TEXT NOT NULL,
        tokens BLOB NOT NULL, text TEXT NOT NULL, finish TEXT NOT NULL, stop TEXT,
        prompt_tokens INTEGER NOT NULL, reused_tokens INTEGER NOT NULL,
        prefill_seconds REAL NOT NULL, decode_seconds REAL NOT NULL)""",
    "CREATE INDEX completions_of_prompt ON completions(prompt)",
    "CREATE TABLE cards(model TEXT PRIMARY KEY NOT NULL, card TEXT NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

Run = Callable[..., sqlite3.Cursor]
"""`sqlite3.Connection.execute`."""


class TapeFile:
    """One connection to a tape's file, for any number of threads, one at a time.

    Rollback journal (DELETE) and synchronous EXTRA: after a kill at any moment the next opener finds the state after
    some transaction, and when nobody has it open, the tape is one file.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Opens it and, unless `read_only`, makes the tables in an empty or missing file. Errors as in `Tape.open`."""
        self.path = path
        self.read_only = read_only
        self._process = os.getpid()
        self._mutex = threading.RLock()
        self._open = True
        with self._meanings():
            self._connection = sqlite3.connect(
                f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,  # no transaction but those begun here
                check_same_thread=False,
            )
        try:
            with self._meanings():
                self._connection.execute("PRAGMA trusted_schema = OFF")
                if not read_only:
                    self._make()
                self._check_header()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """The connection for single statements, each with the state of its own moment."""
        with self._mutex, self._meanings():
            self._check_usable()
            yield self._connection.execute

    @contextmanager
    def snapshot(self) -> Iterator[Run]:
        """The connection for statements that all see one state; other processes cannot write before it ends."""
        with self._transaction("BEGIN") as run:
            yield run

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """The connection in a write transaction: all of it is on the disk at the end, or, after an exception, none."""
        if self.read_only:
            raise RuntimeError(f"{self.path} is open for reading only")
        with self._transaction("BEGIN IMMEDIATE") as run:
            yield run

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Run]:
        with self._mutex, self._meanings():
            self._check_usable()
            run = self._connection.execute
            try:
                run(begin)
                yield run
                run("COMMIT")
            finally:
                if self._connection.in_transaction:
                    run("ROLLBACK")

    def close(self) -> None:
        """A second call does nothing; nor does one in a forked child: it could roll back the parent's work."""
        if os.getpid() != self._process:
            return
        with self._mutex:
            self._open = False
            self._connection.close()

    def damaged(self, how: object) -> UserError:
        """The error for content that no tape has."""
        return UserError(f"{self.path}: a damaged tape ({how}); restore it from a copy or record it again")

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError(f"{self.path} was opened before a fork; open it in the child")
        if not self._open:
            raise RuntimeError(f"{self.path} is closed")

    def _make(self) -> None:
        run = self._connection.execute
        if (mode := run("PRAGMA journal_mode = DELETE").fetchone()[0]) != "delete":
            raise RuntimeError(f"{self.path}: SQLite keeps journal mode {mode}")
        run("PRAGMA synchronous = EXTRA")
        with self.writing():
            if self._header() == (0, 0) and not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _SCHEMA:
                    run(statement)
            if self.path.with_name(self.path.name + "-journal").exists() and self._header()[0] == APPLICATION_ID:
                # Left by a writer killed before its journal held anything; SQLite removes it with the next change.
                run(f"PRAGMA application_id = {APPLICATION_ID}")

    def _header(self) -> tuple[int, int]:
        run = self._connection.execute
        return run("PRAGMA application_id").fetchone()[0], run("PRAGMA user_version").fetchone()[0]

    def _check_header(self) -> None:
        application, version = self._header()
        if application != APPLICATION_ID:
            raise UserError(
                f"{self.path}: not a tape: found SQLite application id {application:#x}, expected {APPLICATION_ID:#x}"
            )
        if version != SCHEMA_VERSION:
            raise UserError(
                f"{self.path}: found a tape of version {version}, expected version {SCHEMA_VERSION}; "
                "use the tripbench that wrote it, or another file"
            )
        with self.snapshot() as run:  # nobody changes the file's size meanwhile
            pages, page_size = run("PRAGMA page_count").fetchone()[0], run("PRAGMA page_size").fetchone()[0]
            if (size := self.path.stat().st_size) < pages * page_size:  # SQLite would read a cut page as zeros
                raise self.damaged(f"found {size} bytes, expected {pages * page_size}")

    @contextmanager
    def _meanings(self) -> Iterator[None]:
        """Turns SQLite's errors into the user's, the machine's, or leaves them alone (bugs)."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)  # none where the sqlite3 module raised it, not SQLite
            if code is None and isinstance(error, sqlite3.OperationalError):
                raise self.damaged(error) from error  # text that is not UTF-8
            if code is None:
                raise
            if code == sqlite3.SQLITE_READONLY_ROLLBACK:
                raise KilledWriterError(
                    f"{self.path}: its writer was killed and left a journal; open the tape once where it is writable"
                ) from error
            match code & 0xFF:
                case sqlite3.SQLITE_NOTADB:
                    raise UserError(f"{self.path}: not a tape: found no SQLite file, expected one") from error
                case sqlite3.SQLITE_CORRUPT:
                    raise self.damaged(error) from error
                case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
                    raise UserError(
                        f"{self.path}: cannot be opened ({error}); check access to file and folder"
                    ) from error
                case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                    text = f"another process kept the tape for over {BUSY_SECONDS:.0f} s"
                    raise OSError(errno.ETIMEDOUT, text, str(self.path)) from error
                case sqlite3.SQLITE_FULL:
                    raise OSError(errno.ENOSPC, str(error), str(self.path)) from error
                case sqlite3.SQLITE_IOERR:
                    raise OSError(errno.EIO, f"{error} ({error.sqlite_errorname})", str(self.path)) from error
            raise


class KilledWriterError(UserError):
    """A killed writer's journal is yet to be rolled back, which a read-only opener may not do."""
