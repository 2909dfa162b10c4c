"""The folders of DSH plugins: ours in the package, a user's anywhere, and how they get to where the runtime looks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import guards
from guards.errors import UserError

BREAKER = "compaction-breaker"


def plugin_folder(name: str) -> Path:
    """The folder of one of our own plugins."""
    return Path(guards.__file__).parent / "plugins" / name


def package_of(folder: Path) -> str:
    """The package name of a plugin folder. Raises UserError where it is none."""
    manifest = folder / "package.json"
    try:
        name = json.loads(manifest.read_bytes())["name"]
    except OSError as error:
        raise UserError(f"{folder}: no DSH plugin: package.json: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{manifest}: no package manifest with a name") from error
    if not isinstance(name, str) or not name or name.startswith("."):
        raise UserError(f"{manifest}: the name {name!r} is no package name")
    return name


def install(folder: Path, name: str, packages: Path) -> None:
    """Copies a plugin folder to where the runtime finds it by name. A user's own node_modules come along."""
    target = packages / name
    shutil.copytree(folder, target, symlinks=False, dirs_exist_ok=False)
