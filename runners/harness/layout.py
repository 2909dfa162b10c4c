"""Where an episode lives while it runs: home, workspace, temporary files and event log, all in one folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from guards.errors import UserError

PATH_CHARS = 72
"""Length of every workspace path, whatever machine and run. The harness counts the real path's characters into its
token meter, so that a longer one could move a compaction by a step; and a tape is only replayed by equal prompts."""
EPISODE_CHARS = 9
"""Of the names that the runner gives to episodes here."""


@dataclass(frozen=True)
class Layout:
    """The folders of one episode. All exist once it is made."""

    root: Path
    workspace: Path
    home: Path
    scratch: Path
    log: Path
    patch: Path
    unpacked: Path
    """Where the runtime, one executable, unpacks its packages; shared, since that takes longer than a short episode."""

    def profile(self, name: str) -> Path:
        """The runtime's folder of a profile."""
        return self.home / "profiles" / name

    def packages(self, profile: str) -> Path:
        """Where the runtime looks for plugin packages by name."""
        return self.profile(profile) / "node_modules"

    def environment(self, address: str) -> dict[str, str]:
        """What the runtime's process needs of its environment. `address` is the provider's."""
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.scratch),
            "PKG_NATIVE_CACHE_PATH": str(self.unpacked),
            "DSH_HOME": str(self.home),
            "DSH_TELEMETRY_MODE": "DISABLED",
            "DSH_PERMISSION_MODE": "danger-full-access",
            "DEEPSEEK_BASE_URL": address,
            "DEEPSEEK_API_KEY": "none",
        }

    def remove(self) -> None:
        """Deletes all of it."""
        shutil.rmtree(self.root, ignore_errors=True)


class Scratch:
    """The temporary folder that the episodes of a run live in. Removed when the run ends, however it does."""

    def __init__(self, parent: Path | None = None) -> None:
        """`parent` None is the system's temporary folder. Raises UserError where it can not be had, or where its path
        leaves no room for an episode with a name of `EPISODE_CHARS`."""
        try:
            self.root = Path(tempfile.mkdtemp(prefix="tripbench-", dir=parent)).resolve()
        except OSError as error:
            raise UserError(f"no temporary folder: {error.strerror or error}; set TMPDIR to one") from error
        try:
            self._missing("e" * EPISODE_CHARS)
        except UserError:
            self.remove()
            raise

    def layout(self, episode: str) -> Layout:
        """A fresh place for an episode. Raises UserError where the system's temporary folder has too long a path."""
        stem = self.root / episode
        root = stem / ("w" * self._missing(episode))
        shutil.rmtree(stem, ignore_errors=True)
        made = Layout(
            root=stem,
            workspace=root / "ws",
            home=root / "hm",
            scratch=root / "tm",
            log=stem / "events.jsonl",
            patch=stem / "patch.yml",
            unpacked=self.root / "unpacked",
        )
        for folder in (made.workspace, made.home, made.scratch):
            folder.mkdir(parents=True)
        made.log.touch()
        return made

    def _missing(self, episode: str) -> int:
        """How many characters a workspace's path lacks, of an episode with that name."""
        missing = PATH_CHARS - len(str(self.root / episode / "ws")) - 1
        if missing < 1:
            raise UserError(
                f"{self.root}: the path of the temporary folder is too long ({PATH_CHARS} characters are there for all "
                "of it); set TMPDIR to a shorter one"
            )
        return missing

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
