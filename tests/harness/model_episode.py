"""A real model in the real harness: one short episode, recorded once with its tape and replayed without the model.

To record it anew (after a change of dialect, harness or task; needs the model in the cache):

    python -m tests.harness.model_episode
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from runners.gateway.engine_options import EngineOptions
from runners.gateway.opening import open_backend
from tests.harness.driver import Run, model_rows, run_tree
from tests.runners.gateway.serving import Service, serving

MODEL = "qwen2.5-coder-0.5b"
TAPE = Path(__file__).parent / "recordings" / "qwen2.5-coder-0.5b.tape.sqlite"
SESSION = "session-0123456789abcdef0123456789abcdef"
TASK = "Run the command `cat notes.txt` with the bash tool. Then say in one short sentence what the notes are about."
NOTES = "Shopping list: two litres of milk, a loaf of rye bread and six apples.\n"
MOST_TOKENS = 120


def play(service: Service, folder: Path, episode: str = "recorded") -> tuple[Run, dict[str, Any]]:
    """Plays the episode in workspace and home below `folder`; gives the run and what the gateway knows of it."""
    workspace, home = folder / "ws", folder / "home"
    workspace.mkdir(parents=True)
    (workspace / "notes.txt").write_text(NOTES)
    settings = {"root_session": SESSION, "workspace": str(workspace), "home": str(home), "max_tokens": MOST_TOKENS}
    sampler = {"temperature": 0.0}
    answer = service.open(episode, seed=0, decode_mode="lazy", sampler=sampler, **settings)
    assert answer.status_code == 201, answer.text
    run = run_tree(
        service.at(episode),
        TASK,
        profile="sdk-minimal",
        workspace=workspace,
        home=home,
        rows=model_rows(),
        session=SESSION,
        timeout=300,
    )
    return run, service.summary(episode)


def record() -> None:
    """Makes the tape."""
    TAPE.unlink(missing_ok=True)
    options = EngineOptions(n_ctx=2048, slots=1, deterministic=True)
    with serving(open_backend(MODEL, options, tape=TAPE)) as service, tempfile.TemporaryDirectory() as folder:
        run, summary = play(service, Path(folder))
    TAPE.with_name(TAPE.name + ".lock").unlink(missing_ok=True)
    for note in run.notes:
        if note.method == "session.event" and note.payload["event"]["type"] in ("assistant/message", "tool/result"):
            print(note.payload["event"]["data"]["message"]["content"])
    for step in summary["steps"]:
        print(step)
    print(f"{TAPE}: {TAPE.stat().st_size} bytes")


if __name__ == "__main__":
    record()
