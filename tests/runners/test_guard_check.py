"""`tripbench guards check PATH`: ours, someone else's and broken plugins in the real harness."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from guards.errors import UserError
from guards.stack import Stack, StackGuard
from results.trace import Guard, Result
from runners.cli import run
from runners.harness.guard_check import COURSES, Act, Checked, InPlane, check
from runners.harness.guard_check_survey import grantable, outside, survey
from runners.harness.layout import Scratch
from runners.harness.plugins import plugin_folder
from runners.harness.proof import Prover
from tests.runners.dsh_stage import of, spec, staged

HARNESS = "0.2.1-rc.2"
LOOPING, POLLING, REFILL = COURSES
EVERY_SECOND = """
import { createUserMessage } from '@deepseek-ai/dsh-llm'
export const name = 'every-second'
export const inject = ['tools']
export function apply(ctx, { text = 'no', only = '' } = {}) {
  let asked = 0
  ctx.logger.info('%s', typeof createUserMessage)
  ctx.tools.guard(() => (++asked % 2 === 0 ? `${text} (${asked})` : undefined))
}
"""
SPEAKING = """
import { createUserMessage } from '@deepseek-ai/dsh-llm'
export default {
  name: 'speaking',
  apply(ctx) {
    let calls = 0
    ctx.on('tools/post-execute', async (exec, result, next) => {
      const decision = await next()
      calls += 1
      const content = [{ type: 'text', text: `look, ${calls}` }]
      const source = { kind: 'speaking', form: 'notice', summary: 'x' }
      if (calls === 2) return { ...decision, additionalContexts: [createUserMessage({ content, source })] }
      if (calls === 4) return { ...decision, content }
      return decision
    })
  },
}
"""
STINGY = """
import { BasicCompactionEngine } from '@deepseek-ai/dsh-compaction-basic'
export default class Stingy extends BasicCompactionEngine {
  static Config = undefined
  constructor(ctx, config) {
    super(ctx, config)
    this.left = 2
  }
  async compactIfNeeded(agent, trigger, signal) {
    if (this.left === 0) throw new Error('that was enough; no more')
    const result = await super.compactIfNeeded(agent, trigger, signal)
    if (result !== null) this.left -= 1
    return result
  }
}
"""

HOST_ONLY = """
export function apply(ctx) {
  for (let at = ctx; at !== null; at = Object.getPrototypeOf(at)) {
    const symbols = Object.getOwnPropertySymbols(at).map((each) => each.description)
    if (symbols.includes('dsh.scope')) throw new Error('not in here')
  }
}
"""


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    made = Scratch()
    try:
        yield made
    finally:
        made.remove()


def plugin(folder: Path, text: str, **manifest: Any) -> Path:
    folder.mkdir(parents=True)
    named = {"name": folder.name, "version": "1.0.0", "type": "module", "exports": "./index.js", **manifest}
    (folder / "package.json").write_text(json.dumps(named))
    (folder / "index.js").write_text(text)
    return folder


def planes(done: Checked) -> Mapping[str, InPlane]:
    assert done.problem is None
    assert [each.plane for each in done.planes] == ["host", "agent"]
    assert all(each.armed for each in done.planes)
    return {each.plane: each for each in done.planes}


def at(acts: tuple[Act, ...]) -> list[int]:
    return [act.index for act in acts]


def looping(scratch: Scratch, path: Path, **config: Any) -> Checked:
    return check(path, config, scratch, [LOOPING])


def problem(scratch: Scratch, path: Path) -> str:
    done = looping(scratch, path)
    assert done.problem is not None
    assert done.problem.startswith(f"{path}: ") or str(path) in done.problem
    assert "\n" not in done.problem
    return done.problem


# -- ours ------------------------------------------------------------------------------------------------------------


def test_circuit_breaker_with_a_key(scratch: Scratch) -> None:
    done = looping(scratch, plugin_folder("circuit-breaker"), duplicateLimit=3)
    for each in planes(done).values():
        (played,) = each.courses
        assert (each.consulted, at(played.denied)) == (True, list(range(3, 13)))
        assert {(act.count, act.limit) for act in played.denied} == {(3, 3)}
        assert played.denied[0].text.startswith("This call was not run: ")
        armed, tripped = each.logged
        assert (armed.level, tripped.level) == ("info", "warn")
        assert armed.text.startswith('armed with {"enabled":true,"duplicateLimit":3,')
        assert re.fullmatch(rf"tripped for agent \S+ \(duplicate\): {re.escape(played.denied[0].text)}", tripped.text)


def test_loop_guard_and_the_null_guard(scratch: Scratch) -> None:
    for each in planes(looping(scratch, plugin_folder("loop-guard"))).values():
        (played,) = each.courses
        assert (each.consulted, at(played.nudged), at(played.denied)) == (True, [4, 5, 6, 7], [9, 10, 11, 12])
        assert [act.text for act in played.nudged] == [act.text for act in played.noticed]
        armed, tripped = each.logged
        assert armed.text == 'armed with {"softThreshold":4,"hardThreshold":8,"resultHashChars":4000}'
        assert (tripped.level, tripped.text.partition(": ")[2]) == ("warn", played.denied[0].text)
    for each in planes(looping(scratch, plugin_folder("null-guard"))).values():
        (played,) = each.courses
        assert (each.consulted, played.calls, played.end) == (True, 12, "horizon")
        assert (played.denied, played.altered, played.nudged, played.noticed, played.refused) == ((),) * 5


def test_compaction_breaker(scratch: Scratch) -> None:
    done = check(plugin_folder("compaction-breaker"), {}, scratch, [POLLING, REFILL])
    assert done.surveyed is not None
    assert done.surveyed.engine
    for each in planes(done).values():
        polling, refill = each.courses
        assert (each.consulted, polling.calls, polling.end, polling.attempts) == (True, 12, "completed", 0)
        assert (refill.committed, at(refill.refused)) == (3, [4, 5, 6, 7])
        warned = [line.text for line in each.logged if line.level == "warn"]
        assert sum(text.startswith("tripped in session") for text in warned) == 1


# -- someone else's --------------------------------------------------------------------------------------------------


def test_a_plugin_that_denies_every_second_call_and_is_made_for_another_harness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, on all courses; the harness would disable it."""
    wanted = {"@deepseek-ai/dsh-llm": "^0.1.0 || 0.3.x", "@deepseek-ai/cordis": "^99.0.0", "left-pad": "*"}
    folder = plugin(tmp_path / "every-second", EVERY_SECOND, name="@someone/every-second", peerDependencies=wanted)
    assert run(["guards", "check", str(folder), "--config", '{"text": "x"}', "--set", "text=stop", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    done = json.loads(out)
    assert (done["package"], done["version"], done["harness"]) == ("@someone/every-second", "1.0.0", HARNESS)
    assert done["outside"] == done["requires"] == {"@deepseek-ai/dsh-llm": "^0.1.0 || 0.3.x"}
    assert done["imports"] == [{"specifier": "@deepseek-ai/dsh-llm", "resolves": True, "error": None}]
    assert (done["ok"], done["problem"], done["engine"], done["config"]) == (True, None, False, {"text": "stop"})
    assert list(done["planes"]) == ["host", "agent"]
    for plane in done["planes"].values():
        assert (plane["armed"], plane["consulted"], plane["cause"]) == (True, None, None)
        assert plane["logged"] == [{"level": "info", "text": "function"}]
        assert list(plane["courses"]) == ["looping", "polling", "refill"]
        for played in plane["courses"].values():
            second = list(range(2, played["calls"] + 1, 2))
            assert [act["index"] for act in played["denied"]] == second
            assert [act["text"] for act in played["denied"]] == [f"stop ({index})" for index in second]
            assert (played["failure"], played["altered"], played["noticed"], played["refused"]) == (None, [], [], [])


def test_messages_and_results_that_nobody_else_can_have_made(tmp_path: Path, scratch: Scratch) -> None:
    for each in planes(looping(scratch, plugin(tmp_path / "speaking", SPEAKING))).values():
        (played,) = each.courses
        assert played.noticed == (Act(2, "look, 2"),)
        assert played.altered == (Act(4, "look, 4"),)
        assert (played.denied, played.nudged) == ((), ())


def test_an_engine_that_refuses_by_throwing(tmp_path: Path, scratch: Scratch) -> None:
    done = check(plugin(tmp_path / "stingy", STINGY), {}, scratch, [REFILL])
    assert done.surveyed is not None
    assert done.surveyed.engine
    for each in planes(done).values():
        (played,) = each.courses
        assert (played.committed, played.end) == (2, "overflow")
        assert {act.text for act in played.refused} == {"that was enough; no more"}
        assert set(at(played.refused)) == {3}


def test_a_plugin_that_arms_in_one_plane_alone_is_fit(tmp_path: Path, scratch: Scratch) -> None:
    done = looping(scratch, plugin(tmp_path / "host-only", HOST_ONLY))
    host, agent = done.planes
    assert (done.problem, host.armed, host.cause, agent.armed, agent.courses) == (None, True, None, False, ())
    assert agent.cause == "throws when it is mounted: Error: not in here"


# -- what is no plugin -----------------------------------------------------------------------------------------------


def test_all_imports_that_do_not_resolve_are_named(tmp_path: Path, scratch: Scratch) -> None:
    text = "import { a } from 'nowhere-one'\nimport './more.js'\nexport function apply() {}"
    folder = plugin(tmp_path / "lost", text, imports={"#inner": "./inner.js"})
    (folder / "more.js").write_text("import '@nobody/nowhere-two/sub'\nimport '@deepseek-ai/dsh-llm'\nimport '#inner'")
    (folder / "inner.js").write_text("import 'node:fs'\nimport 'at-hand'")
    (folder / "node_modules" / "at-hand").mkdir(parents=True)
    (folder / "node_modules" / "at-hand" / "package.json").write_text('{"name": "at-hand", "main": "i.js"}')
    (folder / "node_modules" / "at-hand" / "i.js").write_text("")
    assert problem(scratch, folder) == (
        f"{folder}: imports that do not resolve in the harness: 'nowhere-one' (Cannot find package 'nowhere-one'), "
        "'@nobody/nowhere-two/sub' (Cannot find package '@nobody/nowhere-two')"
    )
    (seen,) = survey([folder], scratch).plugins
    found = {specifier: why is None for specifier, why in seen.imports}
    assert found == {
        **{"#inner": True, "at-hand": True, "@deepseek-ai/dsh-llm": True},
        **{"nowhere-one": False, "@nobody/nowhere-two/sub": False},
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("throw new Error('it breaks\\nat load')", "throws at load: it breaks at load"),
        ("export const apply = 3", "exports no `apply`: the harness mounts a function, a class or an object"),
        ("process.exit(7)", "the harness ended with 7 while loading it: "),
    ],
)
def test_what_can_not_be_mounted(tmp_path: Path, scratch: Scratch, text: str, says: str) -> None:
    said = problem(scratch, plugin(tmp_path / "broken", text))
    assert said.startswith(f"{tmp_path / 'broken'}: {says}")


def test_what_is_exported(tmp_path: Path, scratch: Scratch) -> None:
    texts = {
        "named": ("export function apply() {}", (True, None)),
        "whole": ("export default (ctx) => {}", (True, None)),
        "held": ("export default { apply() {} }", (True, None)),
        "made": ("export default class {}", (True, None)),
        "nameless": ("export default { name: 'x' }", (False, None)),
        "nothing": ("", (False, None)),
        "broken": ("export function apply( {", (False, "Unexpected")),
        "asking": ("import { none } from '@deepseek-ai/dsh-llm'\nexport function apply() {}", (False, "'none'")),
        "silent": ("throw undefined", (False, "undefined")),
    }
    folders = [plugin(tmp_path / name, text) for name, (text, _) in texts.items()]
    for seen, (_, (applies, error)) in zip(survey(folders, scratch).plugins, texts.values(), strict=True):
        assert seen.applies == applies, seen
        assert (error is None) == (seen.error is None), seen
        assert error is None or error in str(seen.error)


def test_files_that_are_not_there_are_named_where_the_user_has_them(tmp_path: Path, scratch: Scratch) -> None:
    gone = plugin(tmp_path / "gone", "", exports="./main.js")
    inner = plugin(tmp_path / "inner", "import './more.js'\nexport function apply() {}")
    errors = [seen.error for seen in survey([gone, inner], scratch).plugins]
    assert errors == [
        f"Cannot find module '{gone}/main.js'",
        f"Cannot find module '{inner}/more.js' imported from {inner}/index.js",
    ]


def test_what_breaks_when_it_is_mounted(tmp_path: Path, scratch: Scratch) -> None:
    said = problem(scratch, plugin(tmp_path / "broken", "export function apply() { throw new Error('not today') }"))
    assert said == f"{tmp_path / 'broken'}: armed in no plane: throws when it is mounted: Error: not today"


def test_a_plugin_that_is_never_asked(tmp_path: Path, scratch: Scratch) -> None:
    """It says that it writes our log, and hooks nothing."""
    text = (
        "import { appendFileSync } from 'node:fs'\n"
        "export function apply(ctx, { eventLog, plane }) {\n"
        "  appendFileSync(eventLog, JSON.stringify({ ev: 'arm', guard: 'deaf', plane, config: {}, pid: 1 }) + '\\n')\n"
        "}\n"
    )
    folder = plugin(tmp_path / "deaf", text, tripbench={"guard": "deaf"})
    assert problem(scratch, folder) == f"{folder}: host: it is mounted, and was never consulted"


def test_ranges_are_judged_as_the_harness_does(tmp_path: Path, scratch: Scratch) -> None:
    llm, dsh = "@deepseek-ai/dsh-llm", "@deepseek-ai/dsh"
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"engines": {"dsh": ">=0.2.0 <0.3.0"}}, []),
        ({"engines": {"dsh": "<0.2.1-rc.2"}, "peerDependencies": {llm: "*"}}, ["engines.dsh"]),
        ({"engines": {"node": "1"}, "peerDependencies": {"@deepseek-ai/cordis": "9", "other": "9"}}, []),
        ({"peerDependencies": {dsh: "workspace:^", llm: "~0.2.0"}}, []),
        ({"peerDependencies": {dsh: "0.1.x", llm: "0.2.x"}}, [dsh]),
        ({"peerDependencies": {llm: "0.1.0 - 0.1.9 || ^1"}}, [llm]),
        ({"dependencies": {llm: "9"}}, []),
    ]
    text = "export function apply() {}"
    folders = [plugin(tmp_path / f"p{number}", text, **manifest) for number, (manifest, _) in enumerate(cases)]
    done = survey(folders, scratch)
    assert done.harness == HARNESS
    assert [list(seen.unmet) for seen in done.plugins] == [unmet for _, unmet in cases]
    assert all(seen.requires.items() >= seen.unmet.items() for seen in done.plugins)
    assert [len(seen.requires) for seen in done.plugins] == [1, 1, 0, 2, 2, 1, 0]


