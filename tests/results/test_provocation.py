"""The provocation tables: worked out by hand, nothing pooled, primed calls nobody's own."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.errors import UserError
from results.estimate import Estimate
from results.provocation import tables
from results.provocation_page import heading, page, verdict, write
from results.run import Run, load_run
from results.stats import median_interval, wilson
from tests.results.script import script
from tests.results.synthetic import run_directory

STAMP = {"stamp": {"oracle": 3}}
COLD = {"temperature": 0.0}


def run_of(folder, traces, **manifest):
    return load_run(run_directory(folder, traces, **(STAMP | manifest)))


def by_hand():
    """Six seeds of one scenario and two of another; each comment is what stands in the row."""
    given: dict[str, Any] = {"scenario": "ping-pong"}
    return [
        script("n s s s s", seed=0, **given),  # onset 2, length 4, to the horizon
        script("n n s s s n", seed=1, end="completed", success=True, **given),  # onset 3, length 3, left
        script("s s n s s", seed=2, end="completed", **given),  # none
        script("n A:n A:n A:s A:s A:s A:s A:s", seed=3, **given),  # onset 3, length 5, the child's
        script("n n", seed=4, end="completed", success=None, **given),  # none; success not known
        script("s s s s", seed=5, end="error", success=None, **given),  # an infrastructure error
        script("s C s C s C s", seed=0, scenario="refill-chatty", horizon=10, end="overflow"),  # both kinds, from 1
        script("u C u C u M u C s s s u", seed=1, scenario="refill-chatty", horizon=10),  # onset 5 of calls
    ]


def test_a_table_by_hand(tmp_path):
    (table,) = tables([run_of(tmp_path / "run", by_hand())])
    assert (table.key.priming, table.key.size, table.key.oracle, table.runs, table.absent) == (
        0,
        "default",
        "3",
        (0,),
        (),
    )
    first, second = table.rows
    assert (first.cell.scenario, first.episodes, first.errors) == ("ping-pong", Estimate(5, 5, None), 1)
    low, high = wilson(3, 5)
    assert first.provoked == Estimate(5, 5, 0.6, low, high, 3)
    assert first.onset == {"calls": Estimate(3, 3, 3.0)}
    assert first.length == {"calls": Estimate(3, 3, 4.0)}
    assert (first.recovered.count, first.recovered.n) == (1, 3)
    assert first.ends == (("completed", 3), ("horizon", 2))
    assert (first.solved.count, first.solved.n) == (1, 4)
    assert (second.cell.scenario, second.episodes.n, second.provoked.count) == ("refill-chatty", 2, 2)
    # Calls and attempts apart, never one median of both.
    assert second.onset == {"calls": Estimate(2, 2, 3.0), "refill": Estimate(1, 1, 1.0)}
    assert second.length == {"calls": Estimate(2, 2, 3.5), "refill": Estimate(1, 1, 3.0)}
    assert second.ends == (("horizon", 1), ("overflow", 1))
    assert [row.half for row in table.rows] == [True, True]


def test_the_page_by_hand(tmp_path):
    run = run_of(tmp_path / "run", by_hand(), command=["tripbench", "run", "--out", "a b"], git={"commit": "c" * 40})
    found = tables([run])
    text = page(found, [run])
    row = "| ping-pong | 24 tool turns | 5 (5) | 3 of 5 (60%, 23% to 88%) | call 3 (n 3) | 4 calls (n 3) | 1 of 3 |"
    assert f"{row} completed 3, horizon 2 | 1 of 4 | 1 |\n" in text
    assert "| call 3 (n 2); attempt 1 (n 1) | 3.5 calls (n 2); 3 attempts (n 1) |" in text
    assert "\n## tiny, lazy, temperature 0.7, unprimed, runner dsh\n" in text
    assert f"sha256 `{'ab' * 32}`; sampler temperature 0.7; harness dsh 0.2.1rc2; oracle version 3; run 1." in text
    assert "**Scenarios provoked in at least half of their episodes: 2 of 2 (no aim was set for this table).**" in text
    facts = "1. `tripbench run --out 'a b'`; begun 2026-11-30T12:00:00Z; tripbench 0.1.0; harness dsh 0.2.1rc2; commit "
    assert f"{facts}{'c' * 12}; oracle version 3; " in text
    assert "Seeds from 1,000 on, on which texts were tuned, are not used here." in text
    assert "Not for publication" not in text
    tuned = page(found, [run], tuning=True)
    assert "Not for publication" in tuned
    assert "are not used here" not in tuned


def test_half_is_at_least_half(tmp_path):
    traces = [
        *(script("s s s" if seed < 3 else "n", seed=seed, scenario="ping-pong") for seed in range(6)),
        *(script("s s s" if seed < 2 else "n", seed=seed, scenario="failing-edit") for seed in range(6)),
        *(script("s s s", seed=seed, end="error", scenario="wasted-read") for seed in range(6)),
    ]
    run = run_of(tmp_path / "run", traces)
    (table,) = tables([run])
    assert {row.cell.scenario: row.half for row in table.rows} == {
        "ping-pong": True,
        "failing-edit": False,
        "wasted-read": False,
    }
    text = page([table], [run])
    assert "Provoked in less than half: failing-edit (2 of 6), wasted-read (-).\n" in text
    assert "| wasted-read | 24 tool turns | 0 (0) | - | - | - | - | - | - | 6 |\n" in text


def test_equal_trajectories_without_sampling_are_one_piece_of_evidence(tmp_path):
    traces = [script("s s s" if seed < 5 else "n", seed=seed, sampler=COLD) for seed in range(6)]
    (table,) = tables([run_of(tmp_path / "run", traces)])
    (row,) = table.rows
    assert (row.episodes.n, row.episodes.unique) == (6, 2)
    assert (row.provoked.count, row.provoked.n, row.provoked.low, row.provoked.high) == (5, 6, *wilson(1, 2))
    assert median_interval([1] * 6) is not None
    assert row.onset["calls"] == Estimate(5, 1, 1.0)


def test_an_actor_is_one_episode(tmp_path):
    given: dict[str, Any] = {"model": {"name": "actor:looping", "sha256": None}, "actor": "looping", "sampler": {}}
    run = run_of(tmp_path / "run", [script("s s s", seed=seed, **given) for seed in range(3)])
    (table,) = tables([run])
    (row,) = table.rows
    assert (row.provoked.count, row.provoked.n, row.provoked.low) == (1, 1, None)
    assert heading(table) == "looping actor, unprimed, runner dsh"
    text = page([table], [run])
    assert "\n## looping actor, unprimed, runner dsh\n\nHarness dsh 0.2.1rc2; oracle version 3; run 1.\n" in text
    assert f"\n- {heading(table)}: {verdict(table)}\n\n" in text


# -- primed calls ----------------------------------------------------------------------------------------------------


def test_primed_calls_are_nobodys_own(tmp_path):
    traces = [
        script("ps ps ps ps n s s s", seed=0, priming=4),  # onset: the second of its own, length 3
        script("ps ps ps ps s s n", seed=1, priming=4),  # two of its own: no loop
        script("ps ps ps ps s s s s", seed=2, priming=4),  # onset 1, length 4
    ]
    (table,) = tables([run_of(tmp_path / "run", traces)])
    (row,) = table.rows
    assert (row.provoked.count, row.provoked.n) == (2, 3)
    assert (row.onset["calls"].value, row.length["calls"].value) == (1.5, 3.5)
    assert heading(table).endswith("4 primed repeats, runner dsh")


def test_primed_and_manual_attempts_are_not_counted(tmp_path):
    traces = [script("C ps C ps M C s C s C s", seed=0, priming=2, scenario="refill-oversized")]
    (table,) = tables([run_of(tmp_path / "run", traces)])
    assert table.rows[0].onset["refill"].value == 1
    assert table.rows[0].length["refill"].value == 3


@given(primed=st.integers(0, 5), own=st.lists(st.sampled_from("nes"), max_size=8))
def test_priming_moves_no_figure(primed, own):
    """What is primed changes no figure about the model's own calls."""
    found = []
    for marks in (own, [*["ps"] * primed, *own]):
        (table,) = tables([Run(Path("run"), {}, (script(" ".join(marks), seed=0, priming=primed),))])
        found.append((table.rows[0].provoked, table.rows[0].onset, table.rows[0].length, table.rows[0].recovered))
    assert found[0] == found[1]


