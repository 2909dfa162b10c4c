"""The folders of DSH plugins: ours in the package, a user's anywhere, and how they get to where the runtime looks."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import guards
from guards.errors import UserError

BREAKER = "compaction-breaker"
_NAME = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
"""Of a package, as npm has it: it becomes a path below node_modules."""


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
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"{manifest}: the name {name!r} is no package name")
    return name


def install(folder: Path, name: str, packages: Path) -> None:
    """Copies a plugin folder to where the runtime finds it by name. A user's own node_modules come along.

    Raises UserError where some of it can not be read.
    """
    try:
        shutil.copytree(folder, packages / name, symlinks=False, dirs_exist_ok=False)
    except shutil.Error as error:
        raise UserError(f"{folder}: can not be copied: {error.args[0][0][2]}") from error
