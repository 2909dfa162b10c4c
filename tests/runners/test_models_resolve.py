"""From a name or a path to a file that is known to be whole."""

import os
from pathlib import Path

import pytest

from guards.errors import UserError
from runners.models.cache import Cache, open_cache, sha256
from runners.models.catalog import Catalog, parse
from runners.models.resolve import resolve
from tests.tiny_gguf import write

TOML = """
default = "tiny"
[models."tiny"]
file = "tiny.gguf"
size = {size}
sha256 = "{sha256}"
licence = "MIT"
context_length = 4096
dialect = "generic"
sampler = {{ temperature = 0.5, top_k = 3 }}
hub = {{ repo = "someone/tiny", file = "tiny.gguf" }}
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return open_cache(tmp_path / "cache")


@pytest.fixture
def models(cache: Cache) -> Catalog:
    """A catalogue of one model, which lies in the cache."""
    cache.models.mkdir(parents=True)
    path = write(cache.models / "tiny.gguf", "llama")
    return parse(TOML.format(size=path.stat().st_size, sha256=sha256(path)), "here")


def test_named_model_has_everything_of_the_catalogue(cache, models):
    found = resolve("tiny", cache.root, models)
    entry = models.find("tiny")
    assert found.path == cache.models / "tiny.gguf"
    assert (found.name, found.sha256, found.size) == ("tiny", entry.sha256, entry.size)
    assert (found.dialect, found.context_length, found.licence) == ("generic", 4096, "MIT")
    assert found.sampler == {"temperature": 0.5, "top_k": 3}


def test_named_model_that_was_not_pulled_says_how(tmp_path):
    with pytest.raises(UserError, match=r"not in the cache .*; run: tripbench models pull qwen2\.5-coder-0\.5b"):
        resolve("qwen2.5-coder-0.5b", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_short_file_says_expected_and_found(cache, models):
    path, size = cache.models / "tiny.gguf", models.find("tiny").size
    os.truncate(path, size - 5)
    with pytest.raises(UserError, match=f"expected {size} bytes, found {size - 5}; run: tripbench models pull tiny"):
        resolve("tiny", cache.root, models)


def test_altered_file_is_noticed_although_its_digest_was_known(cache, models):
    resolve("tiny", cache.root, models)
    path = cache.models / "tiny.gguf"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    expected = models.find("tiny").sha256
    with pytest.raises(UserError, match=f"expected sha256 {expected}, found {sha256(path)}"):
        resolve("tiny", cache.root, models)


def test_path_to_an_unknown_model_is_named_after_its_file(cache, models, tmp_path):
    path = write(tmp_path / "My-Model.gguf", "llama", seed=7, context_length=128)
    found = resolve(str(path), cache.root, models)
    assert (found.name, found.path, found.sha256, found.size) == (
        "My-Model",
        path,
        sha256(path),
        path.stat().st_size,
    )
    assert (found.dialect, found.sampler, found.licence, found.context_length) == (None, None, None, 128)


def test_path_to_the_bytes_of_a_named_model_is_that_model(cache, models, tmp_path):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes((cache.models / "tiny.gguf").read_bytes())
    found = resolve(str(copy), cache.root, models)
    assert (found.name, found.path, found.dialect) == ("tiny", copy, "generic")


@pytest.mark.parametrize("name", ["no/such/file", "none.gguf"])
def test_what_looks_like_a_path_is_a_path(cache, models, name):
    with pytest.raises(UserError, match="no such file"):
        resolve(name, cache.root, models)


def test_unknown_name_lists_the_known_and_mentions_paths(cache, models):
    with pytest.raises(UserError, match=r"unknown model 'tinny': did you mean tiny\? known are tiny; or give the path"):
        resolve("tinny", cache.root, models)


def test_folder_is_refused(cache, models, tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        resolve(str(tmp_path), cache.root, models)


def test_digest_is_kept_and_renewed_when_the_file_changes(cache, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = cache.digest(path)
    (note,) = (cache.root / "digests").iterdir()
    note.write_text(note.read_text().replace(first, "0" * 64))
    assert cache.digest(path) == "0" * 64, "the note was not used"
    path.write_bytes(b"other")
    assert cache.digest(path) == sha256(path)


def test_damaged_digest_note_is_replaced(cache, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    cache.digest(path)
    (note,) = (cache.root / "digests").iterdir()
    note.write_text("{")
    assert cache.digest(path) == sha256(path)
    assert sha256(path) in note.read_text()


def test_digest_needs_no_writable_cache(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.touch()
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert Cache(blocked / "cache").digest(path) == sha256(path)


def test_cache_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is not a folder: name another with --cache or TRIPBENCH_CACHE"):
        open_cache(tmp_path / "file")
