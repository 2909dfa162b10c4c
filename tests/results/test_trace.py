"""The trace format: the key sets of its records, what may be absent, what is malformed, and that nothing is lost."""

import json
import math

import pytest
from hypothesis import given

from guards.json_text import parse
from results import trace as t
from tests.results.trace_values import EVENTS, HEADERS

# The format as its specification states it; `unit` is ours.
KEYS = {
    "user": ["text"],
    "notice": ["text", "source"],
    "step": [
        *("n", "calls", "input_tokens", "output_tokens", "seconds", "finish", "tape_key", "prompt_digest", "primed")
    ],
    "call": ["id", "step", "tool", "args", "primed"],
    "result": ["id", "content", "error", "denied_by"],
    "compaction": ["trigger", "outcome", "plane", "summary_calls", "tokens_before", "tokens_after", "seconds"],
    "guard": ["guard", "plane", "action", "call", "kind", "count", "limit", "reason"],
    "label": ["call", "class", "why", "unit"],
    "spawn": ["child", "purpose"],
    "end": ["reason", "success"],
}
RECORDS = {
    "user": t.User("hello"),
    "notice": t.Notice("look", "loop-guard"),
    "step": t.Step(3, 1, 100, 20, 1.5, "tool_use", "key", "digest"),
    "call": t.Call("c1", 3, "search", {"q": 1}),
    "result": t.Result("c1", t.blocks("found"), denied_by="loop-guard@host"),
    "compaction": t.Compaction("overflow", "committed", "host", 2, 4000, 900, 3.5),
    "guard": t.Guard("loop-guard", "host", "deny", "c9", "identical-result", 8, 8, "no"),
    "label": t.Label("c1", "sterile", "known", True),
    "spawn": t.Spawn("s1", "review"),
    "end": t.End("horizon", False),
}


def test_the_header_has_these_keys():
    header = t.Header("e", "search-mirage", "own run", {"seed": 1})
    assert list(json.loads(t.line_of(header))) == ["trace", "episode", "scenario", "source", "meta"]


@pytest.mark.parametrize("name", KEYS)
def test_every_event_has_these_keys(name):
    record = RECORDS[name]
    written = json.loads(t.line_of(record))
    assert list(written) == ["type", "agent", *KEYS[name]]
    assert (written["type"], written["agent"]) == (name, "root")
    assert list(json.loads(t.line_of(type(record)(**fields_of(record), t=2.5)))) == ["type", "agent", "t", *KEYS[name]]


def test_every_event_type_is_here_and_in_the_documentation():
    assert t.EVENTS.keys() == KEYS.keys() == RECORDS.keys()
    for name, keys in KEYS.items():
        line = next(line for line in (t.__doc__ or "").splitlines() if line.startswith(f"    {name} "))
        assert line.removeprefix(f"    {name} ").lstrip().startswith(", ".join(keys)), name


def fields_of(record):
    return {name: getattr(record, name) for name in type(record).__slots__}


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"type":"user","text":"a"}', t.User("a")),
        ('{"type":"notice","text":"a"}', t.Notice("a", None)),
        ('{"type":"step","n":1,"calls":0}', t.Step(1, 0, None, None, None, None, None, None, False)),
        ('{"type":"call","id":"c","tool":"x"}', t.Call("c", None, "x", {}, False)),
        ('{"type":"call","id":"c","tool":"x","args":null}', t.Call("c", None, "x", None)),
        ('{"type":"call","id":"c","tool":"x","args":"{\\"a\\": "}', t.Call("c", None, "x", '{"a": ')),
        ('{"type":"result","id":"c"}', t.Result("c", (), False, None)),
        ('{"type":"compaction","outcome":"failed"}', t.Compaction("pressure", "failed")),
        ('{"type":"guard","guard":"g","action":"arm"}', t.Guard("g", None, "arm")),
        ('{"type":"label","call":"c","class":"novel"}', t.Label("c", "novel", "", False)),
        ('{"type":"spawn","child":"s"}', t.Spawn("s", None)),
        ('{"type":"end","reason":"blocked"}', t.End("blocked", None)),
        ('{"type":"step","n":1.0,"calls":2e0}', t.Step(1, 2)),
        ('{"type":"user","text":"a","text":"b"}', t.User("b")),
    ],
)
def test_absent_fields(line, record):
    read = t.event_of(line)
    assert read == record
    assert (read.agent, read.t, read.extra) == ("root", None, {})


