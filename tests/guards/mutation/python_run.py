"""Mutants of the Python guards, each in fresh modules, judged by the rows."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from guards.errors import UserError
from guards.json_text import parse
from guards.policy import Policy
from results.trace import Trace, event_of, header_of
from results.trace_calls import Calls, link
from runners.replay import replay
from tests.guards.mutation import units
from tests.guards.mutation.mutant import Mutant
from tests.guards.mutation.rows import REMINDER, givens, replays, texts

ROOT = Path(__file__).resolve().parents[3]
STEPS: Final = 300_000
"""Rounds of loops in one row after which it is taken to have no end."""

ORDER = ("json_text", "keys", "config", "circuit_breaker", "loop_guard", "compaction_breaker", "repeat_reminder")
POLICIES = {
    "circuit-breaker": ("circuit_breaker", "CircuitBreakerConfig", "CircuitBreaker"),
    "loop-guard": ("loop_guard", "LoopGuardConfig", "LoopGuard"),
    "compaction-breaker": ("compaction_breaker", "CompactionBreakerConfig", "CompactionBreaker"),
    REMINDER: ("repeat_reminder", "RepeatReminderConfig", "RepeatReminder"),
}
_KEYED = ("circuit_breaker", "loop_guard", "repeat_reminder")
DEPENDENTS = {
    "json_text": ("keys", "config", *_KEYED),
    "keys": _KEYED,
    "config": (*_KEYED, "compaction_breaker"),
}


class Endless(BaseException):
    """A row that does not come to its end; no guard catches it."""


class _Counter:
    """Stands in the condition of every loop of a mutant."""

    def __init__(self) -> None:
        self.left = STEPS

    def __call__(self) -> bool:
        self.left -= 1
        if self.left < 0:
            raise Endless
        return True


@cache
def originals() -> dict[str, ModuleType]:
    """The guards' modules by short name."""
    return {each: importlib.import_module(f"guards.{each}") for each in ORDER}


@contextmanager
def fresh(name: str, source: str, counter: Callable[[], bool]) -> Iterator[dict[str, ModuleType]]:
    """The guards' modules by short name: `name` made of `source`, what is built on it made anew, the rest as it is."""
    before = originals()
    modules = dict(before)
    try:
        for each in ORDER:
            if each == name or each in DEPENDENTS.get(name, ()):
                module = ModuleType(f"guards.{each}")
                sys.modules[module.__name__] = modules[each] = module
                module.__dict__["_step"] = counter
                code = _limited(source, each) if each == name else _original(each)
                exec(code, module.__dict__)
        yield modules
    finally:
        for each, module in before.items():
            sys.modules[f"guards.{each}"] = module


def verdict(mutant: Mutant) -> str | None:
    """The row that tells the mutant from the original, None = it survives them all."""
    name = Path(mutant.file).stem
    counter = _Counter()
    # Before the mutant is loaded, so that outcomes are those of the original.
    rows = _rows(name)
    row = "loading"
    try:
        with fresh(name, mutant.source, counter) as modules:
            for row, run, wanted in rows:
                counter.left = STEPS
                if run(modules) != wanted:
                    return row
    except Endless:
        return f"{row}: no end"
    except Exception as error:
        return f"{row}: {type(error).__name__}"
    return None


Run = Callable[[dict[str, ModuleType]], Any]


@cache
def _rows(name: str) -> Sequence[tuple[str, Run, Any]]:
    """The rows that concern a module: their names, how they are run, and what the original gives."""
    touched = {name, *DEPENDENTS.get(name, ())}
    found: list[tuple[str, Run]] = [(f"unit {each.__name__}", _unit(each)) for each in units.of(touched)]
    if touched & {"json_text", "keys"}:
        found += [(f"text {each.text[:60]}", _text(*each)) for each in texts()]
    for guard, (module, *_) in POLICIES.items():
        if module in touched:
            found += [(f"config {each}", _configured(*each)) for each in givens() if each.guard == guard]
            found += [(f"replay {number} of {guard}", _replayed(*each)) for number, each in enumerate(replays()[guard])]
    unchanged = originals()
    return [(row, run, run(unchanged)) for row, run in found]


def _unit(check: Callable[[dict[str, ModuleType]], None]) -> Run:
    return check


def _text(tool: str, text: str, ignored: list[str]) -> Run:
    value = parse(text)
    return lambda modules: _written(modules, tool, value, ignored)


def _written(modules: dict[str, ModuleType], tool: str, value: Any, ignored: list[str]) -> list[Any]:
    keys, json_text = modules["keys"], modules["json_text"]
    return [
        keys.canonical(value),
        json_text.stringify(value),
        keys.call_key(tool, value),
        keys.call_key(tool, value, ignored=frozenset(ignored)),
        json_text.string_text(tool),
    ]


def written(modules: dict[str, ModuleType], tool: str, text: str, ignored: list[str]) -> list[Any]:
    """Canonical text, text as JSON.stringify writes it, keys with and without what is ignored, the tool's text."""
    return _written(modules, tool, parse(text), ignored)


def configured(modules: dict[str, ModuleType], guard: str, given: dict[str, Any]) -> Any:
    """Every key with its value in force, or the text of the refusal."""
    module, config, _ = POLICIES[guard]
    try:
        return getattr(modules[module], config).load(given).effective()
    except UserError as error:
        return str(error)


def _configured(guard: str, given: dict[str, Any]) -> Run:
    return lambda modules: configured(modules, guard, given)


def replayed(modules: dict[str, ModuleType], guard: str, config: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """The decisions on a trace file's text, with the words for the model."""
    trace, calls = _parsed(text)
    module, config_name, policy_name = POLICIES[guard]
    names = modules[module]
    policy: Policy = getattr(names, policy_name)(getattr(names, config_name).load(config))
    return [each.row() | {"reason": each.reason} for each in replay(trace, policy, calls)]


def _replayed(guard: str, config: dict[str, Any], text: str) -> Run:
    return lambda modules: replayed(modules, guard, config, text)


@cache
def _parsed(text: str) -> tuple[Trace, Calls]:
    header, *events = text.rstrip("\n").split("\n")
    trace = Trace(header_of(header), tuple(event_of(line) for line in events))
    return trace, link(trace.events)


@cache
def _original(name: str) -> Any:
    return _limited((ROOT / "guards" / f"{name}.py").read_text(encoding="utf-8"), name)


def _limited(source: str, name: str) -> Any:
    """The code of a module whose loops are counted."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.While):
            call = ast.Call(ast.Name("_step", ast.Load()), [], [])
            node.test = ast.fix_missing_locations(
                ast.copy_location(ast.BoolOp(ast.And(), [call, node.test]), node.test)
            )
    with warnings.catch_warnings():
        # Such as that `is` is asked of a number.
        warnings.simplefilter("ignore", SyntaxWarning)
        return compile(tree, f"guards/{name}.py", "exec")
