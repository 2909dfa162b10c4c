"""The folders of DSH plugins: ours in the package, a user's anywhere, and how they get to where the runtime looks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import guards
from guards.errors import UserError

BREAKER = "compaction-breaker"
_NAME = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
"""Of a package, as npm has it: it becomes a path below node_modules."""


_HARNESS = "@deepseek-ai/dsh"


def plugin_folder(name: str) -> Path:
    """The folder of one of our own plugins."""
    return Path(guards.__file__).parent / "plugins" / name


def package_of(folder: Path) -> str:
    """The package name of a plugin folder. Raises UserError where it is none."""
    name = manifest_of(folder)["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"{folder / 'package.json'}: the name {name!r} is no package name")
    return name


def manifest_of(folder: Path) -> dict[str, Any]:
    """The package.json of a plugin folder; it has a `name` of whatever kind. Raises UserError where there is none."""
    path = folder / "package.json"
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{folder}: no DSH plugin: package.json: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path}: no package manifest with a name") from error
    if not isinstance(manifest, dict) or "name" not in manifest:
        raise UserError(f"{path}: no package manifest with a name")
    return manifest


def log_name(folder: Path) -> str | None:
    """The guard as which a plugin writes the event log, as its manifest says: `"tripbench": {"guard": NAME}`.

    Such a plugin takes the config keys `eventLog` and `plane`, as ours do. None for one that writes none. Raises
    UserError as `manifest_of` does.
    """
    said = manifest_of(folder).get("tripbench")
    name = said.get("guard") if isinstance(said, dict) else None
    return name if isinstance(name, str) else None


def declared(folder: Path) -> dict[str, Any]:
    """The ranges of harness versions that a plugin says it works with, by what says it: `engines.dsh` alone where it
    is there, else each peer dependency on a package of the harness. That is the harness' own rule (dsh-app-boot
    0.2.1rc2), which also says what of it is met. Raises UserError as `manifest_of` does."""
    manifest = manifest_of(folder)
    engines, peers = manifest.get("engines"), manifest.get("peerDependencies")
    if isinstance(engines, dict) and "dsh" in engines:
        return {"engines.dsh": engines["dsh"]}
    if not isinstance(peers, dict):
        return {}
    return {name: wanted for name, wanted in peers.items() if name == _HARNESS or name.startswith(f"{_HARNESS}-")}


def install(folder: Path, name: str, packages: Path) -> None:
    """Copies a plugin folder to where the runtime finds it by name. A user's own node_modules come along.

    Raises UserError where some of it can not be read.
    """
    try:
        shutil.copytree(folder, packages / name, symlinks=False, dirs_exist_ok=False)
    except shutil.Error as error:
        raise UserError(f"{folder}: can not be copied: {error.args[0][0][2]}") from error
