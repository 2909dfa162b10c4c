"""The real harness against the real gateway: each kind of answer is taken for what it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runners.gateway.asking import BackendFailure, BadAsk, ContextOverflow, Overloaded
from runners.gateway.conversation import Reply, Text, Thinking, ToolCall, ToolResult
from runners.gateway.episode import EpisodeSettings
from tests.harness.driver import Run, model_rows, run_tree
from tests.harness.stage import Course, Stage, does, stage

SESSION = "session-0123456789abcdef0123456789abcdef"
# A step that failed is asked again by the next prompt.
PROMPTS = ("work", "nothing", "cut", "busy", "again", "bad", "once more", "broken")
COURSE = Course(
    replies={
        0: (
            Reply(thinking="Let me see.", text="I look.", calls=(does("bash", command="pwd; seq 1 400"),)),
            Reply(calls=(does("bash", command="seq 1 9"),)),
            Reply(text="Done."),
            Reply(),
            Reply(text="A sentence that"),
            Reply(text="At last."),
            Reply(text="Good."),
        )
    },
    summary="- bash printed 1 to 400",
    failures={
        (0, 2): ContextOverflow(8000, 6144),
        (0, 5): Overloaded("too many requests wait"),
        (0, 6): BadAsk("tools: what is this"),
        (0, 7): BackendFailure("the engine died"),
    },
    cut=frozenset({(0, 4)}),
)


@dataclass(frozen=True)
class Played:
    """The stage after the run, the run, and how each prompt's turn ended."""

    staged: Stage
    run: Run
    ends: dict[str, Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder: Path = tmp_path_factory.mktemp("harness")
    settings = EpisodeSettings(root_session=SESSION, workspace=str(folder / "ws"), home=str(folder / "home"))
    with stage(COURSE, settings) as staged:
        run = run_tree(
            staged.url,
            *PROMPTS,
            profile="sdk-minimal",
            workspace=folder / "ws",
            home=folder / "home",
            rows=model_rows(),
            session=SESSION,
        )
        ends = dict(zip(PROMPTS, (turn["reason"] for turn in run.events("turn/end")), strict=True))
        yield Played(staged, run, ends)


def test_an_overflow_leads_to_a_summary_and_the_step_is_asked_again(played: Played) -> None:
    moments = [(moment, summary) for moment, summary, _ in played.staged.backend.asks]
    assert moments[1:5] == [((0, 1), False), ((0, 2), False), ((0, 2), True), ((0, 2), False)]
    assert [event["summary"][0]["text"] for event in played.run.events("compaction/summary")] == [COURSE.summary]
    assert played.ends["work"] == {"kind": "completed"}


def test_an_empty_reply_ends_the_turn_and_is_not_in_the_next_prompt(played: Played) -> None:
    assert played.ends["nothing"] == {"kind": "completed"}
    cut = next(asked for moment, _, asked in played.staged.backend.asks if moment == (0, 4))
    assert [message.role for message in cut.messages][-2:] == ["assistant", "user"]
    assert cut.messages[-1].parts[-2:] == (Text("nothing"), Text("cut"))


def test_a_reply_at_the_token_limit_says_so(played: Played) -> None:
    assert played.ends["cut"]["kind"] == "max-tokens"


@pytest.mark.parametrize(
    ("prompt", "code", "message"),
    [
        ("busy", "SERVER", "too many requests wait"),
        ("bad", "INVALID_REQUEST", "tools: what is this"),
        ("broken", "SERVER", "the engine died"),
    ],
)
def test_an_error_reaches_the_harness_with_its_text(played: Played, prompt: str, code: str, message: str) -> None:
    error = played.ends[prompt]["error"]
    assert error["code"] == code
    assert message in error["message"]


def test_a_call_with_thinking_and_text_comes_back_whole_and_hidden(played: Played) -> None:
    asked = played.staged.backend.asks[1][2]
    call = ToolCall("toolu_0_0_0", "bash", {"command": "pwd; seq 1 400"})
    assert asked.messages[-2].parts == (Thinking("Let me see."), Text("I look."), call)
    (result,) = asked.messages[-1].parts
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.error) == ("toolu_0_0_0", False)
    assert result.text.startswith("/workspace\n1\n2\n")


def test_the_usage_that_the_harness_books_is_the_gateway_s(played: Played) -> None:
    booked = [message["usage"] for message in played.run.events("assistant/message")]
    steps = [step for step in played.staged.episode.steps if not step.compaction]
    assert [(usage["inputTokens"], usage["outputTokens"]) for usage in booked] == [
        (step.input_tokens, step.output_tokens) for step in steps
    ]


def test_only_what_is_no_mistake_of_the_request_fails_the_episode(played: Played) -> None:
    assert played.staged.episode.failure == "BackendFailure: the engine died"
