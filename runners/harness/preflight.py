"""Before any process counts: the composed tree, printed by the runtime without mounting it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.harness.attest import SCAFFOLD, Failure
from runners.harness.composition import PROFILE, Composition

_SECONDS = 60.0
_BAD = re.compile(r"^dsh: .*\bpatch\b.*(skipping|not found|is required for non-insert)", re.IGNORECASE)
"""The runtime's own lines: the tree that it prints as well holds texts of the user's."""


def preflight(
    composition: Composition, patch: Path, workspace: Path, env: Mapping[str, str], command: Sequence[str]
) -> list[Failure]:
    """Patches that the runtime skips, which says so nowhere else. Empty where all of them take."""
    try:
        done = subprocess.run(
            [*command, "--profile", PROFILE, "--patch", str(patch), "--dump-config"],
            cwd=workspace,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [Failure(SCAFFOLD, None, f"--dump-config did not end in {_SECONDS:g} s")]
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return [Failure(SCAFFOLD, None, f"--dump-config: exit {done.returncode}: {said[-1] if said else 'no message'}")]
    failures = []
    for line in (done.stderr + "\n" + done.stdout).splitlines():
        if _BAD.search(line):
            row = next((row for row in composition.expected if f'"{row.row}"' in line), None)
            guard, plane = (SCAFFOLD, None) if row is None else (row.guard or row.row, row.plane)
            failures.append(Failure(guard, plane, line.strip()))
    return failures
