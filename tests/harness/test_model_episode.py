"""The recorded episode of a real model, replayed from its tape: no model file, other folders, the real harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.gateway.opening import open_backend
from runners.gateway.tape import Tape
from tests.harness.model_episode import MODEL, NOTES, TAPE, play
from tests.runners.gateway.serving import serving


@pytest.mark.parametrize("folder", ["a", "another-folder-with-a-longer-name"])
def test_the_recorded_episode_replays_without_the_model(tmp_path: Path, folder: str) -> None:
    """Each prompt is found in the tape: so it is equal to the recorded one, to the last character."""
    backend = open_backend(MODEL, tape=TAPE, tape_only=True, cache=tmp_path / "no-models")
    with serving(backend) as service:
        run, summary = play(service, tmp_path / folder)
    assert summary["failure"] is None
    steps = summary["steps"]
    assert [step["decoded"] for step in steps] == [False] * len(steps)
    with Tape.open(TAPE, read_only=True) as tape:
        assert sorted(step["tape_key"] for step in steps) == sorted(key.digest() for key in tape.keys())  # noqa: SIM118
    # What the model did when it was recorded: it ran the one command until the window was full: what
    # was left cut a reply in which another call began.
    calls = run.events("tool/call")
    assert [(call["name"], call["arguments"]) for call in calls] == [("bash", '{"command":"cat notes.txt"}')] * 24
    results = [result["message"]["content"][0]["text"] for result in run.events("tool/result")]
    assert len(results) == 24
    assert all(NOTES.strip() in result for result in results)
    assert [step["calls"] for step in steps] == [1] * 24 + [0]
    assert [block.get("text") for block in run.events("assistant/message")[-1]["message"]["content"]] == [
        '{"name": "bash",'
    ]
    assert run.events("turn/end")[-1]["reason"] == {"kind": "max-tokens"}


def test_another_task_is_a_miss_and_not_a_reply(tmp_path: Path) -> None:
    backend = open_backend(MODEL, tape=TAPE, tape_only=True, cache=tmp_path / "no-models")
    with serving(backend) as service:
        assert service.open("other").status_code == 201
        body = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
        answer = service.post(body, "other")
        assert answer.status_code == 500
        text = answer.json()["error"]["message"]
        assert "'other'" in text or "other" in text
        assert service.summary("other")["failure"].startswith("TapeMiss")