def test_a_range_that_is_none_and_one_that_no_exception_can_be_made_of(tmp_path: Path, scratch: Scratch) -> None:
    text = "export function apply() {}"
    bad = plugin(tmp_path / "bad", text, peerDependencies={"@deepseek-ai/dsh-llm": 3})
    assert "the harness refuses its manifest: " in problem(scratch, bad)
    loose = plugin(tmp_path / "loose", text, version="1.0", engines={"dsh": "^9"})
    assert problem(scratch, loose) == (
        f"{loose}: is made for engines.dsh ^9, and the harness excepts only packages with a lower-case name and an "
        "exact version"
    )
    for folder, says in (
        (bad, "the harness refuses its manifest: "),
        (loose, "give it a lower-case name and an exact"),
    ):
        with pytest.raises(UserError, match=says):
            outside([folder], scratch)
    assert outside([plugin(tmp_path / "plain", text)], scratch) == []


@pytest.mark.parametrize(
    ("name", "version", "may"),
    [
        *[("a", "1.0.0", True), ("@s/a", "0.1.5-rc.1+b.2", True), ("A", "1.0.0", False), ("a", None, False)],
        *[
            ("a", "1.0", False),
            ("a", "01.0.0", False),
            ("a", "^1.0.0", False),
            ("a", "1.0.0 ", False),
            ("a", "", False),
        ],
    ],
)
def test_packages_that_the_harness_can_make_an_exception_for(name: str, version: str | None, may: bool) -> None:
    assert grantable(name, version) == may


