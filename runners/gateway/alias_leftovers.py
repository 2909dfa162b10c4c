"""Finds what would make one episode's prompts differ between two folders, machines or days."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import chain

from guards.errors import UserError
from runners.gateway.alias_pairs import end_of, mark_of

Clock = Callable[[], datetime]

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# What DeepSeek Harness 0.2.1rc2 makes up at random and shows to a model, in the words in which it does so. A bare UUID
# is none of these: it may be the scenario's own. The second entry stands in whatever the third finds.
HARNESS_SHAPES = tuple(
    (what, mark, re.compile(shape, re.MULTILINE))
    for what, mark, shape in (
        ("a session id", "session-", r"(?<![A-Za-z0-9])session-[0-9a-f]{32}(?![0-9a-f])"),
        ("a subagent id", "gent", rf"(?:[Aa]gent |agent id is \\*\"|agent_id: \\*\")({_UUID})"),
        ("a subagent id", "] ", rf"^({_UUID}) \[[a-z]+\] "),
        ("a goal id", "goal-", rf"(?<![A-Za-z0-9])goal-{_UUID}"),
        ("a job id", "job ", r"job ([a-z]+-[0-9a-f]{16})(?![0-9a-f])"),
        ("a temporary folder", "dsh-", r"(?<![A-Za-z0-9])dsh-(?:spill|subprocess|shell)-[A-Za-z0-9]{6}(?![A-Za-z0-9])"),
    )
)

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_EPOCH = re.compile(r"(?<![0-9A-Za-z.\-])(\d{10})(?:\d{3})?(?![0-9])")
_LEAST_WATCHED = 4


@dataclass(frozen=True)
class Finding:
    """A volatile span. `where` names the field, such as `messages[2].parts[0]`; `why` says what the span is."""

    where: str
    span: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.span!r} ({self.why})"


class VolatileLeft(Exception):
    """A prompt holds text that changes from run to run; `findings` is not empty."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        more = f" and {len(self.findings) - 1} more" if len(self.findings) > 1 else ""
        super().__init__(f"volatile text would reach the prompt in {self.findings[0]}{more}")


class Watch:
    """Values that must not stand in a prompt, and the days on which the episode runs.

    Few false alarms matter as much as finding all, since a finding ends the episode:

    - a known value counts as it is written, with its slashes escaped or not, also as the end of a longer path, but not
      as the beginning of a longer name; a word counts as a whole word, and words under 4 characters are refused, since
      they would be found everywhere;
    - a bare UUID counts only if it is known or stands where the harness shows its own (`HARNESS_SHAPES`), since
      scenarios have UUIDs too;
    - a date counts if it is that of the episode's start or of now, in UTC or local time, and is written with a year or,
      as `ls` does, with a time of day; ten or thirteen digits count as a date if they are an epoch time within a day of
      those;
    - dates that the scenario itself shows (`allow`) never count.
    """

    def __init__(self, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._start = clock()
        self._known: dict[str, tuple[str, str, re.Pattern[str]]] = {}
        self._allowed: list[str] = []
        self._days = _Days(self._start, self._start, ())
        self._clean: set[str] = set()
        """Texts without a finding: a conversation comes again with every request, and is long."""

    def add(self, what: str, value: str) -> None:
        """Watch for `value`, which is `what`. Raises UserError where it is too short to be told from other text."""
        if len(value) < _LEAST_WATCHED and not value.startswith("/"):
            raise UserError(f"{what}, {value!r}, is too short to be watched for: at least {_LEAST_WATCHED} characters")
        self._known[value] = (what, mark_of(value), _known(value))
        self._clean.clear()

    def allow(self, text: str) -> None:
        """Take the dates in `text`, which is the scenario's own, as legitimate."""
        self._allowed.append(text)
        self._days = _Days(self._start, self._clock(), self._allowed)
        self._clean.clear()

    def findings(self, text: str, where: str) -> list[Finding]:
        """The volatile spans of `text`, known values first, each span once."""
        now = self._clock()
        if not self._days.hold(now):
            self._days = _Days(self._start, now, self._allowed)
            self._clean.clear()
        if text in self._clean:
            return []
        found = [
            Finding(where, match.group(match.lastindex or 0), what)
            for what, mark, expression in (*self._known.values(), *HARNESS_SHAPES)
            if mark in text
            for match in expression.finditer(text)
        ]
        found += [Finding(where, span, "the date of this run") for span in self._days.spans(text)]
        if not found:
            self._clean.add(text)
        return list(dict.fromkeys(found))


class _Days:
    """The days from `start` to `now`, in UTC and in local time, and the spans that show one of them."""

    def __init__(self, start: datetime, now: datetime, allowed: Iterable[str]) -> None:
        self._quarter = _quarter(now)
        self._from, self._to = (start - timedelta(days=1)).timestamp(), (now + timedelta(days=1)).timestamp()
        ends = [at.astimezone(zone).date() for at in (start, now) for zone in (None, UTC)]
        first = min(ends)
        days = [first + timedelta(days=at) for at in range((max(ends) - first).days + 1)]
        self._marks = {mark for day in days for mark in (str(day.year), _MONTHS[day.month - 1][:3])}
        self._forms = re.compile("|".join(_forms(day) for day in days))
        self._allowed: set[str] = set()
        self._allowed = {span for text in allowed for span in self.spans(text)}

    def hold(self, now: datetime) -> bool:
        """Whether the days are still the same: they change at a quarter of an hour in every time zone."""
        return self._quarter == _quarter(now)

    def spans(self, text: str) -> Iterator[str]:
        """The dates of the days and epoch times within a day of them, without those that are allowed."""
        matches = self._forms.finditer(text) if any(mark in text for mark in self._marks) else iter(())
        times = (time for time in _EPOCH.finditer(text) if self._from <= int(time.group(1)) <= self._to)
        return (match.group() for match in chain(matches, times) if match.group() not in self._allowed)


def _quarter(moment: datetime) -> int:
    return int(moment.timestamp()) // 900


def _known(value: str) -> re.Pattern[str]:
    if not value.startswith("/"):
        return re.compile(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])")
    pieces = [re.escape(piece) for piece in value.split("/")[1:]]
    written = "".join(rf"(?:\\*/|%2[Ff]){piece}" for piece in pieces)
    # the harness names a session's folder after its workspace in this way
    folder = f"--{'-'.join(pieces)}--"
    return re.compile(f"(?:{written}){end_of(value)}|{folder}")


def _forms(day: date) -> str:
    """The usual ways of writing a day in figures or in English, as a regular expression."""
    year, month, number = day.year, f"0?{day.month}", f"0?{day.day}"
    long = _MONTHS[day.month - 1]
    name = rf"(?:{long}|{long[:3]}\.?)"
    ordinal = rf"{number}(?:st|nd|rd|th)?"
    forms = (
        rf"{year}[-/.]{month}[-/.]{number}(?!\d)",
        rf"(?<!\d)(?:{number}[-/.]{month}|{month}[-/.]{number})[-/.]{year}(?!\d)",
        rf"(?<!\d){day:%Y%m%d}(?!\d)",
        rf"\b{name} +{ordinal},? +(?:{year}(?!\d)|\d\d:\d\d)",
        rf"(?<!\d){ordinal} +{name},? +{year}(?!\d)",
    )
    return "|".join(forms)
