"""docs/guards.md: every table in it is what `tripbench guards show NAME --json` says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from guards import registry
from runners.cli import run

TEXT = (Path(__file__).parents[2] / "docs" / "guards.md").read_text(encoding="utf-8")
MOST_NAMES = 6
"""A longer list stands in the table by how long it is."""


def show(capsys: pytest.CaptureFixture[str], name: str) -> dict[str, Any]:
    assert run(["guards", "show", name, "--json"]) == 0
    row: dict[str, Any] = json.loads(capsys.readouterr().out)
    return row


def section(heading: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table but its headings, cell by cell."""
    found = re.findall(r"^\|.*\|\n\|(?:-+\|)+\n((?:^\|.*\|\n)+)", text, re.MULTILINE)
    return [
        [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in body.splitlines()]
        for body in found
    ]


def value(default: Any) -> str:
    if default is None:
        return "(not set)"
    if isinstance(default, list) and len(default) > MOST_NAMES:
        return f"({len(default)} names)"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def left_out(row: dict[str, Any]) -> str:
    (found,) = re.findall(r"^Left out: (.*?)(?=\n\n|\Z)", row["about"], re.MULTILINE | re.DOTALL)
    return " ".join(found.split())


@pytest.mark.parametrize("name", registry.names())
def test_the_keys_of_ours(capsys: pytest.CaptureFixture[str], name: str) -> None:
    row, text = show(capsys, name), section(name)
    keys, *presets = tables(text)
    of_engine = [key["key"] for key in row["keys"] if key["allowed"] == "what the base engine allows"]
    own = [key for key in row["keys"] if key["key"] not in of_engine]
    assert [cells[:3] for cells in keys] == [[f"`{key['key']}`", value(key["default"]), key["allowed"]] for key in own]
    assert all(cells[3] for cells in keys)
    assert f"Source: {row['source']}." in text
    listed = [f"`{key}`" for key in of_engine]
    assert all(key in text for key in listed)
    wanted = [
        [f"`{preset}`", ", ".join(f"`{key}` = `{json.dumps(each)}`" for key, each in keys.items())]
        for preset, keys in row["presets"].items()
    ]
    assert [cells[:2] for table in presets for cells in table] == wanted


def test_the_table_of_peers(capsys: pytest.CaptureFixture[str]) -> None:
    peers, skipped = tables(section("Peers"))
    assert [cells[0] for cells in peers] == [f"`{name}`" for name in registry.peer_names()]
    for name, (_, source, rule, defaults, without) in zip(registry.peer_names(), peers, strict=True):
        row = show(capsys, name)
        assert source == row["source"]
        assert rule == row["summary"]
        said = [f"`{key['key']}` = {value(key['default'])}" for key in row["keys"]]
        said += [
            f"preset `{preset}`: " + ", ".join(f"`{key}` = `{json.dumps(each)}`" for key, each in keys.items())
            for preset, keys in row["presets"].items()
        ]
        assert defaults == ("; ".join(said) or "none")
        assert without == left_out(row)
    assert skipped == [[f"`{name}`", why] for name, why in registry.skipped().items()]


def test_there_are_no_other_tables_and_sections() -> None:
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert headings == [*registry.names(), "Peers", "Trying a plugin"]
    assert (
        len(tables(TEXT)) == len(registry.names()) + sum(bool(registry.presets(name)) for name in registry.names()) + 2
    )
