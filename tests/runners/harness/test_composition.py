"""What is mounted in each arm: one scaffold, and on it the guards of the arm, each in its plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guards.errors import UserError
from guards.stack import Stack, StackGuard, default_stack
from runners.arms import PLAIN, SAMPLER_ARMS, parse_arm
from runners.harness.composition import (
    DEFAULT_ENGINE,
    ENGINE_PACKAGE,
    PRESET,
    REMINDER_PACKAGE,
    SERVER,
    Addresses,
    Composition,
    compose,
)
from runners.harness.plugins import plugin_folder
from scenarios.base import Needs
from scenarios.judge import MCP_PREFIX

AT = Addresses("/log.jsonl", "http://127.0.0.1:1/control", "http://127.0.0.1:1/mcp")
STACK = default_stack()
GUARDS = tuple(guard.name for guard in STACK.guards)
ARMS = (*PLAIN, *(f"only:{guard}@{plane}" for guard in GUARDS for plane in ("host", "agent")))
INSTRUMENTS = {"eventLog", "plane"}


def composed(arm: str, stack: Stack = STACK, needs: Needs | None = None) -> Composition:
    return compose(parse_arm(arm, stack), stack, needs or Needs(), 8192, AT)


def mounted(made: Composition, plane: str) -> list[dict[str, Any]]:
    """The rows that a plane gets, in their order; an engine's group is opened."""
    (inserted,) = (row["insert"] for row in made.rows if "insert" in row)
    rows = inserted
    if plane == "agent":
        (preset,) = (row for row in inserted if row["id"] == "preset-eval")
        rows = preset["config"]["plugins"]
    return [inner for row in rows for inner in (row["config"] if row.get("group") else [row])]


def guards(made: Composition, plane: str) -> list[str]:
    names = {f"{guard}-{plane}": guard for guard in (*GUARDS, "null")}
    return [names[row["id"]] for row in mounted(made, plane) if row["id"] in names]


def engines(made: Composition) -> list[tuple[str, str]]:
    found = [(plane, row["name"]) for plane in ("host", "agent") for row in mounted(made, plane)]
    return [(plane, name) for plane, name in found if name in (ENGINE_PACKAGE, "dsh-compaction-breaker-tripbench")]


def scaffold(made: Composition) -> str:
    """Everything but the guards and the engine, as text."""
    names = {f"{guard}-{plane}" for guard in (*GUARDS, "null") for plane in ("host", "agent")} | {"engine-host"}

    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(each) for each in value if not (isinstance(each, dict) and _is_guard(each))]
        if isinstance(value, dict):
            return {key: bare(each) for key, each in value.items() if key != "probe"}
        return value

    def _is_guard(row: dict[str, Any]) -> bool:
        return row.get("id") in names or row.get("id") == "engine"

    return json.dumps(bare(list(made.rows)), sort_keys=True)


@pytest.mark.parametrize("arm", ARMS)
def test_the_scaffold_is_the_same_in_every_arm(arm: str) -> None:
    assert scaffold(composed(arm)) == scaffold(composed("off"))


@pytest.mark.parametrize("arm", ARMS)
def test_each_plane_holds_the_arm_s_guards_in_their_order(arm: str) -> None:
    made = composed(arm)
    mounts = parse_arm(arm, STACK).mounts
    for plane in ("host", "agent"):
        asked = [mount.guard for mount in mounts if mount.plane == plane]
        # The engine is the last of its plane.
        last = [guard for guard in asked if guard == "compaction-breaker"]
        assert guards(made, plane) == [guard for guard in asked if guard not in last] + last


@pytest.mark.parametrize("arm", ARMS)
def test_all_that_is_mounted_is_expected_to_be_live(arm: str) -> None:
    made = composed(arm)
    expected = {(each.row, each.package, each.plane) for each in made.expected}
    for plane in ("host", "agent"):
        rows = {(row["id"], row["name"], plane) for row in mounted(made, plane)}
        assert rows == {each for each in expected if each[2] == plane}
    assert sorted(str(mount) for mount in parse_arm(arm, STACK).mounts) == sorted(
        str(each) for each in made.expected if each.guard is not None
    )
    assert len(expected) == len(made.expected)


