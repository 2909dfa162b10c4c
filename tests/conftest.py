"""Fixtures that more than one test module uses."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from runners.gateway.opening import calm_threads
from tests.tiny_gguf import Arch, write

calm_threads()

# A shell's background job ignores SIGINT, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, however busy the machine is.
settings.register_profile("tripbench", deadline=None, derandomize=True)
settings.load_profile("tripbench")


@pytest.fixture(scope="session", autouse=True)
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the harness' runtime, started by tests, unpacks its 2,700 files: once, not once a test."""
    folder = tmp_path_factory.mktemp("unpacked")
    os.environ["PKG_NATIVE_CACHE_PATH"] = str(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[Arch, Path]:
    """A tiny random-weight GGUF of each kind of memory."""
    folder = tmp_path_factory.mktemp("tiny")
    archs: tuple[Arch, ...] = ("llama", "mamba", "hybrid", "swa", "encoder", "embedding")
    return {arch: write(folder / f"{arch}.gguf", arch, context_length=2048) for arch in archs}


ROWS = {
    "tests/runners/test_cli_replay.py::test_expected_decisions": "expected.json, tripbench replay",
    "tests/guards/plugins/test_core.py::test_expected_decisions": "expected.json, core.js",
    "tests/runners/test_reports.py::test_decisions_through_the_command": "reports, tripbench replay",
    "tests/guards/plugins/test_reports.py::test_pinned_decisions": "reports, core.js",
    "tests/guards/plugins/test_reports.py::test_the_same_as_in_python": "reports, core.js and Python with all configs",
    "tests/guards/plugins/test_equal.py::test_the_same_decisions_on_generated_traces": "generated, core.js and Python",
}
"""Tests that replay traces, and what they replay by what; one row a test, or as many as its property `rows` says."""


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """How many traces passed through the guards of either language, each with a guard and a configuration."""
    counted = dict.fromkeys(ROWS.values(), 0)
    for report in terminalreporter.getreports("passed"):
        told = ROWS.get(report.nodeid.partition("[")[0])
        if told is not None and report.when == "call":
            counted[told] += dict(report.user_properties).get("rows", 1)
    if any(counted.values()):
        terminalreporter.section("rows of traces that passed")
        for told, count in ((told, count) for told, count in counted.items() if count):
            terminalreporter.write_line(f"{count:6} {told}")
