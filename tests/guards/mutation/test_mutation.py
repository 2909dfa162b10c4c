"""Changes to the decision cores are noticed; `make mutation` prints each file's counts and the known survivors."""

from __future__ import annotations

import json
import sys

import pytest

from tests.guards.mutation import python_run, script_run
from tests.guards.mutation.check import PYTHON, ROOT, SCRIPTS, Found, all_mutants, judge, known, missing, sample, wrong
from tests.guards.mutation.mutant import Mutant
from tests.guards.mutation.python_mutants import python_mutants
from tests.guards.mutation.rows import givens, replays, texts
from tests.guards.mutation.script_mutants import script_mutants
from tests.guards.mutation.script_tokens import code, tokens
from tests.guards.plugins.generated import GUARDS


def test_every_change_is_killed_but_for_the_known_survivors() -> None:
    """All of them, as they take half a minute; those known survive."""
    found = judge(all_mutants())
    assert wrong(found) == []
    assert sum(each.row is None for each in found) == len(known())


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    one, other = sample(20, 1), sample(20, 2)
    assert one == sample(20, 1) != other
    assert len({mutant.key for mutant in one}) == 20
    assert sample(10**6, 1) == list(all_mutants())


def test_every_known_survivor_is_a_mutant_and_says_why() -> None:
    assert missing() == []
    assert all(len(reason) > 15 for reason in known().values())


def test_every_file_has_many_mutants_of_every_kind() -> None:
    changes: dict[str, set[str]] = {}
    for mutant in all_mutants():
        changes.setdefault(mutant.file, set()).add(mutant.change)
    assert {file: len(found) >= 25 for file, found in changes.items()} == dict.fromkeys((*PYTHON, *SCRIPTS), True)
    assert {"< -> <=", "< -> >=", "+ -> -", "and -> or", "+= -> -=", "1 -> 2"} <= changes["guards/circuit_breaker.py"]
    assert {"=== -> !==", "+= -> -=", "&& -> ||", "0 -> 1"} <= changes["guards/plugins/circuit-breaker/core.js"]
    assert {"rapid: 0, -> ", "mark: state.turns -> "} <= changes["guards/plugins/compaction-breaker/core.js"]
    assert len({mutant.key for mutant in all_mutants()}) == len(all_mutants())


def test_both_languages_agree_on_every_row() -> None:
    """So that what tells a mutant from its original tells it from the other language too."""
    found = script_run.judge([])
    modules = python_run.originals()
    for guard in GUARDS:
        told = found.originals[guard]
        for given, settings in zip([each for each in givens() if each.guard == guard], told["configs"], strict=True):
            wanted = python_run.configured(modules, *given)
            assert settings == wanted, given
        for case, rows in zip(replays()[guard], told["replays"], strict=True):
            assert rows == python_run.replayed(modules, *case), case
    for text, (canonical, stringified) in zip(texts(), found.texts, strict=True):
        assert python_run.written(modules, *text)[:2] == [canonical, stringified], text


def changed(file: str, before: str, after: str) -> Mutant:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert source.count(before) == 1
    return Mutant(file, 1, "", "by hand", 0, source.replace(before, after))


@pytest.mark.parametrize(
    ("file", "before", "after", "row"),
    [
        ("guards/circuit_breaker.py", "seen.executed += 1", "seen.executed += 2", "AssertionError"),
        ("guards/json_text.py", "text, item = todo.pop()", "text, item = todo[-1]", "no end"),
        ("guards/loop_guard.py", "self._chains.pop(agent, None)", "oops", "NameError"),
        ("guards/plugins/circuit-breaker/core.js", "state.executed += 1", "state.executed += 2", "AssertionError"),
        ("guards/plugins/circuit-breaker/keys.js", "frames.pop()", "", "Endless"),
        ("guards/plugins/loop-guard/core.js", "result: shown, count", "count", "AssertionError"),
    ],
)
def test_a_change_by_hand_is_killed(file: str, before: str, after: str, row: str) -> None:
    (found,) = judge([changed(file, before, after)])
    assert found.row is not None
    assert found.row.endswith(row)