# -- what is never pooled --------------------------------------------------------------------------------------------

APART: dict[str, dict[str, Any]] = {
    "model": {"model": {"name": "other", "sha256": "ab" * 32}},
    "file": {"model": {"name": "tiny", "sha256": "cd" * 32}},
    "mode": {"decode_mode": "forced"},
    "sampler": {"sampler": COLD},
    "priming": {"priming": 4},
    "runner": {"runner": "native"},
    "harness": {"harness": {"name": "dsh", "version": "0.3.0"}},
    "size": {"size": "large"},
}


@pytest.mark.parametrize("difference", APART)
@pytest.mark.parametrize("together", [True, False])
def test_nothing_is_pooled(tmp_path, difference, together):
    """Not in one run and not over two, where names of episodes may be the same."""
    ours = [script("s s s", seed=seed, name=f"a{seed}") for seed in (0, 1)]
    theirs = [
        script("n", seed=seed, name=f"{'b' if together else 'a'}{seed}", **APART[difference]) for seed in (0, 1, 2)
    ]
    if together:
        runs = [run_of(tmp_path / "one", [*ours, *theirs])]
    else:
        runs = [run_of(tmp_path / "one", ours), run_of(tmp_path / "two", theirs)]
    found = tables(runs)
    assert sorted((table.rows[0].provoked.count, table.rows[0].provoked.n) for table in found) == [(0, 3), (2, 2)]
    assert all(len(table.rows) == 1 for table in found)
    assert len({table.key for table in found}) == 2


