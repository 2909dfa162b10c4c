"""Trace files: read whole or not at all, and written whole or not at all. The format stands in `results.trace`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from guards.errors import UserError
from results.trace import Event, Header, LineError, Trace, Unknown, event_of, header_of, line_of


def read_trace(path: str | Path, *, lenient: bool = False) -> Trace:
    """The trace in a file; a name that ends in `.zst` says that it is compressed.

    A malformed line raises UserError, which names file, line and reason; with `lenient` it is skipped and counted in
    `Trace.skipped`, unless it is the header. Unknown event types are kept and named in `Trace.warnings`.
    """
    lines = _lines(Path(path))
    try:
        header = header_of(_decoded(next(lines)))
    except StopIteration:
        raise UserError(f"{path}: is empty: line 1 must be the header of a trace") from None
    except LineError as error:
        raise UserError(f"{path}: line 1: {error}") from error
    events: list[Event] = []
    warnings: list[str] = []
    skipped = 0
    for number, line in enumerate(lines, start=2):
        try:
            event = event_of(_decoded(line))
        except LineError as error:
            if not lenient:
                raise UserError(f"{path}: line {number}: {error}") from error
            skipped += 1
            continue
        if isinstance(event, Unknown):
            warnings.append(f'{path}: line {number}: event type "{event.name}" is not known and is left out')
        events.append(event)
    return Trace(header, tuple(events), tuple(warnings), skipped)


def write_trace(path: str | Path, trace: Trace) -> None:
    """Writes a trace whole or not at all, compressed where the name ends in `.zst`; the folder must be there.

    Raises UserError where the file can not be written, ValueError for a record that no reader would accept.
    """
    path = Path(path)
    records: list[Header | Event] = [trace.header, *trace.events]
    data = "".join(f"{line_of(record)}\n" for record in records).encode()
    if path.suffix == ".zst":
        data = zstandard.ZstdCompressor(level=9, write_checksum=True).compress(data)
    try:
        # In the same folder, so that the last step is one rename.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UserError(f"{path}: can not be written: {error.strerror or error}") from error


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, split at "\\n" alone; what follows the last one is a line if it is not empty."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: can not be read: {error.strerror or error}") from error
    if path.suffix == ".zst":
        data = _decompressed(path, data)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return iter(lines)


def _decompressed(path: Path, data: bytes) -> bytes:
    """All frames of a file, each to its end."""
    parts: list[bytes] = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(data))
        except zstandard.ZstdError as error:
            raise UserError(f"{path}: is not a sound .zst file: {error}") from error
        if not frame.eof:
            raise UserError(f"{path}: is not a sound .zst file: it ends in the middle of a frame")
        data = frame.unused_data
    return b"".join(parts)


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise LineError(f"is not UTF-8: byte {error.start + 1}: {error.reason}") from error
