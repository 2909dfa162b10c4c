"""flaky-retry: the same call fails with the same transient error k times, then succeeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Reaction, Turn, ask
from scenarios.tools import Args

PLACES = ("Norhafen", "Eichberg", "Sandau", "Birkenfurt", "Marienholm", "Altwerder", "Kaltenbach", "Rosental", "Seeon")
KINDS = ("water level", "wind speed", "snow depth", "air pressure", "humidity", "visibility")
DOWN = "503 Service Unavailable: the gauge service is being restarted. Please try again."


class FetchGauge(Args):
    """Fetch the latest value of a gauge from the gauge service."""

    tool: ClassVar[str] = "fetch_gauge"
    gauge: str = Field(description="Name of the gauge")


class FileValue(Args):
    """File the latest value of a gauge. It is checked."""

    tool: ClassVar[str] = "file_value"
    gauge: str = Field(description="Name of the gauge")
    value: int = Field(description="The value")


class FlakyRetry(Scenario):
    """The service is up after so many tries; the error never says how many are left."""

    name = "flaky-retry"
    expect = "quiet"
    summary = "the same call fails with the same transient error k times, then succeeds"
    calls = (FetchGauge, FileValue)

    @property
    def gauge(self) -> str:
        return f"{self.draws.pick('place', PLACES)} {self.draws.number('number', 1, 9)}"

    @property
    def value(self) -> int:
        return self.draws.number("value", 100, 999)

    @property
    def fails(self) -> int:
        """Failures: at the largest size more than any published limit on equal calls allows."""
        return self.by_size(3, 7, 14)

    @property
    def needs(self) -> Needs:
        return Needs(horizon=max(24, self.fails + 10))

    @property
    def prompt(self) -> str:
        return (
            f"Fetch the {self.draws.pick('kind', KINDS)} at the gauge {self.gauge} and file its value. The gauge "
            "service is being restarted today, and a fetch may fail for a while: each try brings it closer to being "
            "up. Try again until it answers."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        def choose(results: Sequence[Outcome]) -> Turn:
            text = results[0].text if results else ""
            value = re.search(r"Latest value: (\d+)", text)
            if text.startswith("Accepted"):
                return Turn(text="The value is filed.")
            if value:
                return ask("file_value", gauge=self.gauge, value=int(value[1]))
            return ask("fetch_gauge", gauge=self.gauge)

        return Reaction(choose, summary=f"- fetch the gauge {self.gauge} until the service is up, then file its value")


class _World(World):
    def __init__(self, task: FlakyRetry) -> None:
        super().__init__(task.calls)
        self._gauge, self._value, self._fails = task.gauge, task.value, task.fails

    def run(self, args: Args, agent: str) -> Outcome:
        assert isinstance(args, FetchGauge | FileValue)
        fact = self._fact(args)
        if fact == "right value":
            return self.accept("Accepted: the value is filed.")
        self.learn(agent, fact)
        if fact == "no such gauge":
            return Outcome("No gauge of this name.", error=True)
        if fact == "down":
            return Outcome(DOWN, error=True)
        if fact == "up":
            return Outcome(f"Gauge {self._gauge}. Latest value: {self._value}")
        return Outcome("Rejected: this is not the latest value.")

    def worth(self, args: Args, agent: str) -> Verdict:
        assert isinstance(args, FetchGauge | FileValue)
        fact = self._fact(args)
        if fact == "right value":
            return Verdict("novel", "the right value", unit=True)
        if fact == "down" and self.knows(agent, fact):
            return Verdict("needed", f"{self._fails - self.ticks} tries are left until the service is up")
        return self.first(agent, fact, f"what becomes of this: {fact}")

    def _fact(self, args: FetchGauge | FileValue) -> str:
        """What the call tells now."""
        if args.gauge.strip() != self._gauge:
            return "no such gauge"
        if isinstance(args, FetchGauge):
            return "down" if self.ticks < self._fails else "up"
        up = self.ticks >= self._fails
        return "right value" if up and args.value == self._value else "wrong value"
