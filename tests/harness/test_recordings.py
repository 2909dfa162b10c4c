"""One episode in two folders, two homes and on two dates gives equal prompts: recorded conversations, and live ones."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from runners.gateway.app import Gateway
from runners.gateway.conversation import Conversation
from runners.gateway.episode import EpisodeSettings
from runners.gateway.turn import COMPACT_HEADER, SESSION_HEADER
from tests.harness.recordings import COURSES, Place, Recording, load, perform
from tests.harness.stage import EPISODE, Moment, StagedBackend

PROFILES = tuple(COURSES)
Prompts = list[tuple[Moment, bool, Conversation]]


def replay(profile: str, recording: Recording, settings: EpisodeSettings) -> tuple[Prompts, list[str | None]]:
    """Send what was recorded to a gateway whose model says what it said then: the prompts, and their digests.

    Raises RuntimeError with the answer's text where the gateway refuses a request for another reason than an overflow.
    """

    async def play() -> tuple[Prompts, list[str | None]]:
        # requests come one after the other here: none may wait for a later one
        backend = StagedBackend(replace(COURSES[profile][0], after={}))
        gateway = Gateway(backend, EpisodeSettings())
        episode = gateway.open(EPISODE, settings)
        transport = httpx.ASGITransport(gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            for sent in recording.sent:
                headers = {SESSION_HEADER: sent.session} | ({COMPACT_HEADER: "1"} if sent.compacting else {})
                body = sent.body | {"stream": False}
                answer = await client.post(f"/e/{EPISODE}/v1/messages", json=body, headers=headers)
                if answer.status_code != 200 and "context window" not in answer.text:
                    raise RuntimeError(answer.text)
        assert not episode.assumed
        steps = sorted(episode.steps, key=lambda step: step.agent)
        return backend.of_agents(), [step.prompt_digest for step in steps]

    return asyncio.run(play())


@pytest.mark.parametrize("profile", PROFILES)
def test_recorded_episodes_in_two_places_on_two_dates_give_equal_prompts(profile: str) -> None:
    one, other = load(profile)
    assert [sent.body for sent in one.sent] != [sent.body for sent in other.sent]
    prompts, digests = replay(profile, one, one.place.settings())
    other_prompts, other_digests = replay(profile, other, other.place.settings())
    assert prompts == other_prompts
    assert digests == other_digests
    assert None not in digests


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("unknown", ["workspace", "home"])
def test_a_place_that_is_not_known_is_found_in_a_recording(profile: str, unknown: str) -> None:
    recording = load(profile)[0]
    folder = str(getattr(recording.place, unknown))
    settings = recording.place.settings().model_copy(update={unknown: None, "watch": (folder,)})
    with pytest.raises(
        RuntimeError, match=r"volatile text would reach the prompt in messages\[\d+\].parts\[\d+\]"
    ) as raised:
        replay(profile, recording, settings)
    assert folder in str(raised.value)


def test_the_recordings_hold_what_they_are_for() -> None:
    minimal, sdk = ([json.dumps(sent.body) for sent in load(profile)[1].sent] for profile in ("sdk-minimal", "sdk"))
    assert any(sent.compacting for sent in load("sdk-minimal")[1].sent)
    assert len({sent.session for sent in load("sdk")[1].sent}) == 3
    for kind in ("Current working directory", "fedcba98", "\\\\/ws"):
        assert any(kind in body for body in minimal), kind
    for kind in ("started subagent", "started background job bash-", "Your parent agent id is", "Background subagent"):
        assert any(kind in body for body in sdk), kind


@pytest.mark.parametrize("profile", PROFILES)
def test_the_real_harness_in_two_places_gives_equal_prompts(profile: str, tmp_path: Path) -> None:
    # 26 hours apart: the runtimes' local dates differ at any time of the day
    places = (("one", "0", "Pacific/Kiritimati"), ("other/and-longer", "f", "Etc/GMT+12"))

    def live(name: str, digit: str, zone: str) -> tuple[Prompts, list[Any]]:
        place = Place.below(tmp_path / name, f"session-{digit * 32}")
        staged = perform(profile, place, {"TZ": zone})
        assert (staged.episode.failure, staged.episode.assumed) == (None, [])
        steps = sorted(staged.episode.steps, key=lambda step: step.agent)
        return staged.backend.of_agents(), [step.prompt_digest for step in steps]

    with ThreadPoolExecutor(len(places)) as pool:
        (prompts, digests), (other_prompts, other_digests) = pool.map(lambda place: live(*place), places)
    assert prompts == other_prompts
    assert digests == other_digests
    course, _ = COURSES[profile]
    said = {(agent, step) for agent, replies in course.replies.items() for step in range(len(replies))}
    assert {moment for moment, _, _ in prompts} == said
