"""The guards of an episode's arm as the harness has them: which tell what they do, and what a failure says of them."""

from __future__ import annotations

from collections.abc import Sequence

from guards.stack import Stack
from results.trace import Event, Guard, Result, Step
from runners.arms import Arm
from runners.harness.attest import INSTRUMENTED, Failure, reason
from runners.harness.composition import Expected
from runners.harness.eventlog import Line
from runners.harness.guard_check_log import denial_pattern
from runners.harness.plugins import BREAKER, log_name
from runners.harness.runtime import RuntimeFailed


class Mounted:
    """`own`: names of the guards whose plugin writes what it does: ours, and others that say so. The other ones are
    mute: only their rows, and patterns on their denials' texts, tell of them."""

    def __init__(self, arm: Arm, stack: Stack) -> None:
        foreign = {entry.name: entry.path for entry in stack.guards if entry.path is not None}
        telling = (name for name, folder in foreign.items() if log_name(folder) == name)
        self.own = (*(guard for guard in INSTRUMENTED if guard not in foreign), *telling)
        self._mounts = arm.mounts
        self._mute = [mount for mount in arm.mounts if mount.guard not in self.own]
        self._patterns = {guard.name: guard.attribution for guard in stack.guards if guard.path is not None}

    def patterns(self, lines: Sequence[Line]) -> dict[str, str]:
        """The patterns of mounted plugins of someone else's, by GUARD@PLANE. One that has none and is the only one that
        writes no log has denied what nothing else can have."""
        mute = [mount for mount in self._mute if mount.guard in self._patterns]
        given = ((str(mount), self._patterns[mount.guard]) for mount in mute)
        patterns = {mount: pattern for mount, pattern in given if pattern}
        if len(mute) == 1 and not patterns:
            pattern = denial_pattern(lines)
            return {str(mute[0]): pattern} if pattern is not None else {}
        return patterns

    def armed(self) -> list[Event]:
        """An `arm` for each mounted guard that writes no log: its row was found live."""
        return [Guard(guard=each.guard, plane=each.plane, action="arm", extra={"by": "row"}) for each in self._mute]

    def unconsulted(self, events: Sequence[Event], lines: Sequence[Line]) -> list[Failure]:
        """Guards that are mounted and were never asked although something was there to ask about."""
        ran = any(isinstance(event, Result) and event.denied_by is None for event in events)
        stepped = any(isinstance(event, Step) for event in events)
        consulted = {(line["guard"], line["plane"]) for line in lines if line["ev"] == "consulted"}
        failures = []
        for mount in self._mounts:
            due = stepped if mount.guard == BREAKER else ran
            if due and mount.guard in self.own and (mount.guard, mount.plane) not in consulted:
                failures.append(Failure(mount.guard, mount.plane, "it is mounted, and was never consulted"))
        return failures


def blame(failed: RuntimeFailed, expected: Sequence[Expected], lines: Sequence[Line]) -> Failure:
    """The guard that a failure of the runtime speaks of; the runtime itself where it names none."""
    imports = {line["package"]: line["error"] for line in lines if line["ev"] == "import"}
    said = f"{failed.cause}\n" + "\n".join(failed.stderr)
    for row in expected:
        if row.guard is not None and (row.package in said or f"{row.row}" in said):
            why = imports.get(row.package) or reason(row.row, row.package, failed.stderr)
            return Failure(row.guard, row.plane, f"{failed.when}: {failed.cause}" + (f" ({why})" if why else ""))
    last = failed.stderr[-1].strip()[:300] if failed.stderr else "nothing on stderr"
    return Failure("runtime", None, f"{failed.when}: {failed.cause} ({last})")


def lost(lines: Sequence[Line]) -> list[Failure]:
    """The recorder asked, and nobody answered."""
    gone = [line for line in lines if line["ev"] == "control" and line.get("why") == "control-lost"]
    return [Failure("gateway", None, f"the runner could not be reached: {gone[0].get('error')}")] if gone else []
