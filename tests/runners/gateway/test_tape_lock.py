"""Locks on bytes, of either kind, within a process and beyond it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.gateway.tape_lock import LockFile


@pytest.fixture(params=[True, False], ids=["of the description", "of the process"])
def locks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LockFile]:
    file = LockFile.open(tmp_path / "lock", of_description=request.param)
    yield file
    file.close()


def in_child(tmp_path: Path, offset: int, *, of_description: bool) -> bool:
    """Whether a forked child gets the lock, with a lock file that it opens itself."""
    child = os.fork()
    if child == 0:
        taken = LockFile.open(tmp_path / "lock", of_description=of_description).try_acquire(offset)
        os._exit(10 + taken)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11


@pytest.mark.parametrize("theirs", [True, False], ids=["by description", "by process"])
def test_a_lock_is_for_one_at_a_time(locks: LockFile, tmp_path: Path, theirs: bool) -> None:
    assert locks.try_acquire(5)
    assert not locks.try_acquire(5)
    assert not in_child(tmp_path, 5, of_description=theirs)
    assert in_child(tmp_path, 6, of_description=theirs)
    locks.release(5)
    assert in_child(tmp_path, 5, of_description=theirs)
    assert locks.try_acquire(5), "the child's lock went with the child"


def test_the_objects_of_one_process_share_the_locks(locks: LockFile, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "lock")
    again, linked = LockFile.open(tmp_path / "lock"), LockFile.open(tmp_path / "link")
    assert again is locks
    assert linked is locks
    assert locks.try_acquire(2**62 - 1)
    again.close()
    linked.close()
    assert not locks.try_acquire(2**62 - 1)
    assert not in_child(tmp_path, 2**62 - 1, of_description=True)


def test_the_last_close_frees_everything(locks: LockFile, tmp_path: Path) -> None:
    other = LockFile.open(tmp_path / "other")
    assert other.try_acquire(1)
    other.close()
    with pytest.raises(RuntimeError, match="closed"):
        other.try_acquire(1)
    again = LockFile.open(tmp_path / "other")
    assert again.try_acquire(1)
    again.close()
    assert locks.try_acquire(1)
    assert (tmp_path / "other").read_bytes() == b""


def test_a_release_without_a_lock_does_nothing(locks: LockFile) -> None:
    locks.release(7)
    assert locks.try_acquire(7)


@pytest.mark.parametrize("offset", [-1, 2**62])
def test_an_offset_out_of_range_is_refused(locks: LockFile, offset: int) -> None:
    with pytest.raises(ValueError, match="lock offset"):
        locks.try_acquire(offset)


def test_a_forked_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    """A parent is killed while its child lives on; its lock must be free although the child inherited everything."""
    locked, gone = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:
        LockFile.open(tmp_path / "lock").try_acquire(3)
        if os.fork() == 0:
            os.write(locked[1], b"x")
            os.close(gone[1])
            os.read(gone[0], 1)  # lives until the test closes its end
            os._exit(0)
        os.waitpid(-1, 0)
        os._exit(0)
    os.read(locked[0], 1)
    os.kill(parent, 9)
    os.waitpid(parent, 0)
    file = LockFile.open(tmp_path / "lock")
    assert file.try_acquire(3)
    file.close()
    for descriptor in (*locked, *gone):
        os.close(descriptor)