def test_oracle_versions_are_not_pooled(tmp_path):
    runs = [
        run_of(tmp_path / str(version), [script("s s s", seed=version)], stamp={"oracle": version})
        for version in (1, 2)
    ]
    assert [(table.key.oracle, table.runs) for table in tables(runs)] == [("1", (0,)), ("2", (1,))]


def test_runs_of_equal_conditions_are_one_table(tmp_path):
    runs = [run_of(tmp_path / str(seed), [script("s s s", seed=seed, name="a")]) for seed in (0, 1)]
    (table,) = tables(runs)
    assert (table.rows[0].provoked.count, table.rows[0].provoked.n, table.runs) == (2, 2, (0, 1))


def test_guarded_and_quiet_episodes_are_left_out(tmp_path):
    traces = [
        script("n", seed=0),
        script("s s s s!cb@host", seed=0, arm="host"),
        script("e e s s s", seed=0, scenario="poll-queued", expect="quiet"),
    ]
    (table,) = tables([run_of(tmp_path / "run", traces)])
    assert [(row.cell.scenario, row.provoked.count, row.provoked.n) for row in table.rows] == [("search-mirage", 0, 1)]


# -- aims ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "aim"),
    [
        ({"sampler": COLD}, 7),
        ({"sampler": COLD, "priming": 4}, 9),
        ({"sampler": COLD, "priming": 2}, None),
        ({"sampler": {"temperature": 0.7}}, None),
        ({"sampler": COLD, "decode_mode": "forced"}, None),
        ({"sampler": {}, "actor": "looping", "model": {"name": "actor:looping"}}, None),
    ],
)
def test_aims_stand_only_where_the_issue_names_them(tmp_path, given, aim):
    (table,) = tables([run_of(tmp_path / "run", [script("s s s", seed=0, **given)])])
    said = "no aim was set for this table" if aim is None else f"aim, not a result: {aim}"
    assert table.key.aim == aim
    assert verdict(table) == f"scenarios provoked in at least half of their episodes: 1 of 1 ({said})"


# -- what is absent, and what is refused -----------------------------------------------------------------------------


def planned(**changes):
    cold = {"decode_mode": "lazy", "settings": {"temperature": 0.0}, "seeds": 1}
    card = {"decode_mode": "lazy", "settings": None, "seeds": None}
    scenarios = [["search-mirage", "default"], ["ping-pong", "default"], ["poll-queued", "default"]]
    plan = {"scenarios": scenarios, "seeds": [0, 1, 2], "modes": [cold, card]} | changes
    models = [{"name": "tiny", "sha256": "ab" * 32, "sampler": {"temperature": 0.7}}]
    return {"plan": plan, "models": models}