def test_two_folders_of_one_package_are_refused(tmp_path: Path, scratch: Scratch) -> None:
    text = "export function apply() {}"
    one, two = (plugin(tmp_path / each, text, name="same", engines={"dsh": "*"}) for each in ("one", "two"))
    with pytest.raises(UserError, match=r"two and .*one are both the package 'same'"):
        survey([one, two], scratch)


@pytest.mark.parametrize("manifest", [None, "", "[]", "{}", '{"name": "a b"}'])
def test_folders_and_files_that_are_no_plugin_are_one_line_and_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: str | None
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if manifest is not None:
        (folder / "package.json").write_text(manifest)
    for path in (folder, folder / "file"):
        if path.name == "file":
            path.write_text("")
        assert run(["guards", "check", str(path)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"tripbench: error: {path}")
        assert err.count("\n") == 1
        assert run(["guards", "check", str(path), "--json"]) == 1
        out, again = capsys.readouterr()
        assert again == err
        done = json.loads(out)
        assert f"tripbench: error: {done['problem']}\n" == err
        assert (done["ok"], done["planes"], done["package"]) == (False, {}, None)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{}/none"], "{}/none: there is no such folder; name that of a DSH plugin"),
        (["{}", "--config", "{"], "--config: no JSON: "),
        (["{}", "--config", "[1]"], "--config takes a JSON object of the plugin's keys, not [1]"),
        (["{}", "--set", "limit"], "--set takes KEY=VALUE, not 'limit'"),
        ([], "Missing argument 'PATH'"),
    ],
)
def test_bad_usage_is_one_line_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(["guards", "check", *(each.replace("{}", str(tmp_path)) for each in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says.replace("{}", str(tmp_path)) in err
    assert err.count("\n") == 1


def test_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = plugin(tmp_path / "broken", "import 'nowhere'", engines={"dsh": "^9"})
    assert run(["guards", "check", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"broken 1.0.0: a plugin, in the harness {HARNESS}",
        "harness versions: engines.dsh ^9",
        "  OUTSIDE of engines.dsh ^9: the harness would disable it; mounted here by an exception",
        "imports: nowhere",
        "  NOT RESOLVED: nowhere: Cannot find package 'nowhere'",
    ]
    assert err == f"tripbench: error: {folder}: imports that do not resolve in the harness: 'nowhere' " + (
        "(Cannot find package 'nowhere')\n"
    )


# -- in stacks -------------------------------------------------------------------------------------------------------


def test_a_stack_s_plugin_outside_of_its_range_is_mounted_and_stamped(tmp_path: Path) -> None:
    folder = plugin(tmp_path / "every-second", EVERY_SECOND, engines={"dsh": "^0.1.0"})
    stack = Stack("s", (StackGuard("every-second", path=folder),))
    stamp = {"plugin": "every-second@1.0.0", "requires": {"engines.dsh": "^0.1.0"}, "harness": HARNESS}
    with staged(stack) as (runner, _, given):
        mount = spec("search-mirage", "only:every-second@agent", "looping", given).arm.mounts[0]
        ((proof, trace),) = Prover(runner, given).prove([mount])
        plain = runner.run(spec("search-mirage", "off", "looping", given, horizon=2)).trace
    assert proof.outside == stamp
    assert proof.note.startswith("every-second@1.0.0 is made for engines.dsh ^0.1.0, and the harness is 0.2.1-rc.2; ")
    assert proof.actions[:2] == (("deny", 2, 0), ("deny", 4, 0))
    assert trace.header.meta["outside"] == [stamp]
    assert "outside" not in plain.header.meta


def test_a_copy_of_ours_tells_its_own_decisions(tmp_path: Path) -> None:
    """Someone's changed version of a guard of ours, in its place in a stack."""
    folder = tmp_path / "changed"
    folder.mkdir()
    for file in plugin_folder("circuit-breaker").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    stack = Stack("s", (StackGuard("circuit-breaker", config={"duplicateLimit": 2}, path=folder),))
    with staged(stack) as (runner, _, given):
        trace = runner.run(spec("search-mirage", "only:circuit-breaker@agent", "looping", given, horizon=3)).trace
    assert [result.denied_by for result in of(trace, Result)] == [None, *["circuit-breaker@agent"] * 2]
    acts = [(each.action, each.count, each.limit) for each in of(trace, Guard)]
    assert acts == [("arm", None, None), ("consulted", None, None), ("deny", 2, 2), ("deny", 2, 2)]
