"""The report of a run, as Markdown and as one HTML file that needs no server and no network."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from guards.json_text import dump
from results.checks import checks
from results.console import COLUMNS, brief
from results.pairs import Setting, Study
from results.report import captions, limits, timing
from results.report.figures import Charts
from results.report.parts import Picture, Section, Table
from results.report.questions import Questions
from results.report.words import Figures, Names, horizon, sampler
from results.summary import Row

SHOWN = ("tripbench", "suite", "harness", "models", "hardware", "arms", "seeds", "stamp")
"""What of the manifest a report shows, in this order. When and by which command a run was made stays in the manifest:
a report is the same, byte for byte, of an interrupted and resumed run and of an undisturbed one."""


def write(study: Study, rows: list[Row], manifest: dict[str, Any], directory: Path) -> None:
    """Writes `report.md`, `report.html` and `figures/*.svg`; figures of an earlier report are removed."""
    found = sections(study, rows, manifest)
    figures = directory / "figures"
    figures.mkdir(exist_ok=True)
    for old in sorted(figures.glob("*.svg")):
        old.unlink()
    for picture in (each for section in found for each in section.pictures):
        (figures / f"{picture.name}.svg").write_bytes(picture.svg)
    title = f"tripbench report: {manifest['suite']}" if manifest.get("suite") else "tripbench report"
    for name in ("report.md", "report.html"):
        (directory / name).write_bytes(render(name, title, found).encode())


def sections(study: Study, rows: list[Row], manifest: dict[str, Any]) -> list[Section]:
    """Everything that the report says, in order."""
    figures, names = Figures(rows), Names(study)
    found = [
        Section("What was run", paragraphs=_intro(study), tables=tuple(_provenance(study, names, manifest))),
        Section("In brief", tables=tuple(_brief(study, figures, names))),
    ]
    for setting in study.settings:
        found += _setting(study, figures, names, setting)
    return [*found, *_doubts(study)]


def render(name: str, title: str, found: list[Section]) -> str:
    """The text of `report.md` or `report.html`."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    source = files("results.report").joinpath(f"{name}.j2").read_text(encoding="utf-8")
    environment = Environment(
        loader=DictLoader({name: source}),
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "coded": _coded,
        "line": _line,
        "cell": _cell,
        "data": _data,
        "slug": _slug,
        "groups": _groups,
    }
    return environment.get_template(name).render(title=title, sections=found)


def _intro(study: Study) -> tuple[str, ...]:
    counted = "1 episode" if len(study.episodes) == 1 else f"{len(study.episodes)} episodes"
    failed = f", {len(study.failed)} of them infrastructure errors, which are in no figure" if study.failed else ""
    return (
        f"{counted}{failed}. Every number below is taken from the traces of this run; `summary.csv` holds them all, "
        "and `manifest.json` says when and how the run was made.",
        captions.READING,
    )


def _provenance(study: Study, names: Names, manifest: dict[str, Any]) -> Iterator[Table]:
    rows = []
    for key in (key for key in SHOWN if manifest.get(key) not in (None, "", [], {})):
        each = manifest[key] if key == "models" and isinstance(manifest[key], list) else [manifest[key]]
        rows += [("model" if key == "models" else key, _told(value)) for value in each]
    for setting in study.settings:
        if not setting.actor:
            rows.append((f"sampler of {names.setting(setting)}", sampler(setting)))
    if rows:
        yield Table("", ("what", "value"), tuple(rows))
    tokens = manifest.get("tokens")
    if isinstance(tokens, dict):
        by_arm = tokens.get("by_arm")
        counts = [(name, _told(tokens[name])) for name in ("decoded", "reused") if name in tokens]
        counts += [(f"arm {arm}", _told(by_arm[arm])) for arm in sorted(by_arm)] if isinstance(by_arm, dict) else []
        yield Table(captions.TOKENS, ("completion tokens", "count"), tuple(counts), numeric=1)


