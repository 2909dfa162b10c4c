"""A plugin that is someone else's, mounted from its folder: its denials are told by their text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guards.stack import load_stack
from results.trace import Guard, Result
from tests.runners.dsh_stage import acts, end, of, play

PLUGIN = """
export const name = 'every-second'
export const inject = ['tools']
export function apply(ctx) {
  let asked = 0
  ctx.tools.guard(() => (++asked % 2 === 0 ? 'no second helpings' : undefined))
}
"""


@pytest.mark.parametrize("plane", ["host", "agent"])
def test_denials_are_told_by_their_text(tmp_path: Path, plane: str) -> None:
    folder = tmp_path / "every-second"
    folder.mkdir()
    manifest = {"name": "every-second", "version": "1.0.0", "type": "module", "exports": "./index.js"}
    (folder / "package.json").write_text(json.dumps(manifest))
    (folder / "index.js").write_text(PLUGIN)
    file = tmp_path / "stack.toml"
    file.write_text('[[guard]]\nname = "every-second"\npath = "every-second"\nattribution = "^no second helpings$"\n')
    trace = play("search-mirage", f"only:every-second@{plane}", "looping", stack=load_stack(file), horizon=6)
    assert end(trace).reason == "horizon"
    assert [index for _, _, _, index in acts(trace)] == [2, 4, 6]
    assert [result.denied_by for result in of(trace, Result)] == [None, f"every-second@{plane}"] * 3
    arms = [event for event in of(trace, Guard) if event.action == "arm"]
    assert [(event.guard, event.plane, event.extra) for event in arms] == [("every-second", plane, {"by": "row"})]
