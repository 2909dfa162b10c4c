"""Stack files: what they hold, what they refuse, and the digest."""

import pytest

from guards import registry
from guards.errors import UserError
from guards.stack import default_stack, load_stack


def stack_of(folder, text, name="s.toml"):
    (folder / name).write_text(text)
    return load_stack(folder / name)


def test_the_default_stack_is_all_four_at_their_defaults():
    stack = default_stack()
    assert stack.name == "default"
    assert tuple(guard.name for guard in stack.guards) == registry.names()
    assert all(guard.effective() == registry.configure(guard.name).effective() for guard in stack.guards)
    assert tuple(policy.name for policy in stack.policies()) == registry.names()


def test_rows_keep_their_order_and_their_keys(tmp_path):
    stack = stack_of(
        tmp_path,
        """
        [[guard]]
        name = "compaction-breaker"
        preset = "zcode"
        config = { maxConsecutiveRapidRefills = 2, headroomTokens = 256 }
        [[guard]]
        name = "loop-guard"
        """,
    )
    assert stack.name == "s"
    assert [guard.name for guard in stack.guards] == ["compaction-breaker", "loop-guard"]
    effective = stack.guards[0].effective()
    keys = ("toolTurnThreshold", "maxConsecutiveRapidRefills", "headroomTokens")
    assert [effective[key] for key in keys] == [3, 2, 256]
    assert stack.guards[0].config == {"maxConsecutiveRapidRefills": 2, "headroomTokens": 256}


def test_a_stack_may_be_empty(tmp_path):
    assert stack_of(tmp_path, 'name = "none"').policies() == ()


def plugin(folder):
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "theirs"}')
    (folder / "index.js").write_text("export const name = 'theirs'")
    return folder


def test_a_plugin_of_someone_else(tmp_path):
    plugin(tmp_path / "theirs")
    (tmp_path / "stacks").mkdir()
    stack = stack_of(
        tmp_path / "stacks",
        """
        [[guard]]
        name = "loop-guard"
        path = "../theirs"
        attribution = "^blocked by"
        config = { anything = [1] }
        """,
    )
    (guard,) = stack.guards
    assert (guard.path / "index.js").is_file()
    assert guard.attribution == "^blocked by"
    assert guard.effective() == {"anything": [1]}
    with pytest.raises(UserError, match="live only"):
        stack.policies()


def test_the_digest_is_of_what_acts(tmp_path):
    plain = stack_of(tmp_path, '[[guard]]\nname = "loop-guard"', "a.toml")
    said = stack_of(tmp_path, 'name = "x"\n[[guard]]\nname = "loop-guard"\nconfig = { softThreshold = 4.0 }', "b.toml")
    other = stack_of(tmp_path, '[[guard]]\nname = "loop-guard"\nconfig = { softThreshold = 5 }', "c.toml")
    assert plain.digest == said.digest
    assert other.digest != plain.digest
    assert len(plain.digest) == 64
    preset = stack_of(tmp_path, '[[guard]]\nname = "compaction-breaker"\npreset = "zcode"')
    keys = stack_of(tmp_path, '[[guard]]\nname = "compaction-breaker"\nconfig = { toolTurnThreshold = 3 }')
    assert preset.digest == keys.digest


def test_the_digest_is_of_the_order_and_of_foreign_files(tmp_path):
    rows = ['[[guard]]\nname = "loop-guard"\n', '[[guard]]\nname = "compaction-breaker"\n']
    assert stack_of(tmp_path, "".join(rows)).digest != stack_of(tmp_path, "".join(reversed(rows))).digest
    folder = plugin(tmp_path / "theirs")
    stack = stack_of(tmp_path, '[[guard]]\nname = "theirs"\npath = "theirs"')
    before = stack.digest
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "dependency.js").write_text("")
    assert stack.digest == before
    (folder / "index.js").write_text("export const name = 'other'")
    assert stack.digest != before


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("name = ", "is no TOML"),
        ("name = 1", "name must be a text"),
        ("guards = []", "unknown key 'guards'; allowed keys: name, guard"),
        ("guard = 1", "guard must be a list of tables: [[guard]]"),
        ("guard = [1]", "guard must be a list of tables: [[guard]]"),
        ("[[guard]]", "guard 1: name is missing"),
        ("[[guard]]\nname = 1", "guard 1: name must be a text"),
        (
            '[[guard]]\nname = "loop-guard"\nplane = "host"',
            "guard 1: unknown key 'plane'; allowed keys: name, preset, ",
        ),
        ('[[guard]]\nname = "loop-guard"\nconfig = 1', "guard 1: config must be a table"),
        ('[[guard]]\nname = "loop"', "unknown guard 'loop'; known: circuit-breaker, "),
        ('[[guard]]\nname = "loop-guard"\npreset = "zcode"', "loop-guard: unknown preset 'zcode'"),
        ('[[guard]]\nname = "loop-guard"\nconfig = { soft = 1 }', 'loop-guard: unknown key "soft" (value 1)'),
        ('[[guard]]\nname = "loop-guard"\nconfig = { softThreshold = 8 }', "loop-guard: hardThreshold is 8; allowed: "),
        ('[[guard]]\nname = "loop-guard"\n[[guard]]\nname = "loop-guard"', "loop-guard stands in the stack twice"),
        (
            '[[guard]]\nname = "loop-guard"\n[[guard]]\nname = "circuit-breaker"',
            "circuit-breaker must stand before",
        ),
        ('[[guard]]\nname = "loop-guard"\nattribution = "x"', "guard 1: attribution is for a plugin with path"),
        ('[[guard]]\nname = "theirs"\npath = "none"', "guard 1: path "),
        ('[[guard]]\nname = "x"\npath = "theirs"\npreset = "zcode"', "guard 1: preset is for guards of ours"),
        ('[[guard]]\nname = "x"\npath = "theirs"\nattribution = "("', "guard 1: attribution is no regular expression"),
    ],
)
def test_bad_files(tmp_path, text, error):
    plugin(tmp_path / "theirs")
    with pytest.raises(UserError) as caught:
        stack_of(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 's.toml'}: {error}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="can not be read: No such file"):
        load_stack(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(UserError, match="is no TOML"):
        load_stack(tmp_path / "latin.toml")