@pytest.mark.parametrize("arm", ARMS)
def test_every_package_that_is_ours_is_at_hand(arm: str) -> None:
    made = composed(arm)
    for each in made.expected:
        assert each.package.startswith("@deepseek-ai/") or (made.packages[each.package] / "index.js").is_file()
    assert set(made.packages) <= {each.package for each in made.expected}


@pytest.mark.parametrize(
    ("arm", "found"),
    [
        ("off", [("host", ENGINE_PACKAGE)]),
        ("stock", [("host", ENGINE_PACKAGE)]),
        ("only:circuit-breaker@agent", [("host", ENGINE_PACKAGE)]),
        ("only:compaction-breaker@host", [("host", "dsh-compaction-breaker-tripbench")]),
        ("only:compaction-breaker@agent", [("agent", "dsh-compaction-breaker-tripbench")]),
        ("both", [(plane, "dsh-compaction-breaker-tripbench") for plane in ("host", "agent")]),
    ],
)
def test_there_is_one_engine_a_plane_at_most(arm: str, found: list[tuple[str, str]]) -> None:
    assert engines(composed(arm)) == found


def test_an_engine_in_the_preset_has_a_realm_of_its_own() -> None:
    """Or the harness refuses it as a second one."""
    (inserted,) = (row["insert"] for row in composed("agent").rows if "insert" in row)
    (preset,) = (row for row in inserted if row["id"] == "preset-eval")
    (group,) = (row for row in preset["config"]["plugins"] if row.get("group"))
    assert (group["name"], group["isolate"]) == ("cordis:group", {"compaction": True})
    assert [row["id"] for row in group["config"]] == ["compaction-breaker-agent"]


def test_an_engine_has_the_scenario_s_settings_whoever_makes_it() -> None:
    needs = Needs(engine={"thresholdRatio": 0.5, "compactionRetries": 0})
    own = {**DEFAULT_ENGINE, "thresholdRatio": 0.5, "compactionRetries": 0}
    for arm, plane, identifier in (
        ("off", "host", "engine-host"),
        ("only:compaction-breaker@host", "host", "compaction-breaker-host"),
        ("only:compaction-breaker@agent", "agent", "compaction-breaker-agent"),
    ):
        made = composed(arm, needs=needs)
        (row,) = (row for row in mounted(made, plane) if row["id"] == identifier)
        assert own.items() <= row["config"].items()
    plain = {**row["config"]}
    for key in own.keys() | INSTRUMENTS:
        plain.pop(key)
    entry = next(guard for guard in STACK.guards if guard.name == "compaction-breaker")
    assert plain == entry.effective()


@pytest.mark.parametrize("plane", ["host", "agent"])
def test_a_guard_gets_its_config_and_where_to_write(plane: str) -> None:
    stack = Stack("s", (StackGuard("circuit-breaker", config={"duplicateLimit": 4}),))
    (row,) = (row for row in mounted(composed(plane, stack), plane) if row["id"] == f"circuit-breaker-{plane}")
    assert row["config"] == stack.guards[0].effective() | {"eventLog": AT.event_log, "plane": plane}
    assert row["config"]["duplicateLimit"] == 4


def test_the_reminder_is_the_harness_own() -> None:
    (row,) = (row for row in mounted(composed("stock"), "host") if row["id"] == "repeat-reminder-host")
    entry = next(guard for guard in STACK.guards if guard.name == "repeat-reminder")
    assert (row["name"], row["config"]) == (REMINDER_PACKAGE, entry.effective())
    # Also where the stack does not hold it; then with the harness' own settings.
    (bare,) = (row for row in mounted(composed("stock", Stack("s", ())), "host") if row["id"] == "repeat-reminder-host")
    assert (bare["name"], bare["config"]) == (REMINDER_PACKAGE, {})


