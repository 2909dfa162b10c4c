"""Recorded conversations of the real harness: made by `record`, read and replayed by the tests.

    python -m tests.harness.recordings /tmp/one /var/tmp/another-one LIBFAKETIME

records each profile twice: below the two folders, and the second time with the runtime's clock moved to 2031 by the
library libfaketime (Debian: `faketime`). Records are requests as they came over the wire; nothing is left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runners.gateway.episode import EpisodeSettings
from tests.harness.courses import MINIMAL, MINIMAL_PROMPTS, SDK, SDK_PROMPTS
from tests.harness.driver import model_rows, run_tree, sdk_rows
from tests.harness.stage import Course, Sent, Stage, stage

FOLDER = Path(__file__).parent / "recordings"
COURSES: dict[str, tuple[Course, tuple[str, ...]]] = {
    "sdk-minimal": (MINIMAL, MINIMAL_PROMPTS),
    "sdk": (SDK, SDK_PROMPTS),
}
ELSEWHEN = "@2031-02-03 04:05:06"


@dataclass(frozen=True)
class Place:
    """Where an episode of the harness runs; `scratch` is its folder for temporary files (see `run_tree`)."""

    workspace: str
    home: str
    scratch: str
    session: str

    @classmethod
    def below(cls, folder: Path, session: str) -> Place:
        """The folders of an episode below `folder`."""
        return cls(str(folder / "ws"), str(folder / "home"), str(folder / "scratch"), session)

    def settings(self) -> EpisodeSettings:
        """The gateway's settings for an episode here."""
        return EpisodeSettings(
            root_session=self.session,
            workspace=self.workspace,
            home=self.home,
            volatile={self.scratch: "/var/scratch"},
            watch=(str(Path(self.workspace).parent),),
        )


@dataclass(frozen=True)
class Recording:
    """An episode's requests in order of arrival."""

    place: Place
    sent: tuple[Sent, ...]


def perform(profile: str, place: Place, env: dict[str, str] | None = None) -> Stage:
    """Drive the real runtime through the profile's course; the returned gateway is stopped.

    Raises AssertionError where the harness's turns did not all end well.
    """
    course, prompts = COURSES[profile]
    with stage(course, place.settings()) as staged:
        run = run_tree(
            staged.url,
            *prompts,
            profile=profile,
            workspace=Path(place.workspace),
            home=Path(place.home),
            rows=model_rows() + (sdk_rows() if profile == "sdk" else []),
            session=place.session,
            env=env,
        )
    ends = [turn["reason"] for turn in run.events("turn/end")]
    assert {end["kind"] for end in ends} == {"completed"}, (ends, staged.episode.failure, run.stderr)
    return staged


def load(profile: str) -> tuple[Recording, ...]:
    """The profile's recordings."""
    runs = json.loads(gzip.decompress((FOLDER / f"{profile}.json.gz").read_bytes()))
    return tuple(Recording(Place(**run["place"]), tuple(Sent(**sent) for sent in run["sent"])) for run in runs)


def save(profile: str, recordings: list[Recording]) -> None:
    """Store the profile's recordings; equal recordings give equal bytes."""
    runs: list[dict[str, Any]] = [asdict(recording) for recording in recordings]
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(runs, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / f"{profile}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def record(first: Path, second: Path, library: str) -> None:
    """Record every profile in both folders, the second on another date."""
    elsewhen = {"LD_PRELOAD": library, "FAKETIME": ELSEWHEN, "DONT_FAKE_MONOTONIC": "1"}
    for profile in COURSES:
        places: tuple[tuple[Place, dict[str, str]], ...] = (
            (Place.below(first / profile, f"session-{'0123456789abcdef' * 2}"), {}),
            (Place.below(second / profile, f"session-{'fedcba9876543210' * 2}"), elsewhen),
        )
        save(profile, [Recording(place, tuple(perform(profile, place, env).sent)) for place, env in places])


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
