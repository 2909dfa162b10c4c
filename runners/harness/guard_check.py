"""A DSH plugin tried in the real harness: what it needs, in which planes it arms, and what it does to known courses.

Scripted actors play each course with the plugin alone in one plane, then in the other. A plugin that writes our event
log tells its decisions itself; of any other one sees what only a plugin can have done: errors that the world did not
give, results that it did not give so, messages that nobody else injects, compactions that failed before they began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from guards.errors import UserError
from guards.stack import Stack, StackGuard
from results.trace import Call, Compaction, End, Guard, Notice, Trace
from runners.arms import PLANES, Arm, Mount, Plane
from runners.dsh import DshRunner
from runners.gateway.cast import Cast
from runners.gateway.house import House
from runners.harness.composition import Addresses, Composition, compose
from runners.harness.eventlog import Line
from runners.harness.guard_check_log import Said, broken_compactions, said, shown
from runners.harness.guard_check_survey import Surveyed, SurveyFailed, grantable, ranges, survey
from runners.harness.layout import Scratch
from runners.harness.plugins import BREAKER, log_name, package_of, plugin_folder
from runners.run_directory import failure_of
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import Needs
from scenarios.registry import scenario

WALL_SECONDS = 300.0
"""An episode of a course that lasts longer has hung."""


@dataclass(frozen=True)
class Course:
    """What an actor plays. `horizon` counts in the scenario's own unit."""

    name: str
    scenario: str
    actor: str
    horizon: int
    says: str


COURSES = (
    Course("looping", "search-mirage", "looping", 12, "one search over and over, always with the same result"),
    Course("polling", "poll-progress", "honest", 12, "one job asked for its progress until it is done"),
    Course("refill", "refill-oversized", "looping", 6, "a context that is full again right after each compaction"),
)


@dataclass(frozen=True)
class Act:
    """Something that a plugin did. `index`: to the call with that place among the calls, from 1; for a notice, behind
    it; for a refusal, the attempt's place among the compaction attempts. `text` is what the model or the log is told.
    `count` and `limit` are None where the plugin does not tell them."""

    index: int
    text: str
    count: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Played:
    """A course that was played. `end` is how it ended; `failure` None where it is a result.

    `denied` did not run; `altered` ran, and the model was shown something else than the world said; `noticed` are
    injected messages, `nudged` those of them that the plugin's log tells of; `refused` are compaction attempts.
    """

    course: str
    scenario: str
    calls: int
    attempts: int
    committed: int
    end: str
    failure: str | None = None
    denied: tuple[Act, ...] = ()
    altered: tuple[Act, ...] = ()
    nudged: tuple[Act, ...] = ()
    noticed: tuple[Act, ...] = ()
    refused: tuple[Act, ...] = ()


@dataclass(frozen=True)
class InPlane:
    """`cause` says why it did not arm, None where it did. `consulted` None: the plugin writes no log to tell by.
    `logged` is what it said in the harness' log during the first course, and its warnings and errors in the others."""

    plane: Plane
    armed: bool
    cause: str | None
    consulted: bool | None
    courses: tuple[Played, ...] = ()
    logged: tuple[Said, ...] = ()


@dataclass(frozen=True)
class Checked:
    """`problem` is the one line that says why the plugin is not fit, None where it is. What comes after the problem
    was not found out: `harness` "" and `surveyed` None before the harness looked at it, `planes` empty before it was
    mounted."""

    path: Path
    config: Mapping[str, Any]
    problem: str | None
    harness: str = ""
    surveyed: Surveyed | None = None
    planes: tuple[InPlane, ...] = field(default=())

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        seen = self.surveyed
        return {
            "path": str(self.path),
            "ok": self.problem is None,
            "problem": self.problem,
            "package": None if seen is None else seen.name,
            "version": None if seen is None else seen.version,
            "harness": self.harness or None,
            "config": dict(self.config),
            "engine": None if seen is None else seen.engine,
            "requires": {} if seen is None else dict(seen.requires),
            "outside": {} if seen is None else dict(seen.unmet),
            "imports": [
                {"specifier": specifier, "resolves": why is None, "error": why}
                for specifier, why in (() if seen is None else seen.imports)
            ],
            "planes": {each.plane: _plane_data(each) for each in self.planes},
        }


