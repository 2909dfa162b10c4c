"""What this machine has for tripbench: each part is looked for, and what is not there is said, never raised."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from guards.errors import UserError

_SETUP = "run: make setup"
_SECONDS = 15


@dataclass(frozen=True)
class Finding:
    """One part. `details` holds plain data; `advice` says what to do where the part is missing, and is empty where
    it is not. tripbench cannot work without a `required` part."""

    part: str
    status: Literal["ok", "missing"]
    text: str
    advice: str = ""
    required: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The finding for people, on one line."""
        tail = f"; {self.advice}" if self.advice else ""
        return f"{self.part:<26} {self.status:<8} {self.text}{tail}"

    def data(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "part": self.part,
            "status": self.status,
            "text": self.text,
            "advice": self.advice,
            "required": self.required,
            "details": dict(self.details),
        }


def examine(cache: Path | None = None) -> list[Finding]:
    """Looks for every part, in the order in which it is shown. `cache` as in `runners.models.cache.open_cache`."""
    probes: list[Callable[[], list[Finding]]] = [
        _python,
        _tripbench,
        _llama,
        _hardware,
        _harness,
        _docker,
        _node,
        lambda: _models(cache),
    ]
    return [finding for probe in probes for finding in probe()]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> list[Finding]:
    text = f"{platform.python_version()} at {sys.executable}"
    details = {"version": platform.python_version(), "executable": sys.executable, "platform": platform.platform()}
    return [Finding("python", "ok", text, required=True, details=details)]


def _package(part: str, package: str) -> Finding:
    version = _version(package)
    if version is None:
        return Finding(part, "missing", f"{package} is not installed", _SETUP, required=True)
    return Finding(part, "ok", version, required=True, details={"version": version})


def _tripbench() -> list[Finding]:
    return [_package("tripbench", "tripbench")]


def _harness() -> list[Finding]:
    return [
        _package("harness sdk", "deepseek-harness-sdk"),
        _package("harness runtime", "deepseek-harness-runtime-bin"),
    ]


def _llama() -> list[Finding]:
    version = _version("llama-cpp-python")
    if version is None:
        return [Finding("llama.cpp", "missing", "llama-cpp-python is not installed", _SETUP, required=True)]
    try:
        import llama_cpp
    except Exception as error:  # a library that does not load can fail in any way
        text = f"llama-cpp-python {version} does not load: {error}"
        advice = "remove .venv and the cached wheel, then run: make setup"
        return [Finding("llama.cpp", "missing", text, advice, required=True, details={"version": version})]
    system = llama_cpp.llama_print_system_info().decode("utf-8", "replace").strip()
    offload = bool(llama_cpp.llama_supports_gpu_offload())
    ggml = _Ggml()
    details = {"version": version, "ggml": ggml.version, "commit": ggml.commit, "system_info": system}
    built = f"llama-cpp-python {version}, ggml {ggml.version} ({ggml.commit}); {system}"
    devices = "; ".join(f"{device['name']} ({device['description']})" for device in ggml.devices) or "none"
    gpu = Finding(
        "gpu offload",
        "ok" if offload else "missing",
        f"devices: {devices}",
        "" if offload else "this build runs on the CPU; for a CUDA GPU run: make setup GPU=cuda",
        details={"supported": offload, "devices": ggml.devices},
    )
    return [Finding("llama.cpp", "ok", built, required=True, details=details), gpu]


