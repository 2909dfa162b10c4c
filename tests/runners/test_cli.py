"""The command line: exit statuses, one-line errors, data alone on stdout, and a fast start."""

import json
import os
import signal
import subprocess
import sys

import pytest

from runners.cli import run
from runners.models import catalog
from tests.runners.hub_server import Hub, serving

CODE = "from runners.cli import main; main()"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Missing command"),
        (["models"], "Missing command"),
        (["modles"], "No such command"),
        (["models", "pull", "--no-such"], "No such option"),
        (["models", "pull", "--from", "nowhere"], "nowhere"),
        (["models", "pull", "--all", "smollm2-135m"], "names or --all, not both"),
        (["models", "pull", "smollm"], "unknown model 'smollm': did you mean smollm2-135m?"),
        (["models", "verify", "smollm"], "unknown model 'smollm'"),
        (["models", "list", "--cache", __file__], "is not a folder"),
    ],
)
def test_bad_usage_is_one_line_and_2(capsys, arguments, expected):
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tripbench: error: ")
    assert expected in err
    assert err.count("\n") == 1


def test_help_lists_the_groups(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert "models" in out
    assert "doctor" in out


def test_start_imports_nothing_heavy():
    code = "import sys, runners.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"llama_cpp", "numpy", "pydantic", "httpx", "starlette", "uvicorn", "gguf", "mcp", "psutil", "jinja2"}
    assert heavy & set(done.stdout.split()) == set()


def test_list_as_data(capsys, tmp_path):
    assert run(["models", "list", "--json", "--cache", str(tmp_path)]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(catalog.builtin().models)
    assert [name for name, row in rows.items() if row["default"]] == [catalog.builtin().default]
    assert not any(row["cached"] for row in rows.values())


def test_list_as_text_marks_the_default(capsys, tmp_path):
    assert run(["models", "list", "--cache", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.endswith("default")] == [catalog.builtin().default]


def test_cache_folder_from_the_environment(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIPBENCH_CACHE", str(tmp_path / "here"))
    assert run(["models", "list", "--json"]) == 0
    assert all(row["path"].startswith(str(tmp_path / "here")) for row in json.loads(capsys.readouterr().out))


def test_verify_of_nothing_is_not_a_success(capsys, tmp_path):
    assert run(["models", "verify", "--cache", str(tmp_path)]) == 1
    assert "run: tripbench models pull" in capsys.readouterr().err


def test_verify_says_missing_short_and_altered(capsys, tmp_path):
    entries = [catalog.builtin().find(name) for name in ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / entries[0].file).write_bytes(b"GGUF")
    with (tmp_path / "models" / entries[1].file).open("wb") as file:
        file.truncate(entries[1].size)  # a sparse file: the right size, other bytes
    arguments = ["models", "verify", "--cache", str(tmp_path)]
    assert run([*arguments, *(entry.name for entry in entries)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"smollm2-135m: wrong size: expected {entries[0].size} bytes, found 4" in lines[0]
    assert f"qwen2.5-coder-0.5b: altered: expected sha256 {entries[1].sha256}, found " in lines[1]
    assert lines[2].startswith("qwen2.5-coder-1.5b: missing: ")


def test_pull_from_a_hub_with_other_bytes_is_1(capsys, tmp_path, monkeypatch):
    with serving(Hub(b"GGUF, but another one")) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        assert run(["models", "pull", "smollm2-135m", "--from", "hub", "--cache", str(tmp_path)]) == 1
    assert "expected 98362432 bytes, found 21" in capsys.readouterr().err


def test_interrupt_is_130(tmp_path):
    """SIGINT while the command waits for another process's lock."""
    from runners.models.cache import Cache

    command = [sys.executable, "-c", CODE, "models", "pull", "smollm2-135m", "--cache", str(tmp_path)]
    with Cache(tmp_path).lock("smollm2-135m", print):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ.copy())
        assert process.stderr is not None
        assert "waiting" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "tripbench: interrupted\n"