def test_planned_episodes_without_a_trace_are_named(tmp_path):
    traces = [
        script("n", seed=0),
        script("n", seed=2, end="error"),
        script("n", seed=0, sampler=COLD, name="cold"),
        script("e", seed=0, scenario="poll-queued", expect="quiet"),
    ]
    run = run_of(tmp_path / "run", traces, **planned())
    cold, card = tables([run])
    assert (cold.key.setting.greedy, cold.absent) == (True, (("ping-pong", 1),))
    assert card.absent == (("ping-pong", 3), ("search-mirage", 1))
    assert "**Not finished**: planned episodes without a trace: ping-pong (3), search-mirage (1).\n" in page(
        [card], [run]
    )


@pytest.mark.parametrize("plan", [3, {"modes": 3}, {"modes": [{}]}, planned(seeds=3)["plan"]])
def test_a_plan_that_is_none(tmp_path, plan):
    run = run_of(tmp_path / "run", [script("n", seed=0)], **(planned() | {"plan": plan}))
    with pytest.raises(UserError, match=r"manifest.json: plan or models are not as `tripbench run` writes them"):
        tables([run])


def test_seeds_for_tuning(tmp_path):
    runs = [run_of(tmp_path / "run", [script("s s s", seed=seed) for seed in (999, 1000)])]
    with pytest.raises(UserError, match=r"search-mirage.off.1000 has seed 1000, .*tuning") as error:
        tables(runs)
    assert "\n" not in str(error.value)
    assert tables(runs, tuning=True)[0].rows[0].provoked.n == 2


def test_a_seed_for_tuning_that_failed_is_one_too(tmp_path):
    with pytest.raises(UserError, match="has seed 1000"):
        tables([run_of(tmp_path / "run", [script("n", seed=0), script("n", seed=1000, end="error")])])


def test_what_can_not_be_counted(tmp_path):
    with pytest.raises(UserError, match="has no seed"):
        tables([run_of(tmp_path / "none", [script("n", seed=None)])])
    with pytest.raises(UserError, match="holds no episode of a trip scenario without guards"):
        tables([run_of(tmp_path / "quiet", [script("e", expect="quiet"), script("n", arm="host")])])
    with pytest.raises(UserError, match=r"search-mirage was run with horizons 12 and 24, which are not comparable"):
        tables([run_of(tmp_path / "two", [script("n", seed=0), script("n", seed=1, horizon=12)])])
    runs = [run_of(tmp_path / name, [script("n", seed=0)]) for name in ("a", "b")]
    with pytest.raises(UserError, match=r"b: episode search-mirage.off.0 \(seed 0\) stands in .*a too"):
        tables(runs)


# -- files -----------------------------------------------------------------------------------------------------------


def test_the_files_are_the_same_twice(tmp_path):
    run = run_of(tmp_path / "run", by_hand())
    for name in ("one", "two"):
        write(tables([load_run(run.directory)]), [run], tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert sorted(one) == ["provocation.csv", "provocation.md"]
    with (tmp_path / "one" / "provocation.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    wanted = {"scenario": "ping-pong", "model": "tiny", "priming": "0", "oracle": "3", "n": "5", "unique": "5"}
    wanted |= {"errors": "1", "provoked": "3", "onset_calls": "3", "onset_calls_n": "3", "length_calls": "4"}
    wanted |= {"onset_refill": "", "recovered": "1", "solved": "1", "solved_n": "4", "ends": "completed:3 horizon:2"}
    assert {key: first[key] for key in wanted} == wanted
    # Rounded when it is written, not before.
    assert first["provoked_low"] == f"{wilson(3, 5).low:.10g}"
    assert (second["onset_calls"], second["onset_refill"], second["length_refill"]) == ("3", "1", "3")


def test_a_folder_that_can_not_be_written(tmp_path):
    run = run_of(tmp_path / "run", [script("n", seed=0)])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--out .*file: .*; choose another folder"):
        write(tables([run]), [run], tmp_path / "file")