class _Ggml:
    """ggml's own account of itself, from the libraries that llama_cpp has loaded (its Python API has no names for it).

    `unknown` and an empty list where a library does not have the function.
    """

    def __init__(self) -> None:
        import llama_cpp

        folder = Path(llama_cpp.__file__).parent / "lib"
        self._libraries = [ctypes.CDLL(str(path)) for path in sorted(folder.glob("libggml*.so"))]
        self.version = self._text("ggml_version")
        self.commit = self._text("ggml_commit")
        self.devices = self._devices()

    def _function(self, name: str) -> Any:
        for library in self._libraries:
            if hasattr(library, name):
                return getattr(library, name)
        return None

    def _text(self, name: str, *arguments: Any) -> str:
        function = self._function(name)
        if function is None:
            return "unknown"
        function.restype = ctypes.c_char_p
        value = function(*arguments)
        return value.decode("utf-8", "replace") if value else "unknown"

    def _devices(self) -> list[dict[str, str]]:
        count, get = self._function("ggml_backend_dev_count"), self._function("ggml_backend_dev_get")
        if count is None or get is None:
            return []
        count.restype, get.restype, get.argtypes = ctypes.c_size_t, ctypes.c_void_p, [ctypes.c_size_t]
        handles = [ctypes.c_void_p(get(index)) for index in range(count())]
        return [
            {
                "name": self._text("ggml_backend_dev_name", handle),
                "description": self._text("ggml_backend_dev_description", handle),
            }
            for handle in handles
        ]


def _hardware() -> list[Finding]:
    import psutil

    memory = psutil.virtual_memory()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or usable
    details = {
        "cores": cores,
        "usable_threads": usable,
        "memory_bytes": memory.total,
        "available_bytes": memory.available,
    }
    text = f"{cores} cores, {usable} usable threads; {_gib(memory.total)} memory, {_gib(memory.available)} available"
    return [Finding("hardware", "ok", text, required=True, details=details)]


def _output(command: list[str]) -> tuple[int, str]:
    """Exit status and stdout (else stderr) of a command; -1 and the reason where it does not run or end in time."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, (done.stdout.strip() or done.stderr.strip())


def _entry(data: object, *keys: str) -> str | None:
    """A text inside nested objects; None where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, str) else None


def _docker() -> list[Finding]:
    if shutil.which("docker") is None:
        return [Finding("docker", "missing", "no docker command", "only needed for --sandbox docker: install Docker")]
    status, output = _output(["docker", "version", "--format", "{{json .}}"])
    try:
        versions = json.loads(output)
    except ValueError:
        versions = None
    client = _entry(versions, "Client", "Version") or "unknown"
    server = _entry(versions, "Server", "Version")
    details = {"client": client, "engine": server}
    if status != 0 or not server:
        advice = "only needed for --sandbox docker: start the Docker engine, or set DOCKER_HOST"
        return [Finding("docker", "missing", f"client {client}, no engine answers", advice, details=details)]
    return [Finding("docker", "ok", f"client {client}, engine {server}", details=details)]


def _node() -> list[Finding]:
    advice = "not needed to run: the harness wheel has its own runtime"
    if shutil.which("node") is None:
        return [Finding("node", "missing", "no node command", advice)]
    status, output = _output(["node", "--version"])
    if status != 0:
        return [Finding("node", "missing", f"node does not run: {output.splitlines()[-1] if output else ''}", advice)]
    return [Finding("node", "ok", output, details={"version": output})]


def _models(cache: Path | None) -> list[Finding]:
    from runners.models import catalog
    from runners.models.cache import free_bytes, open_cache

    try:
        store = open_cache(cache)
    except UserError as error:
        return [Finding("cache", "missing", str(error), "name a folder")]
    free = free_bytes(store.root)
    found = [
        Finding("cache", "ok", f"{store.root}, {_gib(free)} free", details={"path": str(store.root), "free": free})
    ]
    models = catalog.builtin()
    for entry in models.models.values():
        path = store.models / entry.file
        size = path.stat().st_size if path.is_file() else None
        details = {"path": str(path), "expected": entry.size, "found": size, "default": entry.name == models.default}
        advice = f"run: tripbench models pull {entry.name}"
        name = f"model {entry.name}"
        if size is None:
            found.append(Finding(name, "missing", "not in the cache", advice, details=details))
        elif size != entry.size:
            text = f"wrong size: expected {entry.size} bytes, found {size}"
            found.append(Finding(name, "missing", text, advice, details=details))
        else:
            found.append(Finding(name, "ok", f"{size} bytes in {path}", details=details))
    return found


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
