"""opencode: three identical calls side by side in one response of the model.

Source: anomalyco/opencode, packages/opencode/src/session/processor.ts (autumn 2026, no commit named).

Rule: a call is asked about (permission `doom_loop`) where it and the `threshold` - 1 parts before it, in the response
under way, are calls of the same tool whose input has the same JSON text. Earlier responses are not looked at, so that
one call a response, however often, never trips. Nobody answers in a trace: `ask` and `deny` both deny that one call,
and the next identical call of the response is asked about again.

Left out: texts and reasoning between two calls of one response, which hide a loop from the product. A trace does not
hold them, so that calls of one response count as neighbours here: the product trips as often or less.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Literal

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, ordered_key, reason
from guards.peers.streak import Streak
from guards.policy import Denial


class OpencodeConfig(GuardConfig):
    guard: ClassVar[str] = "peer:opencode"

    threshold: Integer = Field(3, ge=1, description="an integer >= 1")
    permission: Literal["ask", "deny", "allow"] = Field("ask", description='"ask", "deny" or "allow"')


class Opencode(Peer[Streak]):
    name: ClassVar[str] = OpencodeConfig.guard
    config_type = OpencodeConfig
    config: OpencodeConfig

    def fresh(self) -> Streak:
        return Streak()

    def key(self, tool: str, args: Any) -> Hashable:
        return ordered_key(tool, args)

    def respond(self, session: Session[Streak], calls: int) -> None:
        session.seen = self.fresh()

    def judge(self, session: Session[Streak], call: Asked) -> Denial | None:
        count, limit = session.seen.add(call.key), self.config.threshold
        if count < limit or self.config.permission == "allow":
            return None
        what = f"{count} identical calls of {call.tool} in one response"
        return Denial("doom-loop", count, limit, reason("opencode", what))
