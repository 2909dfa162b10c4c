"""Mutants of the plugins' decision cores, judged in one Node process by the rows."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.guards.mutation.mutant import Change, Mutant
from tests.guards.mutation.rows import givens, replays, texts
from tests.guards.mutation.script_tokens import code
from tests.guards.plugins.generated import GUARDS
from tests.guards.plugins.node import NODE

ROOT = Path(__file__).resolve().parents[3]
FILES: Final[dict[str, tuple[str, ...]]] = {
    "circuit-breaker": ("core.js", "keys.js", "settings.js"),
    "loop-guard": ("core.js", "keys.js", "settings.js"),
    "compaction-breaker": ("core.js", "settings.js"),
}
TIMEOUT: Final = 1800
"""Seconds after which the process is given up: its loops are counted, so that it ends by itself."""


@dataclass(frozen=True)
class Judged:
    """`rows`: for each mutant the row that tells it from the original, None = it survives; `originals` see run.mjs."""

    rows: Sequence[str | None]
    originals: Mapping[str, Any]
    texts: Sequence[Any]


def judge(mutants: Sequence[Mutant]) -> Judged:
    """Judges mutants in their order. A file that several plugins share is changed in all of them."""
    plugins = {name: {file: limited(_source(name, file)) for file in files} for name, files in FILES.items()}
    asked = []
    for number, mutant in enumerate(mutants):
        path = Path(mutant.file)
        of = [path.parent.name] if path.name == "core.js" else [name for name in FILES if path.name in FILES[name]]
        sources = dict.fromkeys(of, limited(mutant.source))
        asked.append({"id": number, "file": path.name, "guards": of, "sources": sources})
    with tempfile.TemporaryDirectory() as folder:
        # Not in the repository, where no package.json is near: the folder says that its files are modules.
        (Path(folder) / "package.json").write_text('{"type": "module"}', encoding="utf-8")
        job = {
            "folder": folder,
            "plugins": plugins,
            "mutants": asked,
            "configs": {guard: [each.config for each in givens() if each.guard == guard] for guard in GUARDS},
            "texts": [each._asdict() for each in texts()],
            "replays": {guard: [(config, text) for _, config, text in replays()[guard]] for guard in GUARDS},
        }
        command = [str(NODE), str(Path(__file__).with_name("run.mjs"))]
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
    if done.returncode != 0:
        raise RuntimeError(f"run.mjs: exit {done.returncode}: {done.stderr[-2000:]}")
    first, *lines = [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]
    rows = [line["row"] for line in lines]
    for mutant, row in zip(mutants, rows, strict=True):
        if row is not None and row.startswith("no program"):
            raise RuntimeError(f"{mutant}: {row}")
    return Judged(rows, first["originals"], first["texts"])


def limited(source: str) -> str:
    """The source with its loops counted."""
    found = code(source)
    changes = []
    for place, token in enumerate(found):
        if token.kind == "name" and token.text == "while":
            at = found[place + 1].start
            changes.append(Change(at, at + 1, "(globalThis.step() && "))
    for start, end, after in reversed(changes):
        source = source[:start] + after + source[end:]
    return source


def _source(plugin: str, file: str) -> str:
    return (ROOT / "guards" / "plugins" / plugin / file).read_text(encoding="utf-8")
