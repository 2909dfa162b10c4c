"""What a report says, in both its forms."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from results.pairs import Study
from results.report import page, words
from results.report.parts import Section, Table
from results.report.timing import incidences
from results.run import load_run, write_report
from results.stats import Step
from results.summary import rows
from results.trace import Notice
from tests.results.script import script
from tests.results.synthetic import MANIFEST, quick, run_directory


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    run = load_run(run_directory(tmp_path_factory.mktemp("runs") / "run", quick(seeds=3)))
    write_report(run)
    return run.directory


@pytest.fixture(scope="module")
def markdown(report):
    return (report / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def html(report):
    return (report / "report.html").read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Checks that tags nest; collects text and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.addresses += [values[name] for name in ("src", "href") if values.get(name)]
        self.ids += [values["id"]] if "id" in values else []
        if tag == "img":
            self.images.append(values)
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


def test_html_is_one_file_that_asks_for_nothing(html):
    found = Outline(html)
    assert all(address.startswith(("data:image/svg+xml;base64,", "#")) for address in found.addresses)
    assert {address[1:] for address in found.addresses if address[0] == "#"} == set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert "://" not in html
    assert "<script" not in html


def test_html_holds_the_figures_that_stand_beside_it(html, report):
    shown = [base64.b64decode(image["src"].partition(",")[2]) for image in Outline(html).images]
    beside = {each.name: each.read_bytes() for each in (report / "figures").iterdir()}
    assert sorted(shown) == sorted(beside.values())
    assert all(image["alt"] for image in Outline(html).images)
    assert {name.partition("--")[0] for name in beside} == {
        "trip-timing",
        "trip-curves",
        "false-positives",
        "calls-saved",
        "after-the-trip",
    }


def test_markdown_tables_have_as_many_cells_as_columns(markdown, report):
    width = None
    tables = 0
    for line in markdown.splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        tables += width is None
        width = width or cells
        assert cells == width
    assert tables > 10
    for name in re.findall(r"\]\((figures/[^)]+)\)", markdown):
        assert (report / name).is_file()


def test_no_rate_is_a_bare_zero(markdown, html):
    for text in (markdown, html):
        assert re.search(r"\b0 of \d+, upper bound \d+%", text)
        assert not re.search(r"\b0 of \d+ \(|\(0%", text)


def test_the_horizon_stands_beside_what_was_saved(markdown):
    saved = markdown.partition("### What do they save?")[2].partition("###")[0]
    lines = [line for line in saved.splitlines() if "| saved |" in line or "| lost |" in line]
    assert lines
    assert all("| 24 tool turns |" in line or "| 10 compaction attempts |" in line for line in lines)


def test_errors_are_listed_by_name_and_cause(markdown):
    told = markdown.partition("## Infrastructure errors")[2]
    for name in ("poll-progress.t0.7.host.3", "search-mirage.t0.7.host.3"):
        assert f"| {name} | infrastructure error without a recorded cause |" in told


def _with_notice(trace, notice):
    """The trace with a notice before everything but the user's message."""
    first, *rest = trace.events
    return replace(trace, events=(first, notice, *rest))


def said(*traces, **manifest):
    """The report's sections as one text."""
    study = Study(traces)
    found = page.sections(study, rows(study), manifest)
    return page.render("report.md", "a report", found)


def test_a_trip_scenario_without_a_loop_is_said_to_be_not_provoked():
    traces = [script("n n s s", arm=arm, seed=seed) for arm in ("off", "host") for seed in (1, 2)]
    text = said(*traces)
    assert "search-mirage: not provoked (0 of 2 `off` episodes hold a loop, upper bound 66%)." in text
    assert "### When do guards trip?\n\nNo pair with a guard was provoked.\n" in text
    some = said(*traces, *(script("s s s", arm=arm, seed=3) for arm in ("off", "host")))
    assert "search-mirage: provoked in 1 of 3 `off` episodes" in some
    assert "has no sound `off` episode" in said(script("s s s", arm="host"))


def test_harm_that_can_not_be_measured_is_said_so():
    text = said(script("s s s"), script("s s s!cb@host", arm="host"))
    assert "not measurable with this model" in text
    assert "Harm is not measurable with this model where it solves nothing without a guard: search-mirage." in text


