"""Plays recorded traces in the real harness: one runner for all, with what user messages and other guards need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from guards.stack import Stack, StackGuard, default_stack
from results.trace import Trace
from runners.arms import Arm, parse_arm
from runners.dsh import DshRunner
from runners.gateway.asking import Backend
from runners.harness.composition import Addresses, Composition, Row, compose
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import Needs, Scenario
from tests.runners.corpus_scenario import Said
from tests.runners.dsh_stage import staged

SPEAKER = """
import { createUserMessage } from '@deepseek-ai/dsh-llm'
export const name = 'speaker'
export const inject = ['agents']
export function apply(ctx, { said }) {
  const left = [...said]
  ctx.on('agent/status', ({ agent, status }) => {
    if (status !== 'idle' || left.length === 0 || !ctx.agents.roots().includes(agent)) return
    const { text, commands } = left.shift()
    for (const line of commands) void ctx.get('commands').execute(agent, line, [], new AbortController().signal)
    agent.followup(createUserMessage({ content: [{ type: 'text', text }], source: { kind: 'user' } }))
  })
}
"""
"""Says the next user message when the turn is over, as a client does that queued it; before it the user's commands."""
COMMANDS = {"id": "commands", "name": "@deepseek-ai/dsh-commands"}

OTHER = """
export const name = 'other'
export const inject = ['tools']
export function apply(ctx, { deny }) {
  const asked = new WeakMap()
  ctx.tools.guard(({ agent }) => {
    const place = (asked.get(agent) ?? 0) + 1
    asked.set(agent, place)
    return deny[place]
  })
}
"""
"""Denies the calls at these places, with these texts."""


def plugin(folder: Path, name: str, text: str) -> Path:
    """A plugin's folder with this text."""
    folder = folder / name
    folder.mkdir()
    manifest = {"name": name, "version": "1.0.0", "type": "module", "exports": "./index.js"}
    (folder / "package.json").write_text(json.dumps(manifest))
    (folder / "index.js").write_text(text)
    return folder


def with_other(folder: Path, denied: dict[int, str]) -> Stack:
    """The full stack behind another guard, which denies the calls at these places, from 1, with these texts."""
    (text,) = set(denied.values())
    config: dict[str, Any] = {"deny": {str(place): said for place, said in denied.items()}}
    other = StackGuard("other", config=config, path=plugin(folder, "other", OTHER), attribution=text)
    return Stack("with-other", (other, *default_stack().guards))


class Stage:
    """Plays one episode after the other."""

    def __init__(self, folder: Path, rows: Sequence[Row], packages: Mapping[str, Path]) -> None:
        self._speaker = plugin(folder, "speaker", SPEAKER)
        self._said: tuple[Said, ...] = ()
        self._rows = tuple(rows)
        self._packages = dict(packages)
        self.runner: DshRunner
        self.stack: Stack

    def arm(self, name: str) -> Arm:
        return parse_arm(name, self.stack)

    def play(self, scenario: Scenario, arm: str, *said: Said, actor: str | None = "honest") -> Trace:
        """One episode; what is `said` is said one by one, each when the turn before it is over. `actor` None is the
        model that the stage was made with."""
        self._said = said
        needs = scenario.needs
        spec = EpisodeSpec(
            name=f"corpus.{arm.replace(':', '-').replace('@', '-')}",
            scenario=scenario,
            arm=self.arm(arm),
            seed=0,
            model=f"actor:{actor}" if actor else "played",
            sha256=None,
            actor=actor,
            horizon=Horizon(needs.horizon, needs.horizon_unit),
        )
        return self.runner.run(spec).trace

    def compose(self, arm: Arm, stack: Stack, needs: Needs, window: int, at: Addresses) -> Composition:
        made = compose(arm, stack, needs, window, at)
        rows, packages = [*self._rows], {**made.packages, **self._packages}
        if self._said:
            rows += [COMMANDS] if any(each.commands for each in self._said) else []
            rows.append({"id": "speaker", "name": "speaker", "config": {"said": [asdict(each) for each in self._said]}})
            packages["speaker"] = self._speaker
        return replace(made, rows=(*made.rows, *([{"insert": rows}] if rows else [])), packages=packages)


@contextmanager
def stage(
    folder: Path,
    stack: Stack | None = None,
    *,
    model: Backend | None = None,
    rows: Sequence[Row] = (),
    packages: Mapping[str, Path] | None = None,
) -> Iterator[Stage]:
    """`folder` is for the plugins; `stack` None is the default one. `model` plays where no actor is named. `rows` are
    mounted besides, in the host plane; `packages` are the folders of plugins in them by their names."""
    made = Stage(folder, rows, packages or {})
    with staged(stack, composer=made.compose, model=model, wall_seconds=600.0) as (made.runner, _, made.stack):
        yield made
