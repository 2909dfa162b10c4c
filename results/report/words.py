"""How figures and conditions are put into words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from guards.json_text import dump, parse
from results.estimate import Estimate
from results.pairs import Cell, Setting, Study
from results.summary import Row

Key = TypeVar("Key", Setting, Cell)


class Figures:
    """The rows of a summary, found by what they are about."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._found: dict[tuple[Cell, str], dict[tuple[str, str, str], Estimate]] = {}
        for row in rows:
            place = self._found.setdefault((row.cell, row.arm), {})
            place[row.guard, row.plane, row.metric] = row.estimate

    def get(self, cell: Cell, arm: str, metric: str, guard: str = "", plane: str = "") -> Estimate | None:
        """The figure; None where no observation could show it."""
        return self._found.get((cell, arm), {}).get((guard, plane, metric))

    def at(
        self, cell: Cell, arm: str, guard: str = "", plane: str = "", before: str = ""
    ) -> Callable[[str], Estimate | None]:
        """The figures of one place by metric; `before` is put before the metric's name."""
        return lambda metric: self.get(cell, arm, before + metric, guard, plane)

    def guards(self, cell: Cell, arm: str) -> list[tuple[str, str]]:
        """(guard, plane) of the guards that figures of the arm are about, sorted."""
        return sorted({(guard, plane) for guard, plane, _ in self._found.get((cell, arm), {}) if guard})


class Names:
    """Short names for the settings and cells of a study, different for different ones."""

    def __init__(self, study: Study) -> None:
        settings = study.settings
        several = len({(each.runner, each.harness) for each in settings}) > 1
        self._settings = _distinct({each: _setting(each, several) for each in settings}, _sampler)
        cells: dict[Cell, str] = {}
        for setting in settings:
            mine = [cell for cell in study.cells if cell.setting == setting]
            cells |= _distinct({cell: _cell(cell) for cell in mine}, horizon)
        self._cells = cells

    def setting(self, setting: Setting) -> str:
        return self._settings[setting]

    def cell(self, cell: Cell) -> str:
        """The scenario, with size and priming where they are not the usual ones; unique within a setting."""
        return self._cells[cell]

    def slug(self, setting: Setting) -> str:
        """The setting's name for a file."""
        return re.sub(r"[^a-z0-9.]+", "-", self.setting(setting).lower()).strip("-.")


def horizon(cell: Cell) -> str:
    """The horizon in words."""
    return f"horizon {cell.horizon} {cell.horizon_unit}".rstrip() if cell.horizon >= 0 else "horizon not recorded"


def guard_name(guard: str, plane: str) -> str:
    return f"{guard}@{plane}" if plane else guard


def number(value: float | None, digits: int = 1) -> str:
    """A number to a fixed number of decimals, without the zeros at the end; "-" where it is not known."""
    if value is None:
        return "-"
    text = f"{value:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def percent(value: float) -> str:
    """A share as a percentage: whole, but for shares under 1% or over 99% that are not quite 0 or 1."""
    share = 100 * value
    return f"{share:.1f}%" if 0 < share < 1 or 99 < share < 100 else f"{share:.0f}%"


def rate(value: Estimate | None) -> str:
    """A rate with n and interval: "3 of 7 (43%, 16% to 75%)"; "0 of 7, upper bound 35%", never a bare 0%."""
    if value is None or value.n == 0 or value.value is None:
        return "-"
    counted = f"{value.count} of {value.n}"
    if value.low is None or value.high is None:
        return counted
    if value.count == 0:
        return f"{counted}, upper bound {percent(value.high)}"
    if value.count == value.n:
        return f"{counted}, lower bound {percent(value.low)}"
    return f"{counted} ({percent(value.value)}, {percent(value.low)} to {percent(value.high)})"


def middle(value: Estimate | None, digits: int = 1) -> str:
    """A median with its interval: "8.5 (7 to 16)"; alone where n < 6."""
    if value is None or value.value is None:
        return "-"
    if value.low is None or value.high is None:
        return number(value.value, digits)
    return f"{number(value.value, digits)} ({number(value.low, digits)} to {number(value.high, digits)})"


def temperature(setting: Setting) -> str:
    sampler = parse(setting.sampler)
    return f"temperature {number(sampler['temperature'], 3)}" if "temperature" in sampler else ""


def penalties(setting: Setting) -> str:
    """What the sampler sets against repetition, which decides how often a model loops: "repeat_penalty 1.1"; or ""."""
    said = (part for part in sampler(setting).split(", ") if "_penalty " in part or part.startswith("dry_multiplier "))
    return ", ".join(said)


_NEUTRAL = {"top_k": 0, "top_p": 1, "min_p": 0, "repeat_penalty": 1, "frequency_penalty": 0, "presence_penalty": 0}
_NEUTRAL["dry_multiplier"] = 0
"""Sampler values that change nothing, in llama.cpp's terms."""


def sampler(setting: Setting) -> str:
    """The sampler without what changes nothing: "temperature 0.7, top_p 0.8"."""
    values = parse(setting.sampler)
    values = {key: value for key, value in values.items() if key not in _NEUTRAL or value != _NEUTRAL[key]}
    if "dry_multiplier" not in values:
        values = {key: value for key, value in values.items() if not key.startswith("dry_")}
    if not any(key.endswith("_penalty") for key in values):
        values.pop("repeat_last_n", None)
    order = sorted(values, key=lambda key: (key != "temperature", key))
    return ", ".join(f"{key} {_plain(values[key])}" for key in order) or "none"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else dump(value)


def _setting(setting: Setting, several: bool) -> str:
    who = f"{setting.actor} actor" if setting.actor else setting.model or "unnamed model"
    decoded = [] if setting.actor else [setting.decode_mode, temperature(setting)]
    where = [f"{setting.runner} {setting.harness}".strip()] if several else []
    return ", ".join(part for part in (who, *decoded, *where) if part)


def _sampler(setting: Setting) -> str:
    return f"{sampler(setting)}, {setting.sha256[:8]}"


def _cell(cell: Cell) -> str:
    size = f", {cell.size}" if cell.size not in {"", "default"} else ""
    primed = f", primed {cell.priming}" if cell.priming else ""
    return f"{cell.scenario or 'unnamed scenario'}{size}{primed}"


def _distinct(names: dict[Key, str], more: Callable[[Key], str]) -> dict[Key, str]:
    """The names; equal ones get `more` of their key, and their place in the order where that does not help."""
    places = {key: f"#{place}" for place, key in enumerate(sorted(names), start=1)}
    for add in (more, places.__getitem__):
        counts = Counter(names.values())
        names = {key: f"{name}, {add(key)}" if counts[name] > 1 else name for key, name in names.items()}
    return names
