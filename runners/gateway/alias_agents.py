"""The numbers of an episode's agents: equal in every run, whatever the order in which their requests arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class _Call:
    """A call that starts a child: the child's number and opening, and whether the child is still to come."""

    number: int
    opening: str
    open: bool = True


class Agents:
    """Numbers by session id: the root is 0, children count from 1 in the order of the calls that started them.

    Two children of one step start at once: their first requests come in any order, and may come before their parent's
    next request. So a number is reserved when the reply with the call is sent (`called`), refused calls included, and
    a child gets it by the first of these rules that decides:

    1. `announced`, where a runner knows which call started which child;
    2. the opening: a child's first message begins with the prompt of the call. It decides unless two calls whose
       children are still to come have the same prompt, and then `number` is None until another rule decides;
    3. the parent's tool result that names the child (`started`): results stand in the order of the calls. It also
       numbers children whose calls were not told, in the order of the text: in a recording, all of them.
    """

    def __init__(self, root: str | None) -> None:
        """`root` is the root's session id; None takes the first agent that asks."""
        self._numbers: dict[str | None, int] = {} if root is None else {root: 0}
        self._calls: dict[str, _Call] = {}
        self._last = 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """The session ids and numbers known so far."""
        return ((session, number) for session, number in self._numbers.items() if session is not None)

    def known(self, session: str | None) -> int | None:
        """The agent's number, if a rule has decided it."""
        return self._numbers.get(session)

    def number(self, session: str | None, opening: str) -> int | None:
        """The number of an agent that asks, by the text that its conversation begins with; None: not decided yet.

        A session of None, a client without sessions, is the root.
        """
        if session is None or not self._numbers:
            self._numbers.setdefault(session, 0)
        if session not in self._numbers:
            waiting = self._waiting(opening)
            if len(waiting) == 1:
                self._bind(session, waiting[0])
        return self._numbers.get(session)

    def assumed(self, session: str | None, opening: str) -> int:
        """The number by order of arrival where no rule decides; runs may differ in it."""
        number = self.number(session, opening)
        return self._bind(session, next(iter(self._waiting(opening)), None)) if number is None else number

    def called(self, call_id: str, opening: str) -> None:
        """Reserve the next number for the child of a call; to be told in the order of the calls, each once."""
        self._last += 1
        self._calls[call_id] = _Call(self._last, opening)

    def announced(self, session: str, call_id: str) -> int:
        """Say that the call started the agent. Raises LookupError where that call was not told."""
        if call_id not in self._calls:
            raise LookupError(f"no call {call_id!r} that starts an agent was sent")
        return self._bind(session, self._calls[call_id])

    def started(self, session: str, call_id: str) -> int:
        """Say that the call's result names the agent."""
        return self._bind(session, self._calls.get(call_id))

    def refused(self, call_id: str) -> None:
        """Say that the call's result names no agent: its number stays unused."""
        if call_id in self._calls:
            self._calls[call_id].open = False

    def _waiting(self, opening: str) -> list[_Call]:
        return [call for call in self._calls.values() if call.open and call.opening == opening]

    def _bind(self, session: str | None, call: _Call | None) -> int:
        if session not in self._numbers:
            if call is None or not call.open:
                self._last += 1
                self._numbers[session] = self._last
            else:
                self._numbers[session] = call.number
        if call is not None:
            call.open = False
        return self._numbers[session]
