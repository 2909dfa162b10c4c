"""reread-after-edit: edit, run the checks, read the same file again, until the checks pass."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.base import Needs, Outcome, Scenario, World
from scenarios.course import Course, Script, Turn, ask
from scenarios.workspace import Bash, Edit, FilesWorld, Read, executes

SETTINGS, CHECK, PASSED = "settings.ini", "check.sh", "All checks passed."
KEYS = (
    *("timeout", "retries", "workers", "port", "cache_size", "page_size", "backlog", "interval", "max_users", "quota"),
    *("log_days", "batch", "threads", "buffer", "depth", "margin", "delay", "limit", "ttl", "window", "rate", "burst"),
)
SERVICES = ("billing", "archive", "search", "mail", "booking", "report", "upload", "gateway")


class RereadAfterEdit(Scenario):
    """Real files and the harness's own tools. The checks name one wrong setting at a time."""

    name = "reread-after-edit"
    expect = "quiet"
    summary = "edit, run the checks, read the same file again, until the checks pass"
    calls = ()
    stand_ins = (Bash, Read, Edit)

    def wrong(self) -> tuple[tuple[str, int, int], ...]:
        """Key, value in the file and value that is wanted, in the order of the checks."""
        keys = self.draws.some("wrong", KEYS, self.by_size(3, 6, 12))
        pairs = ((self.draws.number(("is", key), 1, 40), self.draws.number(("should", key), 41, 90)) for key in keys)
        return tuple((key, before, after) for key, (before, after) in zip(keys, pairs, strict=True))

    @property
    def files(self) -> Mapping[str, str]:
        wrong = {key: before for key, before, _ in self.wrong()}
        chosen = self.draws.some("keys", KEYS, len(KEYS))
        lines = [f"{key} = {wrong.get(key, self.draws.number(('right', key), 1, 90))}" for key in chosen]
        service = self.draws.pick("service", SERVICES)
        wants = "".join(f"want {key} {after}\n" for key, _, after in self.wrong())
        script = (
            "#!/bin/sh\n"
            f'want() {{ grep -qx "$1 = $2" {SETTINGS} || {{ echo "FAILED: $1 must be $2"; exit 1; }}; }}\n'
            f'cd "$(dirname "$0")"\n{wants}echo "{PASSED}"\n'
        )
        return {SETTINGS: f"# settings of the {service} service\n" + "\n".join(lines) + "\n", CHECK: script}

    @property
    def needs(self) -> Needs:
        return Needs(horizon=3 * len(self.wrong()) + 9, harness_tools=("bash", "read", "edit"))

    @property
    def prompt(self) -> str:
        return (
            f"The checks of the {self.draws.pick('service', SERVICES)} service fail. Run `sh {CHECK}`: it names one "
            f"wrong setting at a time. Read {SETTINGS}, correct that setting with an edit and run the checks again. "
            "Repeat this until all checks pass. Do not change the checks."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        check, turns = ask("bash", command=f"sh {CHECK}"), list[Turn]()
        for key, before, after in self.wrong():
            old, new = f"{key} = {before}\n", f"{key} = {after}\n"
            edit = ask("edit", file_path=SETTINGS, old_string=old, new_string=new)
            turns += (check, ask("read", file_path=SETTINGS), edit)
        return Script((*turns, check), summary=f"- correct one setting after the other until sh {CHECK} passes")


class _World(FilesWorld):
    def __init__(self, task: RereadAfterEdit) -> None:
        super().__init__(task.files, task.stand_ins)
        self._wanted = [(key, after) for key, _, after in task.wrong()]

    def _failing(self) -> list[tuple[str, int]]:
        lines = (self.files[SETTINGS] or "").split("\n")
        return [(key, value) for key, value in self._wanted if f"{key} = {value}" not in lines]

    def missing(self) -> int:
        return len(self._failing())

    def command(self, command: str) -> Outcome | None:
        if not executes(command, CHECK):
            return None
        failing = self._failing()
        return Outcome(f"FAILED: {failing[0][0]} must be {failing[0][1]}" if failing else PASSED)

    def ran(self, command: str) -> None:
        if executes(command, CHECK) and not self._failing():
            self.finished = True
