"""The doctor: it names every part, and what it cannot find is a finding, never an error."""

import json
import os
import platform
import subprocess
import sys

import pytest

from runners.doctor import Finding, examine
from runners.models import catalog

PARTS = {"python", "tripbench", "llama.cpp", "hardware", "harness sdk", "harness runtime", "docker", "node", "cache"}


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from runners.cli import main; main()"
    command = [sys.executable, "-c", code, "doctor", *arguments]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=120
    )


def by_part(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.part: finding for finding in findings}


def test_every_part_is_named_once(tmp_path):
    found = examine(tmp_path)
    names = [finding.part for finding in found]
    assert len(set(names)) == len(names)
    assert set(names) >= PARTS | {f"model {name}" for name in catalog.builtin().models}


def test_what_runs_these_tests_is_found(tmp_path):
    found = by_part(examine(tmp_path))
    assert found["python"].details["version"] == platform.python_version()
    assert found["hardware"].details["memory_bytes"] > 0
    assert found["llama.cpp"].status == "ok"
    assert "CPU" in found["llama.cpp"].details["system_info"]
    assert found["harness sdk"].details["version"] == "0.2.1rc2"
    assert found["harness runtime"].details["version"] == "0.2.1rc2"


def test_ggml_names_its_version_and_at_least_the_cpu(tmp_path):
    found = by_part(examine(tmp_path))
    assert found["llama.cpp"].details["ggml"] != "unknown"
    assert found["llama.cpp"].details["commit"] != "unknown"
    assert "CPU" in [device["name"] for device in found["gpu offload"].details["devices"]]


def test_empty_cache_says_what_to_run_and_is_not_made(tmp_path):
    found = by_part(examine(tmp_path / "none"))
    default = catalog.builtin().default
    assert found[f"model {default}"].status == "missing"
    assert found[f"model {default}"].advice == f"run: tripbench models pull {default}"
    assert not (tmp_path / "none").exists()


def test_short_model_says_expected_and_found(tmp_path):
    entry = catalog.builtin().find("smollm2-135m")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / entry.file).write_bytes(b"GGUF")
    found = by_part(examine(tmp_path))["model smollm2-135m"]
    assert found.status == "missing"
    assert found.text == f"wrong size: expected {entry.size} bytes, found 4"


def test_cache_that_is_a_file_is_a_finding(tmp_path):
    (tmp_path / "file").touch()
    assert by_part(examine(tmp_path / "file"))["cache"].status == "missing"


def test_without_any_command_on_the_path_docker_and_node_are_missing(tmp_path):
    done = doctor("--json", "--cache", str(tmp_path), PATH=str(tmp_path))
    found = {finding["part"]: finding for finding in json.loads(done.stdout)}
    assert (found["docker"]["status"], found["node"]["status"]) == ("missing", "missing")
    assert found["docker"]["advice"]
    assert not found["docker"]["required"]


@pytest.mark.parametrize("output", ["exit 3", "echo nonsense", "echo 'null'", "echo '[1]'", "echo '{\"Client\": 3}'"])
def test_odd_docker_is_a_finding(tmp_path, output):
    command = tmp_path / "docker"
    command.write_text(f"#!/bin/sh\n{output}\n")
    command.chmod(0o755)
    done = doctor("--json", "--cache", str(tmp_path), PATH=str(tmp_path))
    found = {finding["part"]: finding for finding in json.loads(done.stdout)}
    assert found["docker"]["status"] == "missing"
    assert "no engine answers" in found["docker"]["text"]


def test_exit_status_says_whether_a_required_part_is_missing(tmp_path):
    done = doctor("--json", "--cache", str(tmp_path))
    missing = [each for each in json.loads(done.stdout) if each["required"] and each["status"] == "missing"]
    assert done.returncode == (1 if missing else 0)


def test_text_has_a_line_for_each_finding(tmp_path):
    text = doctor("--cache", str(tmp_path)).stdout
    data = json.loads(doctor("--cache", str(tmp_path), "--json").stdout)
    assert [line.split("  ")[0] for line in text.splitlines()] == [finding["part"] for finding in data]
