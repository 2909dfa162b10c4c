"""Hiding and revealing are inverse, only whole names count, and doubtful maps are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from guards.errors import UserError
from runners.gateway.aliases import AliasMap
from runners.gateway.conversation import Json, Text, Thinking, Tool, ToolCall, ToolResult
from tests.runners.gateway.alias_parts import CHILDREN, HOME, ROOT_ID, WORKSPACE, assistant, full_map, talk, user

FULL = full_map()
VALUES = [value for value, _ in FULL.pairs]
NAMES = [name for pair in FULL.pairs for name in pair]
GLUE = (
    "",
    " ",
    "/",
    "//",
    ":",
    ".",
    "..",
    "-",
    "_",
    "~",
    "0",
    "x",
    '"',
    "\\",
    "\\n",
    "\\u000a",
    "\n",
    "\x1b[01;34m",
    "%2F",
)
MARKS = st.sampled_from((*GLUE, "é", "/a.txt", ".bak", "file://", "(", "host", "agent", "session-", "/srv/runs"))


def texts(names: list[str]) -> st.SearchStrategy[str]:
    """Names written in all the ways that are known, with glue and noise between them."""
    spellings = [name.replace("/", slash) for name in names for slash in ("/", "\\/", "\\\\/", "%2F")]
    pieces = st.one_of(MARKS, st.sampled_from(spellings), st.text(max_size=4))
    return st.lists(pieces, max_size=9).map("".join)


def jsons(inner: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values with such texts as strings and as keys."""
    return st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), inner),
        lambda deeper: st.one_of(st.lists(deeper, max_size=3), st.dictionaries(inner, deeper, max_size=3)),
        max_leaves=6,
    )


@given(texts(NAMES))
def test_hiding_twice_is_hiding_once(text: str) -> None:
    assert FULL.hide(FULL.hide(text)) == FULL.hide(text)


@given(texts(NAMES))
def test_what_is_revealed_is_hidden_again_in_the_same_way(text: str) -> None:
    assert FULL.hide(str(FULL.reveal(text))) == FULL.hide(text)


@given(texts(VALUES))
def test_text_without_an_alias_comes_back_after_hiding(text: str) -> None:
    assume(FULL.reveal(text) == text)
    assert FULL.reveal(FULL.hide(text)) == text


@given(jsons(texts(VALUES)))
def test_arguments_without_an_alias_come_back_after_hiding(arguments: Json) -> None:
    assume(FULL.reveal(arguments) == arguments)
    assert FULL.reveal(FULL.hide_json(arguments)) == arguments


@given(jsons(texts(NAMES)))
def test_hiding_arguments_twice_is_hiding_them_once(arguments: Json) -> None:
    assert FULL.hide_json(FULL.hide_json(arguments)) == FULL.hide_json(arguments)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (WORKSPACE, "/workspace"),
        (f"{WORKSPACE}/", "/workspace/"),
        (f'Current working directory: "{WORKSPACE}".', 'Current working directory: "/workspace".'),
        (f"cd {WORKSPACE}; ls {HOME}/.cache", "cd /workspace; ls /home/agent/.cache"),
        (f"{WORKSPACE}:{HOME}", "/workspace:/home/agent"),
        (f"in {WORKSPACE}. Then", "in /workspace. Then"),
        (f"file://{WORKSPACE}/a%20b", "file:///workspace/a%20b"),
        (f"?path={WORKSPACE.replace('/', '%2F')}%2Fa", "?path=%2Fworkspace%2Fa"),
        (f'"{WORKSPACE}/a"'.replace("/", "\\/"), '"\\/workspace\\/a"'),
        (f'{{"out": "x\\n{WORKSPACE}"}}', '{"out": "x\\n/workspace"}'),
        (f"\x1b[01;34m{WORKSPACE}\x1b[0m", "\x1b[01;34m/workspace\x1b[0m"),
        (f"目录{WORKSPACE}目录", "目录/workspace目录"),
        (f'Your parent agent id is "{ROOT_ID}".', 'Your parent agent id is "session-root".'),
        (f"Agent {CHILDREN[1]} sent a message: ", "Agent agent-2 sent a message: "),
        (f"{CHILDREN[0]} [running]", "agent-1 [running]"),
        (f"/x/{ROOT_ID}.lock", "/x/session-root.lock"),
        ("on vm-7f3a.", "on host."),
    ],
)
def test_a_whole_name_is_hidden_and_comes_back(text: str, hidden: str) -> None:
    assert FULL.hide(text) == hidden
    assert FULL.reveal(hidden) == text


@pytest.mark.parametrize(
    "text",
    [
        f"{WORKSPACE}0",
        f"{WORKSPACE}-old",
        f"{WORKSPACE}.bak",
        f"{WORKSPACE}~",
        f"/mnt{WORKSPACE}",
        f".{WORKSPACE}",
        "vm-7f3ab",
    ],
)
def test_a_longer_name_is_another_name(text: str) -> None:
    assert FULL.hide(text) == text