def test_doubts_about_a_run_are_said():
    fine = [script("s s s"), script("s s?lg@host s", arm="host")]
    assert "an equal history up to the first intervention" in said(*fine)
    text = said(script("s s s"), script("s n s s", arm="host"), script("n", arm="agent", seed=2))
    assert "- search-mirage.host.1 differs from search-mirage.off.1 at step 3, before any intervention" in text
    assert "- no `off` twin, so in no paired figure: search-mirage.agent.2" in text
    # What the harness says in `off` too is no intervention.
    told = Notice(text="the subagent is done", source="subagent-settled")
    text = said(*(_with_notice(trace, told) for trace in (script("s s s"), script("s n s s", arm="host"))))
    assert "- search-mirage.host.1 differs from search-mirage.off.1 at step 3, before any intervention" in text
    text = said(script("s s s"), script("s s s", arm="host", tag="x"))
    assert (
        "the first prompt is not that of search-mirage.off.1, so they are not comparable: search-mirage.host.1" in text
    )


def test_nothing_from_outside_becomes_markup(tmp_path):
    name = "<img src=x onerror=alert(1)>|`x`"
    traces = [
        script("s s s", scenario=name, name="e1", model={"name": name, "sha256": ""}),
        script("n", name=name, end="error", seed=2),
    ]
    run = load_run(run_directory(tmp_path / "run", [traces[0]], suite=name, hardware={"cpu": name}))
    write_report(run)
    text = (run.directory / "report.html").read_text()
    assert "<img src=x" not in text
    assert all(image["src"].startswith("data:") for image in Outline(text).images)
    assert "&lt;img" in text
    markdown = (run.directory / "report.md").read_text()
    assert all(
        "onerror=alert(1)>\\|" in line for line in markdown.splitlines() if line.startswith("|") and "onerror" in line
    )


def test_what_the_manifest_does_not_hold_is_left_out():
    text = said(script("n"), suite="quick", hardware={}, models=[])
    assert "| suite | quick |" in text
    assert "hardware" not in text
    assert "| model |" not in text
    full = said(script("n"), **MANIFEST)
    assert "| decoded | 41230 |" in full
    assert "| arm both | 27709 |" in full
    assert "2026-11-30" not in full
    models = [{"name": "m", "sampler": {"temperature": 1}, "stops": ["\n", ":"]}, {"name": "o"}]
    several = said(script("n"), models=models)
    assert '| model | name m, stops "\\n", : |' in several
    assert "| model | name o |" in several


def test_a_sampler_is_told_without_what_changes_nothing():
    whole = {"temperature": 0.7, "top_k": 20, "top_p": 1.0, "repeat_penalty": 1.0, "repeat_last_n": 64}
    whole |= {"dry_multiplier": 0.0, "dry_base": 1.75, "dry_breakers": ["\n"]}
    (setting,) = Study([script("n", sampler=whole)]).settings
    assert words.sampler(setting) == "temperature 0.7, top_k 20"
    (setting,) = Study([script("n", sampler=whole | {"repeat_penalty": 1.05})]).settings
    assert words.sampler(setting) == "temperature 0.7, repeat_last_n 64, repeat_penalty 1.05, top_k 20"


def test_settings_that_share_a_name_are_told_apart():
    given = [{"sampler": {"temperature": 0.7, "top_p": p}, "name": f"e{p}"} for p in (0.8, 0.9)]
    study = Study([script("n", **each) for each in given])
    names = words.Names(study)
    found = [names.setting(each) for each in study.settings]
    assert len(set(found)) == 2
    assert all("top_p" in each for each in found)
    assert len({names.slug(each) for each in study.settings}) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (-0.01, "0"), (8.5, "8.5"), (1200.04, "1,200"), (100.0, "100"), (3.0, "3")],
)
def test_numbers(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.004, "0.4%"), (0.5, "50%"), (0.996, "99.6%"), (1.0, "100%")]
)
def test_percentages(share, text):
    assert words.percent(share) == text


def test_curves_are_those_of_the_pairs():
    offs = [script("s s s s s s", seed=seed) for seed in range(4)]
    marks = ["s s s!cb@host", "s s s!cb@host", "s s n", "s s s s s"]
    guarded = [script(text, seed=seed, arm="host") for seed, text in enumerate(marks)]
    study = Study([*offs, *guarded])
    (curve,) = incidences(study, study.cells[0], "calls")
    # All four are at risk at 2: two trip there, one recovers there.
    assert (curve.arms, curve.n, curve.steps, curve.last) == (("host",), 4, (Step(2, 0.5),), 4)


def test_render_takes_any_section():
    section = Section("T", 3, ("p `c`",), ("i",), (), (Table("c", ("a", "b"), (("1", "2"),), 1),))
    html = page.render("report.html", "t", [section])
    assert "<p>p <code>c</code></p>" in html
    assert '<td class="n">2</td>' in html
