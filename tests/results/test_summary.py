"""The rows of a summary: derived a second time, one observation where there is one, and nothing mixed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from results import estimate
from results.pairs import OFF, Study
from results.run import load_run, write_tables
from results.stats import clustered, wilson
from results.summary import rows
from results.trace import Step
from tests.results.script import script
from tests.results.second_derivation import differences
from tests.results.synthetic import anything, quick, run_directory


@pytest.mark.parametrize(("made", "seed"), [(quick, 0), (anything, 0), (anything, 1), (anything, 2)])
def test_every_number_is_derived_a_second_time(made, seed, tmp_path):
    run = load_run(run_directory(tmp_path / "run", made(seed)))
    write_tables(run)
    assert len(run.rows) > 500
    assert differences(run.directory) == []


@pytest.mark.parametrize("change", ["value", "interval", "row", "trace"])
def test_the_second_derivation_sees_a_wrong_number(change, tmp_path):
    traces = [script("n s s s s", seed=1), script("n s s s!cb@host", seed=1, arm="host")]
    run = load_run(run_directory(tmp_path / "run", traces))
    write_tables(run)
    assert differences(run.directory) == []
    path = run.directory / "summary.csv"
    lines = path.read_text().splitlines()
    place = next(place for place, line in enumerate(lines) if ",host,,,denied_sterile_in_loop," in line)
    cells = lines[place].split(",")
    if change == "value":
        cells[-3] = str(float(cells[-3]) + 0.01)
    elif change == "interval":
        cells[-1] = ""
    lines[place : place + 1] = [] if change == "row" else [",".join(cells)]
    if change == "trace":
        run_directory(tmp_path / "other", [traces[0], script("n s!cb@host s s", seed=1, arm="host")])
        (tmp_path / "other" / "summary.csv").write_text(path.read_text())
        assert differences(tmp_path / "other")
    else:
        path.write_text("\n".join(lines) + "\n")
        assert len(differences(run.directory)) == 1


def figures(traces):
    study = Study(traces)
    return {
        (row.cell.setting.decode_mode, row.arm, row.guard, row.plane, row.metric): row.estimate for row in rows(study)
    }


def test_a_row_by_hand():
    traces = [script("n s s s s", seed=seed) for seed in (1, 2, 3)] + [script("n n", seed=4)]
    guarded = ["n s s s!cb@host s!cb@host", "n s s s s", "n!cb@host s s s", "n n!cb@host"]
    traces += [script(marks, seed=seed, arm="host") for seed, marks in enumerate(guarded, start=1)]
    found = figures(traces)
    place = ("lazy", "host", "circuit-breaker", "host")
    assert (found["lazy", OFF, "", "", "provoked"].count, found["lazy", OFF, "", "", "provoked"].n) == (3, 4)
    assert found["lazy", OFF, "", "", "provoked"].unique == 2
    assert [found[*place, f"trip_{status}"].count for status in ("acted", "early", "missed")] == [1, 1, 1]
    assert (found[*place, "trip_index"].value, found[*place, "trip_index"].n) == (2.5, 2)
    assert found[*place, "trip_delay"].value == 0.5
    useful = found["lazy", "host", "", "", "denied_useful"]
    assert (useful.count, useful.n, useful.value) == (2, 5, 0.4)
    assert (useful.low, useful.high) == clustered([0, 0, 1, 1], [1, 1, 1, 2])
    total = found["lazy", "host", "", "", "saved_calls_total"]
    assert (total.value, total.n) == (2 + 0 + 2, 3)
    assert found["lazy", "host", "", "", "off_after_onset_calls_total"].value == 12
    assert found["lazy", "host", "", "", "lost_calls"].value == 1
    assert ("lazy", "host", "", "", "quiet_false_positive") not in found


def test_no_figure_mixes_decode_modes_or_models():
    """A run of two modes and two models has exactly the rows that the four runs apart have."""
    apart = []
    for place, (mode, model) in enumerate((m, n) for m in ("lazy", "forced") for n in ("small", "big")):
        marks = ["s " * (3 + place), "n " * (2 + place)]
        given = {"decode_mode": mode, "model": {"name": model, "sha256": model}}
        apart.append(
            [
                script(f"{text}{last}", arm=arm, seed=seed, name=f"{mode}-{model}-{arm}-{seed}", **given)
                for seed, text in enumerate(marks)
                for arm, last in (("off", ""), ("host", "s!cb@host"))
            ]
        )
    together = rows(Study([trace for traces in apart for trace in traces]))
    singly = [row for traces in apart for row in rows(Study(traces))]
    assert sorted(map(repr, together)) == sorted(map(repr, singly))
    assert len({row.cell.setting for row in together}) == 4


def test_errors_are_in_no_row():
    traces = [script("n s s s s", seed=seed, arm=arm) for seed in (1, 2) for arm in ("off", "host")]
    broken = [script("s s s!cb@host n!cb@host", seed=3, arm=arm, end="error") for arm in ("off", "host")]
    assert rows(Study([*traces, *broken])) == rows(Study(traces))


def test_evidence_of_a_model_an_unsampled_model_and_an_actor():
    traces = [script("s s s", seed=seed) for seed in (1, 2, 3)] + [script("n", seed=4)]
    warm = figures(traces)["lazy", OFF, "", "", "provoked"]
    assert (warm.count, warm.n, warm.unique, (warm.low, warm.high)) == (3, 4, 2, wilson(3, 4))
    cold = {"sampler": {"temperature": 0.0}}
    greedy = figures([_again(trace, cold) for trace in traces])
    value = greedy["lazy", OFF, "", "", "provoked"]
    assert (value.count, value.n, value.unique, (value.low, value.high)) == (3, 4, 2, wilson(1, 2))
    acted = figures([_again(trace, {"actor": "honest"}) for trace in traces])["lazy", OFF, "", "", "provoked"]
    assert (acted.count, acted.n, acted.unique, acted.low, acted.high) == (1, 1, 1, None, None)


def _again(trace, meta):
    return replace(trace, header=replace(trace.header, meta=trace.header.meta | meta))


def test_medians_leave_out_what_is_not_known():
    (cell,) = Study([script("n")]).cells
    found = estimate.median(cell.setting, [("a", 3), ("b", None), ("c", 1)])
    assert (found.value, found.n, found.unique, found.count) == (2, 2, 2, None)
    assert estimate.total([("a", None)]).value is None
    assert estimate.rate(cell.setting, []).value is None


def test_a_pair_with_an_unknown_side_is_in_neither_sum():
    traces = [script("s s s s", seed=seed) for seed in (1, 2)]
    traces += [script("s s s!cb@host", seed=seed, arm="host") for seed in (1, 2)]
    steps = [event for event in traces[3].events if isinstance(event, Step)]
    untold = [replace(event, input_tokens=None) if event is steps[0] else event for event in traces[3].events]
    found = figures([*traces[:3], replace(traces[3], events=tuple(untold))])
    for metric, value in (("saved_tokens_total", 110), ("off_after_onset_tokens_total", 440), ("saved_calls_total", 4)):
        row = found["lazy", "host", "", "", metric]
        assert (row.value, row.n) == (value, 1 if "tokens" in metric else 2)


def test_harm_and_rescues_need_twins_that_differ():
    traces = []
    for seed, (theirs, ours) in enumerate([(True, False), (True, True), (False, True)]):
        traces += [script("n", seed=seed, success=theirs), script("n n", seed=seed, arm="host", success=ours)]
    found = figures(traces)
    assert (found["lazy", "host", "", "", "harmed"].count, found["lazy", "host", "", "", "harmed"].n) == (1, 2)
    assert (found["lazy", "host", "", "", "rescued"].count, found["lazy", "host", "", "", "rescued"].n) == (1, 1)
    assert found["lazy", "host", "", "", "harm_p"].value == 1
    failed = figures([_again(trace, {}) for trace in traces if trace.header.meta["seed"] == 2])
    assert ("lazy", "host", "", "", "harmed") not in failed
    assert ("lazy", "host", "", "", "harm_p") not in failed
