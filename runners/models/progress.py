"""How a download shows that it goes on: a bar on a terminal, plain lines elsewhere. Everything goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

_STEPS = 10


class Meter(Protocol):
    """One transfer of a known number of bytes."""

    def to(self, done: int) -> None:
        """Sets the bytes done so far; it may go back, where something has to be fetched again."""


class Reporter(Protocol):
    """Where a pull says what it does."""

    def line(self, text: str) -> None:
        """Says one line."""

    def meter(self, label: str, total: int) -> _MeterContext:
        """Shows a transfer of `total` bytes for as long as the context lasts."""


class _MeterContext(Protocol):
    def __enter__(self) -> Meter: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


class _PlainMeter:
    def __init__(self, stream: TextIO, label: str, total: int) -> None:
        self._stream, self._label, self._total = stream, label, total
        self._said = 0

    def to(self, done: int) -> None:
        step = done * _STEPS // self._total
        if step > self._said:
            self._said = step
            text = f"{self._label}: {step * 100 // _STEPS}% ({megabytes(done)} of {megabytes(self._total)})"
            print(text, file=self._stream, flush=True)


class Plain:
    """Lines only, one for each tenth of a transfer."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    @contextmanager
    def meter(self, label: str, total: int) -> Iterator[Meter]:
        yield _PlainMeter(self._stream, label, total)


class _BarMeter:
    def __init__(self, progress: Progress, label: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total)

    def to(self, done: int) -> None:
        self._progress.update(self._task, completed=done)


class Bars:
    """A rich progress bar with speed and remaining time."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def meter(self, label: str, total: int) -> Iterator[Meter]:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        with Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=self._console) as progress:
            yield _BarMeter(progress, label, total)


def reporter() -> Reporter:
    """Bars where stderr is a terminal, plain lines elsewhere."""
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Plain()


def megabytes(count: int) -> str:
    """A number of bytes for people, in units of 10^6."""
    return f"{count / 1e6:.1f} MB"
