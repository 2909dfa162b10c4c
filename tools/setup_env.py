"""`make setup`: .venv with everything that constraints.txt pins, checked by hash, and tripbench itself, editable.

Only the standard library is used, for nothing is installed yet. llama-cpp-python has no wheel on the package index:
it is compiled once from its source archive (checked by hash) for this machine's CPU, and the wheel is kept in the
user's cache folder under a key of what decides it. A run that was killed at any moment is mended by the next.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "tripbench-setup.json"
COMPILED = "llama-cpp-python"
# llava (mtmd) is a library for images, a third of the files to compile, and nothing here uses it.
CMAKE_ARGS = "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF"
GPU_ARGS = {"": "", "cuda": "-DGGML_CUDA=on"}


class SetupError(Exception):
    """What went wrong and what to do, in one line."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"setup: {text}", flush=True)


def digest(*parts: str | bytes) -> str:
    """A short digest of several texts; their borders count."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:12]


def cpu_flags() -> str:
    """What decides the code that a native compilation makes: the architecture and the CPU's feature flags, sorted."""
    flags = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
        flags = " ".join(sorted(found[1].split())) if found else ""
    return f"{platform.machine()} {flags or platform.processor()}"


def cache_folder() -> Path:
    """The folder that `tripbench` itself takes for its cache on Linux."""
    named = os.environ.get("TRIPBENCH_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tripbench"


def blocks(text: str) -> dict[str, str]:
    """The requirements of a constraints file: name -> its lines, hashes and all. A name may stand there twice, with
    different markers; its lines are then together."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            start = re.match(r"[A-Za-z0-9._-]+", line)
            if start is None:
                raise SetupError(f"constraints.txt: not a requirement: {line[:60]}; run: make lock")
            name = start[0].lower()
        found[name] = found.get(name, "") + line + "\n"
    return found


@contextlib.contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Holds a lock among all processes; says that it waits where another one holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is at {what}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def python(*arguments: str, log: Path, env: dict[str, str] | None = None) -> int:
    """Runs the Python of .venv with its output in `log`. Returns its exit status."""
    command = [str(VENV / "bin" / "python"), *arguments]
    surroundings = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | (env or {})
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=surroundings, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends pip and what it started. SIGTERM first: ninja then ends its compilers, which are in groups of their own."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=5)
    time.sleep(0.5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def install(what: str, *arguments: str) -> None:
    """pip install. SetupError, with pip's own last error, where it fails."""
    log = VENV / "pip.log"
    if python("-m", "pip", "install", "--no-deps", "--no-input", "--progress-bar", "off", *arguments, log=log) != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["it said nothing"]
        raise SetupError(f"pip could not install {what}: {errors[0]} (all of it: {log}); then run make setup again")


def install_pinned(what: str, requirements: str) -> None:
    """Installs requirements with hashes, and nothing that has none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(requirements)
        file.flush()
        install(what, "--require-hashes", "--requirement", file.name)


def make_venv() -> None:
    """Makes .venv where it is not there, broken, or of another Python."""
    probe = "import pip, sys; print(sys.version_info[:2] == " + repr(tuple(sys.version_info[:2])) + ")"
    try:
        found = subprocess.run([VENV / "bin" / "python", "-c", probe], capture_output=True, text=True, check=False)
        usable = found.stdout.strip() == "True"
    except OSError:
        usable = False
    if usable:
        return
    say(f"making .venv with Python {platform.python_version()}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
    if made.returncode != 0:
        raise SetupError("Python could not make a virtual environment: install its venv module (Debian: python3-venv)")


def compiler_fault(gpu: str) -> str | None:
    """What is missing for the compilation; None if nothing is. (cmake and ninja come with constraints.txt.)"""
    compilers = [os.environ["CXX"].split()[0]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    if not any(shutil.which(name) for name in compilers):
        return f"no C++ compiler ({', '.join(compilers)}): install one (Debian: apt-get install g++)"
    if gpu == "cuda" and not (shutil.which("nvcc") or os.environ.get("CUDACXX")):
        return "no CUDA compiler (nvcc): install the CUDA toolkit, or set CUDACXX"
    return None


def compiled_wheel(requirement: str, gpu: str, arguments: str) -> Path:
    """The wheel of llama-cpp-python for this machine, from the cache or compiled now."""
    version = requirement.partition("==")[2].split(maxsplit=1)[0]
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    key = f"{COMPILED}-{version}-{tag}-cpu_{digest(cpu_flags())}-args_{digest(arguments)}"
    wheels = cache_folder() / "wheels"
    folder = wheels / key
    with lock(cache_folder() / "locks" / f"{key}.lock", "the compilation of llama.cpp"):
        for stale in wheels.glob(f".building-{key}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        ready = sorted(folder.glob("*.whl"))
        if ready:
            return ready[0]
        fault = compiler_fault(gpu)
        if fault is not None:
            raise SetupError(fault)
        wheels.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".building-{key}-", dir=wheels))
        log = building / "build.log"
        say(f"compiling {COMPILED} {version} once ({arguments}); several minutes; log: {log}")
        try:
            compile_into(building, requirement, arguments, log)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)
    return next(folder.glob("*.whl"))


def compile_into(folder: Path, requirement: str, arguments: str, log: Path) -> None:
    """Compiles the wheel into `folder`, on all cores."""
    wanted = folder / "wanted.txt"
    wanted.write_text(requirement, encoding="utf-8")
    options = ["--no-deps", "--no-input", "--no-cache-dir", "--no-build-isolation", "--no-binary", COMPILED]
    options += ["--require-hashes", "--requirement", str(wanted), "--wheel-dir", str(folder)]
    env = {"CMAKE_ARGS": arguments, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1)}
    status = python("-m", "pip", "wheel", "--verbose", *options, log=log, env=env)
    if status != 0 or not list(folder.glob("*.whl")):
        kept = folder.parent / "failed-build.log"
        log.replace(kept)
        raise SetupError(
            f"llama.cpp did not compile: see {kept}; it needs a C++17 compiler, its headers, and about 2 GB of disk "
            "(Debian: apt-get install g++; cmake and ninja come with constraints.txt)"
        )


def setup(gpu: str) -> None:
    """Everything, in order; nothing where the stamp says that it was done for the same input."""
    if gpu not in GPU_ARGS:
        raise SetupError(f"GPU={gpu} is not known: say GPU=cuda, or leave it out for the CPU")
    arguments = " ".join(f"{CMAKE_ARGS} {GPU_ARGS[gpu]} {os.environ.get('CMAKE_ARGS', '')}".split())
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    inputs: list[str | bytes] = [(ROOT / "pyproject.toml").read_bytes(), constraints, Path(__file__).read_bytes()]
    key = digest(*inputs, arguments, sys.version, cpu_flags(), str(ROOT))
    before = stamp()
    if before.get("key") == key:
        say("everything is there already (.venv)")
        return
    STAMP.unlink(missing_ok=True)
    make_venv()
    pinned = blocks(constraints)
    compiled = pinned.pop(COMPILED)
    say(f"installing {len(pinned)} pinned packages, checked by hash")
    install_pinned("pip", pinned.pop("pip"))
    install_pinned("the pinned packages", "".join(pinned.values()))
    wheel = compiled_wheel(compiled, gpu, arguments)
    installed = VENV / "tripbench-wheel.txt"
    if not installed.exists() or installed.read_text(encoding="utf-8") != str(wheel):
        say(f"installing {wheel.name}")
        installed.unlink(missing_ok=True)
        install(wheel.name, "--no-index", "--force-reinstall", str(wheel))
        installed.write_text(str(wheel), encoding="utf-8")
    install("tripbench", "--no-build-isolation", "--no-index", "--editable", str(ROOT))
    if python("-m", "pip", "check", log=VENV / "pip-check.txt") != 0:
        raise SetupError(f"what is installed does not fit together: see {VENV / 'pip-check.txt'}; run: make lock")
    temporary = STAMP.with_suffix(".new")
    temporary.write_text(json.dumps({"key": key, "wheel": str(wheel)}), encoding="utf-8")
    temporary.replace(STAMP)
    say("done: .venv/bin/tripbench")


def stamp() -> dict[str, str]:
    """What the last whole run noted; empty where there was none or .venv has no Python any more."""
    try:
        found = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and (VENV / "bin" / "tripbench").exists() else {}


def main() -> int:
    """The command. Exit status 0, or 1 with one line on stderr."""
    parser = argparse.ArgumentParser(description="Sets up .venv for tripbench.")
    parser.add_argument("--gpu", default="", help="GPU backend to compile for: cuda, or nothing")
    gpu = parser.parse_args().gpu
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with lock(cache_folder() / "locks" / f"setup-{digest(str(ROOT))}.lock", "the set-up of this folder"):
            setup(gpu)
    except SetupError as error:
        print(f"setup: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
