"""`make lock`: writes constraints.txt from pyproject.toml.

All extras, for every Python from 3.11 on, with the hashes of all files of each release, and without any index address.
Versions that are pinned already are kept as long as they fit; `--upgrade` takes the newest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESOLVER = "uv==0.13.9"
HEAD = "# Every package of tripbench, pinned, with hashes. Written by `make lock`; edit pyproject.toml instead.\n"


def main() -> int:
    """The command. Exit status as the resolver's."""
    parser = argparse.ArgumentParser(description="Writes constraints.txt.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    upgrade = parser.parse_args().upgrade
    target = ROOT / "constraints.txt"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
        subprocess.run([home / "venv/bin/python", "-m", "pip", "install", "--quiet", RESOLVER], check=True)
        output = home / "constraints.txt"
        if target.exists() and not upgrade:
            output.write_bytes(target.read_bytes())
        options = ["--all-extras", "--universal", "--python-version", "3.11", "--generate-hashes"]
        options += ["--no-emit-index-url", "--no-emit-find-links", "--no-header", "--no-annotate", "--quiet"]
        command = [str(home / "venv/bin/uv"), "--no-config", "pip", "compile", "pyproject.toml", *options]
        certificates = os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT")
        env = os.environ | ({"SSL_CERT_FILE": certificates} if certificates else {})
        done = subprocess.run(
            [*command, "--output-file", str(output)], cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0:
            return done.returncode
        text = HEAD + "".join(
            line for line in output.read_text(encoding="utf-8").splitlines(keepends=True) if not line.startswith("#")
        )
        if "://" in text:
            print("lock: error: the resolver wrote an address; constraints.txt is left as it was", file=sys.stderr)
            return 1
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