def _brief(study: Study, figures: Figures, names: Names) -> Iterator[Table]:
    for place, setting in enumerate(study.settings):
        rows = [
            (f"{names.cell(cell)} ({cell.expect}, {horizon(cell)})", *row)
            for cell in study.cells
            if cell.setting == setting
            for row in brief(study, figures, cell)
        ]
        caption = f"{names.setting(setting)}. {captions.BRIEF if place == 0 else ''}".strip()
        yield Table(caption, ("scenario", *COLUMNS), tuple(rows))


def _setting(study: Study, figures: Figures, names: Names, setting: Setting) -> Iterator[Section]:
    questions = Questions(study, figures, names, setting)
    charts = Charts(study, figures, names, setting)
    yield Section(names.setting(setting), paragraphs=(captions.ACTOR,) if setting.actor else ())
    unprovoked = limits.not_provoked(study, figures, names, setting)
    yield Section("What was provoked", 3, items=tuple(unprovoked), tables=_some(questions.provoked()))
    pictures = _drawn(timing.first_acts(study, names, setting), timing.curves(study, names, setting))
    tables = _some(questions.timing("calls"), questions.timing("refill"))
    said = captions.CURVES if pictures else "" if tables else "No pair with a guard was provoked."
    yield _section("When do guards trip?", said, pictures, tables)
    tables = _some(questions.false_positives(), questions.by_guard(), questions.harm())
    said = "" if tables else "No arm with a guard was run."
    yield _section("What do they break?", said, _drawn(charts.false_positives()), tables)
    tables = _some(questions.saved())
    said = "" if tables else "No pair of a guarded episode and its twin was run."
    yield _section("What do they save?", said, _drawn(charts.saved()), tables)
    tables = _some(questions.after())
    said = "" if tables else "No guard tripped."
    yield _section("What happens after the trip?", said, _drawn(charts.after_trip()), tables)
    yield Section("What this sample can not show", 3, items=tuple(limits.limits(study, figures, names, setting)))


def _section(title: str, said: str, pictures: tuple[Picture, ...], tables: tuple[Table, ...]) -> Section:
    return Section(title, 3, (said,) if said else (), (), pictures, tables)


def _doubts(study: Study) -> Iterator[Section]:
    rows = tuple((episode.name, episode.failure or "") for episode in study.failed)
    none = () if rows else ("None.",)
    tables = (Table(captions.FAILED, ("episode", "cause"), rows),) if rows else ()
    yield Section("Infrastructure errors", paragraphs=none, tables=tables)
    found = tuple(checks(study))
    yield Section("Checks of this run", paragraphs=(captions.CHECKS if found else captions.NO_CHECKS,), items=found)
    yield Section("Method", items=captions.METHOD)


def _some(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None and table.rows)


def _drawn(*pictures: Picture | None) -> tuple[Picture, ...]:
    return tuple(picture for picture in pictures if picture is not None)


def _told(value: Any) -> str:
    """A value of the manifest in one line. A model's sampler is left out: it stands with the setting."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(value[key])}" for key in sorted(value) if key != "sampler")
    if isinstance(value, list):
        return ", ".join(_told(each) for each in value)
    return value if isinstance(value, str) and value.isprintable() else dump(value)


def _coded(text: str) -> Markup:
    """Escaped text for HTML, with what stands between backquotes as code."""
    parts = re.split(r"`([^`]*)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )


def _line(text: str) -> str:
    """Text in one line, for Markdown."""
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return "<br>".join(_line(part) for part in text.replace("|", "\\|").split("\n"))


def _data(svg: bytes) -> str:
    """The picture as a data URI, so that nothing outside the file is asked for and no ids of two pictures meet."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _groups(table: Table) -> list[tuple[str | None, list[tuple[str, ...]]]]:
    """The rows of each scenario that follow each other; None and all rows where the first column is no scenario."""
    if table.columns[0] != "scenario":
        return [(None, list(table.rows))]
    return [(name, list(rows)) for name, rows in groupby(table.rows, key=lambda row: row[0])]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
