"""The guards by name, ours and those of other products: configuration, presets, policy, and what is known of each."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guards.circuit_breaker import CircuitBreaker, CircuitBreakerConfig
from guards.compaction_breaker import CompactionBreaker, CompactionBreakerConfig
from guards.config import GuardConfig
from guards.errors import UserError
from guards.loop_guard import LoopGuard, LoopGuardConfig
from guards.peers.catalog import PEERS, SKIPPED
from guards.policy import Policy
from guards.repeat_reminder import RepeatReminder, RepeatReminderConfig

_CONFIGS: dict[str, type[GuardConfig]] = {
    config.guard: config
    for config in (CircuitBreakerConfig, LoopGuardConfig, CompactionBreakerConfig, RepeatReminderConfig)
}

_POLICIES: dict[str, Callable[..., Policy]] = {
    CircuitBreaker.name: CircuitBreaker,
    LoopGuard.name: LoopGuard,
    CompactionBreaker.name: CompactionBreaker,
    RepeatReminder.name: RepeatReminder,
}

_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    CompactionBreakerConfig.guard: {
        # The rule of ZCode itself, and of Claude Code.
        "zcode": {"toolTurnThreshold": 3},
        "upstream-literal": {"variant": "upstream-literal"},
    },
}

_SOURCES = {
    CircuitBreaker.name: "ours, after dsh-circuit-breaker",
    LoopGuard.name: "ours, after dsh-loop-guard",
    CompactionBreaker.name: "ours, after dsh-zcode-breaker",
    RepeatReminder.name: "the harness's own dsh-repeat-tool-reminder, as a policy",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a guard's configuration. `default` None: not set; `allowed` says in words what may be given."""

    name: str
    default: Any
    allowed: str


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a guard. `about` is the whole text; `presets`: the keys that each fills."""

    name: str
    peer: bool
    summary: str
    source: str
    about: str
    keys: tuple[Key, ...]
    presets: dict[str, dict[str, Any]]


def names() -> tuple[str, ...]:
    """Our guards, in the order of the full stack."""
    return tuple(_CONFIGS)


def peer_names() -> tuple[str, ...]:
    """The detectors of other products, `peer:...`. They are for replay: `build` makes them, the harness has none."""
    return tuple(PEERS)


def skipped() -> dict[str, str]:
    """Detectors of other products that are not replayed, and why."""
    return dict(SKIPPED)


def presets(name: str) -> dict[str, dict[str, Any]]:
    """A guard's named presets and the keys that each fills. Raises UserError for an unknown guard."""
    _config(name)
    known = PEERS[name].presets if name in PEERS else _PRESETS.get(name, {})
    return {preset: dict(keys) for preset, keys in known.items()}


def configure(name: str, preset: str | None = None, settings: Mapping[str, Any] | None = None) -> GuardConfig:
    """A guard's configuration: the preset's keys, then `settings`, then defaults.

    Raises UserError for an unknown guard or preset, and for keys or values that are not allowed.
    """
    config = _config(name)
    filled: dict[str, Any] = {}
    if preset is not None:
        known = presets(name)
        if preset not in known:
            raise UserError(f"{name}: unknown preset {preset!r}; known: {', '.join(known) or 'none'}")
        filled = known[preset]
    return config.load(filled | dict(settings or {}))


def build(
    name: str, preset: str | None = None, settings: Mapping[str, Any] | None = None, *, live: bool = False
) -> Policy:
    """A guard's policy with no agent seen yet. `live` False: nothing is written to an incident log.

    Raises UserError as `configure` does, and for a preset that exists in the harness alone.
    """
    config = configure(name, preset, settings)
    if name in PEERS:
        return PEERS[name](config)
    if isinstance(config, CircuitBreakerConfig):
        return CircuitBreaker(config, live=live)
    return _POLICIES[name](config)


def describe(name: str) -> About:
    """What is known of a guard, from its module and its configuration. Raises UserError for an unknown one."""
    config = _config(name)
    policy = PEERS[name] if name in PEERS else _POLICIES[name]
    text = inspect.cleandoc(sys.modules[policy.__module__].__doc__ or "")
    source = re.search(r"^Source: (.+?)\.$", text, re.MULTILINE | re.DOTALL)
    keys = tuple(
        Key(field.alias or attribute, _json(field.get_default()), field.description or "")
        for attribute, field in config.model_fields.items()
    )
    first = text.partition("\n\n")[0].replace("\n", " ")
    return About(
        name,
        name in PEERS,
        first.partition(": ")[2].rstrip("."),
        " ".join(source[1].split()) if source else _SOURCES[name],
        text,
        keys,
        presets(name),
    )


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _config(name: str) -> type[GuardConfig]:
    if name in SKIPPED:
        raise UserError(f"{name} is not replayed: {SKIPPED[name]}")
    if name in PEERS:
        return PEERS[name].config_type
    if name not in _CONFIGS:
        raise UserError(f"unknown guard {name!r}; known: {', '.join((*_CONFIGS, *PEERS))}")
    return _CONFIGS[name]