def check(path: Path, config: Mapping[str, Any], scratch: Scratch, courses: Sequence[Course] = COURSES) -> Checked:
    """Checks the plugin in a folder on one course at least. Raises UserError where `path` is not there."""
    if not path.exists():
        raise UserError(f"{path}: there is no such folder; name that of a DSH plugin")
    try:
        package_of(path)
        done = survey([path], scratch)
    except UserError as error:
        return Checked(path, config, str(error))
    except SurveyFailed as error:
        return Checked(path, config, f"{path}: {error}")
    (seen,) = done.plugins
    if (problem := _unfit(seen)) is not None:
        return Checked(path, config, f"{path}: {problem}", done.harness, seen)
    try:
        planes = _Trial(path, config, seen, scratch, courses).run()
    except UserError as error:
        return Checked(path, config, str(error), done.harness, seen)
    problem = _wrong(planes)
    return Checked(path, config, None if problem is None else f"{path}: {problem}", done.harness, seen, planes)


def _unfit(seen: Surveyed) -> str | None:
    """Why there is nothing to mount."""
    if missing := [f"{specifier!r} ({why})" for specifier, why in seen.imports if why is not None]:
        return f"imports that do not resolve in the harness: {', '.join(missing)}"
    if seen.error is not None:
        return f"throws at load: {_line(seen.error)}"
    if not seen.applies:
        return "exports no `apply`: the harness mounts a function, a class or an object with that method"
    if seen.denied is not None:
        return f"the harness refuses its manifest: {_line(seen.denied)}"
    if seen.unmet and not grantable(seen.name, seen.version):
        made = f"is made for {ranges(seen.unmet)}"
        return f"{made}, and the harness excepts only packages with a lower-case name and an exact version"
    return None


def _wrong(planes: Sequence[InPlane]) -> str | None:
    """What keeps a plugin that could be mounted from being fit."""
    armed = [each for each in planes if each.armed]
    if not armed:
        causes = dict.fromkeys(_line(each.cause or "") for each in planes)
        return f"armed in no plane: {'; '.join(causes)}"
    for each in armed:
        if each.consulted is False:
            return f"{each.plane}: it is mounted, and was never consulted"
        for played in each.courses:
            if played.failure is not None:
                return f"{each.plane}, {played.course}: {_line(played.failure)}"
    return None


