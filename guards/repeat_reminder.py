"""repeat-reminder: the harness's own dsh-repeat-tool-reminder as a policy, for replay. It never denies.

The rules are those of the guard stack's specification, section 4; checked against the package of the 0.2.1rc2 runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from guards.config import GuardConfig, Integer, Names
from guards.keys import call_key, canonical
from guards.policy import Nudge, Policy, ToolOutcome

KIND = "repeat"

Thresholds = Annotated[
    tuple[Integer, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
]


class RepeatReminderConfig(GuardConfig):
    guard: ClassVar[str] = "repeat-reminder"

    thresholds: Thresholds = Field((3, 5, 8), description="a list, not empty, of distinct integers >= 2")
    include: Names = Field((), description="a list of texts (* stands for any characters)")
    exclude: Names = Field((), description="a list of texts (* stands for any characters)")
    arguments_preview_chars: Integer = Field(500, ge=1, description="an integer >= 1")

    def check(self) -> None:
        given = self.thresholds
        if not given or min(given) < 2 or len(set(given)) < len(given):
            self.refuse("thresholds", list(given))


@dataclass(frozen=True, slots=True)
class _Run:
    key: bytes | None = None
    count: int = 0


class RepeatReminder(Policy):
    """Counts when a call has settled, denied calls too, as the package does; a tool left out is transparent."""

    name: ClassVar[str] = "repeat-reminder"
    config: RepeatReminderConfig

    def __init__(self, config: RepeatReminderConfig) -> None:
        super().__init__(config)
        self._include, self._exclude = _pattern(config.include), _pattern(config.exclude)
        self._runs: dict[str, _Run] = {}

    def after_call(self, agent: str, tool: str, args: Any, result: ToolOutcome, *, executed: bool) -> Nudge | None:
        if (self.config.include and not self._include.fullmatch(tool)) or self._exclude.fullmatch(tool):
            return None
        run = self._runs.get(agent, _Run())
        key = call_key(tool, args)
        count = run.count + 1 if key is not None and key == run.key else 1
        self._runs[agent] = _Run(key, count)
        if count not in self.config.thresholds:
            return None
        return Nudge(KIND, count, count, self._text(tool, args, count))

    def user_message(self, agent: str) -> None:
        self._runs.pop(agent, None)

    def _text(self, tool: str, args: Any, count: int) -> str:
        """Words of ours in the package's two tiers; in the harness the package's own are shown."""
        if count == min(self.config.thresholds):
            return (
                f"{tool} was called {count} times in a row with the same arguments. Look at the last result before you "
                "call again, and try something else if it does not help."
            )
        units, limit = canonical(args).encode("utf-16-le", "surrogatepass"), self.config.arguments_preview_chars
        preview = units[: 2 * limit].decode("utf-16-le", "replace")
        rest = len(units) // 2 - limit
        if rest > 0:
            preview += f"… ({rest} more characters)"
        return (
            f"{tool} was called {count} times in a row with the arguments {preview}. The calls make no progress: do "
            "not repeat this one; choose another action, other arguments, or finish."
        )


def _pattern(wildcards: Iterable[str]) -> re.Pattern[str]:
    """Matches a whole name that any of the wildcards matches; no wildcard matches none.

    `*` is any run of characters without a line end, as it is in the package's own expressions.
    """
    parts = ("[^\\n\\r\\u2028\\u2029]*".join(map(re.escape, each.split("*"))) for each in wildcards)
    return re.compile("|".join(f"(?:{part})" for part in parts) or "(?!)")
