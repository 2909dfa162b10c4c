"""The event log: each whole line is read once, and nothing behind a broken one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.gateway.episode import Step
from runners.harness.eventlog import EventLog, EventLogBroken, Line

LINES = st.lists(
    st.builds(
        lambda ev, more: {"ev": ev, **more},
        st.text(max_size=5),
        st.dictionaries(st.sampled_from(["agent", "data", "ms"]), st.text(max_size=8) | st.integers() | st.none()),
    ),
    max_size=8,
)


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    path = tmp_path / "events.jsonl"
    path.touch()
    return EventLog(path)


def write(log: EventLog, data: bytes) -> None:
    with log.path.open("ab") as file:
        file.write(data)


def test_new_lines_are_given_once(log: EventLog) -> None:
    log.append({"ev": "one"})
    assert log.update() == [{"ev": "one"}]
    assert log.update() == []
    log.append({"ev": "two"})
    log.append({"ev": "three"})
    assert log.update() == [{"ev": "two"}, {"ev": "three"}]
    assert log.lines == [{"ev": "one"}, {"ev": "two"}, {"ev": "three"}]


@given(LINES, st.lists(st.integers(0, 400)))
def test_a_line_counts_when_it_is_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line], cuts: list[int]
) -> None:
    """However the writes fall."""
    log = EventLog(tmp_path_factory.mktemp("log") / "events.jsonl")
    log.path.touch()
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    start = 0
    given: list[Line] = []
    for cut in [*sorted(cut for cut in cuts if cut <= len(data)), len(data)]:
        write(log, data[start:cut])
        start = cut
        given += log.update()
        assert len(given) == data[:cut].count(b"\n")
    assert given == log.lines == lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "is no JSON"),
        (b"", "is no JSON"),
        (b'{"ev": "\xff"}', "is no JSON"),
        (b'{"ev": NaN}', "is no JSON"),
        (b"[]", "has no `ev`"),
        (b'{"agent": "x"}', "has no `ev`"),
        (b'{"ev": 1}', "has no `ev`"),
    ],
)
def test_nothing_behind_a_broken_line_is_read(log: EventLog, line: bytes, says: str) -> None:
    log.append({"ev": "before"})
    write(log, line + b"\n")
    log.append({"ev": "after"})
    for _ in range(3):
        with pytest.raises(EventLogBroken, match=says) as broken:
            log.update()
        assert str(broken.value).startswith("events.jsonl: ")
        assert log.lines == [{"ev": "before"}]


def test_a_very_deep_line(log: EventLog) -> None:
    write(log, b'{"ev":"event","data":' + b"[" * 5000 + b"]" * 5000 + b"}\n")
    assert log.update()[0]["ev"] == "event"


def test_an_answer_names_its_session_and_its_agent_s_number(log: EventLog) -> None:
    step = Step(
        agent=2,
        step=3,
        session="session-x",
        compaction=True,
        calls=0,
        input_tokens=7,
        output_tokens=1,
        prefill_seconds=0.5,
        decode_seconds=0.25,
        finish="stop",
        tape_key=None,
        prompt_digest="d",
        decoded=True,
    )
    log.answered(step)
    (line,) = log.update()
    assert (line["ev"], line["agent"], line["ordinal"], line["step"]) == ("answer", "session-x", 2, 3)
    assert line["compaction"] is True
    assert line["input_tokens"] == 7


def test_several_readers_share_the_lines(log: EventLog) -> None:
    """Two agents may ask the runner at the same moment: no line is counted twice or by nobody."""
    count, readers = 2000, 8
    barrier = threading.Barrier(readers + 1)
    given: list[list[Line]] = [[] for _ in range(readers)]

    def read(mine: list[Line]) -> None:
        barrier.wait()
        while len(log.lines) < count:
            mine += log.update()

    threads = [threading.Thread(target=read, args=(mine,)) for mine in given]
    for thread in threads:
        thread.start()
    barrier.wait()
    for number in range(count):
        log.append({"ev": "n", "number": number})
    for thread in threads:
        thread.join()
    assert [line["number"] for line in log.lines] == list(range(count))
    assert sorted(line["number"] for mine in given for line in mine) == list(range(count))


def test_another_process_appends_at_the_same_time(log: EventLog) -> None:
    code = f"for n in range(500): open({str(log.path)!r}, 'a').write('{{\"ev\": \"theirs\"}}\\n')"
    other = subprocess.Popen([sys.executable, "-c", code])
    for _ in range(500):
        log.append({"ev": "ours", "text": "x" * 200})
    assert other.wait(60) == 0
    log.update()
    assert sorted(line["ev"] for line in log.lines) == ["ours"] * 500 + ["theirs"] * 500