@pytest.mark.parametrize("file", [*PYTHON, *SCRIPTS])
def test_a_file_as_it_is_survives(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert judge([Mutant(file, 1, "", "nothing", 0, f"{source}\n")])[0].row is None


def test_modules_are_as_they_were_after_a_mutant() -> None:
    before = {name: sys.modules[f"guards.{name}"] for name in python_run.originals()}
    python_run.verdict(changed("guards/keys.py", "_EXACT: Final = 2**53", "_EXACT: Final = oops"))
    assert {name: sys.modules[f"guards.{name}"] for name in before} == before == python_run.originals()


def test_what_is_wrong_is_told() -> None:
    killed = next(mutant for mutant in all_mutants() if mutant.key in known())
    new = next(mutant for mutant in all_mutants() if mutant.key not in known())
    lines = wrong([Found(killed, "row 1"), Found(new, None), Found(killed, None), Found(new, "row 1")])
    assert [line.partition(":")[0] for line in lines] == [
        "is in survivors.toml and was killed by row 1",
        "survives and is not in survivors.toml",
    ]


def test_a_program_that_does_not_parse_is_an_error_of_ours() -> None:
    with pytest.raises(RuntimeError, match="no program"):
        judge([changed("guards/plugins/loop-guard/core.js", "export const KIND =", "export const KIND = =")])


@pytest.mark.parametrize("file", SCRIPTS)
def test_tokens_make_up_the_source(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert "".join(token.text for token in tokens(source)) == source


def test_tokens() -> None:
    source = "a = b / c ? /x[/]\\/y/g.test(`t${ {a: `u${1}v`}.a }w`) : 'it\\'s' // end\nreturn /z/"
    told = [
        (token.kind, token.text) for token in code(source) if token.kind in ("pattern", "chunk", "string", "number")
    ]
    assert told == [
        ("pattern", "/x[/]\\/y/g"),
        ("chunk", "`t${"),
        ("chunk", "`u${"),
        ("number", "1"),
        ("chunk", "}v`"),
        ("chunk", "}w`"),
        ("string", "'it\\'s'"),
        ("pattern", "/z/"),
    ]


def told(mutants: list[Mutant]) -> list[str]:
    return [mutant.change for mutant in mutants]


def test_changes_to_python() -> None:
    source = (
        "import a\n\n\ndef f(x: int = 1) -> int:\n    'Says.'\n    if x and not x < 2:\n        x += -3\n    return x\n"
    )
    assert told(python_mutants("f.py", source)) == json.loads(
        '["1 -> 2", "x and not x < 2 -> (not (x and not x < 2))", "and -> or", "not -> ", "< -> <=", "< -> >=",'
        ' "2 -> 3", "x += -3 -> pass", "+= -> -=", "- -> ", "3 -> 4", "return x -> return None"]'
    )
    assert told(python_mutants("f.py", source, ["f"])) == []
    assert told(python_mutants("f.py", "é = 'a' f'{é}b' == é\n")) == ["'a' -> 'Za'", "f'{é}b' -> f'Z{é}b'", "== -> !="]


def test_changes_to_scripts() -> None:
    source = "import 'a'\n/** 1 < 2 */\nexport function f(x) {\n  if (x < 1) return x ? 'a' : null\n  x += 2\n}\n"
    assert told(script_mutants("f.js", source)) == [
        "(x < 1) -> (!(x < 1))",
        "< -> <=",
        "< -> >=",
        "1 -> 2",
        "return x ? 'a' : null -> return undefined",
        "? -> && false ?",
        "? -> || true ?",
        "'a' -> 'Za'",
        "null -> 0",
        "x += 2 -> ;",
        "+= -> -=",
        "2 -> 3",
    ]
    reset = "f(() => {\n  Object.assign(a, { b: { c }, d })\n})\n"
    assert [change for change in told(script_mutants("f.js", reset)) if change[0] in "bd"] == ["b: { c }, -> ", "d -> "]
