"""Rows made from numbers, and processes that use a tape: `python -m tests.runners.gateway.tape_actors NAME PATH ...`.

Each actor prints a line when it is ready and goes on when it reads one.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import sqlite3
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from guards.errors import UserError
from runners.gateway.tape import Completion, Tape, TapeKey
from runners.gateway.tape_key import prompt_digest

ROOT = Path(__file__).parents[3]

SAMPLER: dict[str, Any] = {"temperature": 0.7, "top_k": 40, "dry_sequence_breakers": ["\n", ":"], "min_p": 0.05}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(prompt: str, /, **changes: Any) -> TapeKey:
    """A key for that prompt."""
    values: dict[str, Any] = {
        "model": sha256("model"),
        "engine": "llama-cpp-python 0.3.36",
        "backend": "cpu",
        "n_ctx": 4096,
        "kv_type": "f16",
        "deterministic": True,
        "template": sha256("template"),
        "dialect": "qwen-coder/1",
        "decode_mode": "lazy",
        "grammar": sha256("grammar"),
        "sampler": SAMPLER,
        "max_tokens": 512,
        "stops": ("</tool_call>",),
        "prompt": prompt_digest(prompt),
        "seed": 0,
        "agent": 0,
        "occurrence": 0,
    }
    return TapeKey(**(values | changes))


def completion_of(number: int) -> Completion:
    """A completion that is another for each number."""
    tokens = tuple(random.Random(number).randrange(150_000) for _ in range(number % 40))
    return Completion(
        tokens, f"reply {number} \u00e9\U0001f600", "stop", None, 100 + number, 0.25 * number, 0.5, number
    )


@lru_cache(maxsize=8)
def prompt_of(seed: int, number: int) -> str:
    """The prompt of a writer's row. Of every four, one exceeds SQLite's page cache: its pages precede the commit."""
    length = 4_000_000 if number % 4 == 1 else 2_000
    return f"{seed}/{number}: " + random.Random(f"{seed}/{number}").randbytes(length // 2).hex()


def start(name: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Starts an actor with pipes to its standard input and output."""
    command = [sys.executable, "-m", "tests.runners.gateway.tape_actors", name, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stdin=pipe, stdout=pipe, text=True)


def ready(actor: subprocess.Popen[str]) -> str:
    """Waits for the actor's line."""
    assert actor.stdout is not None
    return actor.stdout.readline().strip()


def finish(actor: subprocess.Popen[str]) -> str:
    """Lets the actor go on, and gives what it prints until it ends well."""
    output, _ = actor.communicate("go\n")
    assert actor.returncode == 0
    return output.strip()


def kill(actor: subprocess.Popen[str]) -> list[str]:
    """SIGKILL; gives the lines that were not read yet."""
    actor.kill()
    output, _ = actor.communicate()
    return output.split()


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())  # in one piece and at once, so that a kill leaves no half line


def write(path: Path, seed: str) -> None:
    """Stores row after row and says the number of each once it is stored."""
    say("ready")
    with Tape.open(path) as tape:
        for number in range(1_000):
            prompt = prompt_of(int(seed), number)
            with tape.flight(key_of(prompt)) as flight:
                flight.put(prompt, completion_of(number))
                say(number)


def race(path: Path, counter: Path, mark: str) -> None:
    """Decodes one key if nobody else does, notes that in the counter file, and says what the tape has."""
    with Tape.open(path) as tape:
        say("ready")
        sys.stdin.readline()
        with tape.flight(key_of("race")) as flight:
            stored = flight.stored
            if stored is None:
                with counter.open("a") as file:
                    file.write("decoded\n")
                time.sleep(0.2)
                stored = flight.put("race", completion_of(int(mark)))
        say(stored.canonical())


def create(path: Path, mark: str) -> None:
    """Opens the tape when told to, and stores a row at once."""
    say("ready")
    sys.stdin.readline()
    with Tape.open(path) as tape:
        tape.put(key_of(mark), mark, completion_of(int(mark)))


def hold(path: Path) -> None:
    """Takes a flight and keeps it."""
    with Tape.open(path) as tape, tape.flight(key_of("held")):
        say("ready")
        sys.stdin.readline()


def spill(path: Path) -> None:
    """Writes pages of an open transaction into the file, and waits there."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE completions SET text = 'never committed'")
    connection.execute("INSERT INTO prompts SELECT 'x' || digest, randomblob(100000) FROM prompts")
    say("ready")
    sys.stdin.readline()


def read(path: Path, prompt: str) -> None:
    """Reads a row as a user who may write nothing."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        with Tape.open(path, read_only=True) as tape:
            stored = tape.get(key_of(prompt))
            say("nothing" if stored is None else stored.canonical())
    except UserError as error:
        say(error)


def fill(path: Path) -> None:
    """Meets a file that cannot grow, in the middle of a write, and goes on when it can."""
    with Tape.open(path) as tape:
        big, soft, hard = prompt_of(0, 1), *resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1_000_000, hard))
        try:
            tape.put(key_of(big), big, completion_of(1))
        except OSError as error:
            say(error.filename)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        say(tape.get(key_of(big)))
        tape.put(key_of(big), big, completion_of(1))
        say(tape.get(key_of(big)) == completion_of(1))


def digest() -> None:
    """Says the digest of a key whose sampler is built in an order that hangs on PYTHONHASHSEED."""
    names = list({name for name in SAMPLER})  # noqa: C416
    say(key_of("x", sampler={name: SAMPLER[name] for name in names}).digest())


def main(name: str, *arguments: str) -> None:
    actors: dict[str, Any] = {actor.__name__: actor for actor in (write, race, create, hold, spill, read, fill, digest)}
    actors[name](*(Path(argument) if os.sep in argument else argument for argument in arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
