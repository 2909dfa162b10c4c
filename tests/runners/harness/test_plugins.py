"""Plugin folders: their names, and how they are laid where the runtime finds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guards.errors import UserError
from runners.harness.plugins import install, package_of, plugin_folder

OURS = (
    "circuit-breaker",
    "loop-guard",
    "compaction-breaker",
    "null-guard",
    "recorder",
    "preset-joiner",
    "surveyor",
    "witness",
)


def folder(path: Path, manifest: str | bytes) -> Path:
    path.mkdir()
    (path / "package.json").write_bytes(manifest if isinstance(manifest, bytes) else manifest.encode())
    return path


@pytest.mark.parametrize("name", OURS)
def test_ours_are_packages_of_their_own_names(name: str) -> None:
    assert package_of(plugin_folder(name)) == f"dsh-{name}-tripbench"
    assert (plugin_folder(name) / "index.js").is_file()


@pytest.mark.parametrize("name", ["a", "dsh-guard", "dsh.guard_2", "@someone/guard", "Guard"])
def test_names_of_packages(tmp_path: Path, name: str) -> None:
    assert package_of(folder(tmp_path / "p", json.dumps({"name": name}))) == name


@pytest.mark.parametrize(
    "name", ["", ".hidden", "..", "../out", "/etc/x", "a/b", "@a/b/c", "@/x", "a b", "a\n", 7, None]
)
def test_names_of_none(tmp_path: Path, name: object) -> None:
    with pytest.raises(UserError, match=r"package\.json: the name .* is no package name"):
        package_of(folder(tmp_path / "p", json.dumps({"name": name})))


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}", "3", '"name"', b"\xff"])
def test_manifests_that_are_none(tmp_path: Path, manifest: str | bytes) -> None:
    with pytest.raises(UserError, match=r"package\.json: no package manifest with a name"):
        package_of(folder(tmp_path / "p", manifest))


def test_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no DSH plugin"):
        package_of(tmp_path)
    with pytest.raises(UserError, match="no DSH plugin"):
        package_of(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["dsh-guard", "@someone/guard"])
def test_a_copy_with_all_that_it_needs(tmp_path: Path, name: str) -> None:
    source = folder(tmp_path / "source", json.dumps({"name": name}))
    (source / "node_modules" / "dep").mkdir(parents=True)
    (source / "node_modules" / "dep" / "index.js").write_text("export default 1")
    (tmp_path / "elsewhere.js").write_text("export default 2")
    (source / "linked.js").symlink_to(tmp_path / "elsewhere.js")
    install(source, name, tmp_path / "packages")
    copy = tmp_path / "packages" / name
    assert package_of(copy) == name
    assert (copy / "node_modules" / "dep" / "index.js").read_text() == "export default 1"
    (tmp_path / "elsewhere.js").unlink()
    assert (copy / "linked.js").read_text() == "export default 2"
    with pytest.raises(FileExistsError):
        install(source, name, tmp_path / "packages")


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    source = folder(tmp_path / "source", json.dumps({"name": "dsh-guard"}))
    (source / "gone.js").symlink_to(tmp_path / "nowhere.js")
    with pytest.raises(UserError, match=r"source: can not be copied: .*gone\.js"):
        install(source, "dsh-guard", tmp_path / "packages")
