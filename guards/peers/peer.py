"""What the policies of other products have in common: how a product's acts become decisions.

A product acts on its own loop, and a replay knows denials, nudges and refusals alone. So:

- A call that the product would drop or block is denied. Where the product then stops for good (it ends the run or the
  turn, or waits for a person), every later call of that agent is denied too, with the kind `halted` and the numbers of
  the stop, until the user speaks. A detector that works on results stops after one, so that its first denial is that of
  the call after it.
- What the product says to the model is a nudge behind the result of the call that it is about.
- A product judges what the model asks for, so that a call which something else stops counts like any other, unless the
  product counts executions or results. That is exact for a peer that is replayed alone.
- The calls that a step announces are one response of the model. A call that no step announces is a response of its own.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from guards.config import GuardConfig
from guards.json_text import paired, stringify
from guards.keys import call_key
from guards.loop_guard import result_key
from guards.policy import Denial, Nudge, Policy, ToolOutcome

PREFIX = "peer:"
HALTED = "halted"

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Asked:
    """A call. `key` is equal for calls of the same tool with the same arguments; `counted` as in `Policy.before_call`.

    `last`: it is the last call of its response.
    """

    tool: str
    args: Any
    key: Hashable
    counted: bool = True
    last: bool = True


class Session(Generic[Seen]):
    """One agent: what its detector remembers, whether the product has stopped, and nudges that wait for a result."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.announced = 0
        self._running: dict[Hashable, list[Nudge | None]] = {}
        self._owed: Nudge | None = None
        self._stop: Denial | None = None
        self._told = False
        self._lasts = True

    def stopped(self) -> Denial | None:
        """Why no call runs any more, of the kind `halted` once it has been told; None = calls run."""
        if self._stop is None:
            return None
        denial = replace(self._stop, kind=HALTED) if self._told else self._stop
        self._told = True
        return denial

    def stop(self, denial: Denial, *, told: bool = True, lasts: bool = True) -> Denial:
        """Denies every later call until the user speaks, or, where it does not last, until the next response.

        `told` False: no decision says so yet, and that of the next call is to be `denial` itself. A second stop changes
        nothing.
        """
        if self._stop is None:
            self._stop, self._told, self._lasts = denial, told, lasts
        return denial

    def asked(self, key: Hashable) -> None:
        """A call runs, and its result is to come: results of calls with one key come in the order of the calls."""
        self._running.setdefault(key, []).append(self._owed)
        self._owed = None

    def owe(self, nudge: Nudge) -> None:
        """The nudge stands behind the result of the call that is judged now."""
        self._owed = nudge

    def owed(self, key: Hashable) -> Nudge | None:
        """What stands behind the result that has come."""
        waiting = self._running.get(key)
        return waiting.pop(0) if waiting else None

    def response(self, calls: int) -> None:
        """`calls` calls are to come, and what has not settled by now never does."""
        self._running.clear()
        self.begin(calls)

    def begin(self, calls: int) -> None:
        self.announced = calls
        if not self._lasts:
            self._stop = None

    def speak(self) -> None:
        self._running.clear()
        self._stop = None


class Peer(Policy, Generic[Seen]):
    """A detector of another product. Subclasses say what is remembered of an agent, and override what concerns them."""

    config_type: ClassVar[type[GuardConfig]]
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, config: GuardConfig) -> None:
        super().__init__(config)
        self._sessions: dict[str, Session[Seen]] = {}

    def fresh(self) -> Seen:
        """What is remembered of an agent that has done nothing yet."""
        raise NotImplementedError

    def key(self, tool: str, args: Any) -> Hashable:
        return call_key(tool, args) or object()

    def judge(self, session: Session[Seen], call: Asked) -> Denial | None:
        """A call is asked, and the product has not stopped."""
        return None

    def settle(self, session: Session[Seen], call: Asked, result: ToolOutcome) -> Nudge | None:
        """A call has settled that this detector did not deny; `call.counted` False: something else denied it."""
        return None

    def respond(self, session: Session[Seen], calls: int) -> None:
        """The model has responded with `calls` calls, which are judged next."""

    def prompt(self, session: Session[Seen]) -> None:
        """The user has spoken."""
        session.seen = self.fresh()

    def before_call(self, agent: str, tool: str, args: Any, *, counted: bool = True) -> Denial | None:
        session = self.session(agent)
        if session.announced <= 0:
            session.begin(1)
            self.respond(session, 1)
        session.announced -= 1
        stopped = session.stopped()
        if stopped is not None:
            return stopped
        key = self.key(tool, args)
        denial = self.judge(session, Asked(tool, args, key, counted, session.announced == 0))
        if denial is None:
            session.asked(key)
        return denial

    def after_call(self, agent: str, tool: str, args: Any, result: ToolOutcome, *, executed: bool) -> Nudge | None:
        session, key = self.session(agent), self.key(tool, args)
        owed = session.owed(key)
        return self.settle(session, Asked(tool, args, key, executed), result) or owed

    def model_response(self, agent: str, calls: int) -> None:
        session = self.session(agent)
        session.response(calls)
        self.respond(session, calls)

    def user_message(self, agent: str) -> None:
        session = self.session(agent)
        session.speak()
        self.prompt(session)

    def session(self, agent: str) -> Session[Seen]:
        found = self._sessions.get(agent)
        if found is None:
            found = self._sessions[agent] = Session(self.fresh())
        return found


def ordered_key(tool: str, args: Any) -> Hashable:
    """Like a call key, but arguments whose names stand in another order are other arguments."""
    try:
        text = f"{paired(tool)}:{stringify(args)}"
    except (TypeError, ValueError):
        return object()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def result_digest(result: ToolOutcome) -> Hashable:
    """Equal for results that the model is shown as the same; an error and a success are never the same."""
    shown = result_key(result, sys.maxsize // 4)
    return object() if shown is None else hashlib.sha256(shown).digest()


def reason(product: str, what: str) -> str:
    """Words of ours for the model; the product's own are others."""
    return f"Not run, by the rule of {product}: {what}. Do something else, or finish with what you have."
