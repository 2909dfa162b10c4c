"""The tape as a store: what goes in comes out, misses are explained, and a file that is no tape is one clear error."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guards.errors import UserError
from runners.gateway.tape import Completion, Tape, TapeMiss
from runners.gateway.tape_key import prompt_digest
from tests.runners.gateway.tape_actors import SAMPLER, completion_of, finish, key_of, kill, ready, sha256, start
from tests.runners.gateway.test_tape_row import completions

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.sqlite"


@pytest.fixture
def tape(path: Path) -> Iterator[Tape]:
    with Tape.open(path) as tape:
        yield tape


@pytest.fixture(scope="module")
def common_tape(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tape]:
    with Tape.open(tmp_path_factory.mktemp("common") / "tape.sqlite") as tape:
        yield tape


def put(tape: Tape, number: int, **changes: Any) -> None:
    tape.put(key_of(f"prompt {number}", **changes), f"prompt {number}", completion_of(number))


def change(path: Path, statement: str, *values: object) -> None:
    """Alters the file as no tape does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()


@settings(deadline=None)
@given(TEXT, completions(), completions())
def test_the_first_completion_stays(common_tape: Tape, prompt: str, first: Completion, second: Completion) -> None:
    key = key_of(prompt, occurrence=len(common_tape))
    assert common_tape.get(key) is None
    assert common_tape.put(key, prompt, first) == first
    assert common_tape.put(key, prompt, second) == first
    assert common_tape.get(key) == first
    assert common_tape.prompt(key.prompt) == prompt


def test_a_prompt_is_stored_once(tape: Tape, path: Path) -> None:
    for seed in range(3):
        put(tape, 1, seed=seed)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM prompts").fetchone() == (1,)
    connection.close()
    assert tape.prompt(sha256("another")) is None


def test_the_prompt_must_be_the_keys(tape: Tape) -> None:
    with pytest.raises(ValueError, match="not the one"):
        tape.put(key_of("a"), "b", completion_of(1))
    with pytest.raises(ValueError, match="surrogates"):
        tape.put(key_of("a"), "\ud800", completion_of(1))
    assert len(tape) == 0


def test_keys_come_in_the_order_of_their_digests(tape: Tape) -> None:
    keys = [key_of("p", seed=number) for number in range(600)]
    for number, key in enumerate(keys):
        tape.put(key, "p", completion_of(number))
    found = list(tape.keys())
    assert len(tape) == 600
    assert [key.digest() for key in found] == sorted(key.digest() for key in keys)
    assert set(found) == set(keys)


def test_a_card_is_replaced(tape: Tape) -> None:
    card = {"chat_template": "{{ x }}\u00e9", "bos": None, "n_ctx": 4096, "more": [1.5, {"a": True}]}
    assert tape.card(sha256("m")) is None
    tape.put_card(sha256("m"), {"old": 1})
    tape.put_card(sha256("m"), card)
    tape.put_card(sha256("a"), {})
    assert tape.card(sha256("m")) == card
    assert tape.models() == tuple(sorted([sha256("m"), sha256("a")]))
    for bad in ({"a": (1, 2)}, {1: 2}, {"a": float("nan")}):
        with pytest.raises(ValueError, match="JSON"):
            tape.put_card(sha256("m"), bad)  # type: ignore[arg-type]


def test_the_digest_is_of_what_is_served(tmp_path: Path) -> None:
    with Tape.open(tmp_path / "one") as one, Tape.open(tmp_path / "other") as other:
        assert one.digest() == other.digest() == sha256("")
        put(one, 1)
        put(one, 2)
        one.put_card("m", {"a": 1, "b": 2})
        other.put_card("m", {"b": 2, "a": 1})
        put(other, 2)
        assert one.digest() != other.digest()
        put(other, 1)
        assert one.digest() == other.digest()
        other.put_card("m", {"a": 1})
        assert one.digest() != other.digest()
        line = f"{key_of('prompt 1').digest()} {completion_of(1).canonical()}\n"
    with Tape.open(tmp_path / "third") as third:
        put(third, 1)
        third.put_card("m", {"b": 2.0})
        assert third.digest() == sha256(line + 'm {"b":2.0}\n')
    change(tmp_path / "third", "UPDATE completions SET decode_seconds = decode_seconds + 1")
    with Tape.open(tmp_path / "third") as third:
        assert third.digest() != sha256(line + 'm {"b":2.0}\n')