class _Trial:
    """The courses of one plugin."""

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        seen: Surveyed,
        scratch: Scratch,
        courses: Sequence[Course],
    ) -> None:
        self._scratch = scratch
        self._courses = courses
        self._telling = log_name(path)
        # An engine stands in the place of the harness' own, which is that of our breaker.
        self._name = BREAKER if seen.engine else self._telling or seen.name.rpartition("/")[2]
        self._stack = Stack("check", (StackGuard(self._name, config=dict(config), path=path),))
        self._lines: dict[str, Sequence[Line]] = {}

    def run(self) -> tuple[InPlane, ...]:
        with House(Cast(None)) as house, ThreadPoolExecutor(len(PLANES), thread_name_prefix="check") as pool:
            runner = DshRunner(
                house,
                self._stack,
                self._scratch,
                wall_seconds=WALL_SECONDS,
                composer=_witnessed,
                heard=self._lines.__setitem__,
            )
            try:
                return tuple(pool.map(lambda plane: self._in(plane, runner), PLANES))
            except BaseException:
                runner.interrupt()
                raise

    def _in(self, plane: Plane, runner: DshRunner) -> InPlane:
        played: list[Played] = []
        mount = Mount(self._name, plane)
        for course in self._courses:
            made = scenario(course.scenario)
            spec = EpisodeSpec(
                name=f"check.{plane}.{course.name}",
                scenario=made,
                arm=Arm(f"only:{mount}", (mount,)),
                seed=0,
                model=f"actor:{course.actor}",
                sha256=None,
                actor=course.actor,
                horizon=Horizon(course.horizon, made.needs.horizon_unit),
            )
            trace = runner.run(spec).trace
            lines = self._lines[spec.name]
            failure = failure_of(trace)
            if not played and failure is not None and not _armed(trace):
                logged = self._said(mount, lines, [])
                return InPlane(plane, False, _cause(mount, failure, logged), None, (), logged)
            played.append(self._played(course, trace, lines, failure))
        first, *others = (self._lines[f"check.{plane}.{course.name}"] for course in self._courses)
        consulted = None
        if self._telling == self._name:
            consulted = any(line["ev"] == "consulted" and line["plane"] == plane for line in first)
        return InPlane(plane, True, None, consulted, tuple(played), self._said(mount, first, others))

    def _said(self, mount: Mount, first: Sequence[Line], others: Sequence[Sequence[Line]]) -> tuple[Said, ...]:
        row = f"{mount.guard}-{mount.plane}"
        later = (each for lines in others for each in said(lines, row) if each.level in ("warn", "error"))
        return tuple(dict.fromkeys([*said(first, row), *later]))

    def _played(self, course: Course, trace: Trace, lines: Sequence[Line], failure: str | None) -> Played:
        events = trace.events
        compactions = [event for event in events if isinstance(event, Compaction)]
        (end,) = (event for event in events if isinstance(event, End) and event.agent == "root")
        refused = _acts(trace, "refuse")
        if not refused:
            refused = tuple(Act(each.attempts + 1, each.text) for each in broken_compactions(lines))
        texts = {each.call: each for each in shown(lines)}
        altered = (each for each in texts.values() if each.given is not None and each.given != each.text)
        return Played(
            course=course.name,
            scenario=course.scenario,
            calls=sum(isinstance(event, Call) for event in events),
            attempts=len(compactions),
            committed=sum(event.outcome == "committed" for event in compactions),
            end=end.reason,
            failure=failure,
            denied=_acts(trace, "deny"),
            altered=tuple(Act(each.index, each.text) for each in altered),
            nudged=_acts(trace, "nudge"),
            noticed=tuple(_notices(trace)),
            refused=refused,
        )


def _witnessed(arm: Arm, stack: Stack, needs: Needs, window: int, at: Addresses) -> Composition:
    """With one more plugin that writes down what is logged, before all others."""
    made = compose(arm, stack, needs, window, at)
    folder = plugin_folder("witness")
    package = package_of(folder)
    witness = {"id": "witness", "name": package, "config": {"eventLog": at.event_log}}
    rows = [{**row, "insert": [witness, *row["insert"]]} if "insert" in row else row for row in made.rows]
    return replace(made, rows=tuple(rows), packages={**made.packages, package: folder})


def _cause(mount: Mount, failure: str, logged: Sequence[Said]) -> str:
    """Why it did not arm; what it threw itself is shorter and says more than what became of its row."""
    thrown = next((each.text.splitlines()[0] for each in logged if each.level == "error" and each.text), None)
    return failure.removeprefix(f"{mount}: ") if thrown is None else f"throws when it is mounted: {thrown}"


def _armed(trace: Trace) -> bool:
    return any(isinstance(event, Guard) and event.action == "arm" for event in trace.events)


def _acts(trace: Trace, action: str) -> tuple[Act, ...]:
    """Decisions of one kind, by the place of their call, or of their attempt."""
    places: dict[str | None, int] = {}
    attempts = 0
    found = []
    for event in trace.events:
        if isinstance(event, Call):
            places[event.id] = len(places) + 1
        elif isinstance(event, Compaction):
            attempts += 1
        elif isinstance(event, Guard) and event.action == action:
            # A refusal stands before the attempt that it refuses.
            index = attempts + 1 if action == "refuse" else places.get(event.call, 0)
            found.append(Act(index, event.reason or "", event.count, event.limit))
    return tuple(found)


def _notices(trace: Trace) -> Sequence[Act]:
    calls = 0
    found = []
    for event in trace.events:
        calls += isinstance(event, Call)
        if isinstance(event, Notice):
            found.append(Act(calls, event.text))
    return found


def _plane_data(plane: InPlane) -> dict[str, Any]:
    data = asdict(plane)
    del data["plane"]
    data["courses"] = {played.pop("course"): played for played in data["courses"]}
    data["logged"] = [asdict(each) for each in plane.logged]
    return data


def _line(text: str) -> str:
    return " ".join(text.split())[:400]
