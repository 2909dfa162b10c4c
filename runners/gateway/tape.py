"""The tape: every completion in one SQLite file, under the digest of everything that decides it."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from guards.errors import UserError
from runners.gateway.tape_file import KilledWriterError, TapeFile
from runners.gateway.tape_flight import Flight, Flights
from runners.gateway.tape_key import TapeKey, prompt_digest
from runners.gateway.tape_lock import LockFile
from runners.gateway.tape_miss import TapeMiss, explain
from runners.gateway.tape_row import COLUMNS, Completion, from_columns, to_columns

__all__ = ["Completion", "Flight", "Tape", "TapeKey", "TapeMiss"]

_PAGE = 256
"""Rows read at a time by an iteration."""


class Tape:
    """An open tape. For any number of threads; a process made by fork opens its own.

    Durable: a completion is on the disk when `put` returns, and SIGKILL at any moment leaves the tape as it was after
    some `put` (rollback journal, synchronous EXTRA). After `close` the
    tape is the one file PATH, complete, beside an empty PATH.lock that nobody needs. A copy of a tape whose writer was
    killed needs PATH-journal, if that exists, copied with PATH, both untouched since; a copy of one that is being
    written is made by SQLite alone (`VACUUM INTO 'COPY'`), never by copying files. No process may open PATH by other
    means than SQLite while it has the tape open: closing such a descriptor drops SQLite's locks (POSIX locks are of
    the process).

    Where the machine fails, operations raise OSError naming the tape: ENOSPC for a full disk, ETIMEDOUT where another
    process kept the file for `BUSY_SECONDS`, EIO for anything else that SQLite reports of the file system. A damaged
    file is a UserError. Use after `close`, in a forked child, or writing to a read-only tape is a RuntimeError.
    """

    def __init__(self, file: TapeFile, locks: LockFile | None) -> None:
        """Used by `open`. locks: None for a read-only tape."""
        self.path = file.path
        self._file = file
        self._flights = None if locks is None else Flights(self, locks)

    @classmethod
    def open(cls, path: Path | str, *, read_only: bool = False) -> Tape:
        """Opens the tape at that path; makes one where there is no file or an empty one, unless `read_only`.

        A read-only tape needs no write access to file or folder and leaves no file behind; only where a killed writer
        left its journal must the tape be writable, as the journal is rolled back first.

        UserError, naming the path: no such folder or file, no access, not a tape, a tape of another version, damaged.
        """
        path = Path(path).resolve()  # one lock file for a tape, whatever links lead to it
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: not a file, expected a tape")
        if read_only:
            return cls._open_read_only(path)
        if not path.parent.is_dir():
            raise UserError(f"{path}: the folder {path.parent} does not exist; make it first")
        if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise UserError(f"{path}: file or folder is not writable, as a tape must be; choose another place")
        lock_path = path.with_name(path.name + ".lock")
        try:
            locks = LockFile.open(lock_path)
        except OSError as error:
            raise UserError(f"{lock_path}: cannot be opened ({error.strerror}); check access to it") from error
        try:
            return cls(TapeFile(path, read_only=False), locks)
        except BaseException:
            locks.close()
            raise

    @classmethod
    def _open_read_only(cls, path: Path) -> Tape:
        if not path.exists():
            raise UserError(f"{path}: no such tape")
        try:
            return cls(TapeFile(path, read_only=True), None)
        except KilledWriterError:
            if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
                raise
        cls.open(path).close()
        return cls(TapeFile(path, read_only=True), None)

    def get(self, key: TapeKey) -> Completion | None:
        """The stored completion, None where there is none."""
        with self._file.reading() as run:
            row = run(f"SELECT record, {COLUMNS} FROM completions WHERE key = ?", (key.digest(),)).fetchone()
        if row is None:
            return None
        if row[0] != key.record:
            raise self._file.damaged(f"row {key.digest()} has another key's record")
        return self._completion(key.digest(), row[1:])

    def put(self, key: TapeKey, prompt: str, completion: Completion) -> Completion:
        """Stores the completion unless the key has one; returns the stored one, whichever that is.

        ValueError for a prompt that is not the key's.
        """
        if prompt_digest(prompt) != key.prompt:
            raise ValueError("the prompt is not the one that the key was made of")
        columns = to_columns(completion)
        values = (key.digest(), key.record, key.prompt, *columns)
        deflated = zlib.compress(prompt.encode("utf-8"), 6)
        with self._file.writing() as run:
            run("INSERT INTO prompts(digest, deflated) VALUES(?, ?) ON CONFLICT DO NOTHING", (key.prompt, deflated))
            marks = ", ".join("?" * len(values))
            added = run(
                f"INSERT INTO completions(key, record, prompt, {COLUMNS}) VALUES({marks}) ON CONFLICT DO NOTHING",
                values,
            ).rowcount
            stored = completion if added else self.get(key)
        if stored is None:
            raise self._file.damaged(f"row {key.digest()} is neither stored nor free")
        return stored

    def prompt(self, digest: str) -> str | None:
        """The prompt's text by its digest (`TapeKey.prompt`), None where it is not stored."""
        with self._file.reading() as run:
            row = run("SELECT deflated FROM prompts WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            return None
        try:
            text = zlib.decompress(row[0]).decode("utf-8")
        except (TypeError, ValueError, zlib.error) as error:
            raise self._file.damaged(f"prompt {digest}: {error}") from error
        if prompt_digest(text) != digest:
            raise self._file.damaged(f"prompt {digest} has another text")
        return text

    def card(self, model: str) -> dict[str, Any] | None:
        """What `put_card` stored for the model with that sha256, None where nothing was."""
        with self._file.reading() as run:
            row = run("SELECT card FROM cards WHERE model = ?", (model,)).fetchone()
        try:
            return None if row is None else dict(json.loads(row[0]))
        except (TypeError, ValueError) as error:
            raise self._file.damaged(f"card of {model}: {error}") from error

    def put_card(self, model: str, card: Mapping[str, Any]) -> None:
        """Stores what is needed to serve the model without its file; replaces what was stored.

        ValueError where the card would not read back equal from JSON (NaN, tuples, keys that are no str).
        """
        text = json.dumps(dict(card), sort_keys=True, separators=(",", ":"), allow_nan=False)
        if json.loads(text) != dict(card):
            raise ValueError(f"the card of {model} would not read back equal from JSON")
        with self._file.writing() as run:
            run("INSERT OR REPLACE INTO cards(model, card) VALUES(?, ?)", (model, text))

    def models(self) -> tuple[str, ...]:
        """sha256 of every model that has a card, in order."""
        with self._file.reading() as run:
            return tuple(model for (model,) in run("SELECT model FROM cards ORDER BY model"))

    def __len__(self) -> int:
        """Number of completions."""
        with self._file.reading() as run:
            count: int = run("SELECT count(*) FROM completions").fetchone()[0]
        return count

    def keys(self) -> Iterator[TapeKey]:
        """Every stored key, in the order of the digests. One that is stored meanwhile may or may not be among them."""
        return self._keys("key > ?", ())

    def _keys(self, where: str, values: tuple[str, ...]) -> Iterator[TapeKey]:
        after = ""
        query = f"SELECT key, record FROM completions WHERE {where} ORDER BY key LIMIT {_PAGE}"
        while True:
            with self._file.reading() as run:
                rows = run(query, (*values, after)).fetchall()
            for _, record in rows:
                try:
                    yield TapeKey.from_record(record)
                except UserError as error:
                    raise self._file.damaged(error) from error
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def _completion(self, digest: str, columns: Sequence[Any]) -> Completion:
        try:
            return from_columns(columns)
        except (TypeError, ValueError, struct.error, zlib.error) as error:
            raise self._file.damaged(f"row {digest}: {error}") from error

    def digest(self) -> str:
        """sha256 of all that the tape can answer with, 64 lower-case hex digits; equal for two tapes that serve alike.

        Digested, each as one line of ASCII ended by a newline: for every completion, in the order of the key digests,
        the key digest, a space and `Completion.canonical()`: the usage and the measured seconds are in it, as reports
        show them. Then for every card, in the order of the models, the model, a space and the canonical JSON. Prompt
        texts are in it through the keys; the order of creation is not. One consistent state, even while others write.
        """
        sha256 = hashlib.sha256()
        with self._file.snapshot() as run:
            for key, *columns in run(f"SELECT key, {COLUMNS} FROM completions ORDER BY key"):
                sha256.update(f"{key} {self._completion(key, columns).canonical()}\n".encode("ascii"))
            for model, card in run("SELECT model, card FROM cards ORDER BY model"):
                sha256.update(f"{model} {card}\n".encode("ascii"))
        return sha256.hexdigest()

    def near_miss(self, key: TapeKey, prompt: str | None = None) -> str:
        """One sentence that says why the key is not here, by comparing it with the nearest stored one (`explain`).

        prompt: the key's prompt text; with it the sentence shows where the nearest stored prompt parts from it.
        """
        same = list(self._keys("prompt = ? AND key > ?", (key.prompt,)))
        if key in same:
            return "it is stored"
        return explain(key, prompt, same, self.keys, self.prompt)

    def miss(self, key: TapeKey, episode: str, step: int, prompt: str | None = None) -> TapeMiss:
        """The error for a key that is not here and may not be decoded."""
        return TapeMiss(episode, key.agent, step, self.path, self.near_miss(key, prompt))

    def try_flight(self, key: TapeKey) -> Flight | None:
        """The right to decode that key (`Flight`), None where someone has it; does not wait for a decode."""
        return self._flights_of_writer().try_take(key)

    def flight(self, key: TapeKey, *, timeout_seconds: float | None = None) -> Flight:
        """Waits for the flight, for ever if `timeout_seconds` is None, else at most about so long (TimeoutError).

        An exception from a signal handler ends the wait.
        """
        return self._flights_of_writer().take(key, timeout_seconds)

    @asynccontextmanager
    async def flight_async(self, key: TapeKey) -> AsyncIterator[Flight]:
        """Waits for the flight without holding up the event loop; releases it at the end. Cancellation ends it."""
        with await self._flights_of_writer().take_async(key) as flight:
            yield flight

    def _flights_of_writer(self) -> Flights:
        if self._flights is None:
            raise RuntimeError(f"{self.path} is open for reading only, so nothing is decoded for it")
        return self._flights

    def close(self) -> None:
        """Releases this tape's flights and closes it. A second call does nothing; nor does one in a forked child."""
        if self._flights is not None:
            self._flights.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