def test_absent_fields_of_the_header():
    assert t.header_of('{"trace": 1.0, "episode": "e"}') == t.Header("e", None, "", {})


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ('"same"', ({"type": "text", "text": "same"},)),
        ('""', ({"type": "text", "text": ""},)),
        ("[]", ()),
        ('[{"type":"text","text":"same"}]', ({"type": "text", "text": "same"},)),
        ('[{"annotations":{"n":2},"text":"same","type":"text"}]', ({"type": "text", "text": "same"},)),
    ],
)
def test_content_has_one_form(content, blocks):
    read = t.event_of(f'{{"type":"result","id":"c","content":{content}}}')
    assert read == t.Result("c", blocks)
    assert all(list(block) == ["type", "text"] for block in read.content)


def test_other_blocks_keep_the_order_of_their_keys():
    read = t.event_of('{"type":"result","id":"c","content":[{"z":1,"type":"image","a":2},{"type":"text","text":"t"}]}')
    assert [list(block) for block in read.content] == [["z", "type", "a"], ["type", "text"]]
    assert t.line_of(read).count('{"z":1,"type":"image","a":2}') == 1
    assert read.text == "t"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("[]", "is no JSON object"),
        ('"user"', "is no JSON object"),
        ('{"type":"user","text":NaN}', "is no JSON"),
        ('{"type":"user","text":"a"} {}', "is no JSON"),
        ("{}", '"type" is missing'),
        ('{"type":1}', '"type" must be a string'),
        ('{"type":"user"}', '"text" is missing'),
        ('{"type":"user","text":1}', '"text" must be a string'),
        ('{"type":"user","text":"a","agent":null}', '"agent" must be a string'),
        ('{"type":"user","text":"a","t":"1"}', '"t" must be a finite number'),
        ('{"type":"user","text":"a","t":true}', '"t" must be a finite number'),
        ('{"type":"user","text":"a","t":1e400}', '"t" must be a finite number'),
        (f'{{"type":"user","text":"a","t":{10**309}}}', '"t" must be a finite number'),
        ('{"type":"mystery","agent":1}', '"agent" must be a string'),
        ('{"type":"step","n":1}', '"calls" is missing'),
        ('{"type":"step","n":1.5,"calls":1}', '"n" must be an integer'),
        ('{"type":"step","n":1,"calls":true}', '"calls" must be an integer'),
        ('{"type":"step","n":1,"calls":1e400}', '"calls" must be an integer'),
        ('{"type":"step","n":1,"calls":1,"primed":1}', '"primed" must be true or false'),
        ('{"type":"call","tool":"x"}', '"id" is missing'),
        ('{"type":"call","id":"c"}', '"tool" is missing'),
        ('{"type":"result"}', '"id" is missing'),
        ('{"type":"result","id":"c","content":null}', '"content" must be a string or a list of blocks'),
        ('{"type":"result","id":"c","content":["a"]}', '"content" has a block that is no object'),
        ('{"type":"result","id":"c","content":[{"type":"text"}]}', '"content" has a text block whose "text"'),
        ('{"type":"result","id":"c","error":"no"}', '"error" must be true or false'),
        ('{"type":"result","id":"c","denied_by":true}', '"denied_by" must be a string'),
        ('{"type":"compaction"}', '"outcome" is missing'),
        ('{"type":"compaction","outcome":"done"}', '"outcome" must be one of committed, nothing, failed, refused'),
        ('{"type":"compaction","outcome":[]}', '"outcome" must be one of committed, nothing, failed, refused'),
        (
            '{"type":"compaction","outcome":"failed","trigger":null}',
            '"trigger" must be one of pressure, overflow, manual',
        ),
        ('{"type":"guard","guard":"g","action":"warn"}', '"action" must be one of arm, consulted, nudge'),
        ('{"type":"label","call":"c","class":"bad"}', '"class" must be one of novel, needed, requested, sterile'),
        ('{"type":"end","reason":"tired"}', '"reason" must be one of completed, horizon, stopped'),
    ],
)
def test_malformed_events(line, reason):
    with pytest.raises(t.LineError) as caught:
        t.event_of(line)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{}", 'is no header of a trace: "trace" is missing'),
        ('{"type":"user","text":"a"}', 'is no header of a trace: "trace" is missing'),
        ('{"trace":2,"episode":"e"}', '"trace" must be 1, the version that this reads, not 2'),
        ('{"trace":true,"episode":"e"}', '"trace" must be 1'),
        ('{"trace":1}', '"episode" is missing'),
        ('{"trace":1,"episode":"e","meta":[]}', '"meta" must be an object'),
        ('{"trace":1,"episode":"e","scenario":1}', '"scenario" must be a string'),
    ],
)
def test_malformed_headers(line, reason):
    with pytest.raises(t.LineError) as caught:
        t.header_of(line)
    assert str(caught.value).startswith(reason)


