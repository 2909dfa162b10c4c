"""The tape among threads, tasks and processes, some of which are killed."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from guards.errors import UserError
from runners.gateway.tape import Completion, Tape
from tests.runners.gateway.tape_actors import completion_of, finish, key_of, kill, prompt_of, ready, start

KILLS = 50
KILLS_OF_A_TAPE = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.sqlite"


def assert_whole(path: Path) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_a_tape_survives_a_writer_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    choice = random.Random(20250101)
    for seed in range(KILLS):
        path = tmp_path / f"tape-{seed // KILLS_OF_A_TAPE}.sqlite"
        writer = start("write", path, seed)
        assert ready(writer) == "ready"
        said = [ready(writer) for _ in range(choice.randrange(4))]
        time.sleep(choice.random() * 0.02)
        said += kill(writer)
        acknowledged = len(said)
        assert said == [str(number) for number in range(acknowledged)]
        with Tape.open(path) as tape:
            for number in range(acknowledged):
                prompt = prompt_of(seed, number)
                assert tape.get(key_of(prompt)) == completion_of(number)
                assert tape.prompt(key_of(prompt).prompt) == prompt
            unacknowledged = key_of(prompt_of(seed, acknowledged))
            assert tape.get(unacknowledged) in (None, completion_of(acknowledged))
            for number in range(acknowledged + 2):
                with tape.flight(key_of(prompt_of(seed, number)), timeout_seconds=0) as flight:
                    assert number >= acknowledged or flight.stored == completion_of(number)
            if seed % KILLS_OF_A_TAPE == KILLS_OF_A_TAPE - 1:
                for key in tape.keys():  # noqa: SIM118
                    assert tape.get(key) is not None
                    assert tape.prompt(key.prompt) is not None
        assert_whole(path)
        assert not path.with_name(path.name + "-journal").exists()
        if seed % KILLS_OF_A_TAPE == KILLS_OF_A_TAPE - 1:
            path.unlink()


@pytest.mark.parametrize("number", [2, 4])
def test_processes_that_want_one_key_decode_it_once(path: Path, tmp_path: Path, number: int) -> None:
    counter = tmp_path / "decodes"
    racers = [start("race", path, counter, mark) for mark in range(number)]
    assert {ready(racer) for racer in racers} == {"ready"}
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    replies = {finish(racer) for racer in racers}
    assert counter.read_text() == "decoded\n"
    with Tape.open(path) as tape:
        stored = tape.get(key_of("race"))
    assert stored is not None
    assert replies == {stored.canonical()}


def test_processes_that_open_a_new_tape_at_once_all_get_it(path: Path) -> None:
    actors = [start("create", path, mark) for mark in range(4)]
    assert {ready(actor) for actor in actors} == {"ready"}
    for actor in actors:
        assert actor.stdin is not None
        actor.stdin.write("go\n")
        actor.stdin.flush()
    for actor in actors:
        finish(actor)
    with Tape.open(path) as tape:
        assert [tape.get(key_of(str(mark))) for mark in range(4)] == [completion_of(mark) for mark in range(4)]


@pytest.mark.parametrize("tapes", [1, 2])
def test_threads_that_want_one_key_decode_it_once(path: Path, tapes: int) -> None:
    """Through one tape, and through two that are open on one file."""
    opened = [Tape.open(path) for _ in range(tapes)]
    gate = threading.Barrier(8)
    decoded: list[int] = []
    replies: list[Completion] = []

    def want(mark: int) -> None:
        tape = opened[mark % tapes]
        gate.wait()
        with tape.flight(key_of("race")) as flight:
            stored = flight.stored
            if stored is None:
                decoded.append(mark)
                time.sleep(0.05)
                stored = flight.put("race", completion_of(mark))
        replies.append(stored)

    threads = [threading.Thread(target=want, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(decoded) == 1
    assert replies == [completion_of(decoded[0])] * 8
    for tape in opened:
        tape.close()


def test_threads_store_and_read_at_once(path: Path) -> None:
    found: list[tuple[int, Completion | None]] = []
    with Tape.open(path) as tape:

        def work(first: int) -> None:
            for number in range(first, first + 20):
                tape.put(key_of(str(number)), str(number), completion_of(number))
                found.append((number, tape.get(key_of(str(number)))))

        threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 160, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(number for number, _ in found) == list(range(160))
        assert all(completion == completion_of(number) for number, completion in found)
        assert len(tape) == 160


def test_tapes_of_one_process_do_not_release_each_others_flights(path: Path) -> None:
    with Tape.open(path) as one:
        held = one.try_flight(key_of("a"))
        assert held is not None
        with Tape.open(path) as other:
            assert other.try_flight(key_of("a")) is None
            assert other.try_flight(key_of("b")) is not None
            assert one.try_flight(key_of("b")) is None
        assert one.try_flight(key_of("b")) is not None, "closing the other tape ended its flights"
        assert one.try_flight(key_of("a")) is None, "and no flight of this one"
        holder = start("hold", path)
        assert ready(holder) == "ready"
        assert one.try_flight(key_of("held")) is None
        held.release()
        held.release()
        assert one.try_flight(key_of("a")) is not None
        finish(holder)
        assert one.try_flight(key_of("held")) is not None


def test_a_flight_of_a_killed_process_is_free(path: Path) -> None:
    holder = start("hold", path)
    assert ready(holder) == "ready"
    with Tape.open(path) as tape:
        with pytest.raises(TimeoutError, match=key_of("held").digest()):
            tape.flight(key_of("held"), timeout_seconds=0.02)
        kill(holder)
        with tape.flight(key_of("held"), timeout_seconds=0) as flight:
            assert flight.stored is None


def test_a_flight_ends_with_an_exception(path: Path) -> None:
    with Tape.open(path) as tape:
        with pytest.raises(ZeroDivisionError), tape.flight(key_of("a")):
            raise ZeroDivisionError
        assert tape.try_flight(key_of("a")) is not None


def test_a_flight_sees_what_was_stored_before_it_began(path: Path) -> None:
    with Tape.open(path) as tape:
        with tape.flight(key_of("a")) as flight:
            assert flight.stored is None
            flight.put("a", completion_of(1))
        with tape.flight(key_of("a")) as flight:
            assert flight.stored == completion_of(1)
            assert flight.put("a", completion_of(2)) == completion_of(1)


def test_a_flight_to_a_damaged_row_leaves_no_lock(path: Path) -> None:
    async def fly(tape: Tape) -> None:
        async with tape.flight_async(key_of("a")):
            raise AssertionError

    with Tape.open(path) as tape:
        tape.put(key_of("a"), "a", completion_of(1))
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE completions SET finish = 'done'")
        connection.close()
        for _ in range(2):
            with pytest.raises(UserError, match="damaged"):
                tape.flight(key_of("a"), timeout_seconds=0)
            with pytest.raises(UserError, match="damaged"):
                asyncio.run(asyncio.wait_for(fly(tape), 10))


def test_tasks_wait_without_holding_up_the_loop(path: Path) -> None:
    async def want(tape: Tape, decoded: list[int], mark: int) -> Completion:
        async with tape.flight_async(key_of("race")) as flight:
            if flight.stored is None:
                decoded.append(mark)
                await asyncio.sleep(0.02)
                return flight.put("race", completion_of(mark))
            return flight.stored

    async def everything(tape: Tape, decoded: list[int]) -> list[Completion]:
        async with tape.flight_async(key_of("other")):
            waiting = asyncio.create_task(tape.flight_async(key_of("other")).__aenter__())
            replies = await asyncio.gather(*(want(tape, decoded, mark) for mark in range(8)))
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        with tape.flight(key_of("other"), timeout_seconds=0) as flight:
            assert flight.stored is None, "a cancelled wait leaves no lock"
        return replies

    with Tape.open(path) as tape:
        decoded: list[int] = []
        assert asyncio.run(everything(tape, decoded)) == [completion_of(decoded[0])] * 8
        assert len(decoded) == 1


def test_a_task_cancelled_in_flight_lets_the_next_one_go(path: Path) -> None:
    async def fly(tape: Tape, began: asyncio.Event) -> None:
        async with tape.flight_async(key_of("a")):
            began.set()
            await asyncio.Event().wait()

    async def everything(tape: Tape) -> None:
        began = asyncio.Event()
        task = asyncio.create_task(fly(tape, began))
        await began.wait()
        assert tape.try_flight(key_of("a")) is None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tape.try_flight(key_of("a")) is not None

    with Tape.open(path) as tape:
        asyncio.run(everything(tape))


def test_a_forked_child_must_open_its_own(path: Path) -> None:
    with Tape.open(path) as tape:
        flight = tape.flight(key_of("a"))
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: tape.get(key_of("a")), lambda: tape.try_flight(key_of("b"))):
                try:
                    use()
                except RuntimeError:
                    refused += 1
            flight.release()
            tape.close()
            own = Tape.open(path)
            held = own.try_flight(key_of("a")) is None
            own.put(key_of("c"), "c", completion_of(3))
            os._exit(10 * refused + held)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 21
        assert tape.get(key_of("c")) == completion_of(3)
        assert tape.try_flight(key_of("a")) is None
