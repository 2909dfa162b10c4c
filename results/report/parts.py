"""What a report is made of: sections of paragraphs, tables and figures, the same for Markdown and HTML."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """A table of ready texts. `caption` says what n is. `numeric`: how many columns from the right are figures."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: int = 0


@dataclass(frozen=True)
class Picture:
    """A figure: `name` is its file without ending, `alt` says what it shows to those who do not see it."""

    name: str
    alt: str
    svg: bytes = field(repr=False)


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it, in this order; `level` is 2 or 3."""

    title: str
    level: int = 2
    paragraphs: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
