"""Reading GGUF headers: agreement with the `gguf` package's own reader, and files that are no whole GGUF."""

import os
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from guards.errors import UserError
from runners.models import header
from tests.tiny_gguf import write

SCALARS = st.one_of(
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.text(min_size=1),  # the writer leaves out empty ones
)
KEYS = st.text("abcdefghij._", min_size=1, max_size=20).filter(lambda key: not key.startswith("general."))


def _add(writer: GGUFWriter, key: str, value: bool | int | float | str) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@given(
    values=st.dictionaries(KEYS, SCALARS, max_size=8),
    arrays=st.dictionaries(KEYS, st.lists(st.text(max_size=9), min_size=1, max_size=9), max_size=3),
    blocks=st.lists(st.integers(1, 6), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_agrees_with_what_was_written_and_with_the_file_length(tmp_path_factory, values, arrays, blocks):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    writer = GGUFWriter(path, "made-up")
    for key, value in values.items():
        _add(writer, key, value)
    for key, texts in arrays.items():
        if key not in values:
            writer.add_array(key, texts)
    for number, count in enumerate(blocks):
        data = np.zeros(count * 34, dtype=np.uint8)  # a Q8_0 block: 32 weights in 34 bytes
        writer.add_tensor(f"tensor{number}", data, raw_dtype=GGMLQuantizationType.Q8_0)
    _finish(writer)
    found = header.read(path)
    assert found.architecture == "made-up"
    assert {key: found.metadata[key] for key in values} == values
    assert not set(arrays) - set(values) & set(found.metadata)
    assert found.tensors == len(blocks)
    assert found.expected_size <= path.stat().st_size < found.expected_size + 32  # padding behind the last tensor


@pytest.mark.parametrize("arch", ["llama", "mamba", "hybrid", "swa"])
def test_agrees_with_the_gguf_reader_on_real_architectures(tmp_path, arch):
    path = write(tmp_path / "tiny.gguf", arch, context_length=512)
    found, reader = header.read(path), GGUFReader(path)
    assert found.tensors == len(reader.tensors)
    assert found.expected_size == max(tensor.data_offset + tensor.n_bytes for tensor in reader.tensors)
    assert found.context_length == 512
    for key, value in found.metadata.items():
        assert reader.fields[key].contents() == value


def test_file_without_a_context_length_says_none(tmp_path):
    writer = GGUFWriter(tmp_path / "model.gguf", "made-up")
    _finish(writer)
    assert header.read(tmp_path / "model.gguf").context_length is None


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a whole model."""
    return write(tmp_path_factory.mktemp("tiny") / "tiny.gguf", "llama").read_bytes()


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny.gguf", "llama")


def test_truncated_tensors_say_expected_and_found(whole):
    expected = header.read(whole).expected_size
    os.truncate(whole, expected - 1)
    with pytest.raises(UserError, match=f"truncated: expected {expected} bytes, found {expected - 1}"):
        header.read(whole)


@given(cut=st.integers(4, 3000))
@settings(max_examples=60, deadline=None)
def test_truncated_anywhere_is_one_line(tmp_path_factory, tiny, cut):
    path = tmp_path_factory.mktemp("cut") / "tiny.gguf"
    path.write_bytes(tiny[:cut])
    with pytest.raises(UserError, match="is truncated: ") as caught:
        header.read(path)
    assert "\n" not in str(caught.value)


@given(at=st.integers(4, 2000), junk=st.binary(min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_damaged_header_is_read_or_refused_never_a_crash(tmp_path_factory, tiny, at, junk):
    path = tmp_path_factory.mktemp("junk") / "tiny.gguf"
    data = bytearray(tiny)
    data[at : at + len(junk)] = junk
    path.write_bytes(data)
    try:
        needed = header.read(path).expected_size
    except UserError as error:
        needed = 0
        said = str(error)
    else:
        said = str(path)
    assert needed <= len(data)
    assert str(path) in said


def test_absurd_counts_end_at_once(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63) + bytes(100))
    with pytest.raises(UserError, match=r"model\.gguf is "):
        header.read(path)


def test_other_versions_are_refused(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    with pytest.raises(UserError, match="version 50331648 is not 2 or 3"):
        header.read(path)


def test_text_file_named_gguf(tmp_path):
    path = tmp_path / "notes.gguf"
    path.write_text("not a model")
    with pytest.raises(UserError, match="is not a GGUF file: it begins with b'not '"):
        header.read(path)


def test_empty_file(tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    with pytest.raises(UserError, match="is not a GGUF file: it begins with b''"):
        header.read(path)


def test_folder_missing_file_and_socket(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        header.read(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        header.read(tmp_path / "none.gguf")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(UserError, match="not an ordinary file"):
            header.read(tmp_path / "s")


def test_a_number_of_layers_that_no_file_can_have_is_damage(tmp_path):
    path = write(tmp_path / "tiny.gguf", "llama")
    data = bytearray(path.read_bytes())
    key = b"llama.block_count"
    at = data.index(key) + len(key) + 4
    data[at : at + 4] = struct.pack("<I", 3_000_000_000)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"damaged or not supported: llama.block_count is 3000000000 for \d+ tensors"):
        header.read(path)
