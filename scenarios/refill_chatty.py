"""refill-chatty: many medium outputs refill the context within one tool turn."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from pydantic import Field

from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, Turn, ask
from scenarios.tools import Args

CHANNELS = ("north", "south", "pilots", "tugs", "customs", "ferries", "anglers", "dredgers", "marina", "upstream")
SHIPS = ("Amalia", "Boreas", "Corvina", "Delphin", "Esperance", "Fortuna", "Gudrun", "Hildegard", "Isolde", "Juno")
SAID = (
    "made fast at the upper quay, the crew goes ashore for the evening",
    "passed the second buoy with a full load and keeps to the right side",
    "asks for a berth with water and power for the coming three nights",
    "has taken on fuel and will be ready to leave within the next hour",
    "reports drifting wood below the old mill, all others take care there",
)
WAITS = "lies before the bridge and waits for it to be opened like the others"


class ReadChannel(Args):
    """Read the latest messages of a radio channel of the port."""

    tool: ClassVar[str] = "read_channel"
    channel: str = Field(description="Name of the channel")


class CallKeeper(Args):
    """Call the bridge keeper at a post, to have the bridge opened."""

    tool: ClassVar[str] = "call_keeper"
    post: int = Field(description="Number of the post")


class RefillChatty(Scenario):
    """Each channel alone is no burden; all of them, read in one turn, are as much as fits beside a summary. Whoever
    reads them one a turn compacts just as often for nothing, but at gaps of several turns."""

    name = "refill-chatty"
    expect = "trip"
    summary = "many medium outputs refill the context within one tool turn"
    calls = (ReadChannel, CallKeeper)

    @property
    def post(self) -> int:
        return self.draws.number("post", 2, 19)

    def channels(self) -> dict[str, str]:
        """The messages of each channel; one of them tells where the keeper is."""
        names, lines = self.draws.some("channels", CHANNELS, self.by_size(4, 5, 6)), self.by_size(10, 8, 7)
        told, place = self.draws.pick("told", names), self.draws.number("place", 1, lines - 3)

        def message(name: str, at: int) -> str:
            ship = self.draws.pick(("ship", name, at), SHIPS)
            said = WAITS if at == lines - 1 else self.draws.pick(("said", name, at), SAID)
            if (name, at) == (told, place):
                said = f"says that the bridge keeper is at post {self.post} and wants to be called"
            return f"{8 + at:02d}:{self.draws.number(('minute', name, at), 0, 59):02d} {ship} {said}"

        return {name: "\n".join(message(name, at) for at in range(lines)) for name in names}

    @property
    def needs(self) -> Needs:
        engine = {"thresholdRatio": 0.52, "retainRatio": 0.02, "headroomTokens": 128, "maxTokens": 600}
        return Needs(horizon=10, horizon_unit="compaction attempts", window=3584, reply_tokens=240, engine=engine)

    @property
    def prompt(self) -> str:
        names = tuple(self.channels())
        return (
            f"The bridge of the port is closed. Read the channels {', '.join(names[:-1])} and {names[-1]}, all of them "
            "at once, and read all of them again until one of them says that the bridge is open."
        )

    def world(self) -> World:
        return _World(self)

    def _reads(self, text: str = "") -> Turn:
        return Turn(text, tuple(("read_channel", {"channel": name}) for name in self.channels()))

    def honest(self) -> Course:
        return Script((self._reads(), ask("call_keeper", post=self.post)))

    def looping(self) -> Course:
        """The loop begins with the second turn: the channels never change."""
        again = self._reads("The bridge is not open yet.")
        return Script((), after=again, summary="- the bridge was not open yet; read all channels again")


class _World(World):
    def __init__(self, task: RefillChatty) -> None:
        super().__init__(task.calls)
        self._channels, self._post = task.channels(), task.post

    def run(self, args: Args, agent: str) -> Outcome:
        self.learn(agent, self._fact(args))
        if isinstance(args, ReadChannel):
            text = self._channels.get(args.channel.strip())
            return Outcome("No such channel.", error=True) if text is None else Outcome(text)
        there = self._fact(args) == self._post
        return self.accept("Accepted: the bridge opens.") if there else Outcome("Nobody answers at this post.")

    def worth(self, args: Args, agent: str) -> Verdict:
        if isinstance(args, CallKeeper) and args.post == self._post:
            return Verdict("novel", "where the keeper is", unit=True)
        return self.first(agent, self._fact(args), "this, and no channel ever changes")

    def _fact(self, args: Args) -> Hashable:
        """What the call tells: what a channel says, that there is none, or that the keeper is elsewhere."""
        assert isinstance(args, ReadChannel | CallKeeper)
        if isinstance(args, CallKeeper):
            return args.post
        return args.channel.strip() if args.channel.strip() in self._channels else "no such channel"
