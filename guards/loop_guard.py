"""loop-guard: notices calls that keep giving the same result, says so, and then denies them.

The rules are those of the guard stack's specification, section 2; after dsh-loop-guard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.json_text import string_text, stringify
from guards.keys import call_key
from guards.policy import Denial, Nudge, Policy, ToolOutcome

KIND = "identical-result"


class LoopGuardConfig(GuardConfig):
    guard: ClassVar[str] = "loop-guard"

    soft_threshold: Integer = Field(4, ge=0, description="an integer >= 0 (0 = no nudges)")
    hard_threshold: Integer = Field(
        8, ge=0, description="an integer >= 0 (0 = no denial), above softThreshold where both are > 0"
    )
    result_hash_chars: Integer = Field(4000, ge=1, description="an integer >= 1")

    def check(self) -> None:
        if 0 < self.hard_threshold <= self.soft_threshold:
            self.refuse("hardThreshold", self.hard_threshold, f" (softThreshold is {self.soft_threshold})")


@dataclass(slots=True)
class _Chain:
    """The last settled call, its result, and how many in a row were equal to both. None is equal to nothing.

    A chain is never changed, but followed by another.
    """

    key: bytes | None = None
    result: bytes | None = None
    count: int = 0


_NONE: Final = _Chain()


class LoopGuard(Policy):
    name: ClassVar[str] = "loop-guard"
    config: LoopGuardConfig

    def __init__(self, config: LoopGuardConfig) -> None:
        super().__init__(config)
        self._chains: dict[str, _Chain] = {}

    def before_call(self, agent: str, tool: str, args: Any, *, counted: bool = True) -> Denial | None:
        limit = self.config.hard_threshold
        chain = self._chains.get(agent, _NONE)
        if not 0 < limit <= chain.count or chain.key is None or call_key(tool, args) != chain.key:
            return None
        reason = (
            f"This call was not run: the last {chain.count} calls of {tool} had the same arguments and gave the same "
            f"result, and the limit is {limit}. Act on what you know: take a different step, or finish with what you "
            "have."
        )
        return Denial(KIND, chain.count, limit, reason)

    def after_call(self, agent: str, tool: str, args: Any, result: ToolOutcome, *, executed: bool) -> Nudge | None:
        soft, hard = self.config.soft_threshold, self.config.hard_threshold
        chain = self._chains.get(agent, _NONE)
        key, shown = call_key(tool, args), result_key(result, self.config.result_hash_chars)
        same = key is not None and shown is not None and (key, shown) == (chain.key, chain.result)
        count = chain.count + 1 if same else 1
        self._chains[agent] = _Chain(key, shown, count)
        if not 0 < soft <= count or 0 < hard <= count:
            return None
        warning = f" After {hard} identical calls in a row this exact call will be denied." if hard else ""
        text = (
            f"The last {count} calls of {tool} had the same arguments and gave the same result; one more will tell you "
            f"nothing new.{warning} Act on what you know: take a different step, or finish with what you have."
        )
        return Nudge(KIND, count, soft, text)

    def user_message(self, agent: str) -> None:
        self._chains.pop(agent, None)


def result_key(result: ToolOutcome, characters: int) -> bytes | None:
    """The first `characters` UTF-16 code units of what `JSON.stringify` writes for the list of blocks.

    For an error that of `["error", message, blocks]`. None where a block holds what is no JSON value.
    """
    try:
        text = f"[{','.join(_block_text(block, characters) for block in result.content)}]"
    except (TypeError, ValueError):
        return None
    if result.error:
        text = f'["error",{string_text(result.error_message[:characters])},{text}]'
    return text[:characters].encode("utf-16-le")[: 2 * characters]


def _block_text(block: dict[str, Any], most: int) -> str:
    """What `JSON.stringify` writes for a block; of a text block its first `most` code units at least.

    A character is one code unit or more, so that what stands behind so many of them may be left out.
    """
    text = block.get("text")
    if isinstance(text, str) and list(block) == ["type", "text"] and block["type"] == "text":
        return f'{{"type":"text","text":{string_text(text[:most])}}}'
    return stringify(block)