def test_a_closed_tape_is_one_complete_file(tape: Tape, path: Path, tmp_path: Path) -> None:
    put(tape, 1)
    digest = tape.digest()
    tape.close()
    tape.close()
    assert sorted(os.listdir(tmp_path)) == ["tape.sqlite", "tape.sqlite.lock"]  # noqa: PTH208
    shutil.copy(path, tmp_path / "copy")
    with Tape.open(tmp_path / "copy", read_only=True) as copy:
        assert copy.digest() == digest
    for use in (lambda: tape.get(key_of("prompt 1")), lambda: tape.try_flight(key_of("x")), lambda: put(tape, 2)):
        with pytest.raises(RuntimeError, match="closed"):
            use()


# misses


def test_an_empty_tape_explains_a_miss(tape: Tape) -> None:
    assert tape.near_miss(key_of("x")) == "the tape holds no completion at all"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampler": SAMPLER | {"temperature": 0.0}}, "sampler.temperature differs: 0.7 there, 0.0 asked"),
        ({"occurrence": 1}, "occurrence differs: 0 there, 1 asked"),
        (
            {"grammar": None, "agent": 2},
            f'2 fields differ: agent (0 there, 2 asked), grammar ("{sha256("grammar")[:59]}... there, none asked)',
        ),
    ],
)
def test_a_miss_names_what_differs_from_the_same_prompt(tape: Tape, changes: dict[str, Any], sentence: str) -> None:
    put(tape, 1)
    put(tape, 1, seed=1, n_ctx=2048, occurrence=7)
    put(tape, 2, **changes)
    assert tape.near_miss(key_of("prompt 1", **changes)) == f"the same prompt is stored, but {sentence}"


def test_a_miss_shows_where_the_nearest_prompt_parts(tape: Tape) -> None:
    for prompt, changes in (("on Monday, read /a", {}), ("on Friday, read /a", {}), ("on Mondays", {"seed": 1})):
        tape.put(key_of(prompt, **changes), prompt, completion_of(1))
    tape.put(key_of("on Monday, read /b at once", n_ctx=1), "on Monday, read /b at once", completion_of(1))
    asked = "on Monday, read /b"
    nearest = "its prompt is not stored; nearest of 4 completions is one of agent 0 and seed 0"
    parting = 'whose prompt parts from the one asked after 17 of 18 characters: "a" there, "b" asked'
    assert tape.near_miss(key_of(asked)) == nearest
    assert tape.near_miss(key_of(asked), asked) == f"{nearest}, {parting}"
    longer = "on Monday, read /a now"
    assert tape.near_miss(key_of(longer), longer).endswith('after 18 of 22 characters: its end there, " now" asked')
    assert tape.near_miss(key_of(asked, seed=5, n_ctx=1)) == (
        "its prompt is not stored; nearest of 4 completions is one of another agent or seed, "
        "as nothing is stored for agent 0 and seed 5; besides, seed differs: 0 there, 5 asked"
    )


def test_a_miss_says_so_where_the_key_came_meanwhile(tape: Tape) -> None:
    put(tape, 1)
    assert tape.near_miss(key_of("prompt 1")) == "it is stored"


