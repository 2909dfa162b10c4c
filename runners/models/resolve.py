"""From what a user names, a model's name or a path, to a file that is known to be whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from guards.errors import UserError
from runners.models import catalog, header
from runners.models.cache import Cache, open_cache
from runners.models.catalog import Catalog, ModelEntry


@dataclass(frozen=True)
class ModelFile:
    """A GGUF file, ready to be loaded.

    `size` is in bytes, `context_length` in tokens (None where the file does not say). `dialect`, `sampler` and
    `licence` are None for a file that is not of the catalogue: the dialect is then chosen from the chat template.
    """

    name: str
    path: Path
    sha256: str
    size: int
    dialect: str | None
    sampler: dict[str, float | int] | None
    context_length: int | None
    licence: str | None


def resolve(name_or_path: str, cache: Path | None = None, known: Catalog | None = None) -> ModelFile:
    """The file of a named model in the cache, or the file at a path.

    What has a folder separator, ends in .gguf or exists as a file is a path; anything else is a name. A file with
    the bytes of a named model is that model, wherever it lies; any other is named after its file. `cache` None takes
    $TRIPBENCH_CACHE, else the user's cache folder; `known` None takes the built-in catalogue.

    UserError for an unknown name, a named model that was not pulled or was altered, and a path to what is no whole
    GGUF. The file is read through for its digest the first time only, as `Cache.digest` says.
    """
    models = known or catalog.builtin()
    store = open_cache(cache)
    if name_or_path not in models.models and is_path(name_or_path):
        return _from_path(Path(name_or_path).expanduser(), store, models)
    entry = models.find(name_or_path, also="; or give the path of a .gguf file")
    path = store.models / entry.file
    wrong = fault(entry, path, store)
    if wrong is not None:
        raise UserError(f"model {entry.name}: {wrong}; run: tripbench models pull {entry.name}")
    return _known(entry, path)


def is_path(text: str) -> bool:
    """Whether what a user named is meant as a path."""
    return "/" in text or text.endswith(".gguf") or Path(text).exists()


def fault(entry: ModelEntry, path: Path, store: Cache) -> str | None:
    """What is wrong with the file that should be that model, with what was expected and found; None if nothing."""
    if not path.is_file():
        return f"not in the cache ({path})"
    size = path.stat().st_size
    if size != entry.size:
        return f"{path} has the wrong size: expected {entry.size} bytes, found {size}"
    try:
        found = store.digest(path)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if found != entry.sha256:
        return f"{path} was altered: expected sha256 {entry.sha256}, found {found}"
    return None


def _known(entry: ModelEntry, path: Path) -> ModelFile:
    return ModelFile(
        name=entry.name,
        path=path,
        sha256=entry.sha256,
        size=entry.size,
        dialect=entry.dialect,
        sampler=entry.sampler.given(),
        context_length=entry.context_length,
        licence=entry.licence,
    )


def _from_path(path: Path, store: Cache, models: Catalog) -> ModelFile:
    head = header.read(path)
    try:
        digest = store.digest(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    entry = models.identify(digest)
    if entry is not None:
        return _known(entry, path)
    return ModelFile(
        name=path.stem,
        path=path,
        sha256=digest,
        size=path.stat().st_size,
        dialect=None,
        sampler=None,
        context_length=head.context_length,
        licence=None,
    )
