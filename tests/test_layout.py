"""The house: what may import what, what is pinned, and what the Makefile and the setup promise."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"guards", "scenarios", "runners", "results"}
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def imported(package: str) -> set[str]:
    """The top-level modules that the files of a package import."""
    names: set[str] = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names


def requirements() -> dict[str, list[str]]:
    """Each pinned package with the lines that pin it."""
    found: dict[str, list[str]] = {}
    for block in re.split(r"\n(?=\S)", CONSTRAINTS):
        if not block.startswith("#"):
            found.setdefault(re.split(r"[=\s]", block)[0], []).append(block)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!;\[]", name)[0]).lower()


def test_four_packages_stand_at_the_top():
    for package in PACKAGES:
        assert (ROOT / package / "__init__.py").is_file()


def test_guards_import_nothing_of_the_others():
    assert imported("guards") & (PACKAGES - {"guards"}) == set()


@pytest.mark.parametrize("package", sorted(PACKAGES - {"runners"}))
def test_nothing_imports_runners(package):
    assert "runners" not in imported(package)


def test_all_dependencies_are_pinned():
    wanted = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    assert {normal(each) for each in wanted} <= set(requirements())


def test_every_pin_is_exact_and_has_hashes():
    for name, lines in requirements().items():
        for block in lines:
            assert re.match(rf"{re.escape(name)}==\S+( ; [^\\]+)? \\\n", block), block[:80]
            assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), name


def test_constraints_hold_no_address_and_no_option_but_hashes():
    assert "://" not in CONSTRAINTS
    assert set(re.findall(r"(?<!\S)-{1,2}[a-z-]+", CONSTRAINTS)) == {"--hash"}


def test_versions_that_issues_name():
    pins = requirements()
    assert pins["llama-cpp-python"][0].startswith("llama-cpp-python==0.3.36 ")
    assert pins["deepseek-harness-sdk"][0].startswith("deepseek-harness-sdk==0.2.1rc2 ")
    assert pins["deepseek-harness-runtime-bin"][0].startswith("deepseek-harness-runtime-bin==0.2.1rc2 ")


def test_setup_reads_constraints_as_pip_does():
    """Its blocks, put together again, are the file without comments."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from setup_env import blocks
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert set(blocks(CONSTRAINTS)) == set(requirements())
    kept = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    assert sorted("".join(blocks(CONSTRAINTS).values()).splitlines()) == sorted(kept)


def test_make_alone_lists_every_target_with_a_line():
    done = subprocess.run(["make", "-C", str(ROOT), "-s"], capture_output=True, text=True, check=True, timeout=60)
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line[:1].isalpha()}
    assert {"help", "setup", "eval", "smoke", "report", "test", "lint", "bench", "bench-equality", "mutation"} <= set(
        listed
    )
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) - {"python-check"} == set(listed) - {"make"}


def test_old_python_is_one_clear_line(tmp_path):
    fake = tmp_path / "python3.9"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    command = ["make", "-C", str(ROOT), "-s", "setup", f"PYTHON={fake}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "python3.9 is not Python 3.11 or newer: name one with make PYTHON=" in done.stderr