def test_the_error_for_a_miss_names_episode_agent_and_step(tape: Tape, path: Path) -> None:
    put(tape, 1)
    miss = tape.miss(key_of("prompt 1", agent=3), "poll-7", 12)
    text = (
        f"episode poll-7, agent 3, step 12: not on the tape {path}: "
        "the same prompt is stored, but agent differs: 0 there, 3 asked"
    )
    for error in (miss, pickle.loads(pickle.dumps(miss))):
        assert isinstance(error, TapeMiss)
        assert isinstance(error, UserError)
        assert (str(error), error.episode, error.agent, error.step) == (text, "poll-7", 3, 12)


# files that cannot be used


def test_a_place_that_cannot_hold_a_tape_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "tape.lock").mkdir()
    for path, read_only, why in (
        (tmp_path / "missing" / "tape", False, "does not exist; make it first"),
        (tmp_path / "missing" / "tape", True, "no such tape"),
        (tmp_path / "missing", True, "no such tape"),
        (tmp_path, False, "not a file"),
        (tmp_path, True, "not a file"),
        (tmp_path / "pipe", True, "not a file"),
        (tmp_path / "tape", False, "cannot be opened"),
    ):
        with pytest.raises(UserError, match=why) as caught:
            Tape.open(path, read_only=read_only)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["pipe", "tape.lock"]  # noqa: PTH208


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_bytes(b"some text\n" * 1000), "not a tape: found no SQLite file"),
        (lambda path: path.write_bytes(b"xy"), "not a tape: found no SQLite file"),
        (lambda path: change(path, "CREATE TABLE a(b)"), "not a tape: found SQLite application id 0x0"),
        (lambda path: change(path, "PRAGMA user_version = 1"), "not a tape: found SQLite application id 0x0"),
        (lambda path: new(path, "PRAGMA application_id = 5"), "application id 0x5, expected 0x54524950"),
        (lambda path: new(path, "PRAGMA user_version = 2"), "found a tape of version 2, expected version 1"),
    ],
)
def test_a_file_that_is_no_tape_is_refused(
    path: Path, make: Callable[[Path], object], why: str, read_only: bool
) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(UserError, match=why) as caught:
        Tape.open(path, read_only=read_only)
    assert str(caught.value).startswith(f"{path}: ")
    assert path.read_bytes() == before


def new(path: Path, *statement: str) -> None:
    with Tape.open(path) as tape:
        for number in range(40):
            put(tape, number)
        tape.put_card("m", {})
    if statement:
        change(path, *statement)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("kept", [2, 99, 100, 511, 512, 4095, 4096, 20_000, -4096, -1])
def test_a_truncated_tape_is_refused(path: Path, kept: int, read_only: bool) -> None:
    new(path)
    os.truncate(path, kept % path.stat().st_size)
    with pytest.raises(UserError, match=r"damaged|not a tape") as caught:
        Tape.open(path, read_only=read_only)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_an_empty_file_becomes_a_tape_only_when_written_to(path: Path) -> None:
    path.touch()
    with pytest.raises(UserError, match="not a tape"):
        Tape.open(path, read_only=True)
    Tape.open(path).close()
    Tape.open(path, read_only=True).close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE completions SET tokens = x'00'",
        "UPDATE completions SET text = CAST(x'ff' AS TEXT)",
        "UPDATE completions SET finish = 'done'",
        "UPDATE completions SET prompt_tokens = -1",
        "UPDATE completions SET decode_seconds = 9e999",
        "UPDATE completions SET record = 'x'",
    ],
)
def test_a_damaged_row_is_an_error_and_no_completion(path: Path, damage: str) -> None:
    new(path)
    change(path, damage)
    with Tape.open(path, read_only=True) as tape, pytest.raises(UserError, match="damaged") as caught:
        tape.get(key_of("prompt 7"))
    assert str(path) in str(caught.value)