def test_unknown_fields_are_kept():
    line = '{"type":"user","agent":"root","text":"a","mood":{"deep":[1]},"10":null}'
    assert t.event_of(line).extra == {"mood": {"deep": [1]}, "10": None}
    assert t.line_of(t.event_of(line)) == line
    header = '{"trace":1,"episode":"e","scenario":null,"source":"","meta":{},"tool":"x"}'
    assert t.line_of(t.header_of(header)) == header


def test_unknown_types_are_kept():
    line = '{"type":"telemetry","agent":"s1","t":0.5,"text":7,"name":"x"}'
    read = t.event_of(line)
    assert read == t.Unknown("telemetry", agent="s1", t=0.5, extra={"text": 7, "name": "x"})
    assert t.line_of(read) == line


@given(EVENTS)
def test_events_round_trip(event):
    line = t.line_of(event)
    assert t.event_of(line) == event
    assert t.line_of(t.event_of(line)) == line
    assert "\n" not in line


@given(HEADERS)
def test_headers_round_trip(header):
    assert t.header_of(t.line_of(header)) == header


def test_a_thousand_levels_and_more():
    args = "[" * 3000 + '{"a":"\\ud800","b":1e999}' + "]" * 3000
    line = (
        f'{{"type":"call","agent":"root","id":"c","step":null,"tool":"x","args":{args},"primed":false,"more":{args}}}'
    )
    read = t.event_of(line)
    assert t.line_of(read) == line
    inner = read.args
    while isinstance(inner, list):
        (inner,) = inner
    assert inner == {"a": "\ud800", "b": math.inf}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (t.Step("1", 0), "must be an integer"),
        (t.User(None), "must be a string"),
        (t.End("tired"), "must be one of"),
        (t.Result("c", "text", 1), "must be true or false"),
        (t.User("a", extra={"agent": "b"}), "User.extra holds known fields: agent"),
        (t.Label("c", "novel", extra={"class": "b"}), "Label.extra holds known fields: class"),
        (t.Unknown("x", extra={"type": "y"}), "Unknown.extra holds known fields: type"),
        (t.Call("c", 1, "x", {"a": math.nan}), "NaN"),
    ],
)
def test_what_no_reader_would_accept_is_not_written(record, reason):
    with pytest.raises(ValueError, match=reason):
        t.line_of(record)


def test_the_parser_of_lines_is_that_of_javascript():
    """The last of equal keys wins, wherever it stands."""
    assert parse('{"type":"user","type":"end"}') == {"type": "end"}
    assert t.event_of('{"type":"user","reason":"horizon","type":"end"}') == t.End("horizon")
