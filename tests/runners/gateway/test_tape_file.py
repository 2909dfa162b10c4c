"""The file's transactions: each whole or undone, whatever happens inside it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from guards.errors import UserError
from runners.gateway.tape import Tape
from runners.gateway.tape_file import TapeFile
from tests.runners.gateway.tape_actors import completion_of, key_of

INSERT = "INSERT INTO cards(model, card) VALUES(?, '{}')"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[TapeFile]:
    file = TapeFile(path, read_only=False)
    yield file
    file.close()


def models(path: Path) -> list[str]:
    """What another connection sees."""
    connection = sqlite3.connect(path)
    found = [model for (model,) in connection.execute("SELECT model FROM cards ORDER BY model")]
    connection.close()
    return found


def test_a_transaction_is_seen_when_it_ends(file: TapeFile, path: Path) -> None:
    with file.writing() as run:
        run(INSERT, ("a",))
        assert models(path) == []
    assert models(path) == ["a"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_undoes_the_transaction_and_no_other(
    file: TapeFile, path: Path, error: type[BaseException]
) -> None:
    def fail() -> None:
        with file.writing() as run:
            run(INSERT, ("a",))
            raise error

    with file.writing() as run:
        run(INSERT, ("before",))
    with pytest.raises(error):
        fail()
    with file.writing() as run:
        run(INSERT, ("after",))
    assert models(path) == ["after", "before"]


def test_a_put_to_a_damaged_row_leaves_the_tape_usable(path: Path) -> None:
    with Tape.open(path) as tape, Tape.open(path) as other:
        tape.put(key_of("a"), "a", completion_of(1))
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE completions SET finish = 'done'")
        connection.close()
        with pytest.raises(UserError, match="damaged"):
            tape.put(key_of("a"), "a", completion_of(2))
        other.put(key_of("b"), "b", completion_of(3))
        assert tape.get(key_of("b")) == completion_of(3)


def test_a_statement_that_is_wrong_is_a_bug_and_no_user_error(file: TapeFile) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"), file.reading() as run:
        run("SELECT * FROM absent")


def test_a_close_in_a_forked_child_leaves_the_parents_transaction_alone(file: TapeFile, path: Path) -> None:
    with file.writing() as run:
        run(INSERT, ("a",))
        child = os.fork()
        if child == 0:
            file.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert path.with_name("tape.sqlite-journal").exists()
    assert models(path) == ["a"]


@pytest.mark.parametrize("journal", [b"", bytes(512), bytes(9000)])
def test_a_journal_that_holds_nothing_is_removed(file: TapeFile, path: Path, journal: bytes) -> None:
    """A writer leaves one that is killed before its journal's header is written."""
    file.close()
    path.with_name("tape.sqlite-journal").write_bytes(journal)
    TapeFile(path, read_only=True).close()
    TapeFile(path, read_only=False).close()
    assert os.listdir(path.parent) == ["tape.sqlite"]  # noqa: PTH208
