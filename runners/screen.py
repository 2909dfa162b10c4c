"""An episode as lines for people, call by call: what each call was worth and why, and what guards made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from guards.json_text import dump
from guards.stack import Stack
from results.episode import Episode
from results.loops import loops
from results.trace import Call, Compaction, End, Event, Guard, Header, Label, Notice, Result, Spawn, Step, Trace, User
from runners.replay import Replayed, replay
from runners.spec import EpisodeSpec
from scenarios.judge import judge

if TYPE_CHECKING:
    from rich.console import Console

MOST = 110
"""Characters of arguments and results that are shown."""
STYLES = {"novel": "green", "needed": "cyan", "requested": "blue", "sterile": "yellow"}
DID = {"nudge": "nudged", "deny": "denied", "refuse": "refused"}
WOULD = {"nudge": "would nudge", "deny": "would deny", "refuse": "would refuse"}
_SILENT = {"arm", "consulted", "announce", "incident", "reset"}


def plain(text: str, most: int = MOST) -> str:
    """The text on one line, at most so many characters, without anything that a terminal would act on."""
    words = " ".join(text[: 4 * most].split())
    shown = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in words)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def called(call: Call) -> str:
    """A call on one line."""
    return plain(f"{call.tool} {dump(call.args)}")


class Screen:
    """Prints the events of one episode as they come. A call's label stands behind its result, as the judge gives it for
    all that has happened by then. Guards of `stack` that the arm does not mount are asked too, each alone, and say what
    they would have done."""

    def __init__(self, spec: EpisodeSpec, stack: Stack, console: Console) -> None:
        self._spec = spec
        self._console = console
        mounted = {mount.guard for mount in spec.arm.mounts}
        self._alone = [
            replace(stack, name=guard.name, guards=(guard,))
            for guard in stack.guards
            if guard.path is None and guard.name not in mounted
        ]
        self._shown = 0
        self._told: dict[str, int] = {}
        self._places: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}

    def begin(self, runner: str) -> None:
        spec = self._spec
        made, horizon = spec.scenario, spec.horizon
        primed = f", {spec.priming} primed" if spec.priming else ""
        who = spec.model if spec.actor is not None else f"{spec.model} ({spec.decode_mode})"
        task = f"{made.name} ({made.expect}), {made.size}, seed {made.seed}"
        most = f"at most {horizon.count} {horizon.unit}"
        self._print(f"{task}: {who}{primed}, arm {spec.arm.name}, {runner}, {most}", "bold")

    def show(self, events: Sequence[Event]) -> None:
        """Prints what is new: `events` are all so far, labels and ends left out."""
        events = [event for event in events if not (isinstance(event, Guard) and event.action in _SILENT)]
        for at in range(self._shown, len(events)):
            self._event(events[at], Trace(Header("so far"), tuple(events[: at + 1])))
        self._shown = max(self._shown, len(events))

    def end(self, trace: Trace) -> None:
        """Prints what is left of the whole trace, and what became of the episode."""
        self.show([event for event in trace.events if not isinstance(event, Label | End)])
        episode = Episode(trace)
        if episode.failure is not None:
            self._print(f"end: {plain(episode.failure, 2000)}", "bold red")
            return
        judged = [str(call.judged) for call in episode.calls if not call.primed]
        classes = ", ".join(f"{judged.count(name)} {name}" for name in STYLES if name in judged) or "no calls"
        denied = sum(call.denied_by is not None for call in episode.calls)
        solved = "solved" if episode.success else "not solved"
        self._print(f"end: {episode.end}, {solved}; {classes}" + (f"; {denied} denied" if denied else ""), "bold")
        for loop in loops(episode):
            unit = "call" if loop.kind == "calls" else "compaction attempt"
            who = "" if loop.agent == episode.root else f" of {loop.agent}"
            self._print(f"     loop{who}: from {unit} {loop.onset}, {loop.length} long, {loop.ended}", "bold")

    # -- one event -------------------------------------------------------------------------------------------------

    def _event(self, event: Event, so_far: Trace) -> None:
        match event:
            case User():
                self._print(f"user: {plain(event.text, 1000)}")
            case Step() if self._spec.actor is None and event.seconds is not None:
                used = f"{event.input_tokens} + {event.output_tokens} tokens, {event.seconds:.1f} s"
                self._print(f"     model: {used}" + ("" if event.calls else ", no call"), "dim")
            case Call():
                self._call(event)
                self._would(so_far)
            case Result():
                self._result(event, so_far)
                self._would(so_far)
            case Guard():
                self._act(
                    event.agent, DID[event.action], event.guard, event.plane, event.kind, event.count, event.limit
                )
            case Notice():
                self._print(f"     notice of {event.source}: {plain(event.text)}", "dim")
            case Compaction():
                sizes = f", {event.tokens_before} to {event.tokens_after} tokens" if event.tokens_after else ""
                self._print(f"     compaction ({event.trigger}): {event.outcome}{sizes}", "magenta")
                self._would(so_far)
            case Spawn():
                self._print(f"     starts {event.child}: {plain(event.purpose or '')}", "magenta")

    def _call(self, call: Call) -> None:
        place = self._counts[call.agent] = self._counts.get(call.agent, 0) + 1
        self._places[call.agent, call.id] = place
        who = "" if call.agent == "root" else f"{call.agent} "
        self._print(f"{who}{place:>4} {called(call)}" + (" (primed)" if call.primed else ""))

    def _result(self, result: Result, so_far: Trace) -> None:
        calls = [each for each in so_far.events if isinstance(each, Call)]
        labels, _ = judge(self._spec.scenario, so_far)
        at = max(
            (at for at, call in enumerate(calls) if (call.agent, call.id) == (result.agent, result.id)), default=None
        )
        if at is None:
            return
        label = labels[at]
        place = self._places[result.agent, result.id]
        late = "" if calls[-1] is calls[at] else f"{place:>4} "
        self._print(f"{late or '     '}{label.judged}: {plain(label.why)}", STYLES[label.judged])
        error = "error: " if result.error else ""
        self._print(f"     -> {error}{plain(result.text)}", "red" if result.denied_by else "dim")

    def _would(self, so_far: Trace) -> None:
        """What guards that are not mounted decide, each alone, on what has happened."""
        for each, decided in self._decided(so_far):
            self._act(decided.agent, WOULD[decided.action], each, None, decided.kind, decided.count, decided.limit)

    def _decided(self, so_far: Trace) -> Iterator[tuple[str, Replayed]]:
        for alone in self._alone:
            (policy,) = alone.policies()
            found = list(replay(so_far, policy))
            yield from ((alone.name, each) for each in found[self._told.get(alone.name, 0) :])
            self._told[alone.name] = len(found)

    def _act(
        self,
        agent: str,
        did: str,
        guard: str,
        plane: str | None,
        kind: str | None,
        count: int | None,
        limit: int | None,
    ) -> None:
        named = f"{guard}@{plane}" if plane and plane != "native" else guard
        where = "" if count is None else f" ({kind + ', ' if kind else ''}count {count}, limit {limit})"
        who = "" if agent == "root" else f" {agent}"
        said = f"{named} {did}{who}" if did in WOULD.values() else f"{did}{who} by {named}"
        self._print(f"     {said}{where}", "dim red" if did in WOULD.values() else "bold red")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)
