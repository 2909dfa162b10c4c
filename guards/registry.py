"""The guards of the stack by name: configuration, presets, policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guards.circuit_breaker import CircuitBreaker, CircuitBreakerConfig
from guards.compaction_breaker import CompactionBreaker, CompactionBreakerConfig
from guards.config import GuardConfig
from guards.errors import UserError
from guards.loop_guard import LoopGuard, LoopGuardConfig
from guards.policy import Policy
from guards.repeat_reminder import RepeatReminder, RepeatReminderConfig

_CONFIGS: dict[str, type[GuardConfig]] = {
    config.guard: config
    for config in (CircuitBreakerConfig, LoopGuardConfig, CompactionBreakerConfig, RepeatReminderConfig)
}

_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    CompactionBreakerConfig.guard: {
        # The rule of ZCode itself, and of Claude Code.
        "zcode": {"toolTurnThreshold": 3},
        "upstream-literal": {"variant": "upstream-literal"},
    },
}


def names() -> tuple[str, ...]:
    """The guards in the order of the full stack."""
    return tuple(_CONFIGS)


def presets(name: str) -> dict[str, dict[str, Any]]:
    """A guard's named presets and the keys that each fills. Raises UserError for an unknown guard."""
    _config(name)
    return {preset: dict(keys) for preset, keys in _PRESETS.get(name, {}).items()}


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
    if isinstance(config, CircuitBreakerConfig):
        return CircuitBreaker(config, live=live)
    if isinstance(config, LoopGuardConfig):
        return LoopGuard(config)
    if isinstance(config, CompactionBreakerConfig):
        return CompactionBreaker(config)
    if isinstance(config, RepeatReminderConfig):
        return RepeatReminder(config)
    raise AssertionError(f"{name} has a configuration and no policy")


def _config(name: str) -> type[GuardConfig]:
    if name not in _CONFIGS:
        raise UserError(f"unknown guard {name!r}; known: {', '.join(_CONFIGS)}")
    return _CONFIGS[name]
