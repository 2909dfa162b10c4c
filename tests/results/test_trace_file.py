"""Trace files: whole or not at all, in both directions."""

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings

from guards.errors import UserError
from results.trace import Call, Header, Trace, Unknown, User, line_of
from results.trace_file import read_trace, write_trace
from tests.results.trace_values import TRACES

HEADER = '{"trace":1,"episode":"e","scenario":null,"source":"","meta":{}}'
USER = '{"type":"user","agent":"root","text":"a"}'


def file_with(folder, *lines, end="\n", name="x.trace.jsonl"):
    path = folder / name
    data = ("\n".join(lines) + end).encode("utf-8", "surrogateescape")
    path.write_bytes(zstandard.ZstdCompressor().compress(data) if name.endswith(".zst") else data)
    return path


@pytest.mark.parametrize("name", ["x.trace.jsonl", "x.trace.jsonl.zst"])
@given(trace=TRACES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path, name, trace):
    write_trace(tmp_path / name, trace)
    read = read_trace(tmp_path / name)
    assert read == trace
    assert len(read.warnings) == sum(isinstance(event, Unknown) for event in trace.events)
    assert read.skipped == 0


def test_compressed_by_name(tmp_path):
    trace = Trace(Header("e"), tuple(User("again and again") for _ in range(100)))
    write_trace(tmp_path / "a.trace.jsonl", trace)
    write_trace(tmp_path / "a.trace.jsonl.zst", trace)
    plain, packed = ((tmp_path / name).read_bytes() for name in ("a.trace.jsonl", "a.trace.jsonl.zst"))
    assert plain.decode().splitlines()[0] == HEADER
    assert zstandard.ZstdDecompressor().decompress(packed) == plain
    assert len(packed) < len(plain)


def test_the_same_trace_is_the_same_bytes(tmp_path):
    trace = Trace(Header("e", meta={"b": 1, "a": 2}), (User("é"), Call("c", 1, "x", {"q": "\ud83d"})))
    for name in ("a.trace.jsonl.zst", "b.trace.jsonl.zst"):
        write_trace(tmp_path / name, trace)
    assert (tmp_path / "a.trace.jsonl.zst").read_bytes() == (tmp_path / "b.trace.jsonl.zst").read_bytes()


def test_lines_end_at_line_feeds_alone(tmp_path):
    text = "a\u2028b\u2029c\x85d\x7f"
    path = file_with(tmp_path, HEADER + "\r", f'{{"type":"user","text":"{text}"}}\r', USER, end="")
    assert read_trace(path).events == (User(text), User("a"))


@pytest.mark.parametrize(
    ("lines", "place", "reason"),
    [
        ((HEADER, USER, "{"), "line 3", "is no JSON"),
        ((HEADER, "", USER), "line 2", "is no JSON"),
        ((HEADER, USER, ""), "line 3", "is no JSON"),
        ((HEADER, '{"type":"user"}'), "line 2", '"text" is missing'),
        ((HEADER, USER, USER.replace('"a"', '"\udcff"')), "line 3", "is not UTF-8: byte"),
        (("\ufeff" + HEADER,), "line 1", "is no JSON"),
        ((USER,), "line 1", "is no header"),
        (('{"trace":2,"episode":"e"}',), "line 1", '"trace" must be 1'),
    ],
)
@pytest.mark.parametrize("name", ["x.trace.jsonl", "x.trace.jsonl.zst"])
def test_a_malformed_line_rejects_the_file(tmp_path, name, lines, place, reason):
    path = file_with(tmp_path, *lines, name=name)
    with pytest.raises(UserError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: {place}: {reason}")
    assert "\n" not in str(caught.value)


def test_lenient_skips_and_counts(tmp_path):
    path = file_with(tmp_path, HEADER, "{", USER, '{"type":"user"}', '{"type":"user","text":"\udcff"}', USER)
    read = read_trace(path, lenient=True)
    assert read.events == (User("a"), User("a"))
    assert read.skipped == 3


def test_lenient_needs_a_header_all_the_same(tmp_path):
    with pytest.raises(UserError, match="line 1: is no header"):
        read_trace(file_with(tmp_path, USER, HEADER), lenient=True)


def test_unknown_types_are_a_warning_that_names_the_line(tmp_path):
    path = file_with(tmp_path, HEADER, USER, '{"type":"telemetry"}')
    read = read_trace(path)
    assert read.warnings == (f'{path}: line 3: event type "telemetry" is not known and is left out',)
    assert read.events == (User("a"), Unknown("telemetry"))


@pytest.mark.parametrize("name", ["x.trace.jsonl", "x.trace.jsonl.zst"])
def test_an_empty_file_is_no_trace(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match="is empty"):
        read_trace(tmp_path / name)


def test_a_damaged_zst_file_is_no_trace(tmp_path):
    trace = Trace(Header("e"), tuple(User(f"message {number}") for number in range(500)))
    path = tmp_path / "x.trace.jsonl.zst"
    write_trace(path, trace)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], whole + b"tail", b"plain" + whole, HEADER.encode()):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="not a sound"):
            read_trace(path)


def test_several_zst_frames_are_one_file(tmp_path):
    parts = [zstandard.ZstdCompressor().compress(f"{line}\n".encode()) for line in (HEADER, USER, USER)]
    (tmp_path / "x.trace.jsonl.zst").write_bytes(b"".join(parts))
    assert read_trace(tmp_path / "x.trace.jsonl.zst").events == (User("a"), User("a"))


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path / "none.trace.jsonl", tmp_path):
        with pytest.raises(UserError) as caught:
            read_trace(path)
        assert str(caught.value).startswith(f"{path}: can not be read: ")


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "none" / "x.trace.jsonl"
    with pytest.raises(UserError, match="can not be written"):
        write_trace(path, Trace(Header("e")))


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "x.trace.jsonl"
    write_trace(path, Trace(Header("old")))
    with pytest.raises(ValueError, match="must be a string"):
        write_trace(path, Trace(Header("new"), (User(None),)))
    (tmp_path / "folder.trace.jsonl").mkdir()
    with pytest.raises(UserError, match="can not be written"):
        write_trace(tmp_path / "folder.trace.jsonl", Trace(Header("new")))
    assert path.read_text() == line_of(Header("old")) + "\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder.trace.jsonl", "x.trace.jsonl"]
