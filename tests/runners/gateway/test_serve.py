"""`tripbench serve` as a process: sockets, signals, two processes on one tape, and what it says of bad input."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from gguf import GGUFWriter

from runners.cli import run
from runners.gateway.server import LOOPBACK, bind_port
from runners.gateway.tape import Tape
from runners.models import catalog
from tests.runners.gateway.serving import COMMAND, PATIENCE, ROOT, Command, assembled, commanding, wait_for
from tests.runners.gateway.test_app import HI, await_start, long_call, raw_request
from tests.tiny_gguf import Arch, write

SMALL = ["--n-ctx", "2048", "--slots", "2", "--threads", "1"]
ASK: dict[str, Any] = {"model": "any", "max_tokens": 20, "messages": HI}
HOT: dict[str, Any] = {"sampler": {"temperature": 1.0}}


@pytest.fixture
def gguf(tiny: dict[Arch, Path]) -> str:
    return str(tiny["llama"])


def serve_tiny(gguf: str, tmp_path: Path, *more: str | Path) -> Command:
    return Command("--model", gguf, "--cache", tmp_path / "cache", *SMALL, *more)


def rest(connection: socket.socket) -> bytes:
    """All that still comes, to the end."""
    with connection:
        pieces = list(iter(lambda: connection.recv(65536), b""))
    return b"".join(pieces)


# -- a server and its end --------------------------------------------------------------------------------------------


def test_a_unix_socket_beside_the_port(gguf, tmp_path):
    path = tmp_path / "s"
    with commanding("--model", gguf, "--cache", tmp_path / "cache", "--socket", path, *SMALL) as service:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=PATIENCE) as client:
            assert client.put("http://any/e/e", json=HOT).status_code == 201
            over_socket = client.post("http://any/e/e/v1/messages", json=ASK).json()
        over_port = service.post(ASK, "e").json()
        assert over_port["usage"]["input_tokens"] == over_socket["usage"]["input_tokens"] == 21
        assert [step["step"] for step in service.summary("e")["steps"]] == [0, 1]
    assert not path.exists()


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(gguf, tmp_path, capfd):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with commanding("--model", gguf, "--cache", tmp_path / "cache", "--socket", path, *SMALL):
        assert run(["serve", "--model", gguf, "--port", "0", "--socket", str(path)]) == 2
        assert "is in use; stop what uses it" in capfd.readouterr().err
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=PATIENCE) as client:
            assert client.get("http://any/healthz").json()["status"] == "ok"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_the_midst_of_streams(gguf, tmp_path, number):
    """With one stream being decoded, two requests waiting for the slot and a tape: each client is told, and what was
    answered before is on the tape."""
    tape, path = tmp_path / "tape.sqlite", tmp_path / "s"
    command = serve_tiny(gguf, tmp_path, "--tape", tape, "--socket", path, "--slots", "1")
    service = command.service
    service.open("e")
    assert service.post(ASK, "e").status_code == 200
    streams = [raw_request(service, long_call(f"t{at}", model="llama", stream=True)) for at in range(2)]
    whole = raw_request(service, long_call("w", model="llama"))
    for stream in streams:
        await_start(stream)
    wait_for(lambda: service.health()["waiting"] == 2)
    assert command.end(number) == (0, "")
    for connection in (*streams, whole):
        assert b'"error":{"type":"api_error","message":"the server was stopped"}' in rest(connection)
    assert not path.exists()
    assert sorted(each.name for each in tmp_path.iterdir() if "tape" in each.name) == [tape.name, tape.name + ".lock"]
    with Tape.open(tape, read_only=True) as stored:
        assert len(stored) == 1


def test_a_second_signal_does_not_hang_it(gguf, tmp_path):
    command = serve_tiny(gguf, tmp_path)
    stream = raw_request(command.service, long_call("t", model="llama", stream=True))
    await_start(stream)
    command.process.send_signal(signal.SIGTERM)
    command.process.send_signal(signal.SIGTERM)
    status, err = command.end(signal.SIGTERM)
    assert status in (0, -signal.SIGTERM)
    assert err == ""
    stream.close()


def test_an_interrupt_while_it_starts_leaves_no_socket(tmp_path):
    """The model is the one that takes a while: a named one whose digest must be taken first."""
    entry = catalog.builtin().find("smollm2-135m")
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / entry.file).open("wb") as file:
        file.truncate(entry.size)
    path = tmp_path / "s"
    arguments = ["serve", "--port", "0", "--socket", str(path), "--model", entry.name, "--cache", str(tmp_path)]
    process = subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: process.poll() is not None or path.exists())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "tripbench: interrupted\n") or "was altered" in err
    assert not path.exists()


# -- two processes on one tape ---------------------------------------------------------------------------------------


def test_two_processes_with_one_tape_decode_once(gguf, tmp_path):
    """The same episodes in both, at the same time: every completion is decoded by one of them, and both send the same
    bytes, streamed and not. A third process then has no model, an empty cache, and the same bytes still."""
    tape = tmp_path / "tape.sqlite"
    courses: dict[tuple[int, str], list[str]] = {}
    decoded: dict[tuple[int, str], list[bool]] = {}
    asks = [ASK | {"max_tokens": 150, "stream": at % 2 == 1} for at in range(6)]
    asks.append(ASK | {"messages": [{"role": "user", "content": "a" * 3000}]})

    def play(service: Any, number: int, name: str) -> None:
        service.open(name, **HOT, seed=len(name))
        answers = [service.post(ask, name) for ask in asks]
        courses[number, name] = [
            "\n".join(line for line in answer.text.split("\n") if not line.startswith(":")) for answer in answers
        ]
        decoded[number, name] = [step["decoded"] for step in service.close(name).json()["steps"]]

    commands = [serve_tiny(gguf, tmp_path, "--tape", tape) for _ in range(2)]
    threads = [
        threading.Thread(target=play, args=(command.service, number, name))
        for number, command in enumerate(commands)
        for name in ("a", "bb")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [command.end() for command in commands] == [(0, ""), (0, "")]
    for name in ("a", "bb"):
        assert courses[0, name] == courses[1, name]
        pairs = list(zip(decoded[0, name], decoded[1, name], strict=True))
        assert [sorted(pair) for pair in pairs] == [[False, True]] * 6
        assert '"usage"' in courses[0, name][0]
        assert assembled(courses[0, name][1])["usage"]["input_tokens"] == 21
        assert "prompt is too long for this model's context window: 3019 tokens > 2047 maximum" in courses[0, name][6]
    environment = {"TRIPBENCH_CACHE": str(tmp_path / "empty")}
    with commanding("--model", "llama", "--tape", tape, "--tape-only", env=environment) as service:
        for name in ("a", "bb"):
            play(service, 2, name)
            assert courses[2, name] == courses[0, name]
            assert decoded[2, name] == [False] * 6
        service.open("miss")
        answer = service.post(ASK, "miss")
        assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")
        assert "episode miss, agent 0, step 0" in answer.json()["error"]["message"]
        assert service.summary("miss")["failure"].startswith("TapeMiss: ")
    assert not (tmp_path / "empty").exists()


# -- bad input -------------------------------------------------------------------------------------------------------


def bare_gguf(path: Path) -> Path:
    """A GGUF with no tensors and nearly no keys."""
    writer = GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def altered(tmp_path: Path) -> list[str]:
    entry = catalog.builtin().find("smollm2-135m")
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / entry.file).open("wb") as file:
        file.truncate(entry.size)
    return ["--model", entry.name, "--cache", str(tmp_path)]


def short(tmp_path: Path) -> list[str]:
    entry = catalog.builtin().find("smollm2-135m")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / entry.file).write_bytes(b"GGUF")
    return ["--model", entry.name, "--cache", str(tmp_path)]


def text_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def cut(path: Path, source: str) -> Path:
    data = Path(source).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


Make = Callable[[Path, dict[Arch, Path]], list[Any]]

BAD: dict[str, tuple[Make, str]] = {
    "unknown model": (lambda _, __: ["--model", "smollm"], "unknown model 'smollm': did you mean smollm2-135m?"),
    "no such file": (lambda tmp, _: ["--model", tmp / "no.gguf"], "no.gguf"),
    "a directory": (lambda tmp, _: ["--model", tmp], "tmp"),
    "a text file": (lambda tmp, _: ["--model", text_file(tmp / "t.gguf", "hello")], "t.gguf"),
    "an empty file": (lambda tmp, _: ["--model", text_file(tmp / "t.gguf", "")], "t.gguf"),
    "a truncated model": (lambda tmp, tiny: ["--model", cut(tmp / "c.gguf", str(tiny["llama"]))], "c.gguf"),
    "a model of nothing": (lambda tmp, _: ["--model", bare_gguf(tmp / "b.gguf")], "b.gguf"),
    "an encoder": (lambda _, tiny: ["--model", tiny["encoder"]], "encoder.gguf"),
    "an embedding model": (lambda _, tiny: ["--model", tiny["embedding"]], "embedding.gguf"),
    "a model that was altered": (lambda tmp, _: altered(tmp), "was altered: expected sha256 "),
    "a model that is short": (lambda tmp, _: short(tmp), "wrong size: expected "),
    "a model that was not pulled": (
        lambda tmp, _: ["--model", "smollm2-135m", "--cache", tmp],
        "run: tripbench models pull smollm2-135m",
    ),
    "a small context": (lambda _, tiny: ["--model", tiny["llama"]], "--n-ctx 8192 is more than the model's context of"),
    "too large a window": (lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "2049"], "--n-ctx 2049 is more than"),
    "options of an engine with a tape alone": (
        lambda folder, _: ["--model", "m", "--tape", folder / "t", "--tape-only", "--n-ctx", "512"],
        "--n-ctx has no meaning with --tape-only",
    ),
    "a sampler beyond C": (
        lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--sampler", f"top_k={2**40}"],
        "--sampler top_k",
    ),
    "a tiny window": (lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "5"], "--n-ctx 5: "),
    "no cells": (
        lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--cells", "100"],
        "--cells 100 is less than --n-ctx 512",
    ),
    "no slots": (lambda _, tiny: ["--model", tiny["llama"], "--slots", "0"], "--slots 0: "),
    "a window that is no number": (lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "big"], "--n-ctx"),
    "a bad KV type": (
        lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--kv-type", "q99"],
        "--kv-type: 'q99' is not one of f32, f16, ",
    ),
    "a negative seed": (lambda _, tiny: ["--model", tiny["llama"], "--seed", "-1"], "--seed -1: "),
    "a bad decode mode": (lambda _, tiny: ["--model", tiny["llama"], "--decode-mode", "x"], "--decode-mode"),
    "an unknown sampler key": (
        lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--sampler", "temprature=1"],
        "--sampler temprature=1: give KEY=VALUE with KEY one of temperature, ",
    ),
    "a sampler without a value": (
        lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--sampler", "top_p"],
        "--sampler top_p: give KEY=VALUE",
    ),
    "a bad sampler value": (
        lambda _, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--sampler", "top_p=1.5"],
        "--sampler top_p=1.5: ",
    ),
    "no tape to play": (lambda _, tiny: ["--model", tiny["llama"], "--tape-only"], "--tape-only needs --tape PATH"),
    "a tape that is none": (
        lambda tmp, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--tape", text_file(tmp / "t.db", "x" * 5000)],
        "t.db",
    ),
    "a tape that is none, to play": (
        lambda tmp, _: ["--model", "llama", "--tape-only", "--tape", text_file(tmp / "t.db", "x" * 5000)],
        "t.db",
    ),
    "a tape that is not there, to play": (
        lambda tmp, _: ["--model", "llama", "--tape-only", "--tape", tmp / "t.db"],
        "t.db: no such tape",
    ),
    "a tape in no folder": (
        lambda tmp, tiny: ["--model", tiny["llama"], "--n-ctx", "512", "--tape", tmp / "no" / "t.db"],
        "does not exist; make it first",
    ),
    "a tape of another model": (
        lambda tmp, _: ["--model", "llama", "--tape-only", "--tape", _empty_tape(tmp / "t.db")],
        "no completions of model 'llama'; it has: none",
    ),
    "no actor": (lambda tmp, _: ["--model", f"actor:{tmp}/no.json"], "no.json: No such file"),
    "an actor that is no JSON": (
        lambda tmp, _: ["--model", f"actor:{text_file(tmp / 'a.json', '{')}"],
        "a.json: file: Invalid JSON",
    ),
    "an actor with nothing to say": (
        lambda tmp, _: ["--model", f"actor:{text_file(tmp / 'a.json', '{}')}"],
        "a.json: replies: Field required",
    ),
    "an actor with a tape": (
        lambda tmp, _: ["--model", f"actor:{text_file(tmp / 'a.json', '{}')}", "--tape", tmp / "t.db"],
        "actors are not taped",
    ),
    "a port out of range": (lambda _, tiny: ["--model", tiny["llama"], "--port", "70000"], "port 70000 on"),
    "a socket that is a file": (
        lambda tmp, tiny: ["--model", tiny["llama"], "--socket", text_file(tmp / "f", "x")],
        "a file of another kind is there",
    ),
    "a socket in no folder": (lambda tmp, tiny: ["--model", tiny["llama"], "--socket", tmp / "no" / "s"], "no/s: "),
    "a socket with too long a path": (
        lambda tmp, tiny: ["--model", tiny["llama"], "--socket", tmp / ("s" * 200)],
        "s: ",
    ),
}


def _empty_tape(path: Path) -> Path:
    Tape.open(path).close()
    return path


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_and_2(what, tmp_path, tiny, capfd):
    make, expected = BAD[what]
    folder = tmp_path / "tmp"
    folder.mkdir()
    made = [str(argument) for argument in make(folder, tiny)]
    arguments = made if "--port" in made else [*made, "--port", "0"]
    if "--cache" not in made:
        arguments += ["--cache", str(tmp_path / "cache")]
    path = tmp_path / "socket"
    if "--socket" not in made:
        arguments += ["--socket", str(path)]
    assert run(["serve", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("tripbench: error: ")
    assert err.count("\n") == 1
    assert expected in err
    assert not path.exists()


def test_an_occupied_port_is_one_line_and_2_from_the_process_itself(gguf):
    taken = bind_port(0)
    port = str(taken.getsockname()[1])
    command = [*COMMAND, "serve", "--model", gguf, "--port", port]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    taken.close()
    line = f"tripbench: error: port {port} on {LOOPBACK} is in use; stop what uses it or choose another --port\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_a_model_without_a_chat_template_is_refused(tmp_path, capfd):
    """The bytes of a tiny model with the key renamed, so that the template is not found."""
    path = write(tmp_path / "m.gguf", "llama", context_length=512)
    path.write_bytes(path.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_tempXate"))
    assert run(["serve", "--model", str(path), "--port", "0", "--n-ctx", "512", "--cache", str(tmp_path / "c")]) == 2
    assert capfd.readouterr().err.endswith("m.gguf: the GGUF has no chat template; use an instruct model's file\n")