def test_sampler_arms_mount_nothing() -> None:
    for arm in SAMPLER_ARMS:
        assert composed(arm).rows == composed("off").rows


def test_the_harness_own_tools_are_those_that_the_scenario_asks_for() -> None:
    def disabled(made: Composition) -> set[str]:
        return {row["id"] for row in made.rows if row.get("disabled")}

    bare, files, shell = (
        composed("off", needs=Needs(harness_tools=tools)) for tools in ((), ("read", "edit"), ("bash",))
    )
    assert {"tool-fs", "persistent-bash"} <= disabled(bare)
    assert "tool-fs" not in disabled(files)
    assert "persistent-bash" in disabled(files)
    assert "persistent-bash" not in disabled(shell)
    (row,) = (row for row in files.rows if row.get("id") == "tool-fs")
    assert row["config"] == {"read": True, "readImage": False, "write": False, "edit": True}
    assert all("compaction-basic" in disabled(made) for made in (bare, files, shell))


def test_the_window_and_the_reply_s_length_reach_the_adapter() -> None:
    made = compose(parse_arm("off", STACK), STACK, Needs(reply_tokens=77), 2560, AT)
    (row,) = (row for row in made.rows if row.get("id") == "llm-deepseek")
    assert (row["config"]["defaultContextWindow"], row["config"]["maxTokens"]) == (2560, 77)
    assert row["config"]["retryPolicy"]["maxRetries"] == 0


def test_the_world_s_tools_have_the_prefix_that_the_judge_takes_away() -> None:
    (world,) = (row for row in mounted(composed("off"), "host") if row["id"] == "world")
    assert world["config"]["serverName"] == SERVER
    assert world["config"]["url"] == AT.mcp
    assert f"mcp__{SERVER}__" == MCP_PREFIX


def test_every_root_agent_joins_the_preset() -> None:
    rows = {row["id"]: row for row in mounted(composed("off"), "host")}
    assert rows["preset-joiner"]["config"] == {"preset": PRESET}
    assert rows["agent-preset-registry"]["config"] == {"default": PRESET}
    assert rows["preset-eval"]["config"]["id"] == PRESET


# -- someone else's plugins ------------------------------------------------------------------------------------------


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "@someone/guard"}')
    return folder


@pytest.mark.parametrize("name", ["circuit-breaker", "compaction-breaker", "repeat-reminder", "their-guard"])
def test_a_plugin_of_someone_else_s_takes_the_place_of_ours(foreign: Path, name: str) -> None:
    stack = Stack("s", (StackGuard(name, config={"limit": 3}, path=foreign),))
    made = composed(f"only:{name}@agent", stack)
    (row,) = (row for row in mounted(made, "agent") if row["id"] == f"{name}-agent")
    assert row["name"] == "@someone/guard"
    assert made.packages["@someone/guard"] == foreign
    # No key that it may not know.
    assert row["config"].keys() - DEFAULT_ENGINE.keys() == {"limit"}
    assert [each.guard for each in made.expected if each.package == "@someone/guard"] == [name]


def test_two_folders_of_one_package_are_refused(foreign: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "package.json").write_text('{"name": "@someone/guard"}')
    stack = Stack("s", (StackGuard("one", path=foreign), StackGuard("two", path=other)))
    with pytest.raises(UserError, match=r"other and .*theirs are both the package '@someone/guard'"):
        composed("host", stack)
    assert composed("only:two@host", stack).packages["@someone/guard"] == other


def test_a_plugin_with_the_name_of_one_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_bytes((plugin_folder("recorder") / "package.json").read_bytes())
    with pytest.raises(UserError, match="are both the package 'dsh-recorder-tripbench'"):
        composed("host", Stack("s", (StackGuard("one", path=tmp_path),)))


def test_a_folder_that_is_no_plugin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no DSH plugin"):
        composed("host", Stack("s", (StackGuard("one", path=tmp_path / "nowhere"),)))