def test_damage_elsewhere_is_an_error_too(path: Path) -> None:
    new(path)
    change(path, "UPDATE prompts SET deflated = (SELECT deflated FROM prompts ORDER BY digest LIMIT 1)")
    change(path, "UPDATE cards SET card = '{'")
    change(path, "UPDATE completions SET record = '{}' WHERE created = 40")
    with Tape.open(path, read_only=True) as tape:
        uses: tuple[Callable[[], object], ...] = (
            lambda: [tape.prompt(prompt_digest(f"prompt {n}")) for n in range(2)],
            lambda: tape.card("m"),
            lambda: list(tape.keys()),
        )
        for use in uses:
            with pytest.raises(UserError, match="damaged") as caught:
                use()
            assert str(path) in str(caught.value)


def test_overwritten_pages_are_an_error(path: Path) -> None:
    new(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))
    with Tape.open(path, read_only=True) as tape, pytest.raises(UserError, match="damaged"):
        tape.get(key_of("prompt 7"))


# reading only


def test_a_read_only_tape_takes_nothing_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    new(path)
    path.with_name("tape.sqlite.lock").unlink()
    before = path.read_bytes()
    with Tape.open(path, read_only=True) as tape:
        assert tape.get(key_of("prompt 7")) == completion_of(7)
        for use in (lambda: put(tape, 99), lambda: tape.put_card("m", {}), lambda: tape.flight(key_of("x"))):
            with pytest.raises(RuntimeError, match="reading only"):
                use()
        assert os.listdir(tmp_path) == ["tape.sqlite"]  # noqa: PTH208
    assert path.read_bytes() == before


@pytest.fixture
def locked_folder() -> Iterator[Path]:
    """A folder that everyone may read; whoever wants to stop writers takes the write permission away."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_a_tape_is_read_without_the_right_to_write(locked_folder: Path) -> None:
    new(locked_folder / "tape")
    (locked_folder / "tape").chmod(0o444)
    locked_folder.chmod(0o555)
    assert finish(start("read", locked_folder / "tape", "prompt 7")) == completion_of(7).canonical()


def leave_journal(path: Path) -> None:
    """Kills a writer that has half a transaction in the file."""
    new(path)
    writer = start("spill", path)
    assert ready(writer) == "ready"
    kill(writer)
    assert path.with_name(path.name + "-journal").stat().st_size > 0


def test_a_killed_transaction_is_undone_for_a_reader(path: Path, tmp_path: Path) -> None:
    new(tmp_path / "whole")
    leave_journal(path)
    with Tape.open(path, read_only=True) as tape, Tape.open(tmp_path / "whole", read_only=True) as whole:
        assert tape.digest() == whole.digest()
    assert not path.with_name(path.name + "-journal").exists()


def test_a_killed_transaction_is_undone_in_a_copy_that_has_the_journal(path: Path, tmp_path: Path) -> None:
    leave_journal(path)
    (tmp_path / "copy").mkdir()
    for name in (path.name, path.name + "-journal"):
        shutil.copy(tmp_path / name, tmp_path / "copy" / name)
    with Tape.open(tmp_path / "copy" / path.name) as tape:
        assert tape.get(key_of("prompt 7")) == completion_of(7)
        assert len(tape) == 40


def test_a_killed_transaction_that_may_not_be_undone_is_an_error(locked_folder: Path) -> None:
    leave_journal(locked_folder / "tape")
    for name in ("tape", "tape-journal"):
        (locked_folder / name).chmod(0o444)
    locked_folder.chmod(0o555)
    reader = start("read", locked_folder / "tape", "prompt 7")
    assert reader.communicate("go\n")[0].strip() == (
        f"{locked_folder / 'tape'}: its writer was killed and left a journal; open the tape once where it is writable"
    )


def test_a_file_that_cannot_grow_costs_that_row_alone(path: Path) -> None:
    new(path)
    assert finish(start("fill", path)).splitlines() == [str(path), "None", "True"]
    with Tape.open(path) as tape:
        assert len(tape) == 41
        assert tape.get(key_of("prompt 7")) == completion_of(7)
