"""Where an episode lives: paths of one length wherever the temporary folder is, and nothing left of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from guards.errors import UserError
from runners.harness.layout import PATH_CHARS, Scratch


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path: that of pytest's own leaves no room."""
    with tempfile.TemporaryDirectory(prefix="lay-") as made:
        yield Path(made).resolve()


def test_every_workspace_has_the_same_length_of_path(short: Path) -> None:
    deeper = short / "deeper"
    deeper.mkdir()
    layouts = [Scratch(parent).layout(name) for parent in (short, deeper) for name in ("a", "episode7")]
    assert {len(str(layout.workspace)) for layout in layouts} == {PATH_CHARS}
    assert len({layout.workspace for layout in layouts}) == 4
    for layout in layouts:
        assert layout.workspace.is_dir()
        assert layout.home.is_dir()
        assert layout.scratch.is_dir()
        assert layout.log.read_bytes() == b""
        inside = (layout.workspace, layout.home, layout.scratch, layout.log, layout.patch)
        assert all(path.is_relative_to(layout.root) for path in inside)


def test_the_real_path_counts(short: Path) -> None:
    (short / "real-and-longer").mkdir()
    (short / "link").symlink_to(short / "real-and-longer")
    workspace = Scratch(short / "link").layout("e").workspace
    assert workspace == workspace.resolve()
    assert len(str(workspace)) == PATH_CHARS


def test_plugins_lie_where_the_runtime_looks(short: Path) -> None:
    layout = Scratch(short).layout("e")
    assert layout.packages("p") == layout.home / "profiles" / "p" / "node_modules"


def test_a_place_is_fresh_each_time(short: Path) -> None:
    scratch = Scratch(short)
    (scratch.layout("e").workspace / "left.txt").write_text("x")
    assert list(scratch.layout("e").workspace.iterdir()) == []


def test_nothing_is_left(short: Path) -> None:
    scratch = Scratch(short)
    one, other = scratch.layout("one"), scratch.layout("other")
    one.remove()
    assert not one.root.exists()
    assert other.root.exists()
    one.remove()
    scratch.remove()
    assert list(short.iterdir()) == []


def test_a_temporary_folder_too_deep_is_named(short: Path) -> None:
    deep = short / ("d" * PATH_CHARS)
    deep.mkdir()
    with pytest.raises(UserError, match=f"the path of the temporary folder is too long.*{PATH_CHARS}.*set TMPDIR"):
        Scratch(deep).layout("e")