def test_an_alias_within_a_longer_name_is_not_revealed() -> None:
    text = "/workspaces /workspace-2 /workspace.git my/workspace agent-12 user-agent-1 session-root-2"
    assert FULL.reveal(text) == text


def test_aliases_in_arguments_become_values_at_any_depth_and_in_keys() -> None:
    arguments = {"files": {"/workspace/a": ["/workspace/b", {"agent_id": "agent-2"}]}, "limit": 5, "all": None}
    revealed = {"files": {f"{WORKSPACE}/a": [f"{WORKSPACE}/b", {"agent_id": CHILDREN[1]}]}, "limit": 5, "all": None}
    assert FULL.reveal(arguments) == revealed
    assert FULL.hide_json(revealed) == arguments


def test_no_entry_is_lost_where_two_keys_would_become_one() -> None:
    assert FULL.reveal({"/workspace": 1, WORKSPACE: 2}) == {"/workspace": 1, WORKSPACE: 2}
    assert FULL.reveal({WORKSPACE: 2, "/workspace": 1}) == {"/workspace": 1, WORKSPACE: 2}


def test_every_part_of_a_conversation_is_hidden() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": f"below {WORKSPACE}"}}}
    shown = {"type": "object", "properties": {"path": {"type": "string", "description": "below /workspace"}}}
    calls = (ToolCall("c", "read", {"path": f"{WORKSPACE}/a"}), ToolResult("c", f"no {WORKSPACE}/a", error=True))
    seen = (ToolCall("c", "read", {"path": "/workspace/a"}), ToolResult("c", "no /workspace/a", error=True))
    real = talk(
        user(f"at {WORKSPACE}"),
        assistant(Thinking(f"in {HOME}"), Text(WORKSPACE), calls[0]),
        user(calls[1]),
        system=f"cwd {WORKSPACE}",
        tools=(Tool("read", f"reads {WORKSPACE}", schema),),
    )
    assert FULL.hidden(real) == talk(
        user("at /workspace"),
        assistant(Thinking("in /home/agent"), Text("/workspace"), seen[0]),
        user(seen[1]),
        system="cwd /workspace",
        tools=(Tool("read", "reads /workspace", shown),),
    )


def test_both_spellings_of_a_linked_folder_are_hidden_and_the_resolved_one_comes_back(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = AliasMap(workspace=str(tmp_path / "link"))
    assert made.hide(f"{tmp_path}/link/a {tmp_path}/real/b") == "/workspace/a /workspace/b"
    assert made.reveal("/workspace/a") == f"{tmp_path.resolve()}/real/a"


def test_a_trailing_slash_in_the_setting_does_not_matter() -> None:
    assert AliasMap(workspace="/srv/w9/").hide("/srv/w9/a") == "/workspace/a"


def test_a_workspace_that_is_called_so_already_stays() -> None:
    made = AliasMap(workspace="/workspace", home="/home/agent", root_session="session-root")
    text = "/workspace/a /home/agent/b session-root"
    assert (made.hide(text), made.reveal(text), made.pairs) == (text, text, ())
    assert made.leftovers(text, "system") == []


def test_an_empty_map_changes_nothing() -> None:
    assert AliasMap().hide("/tmp/a") == AliasMap().reveal("/tmp/a") == "/tmp/a"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workspace": "ws"}, "must be an absolute path"),
        ({"workspace": "/"}, "must be an absolute path"),
        ({"workspace": "/srv/my runs/ws"}, "use letters, digits"),
        ({"workspace": "/srv/runs(1)"}, "use letters, digits"),
        ({"workspace": "/srv/w", "home": "/srv/w"}, "is called '/workspace' already"),
        ({"workspace": "/srv/w", "home": "/srv/w/home"}, "can not be told apart from '/srv/w'"),
        ({"workspace": "/workspace/run1"}, "can not be told apart from '/workspace'"),
        ({"workspace": "/srv/w", "home": "/workspace/home"}, "can not be told apart from '/workspace'"),
        ({"workspace": "/srv/w", "extra": {"/srv/x": "/workspace"}}, "another value is called so already"),
        ({"workspace": "/srv/w", "extra": {"/srv/x": "/workspace/x"}}, "can not be told apart from '/workspace'"),
        ({"workspace": "/srv/w", "extra": {"/srv/x": "/srv/w/x"}}, "can not be told apart from '/srv/w'"),
        ({"extra": {"/srv/x": "x9"}}, "must both be absolute paths"),
        ({"root_session": "a b"}, "use letters, digits"),
        ({"watch": ("vm",)}, "is too short to be watched for"),
    ],
)
def test_a_map_that_could_be_read_in_two_ways_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        AliasMap(**settings)
    assert "\n" not in str(raised.value)
