"""What a GGUF file says about itself, read without loading it.

The `gguf` package's reader builds every array and tensor (seconds and hundreds of MB for a large vocabulary); this one
skips arrays, keeps scalars and strings, and adds up what the file's length must be. The layout is that of the GGUF
specification, versions 2 and 3, little-endian; the sizes of tensor types are the `gguf` package's.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from guards.errors import UserError

Scalar = bool | int | float | str

_STRING: Final = 8
_ARRAY: Final = 9
_BOOL: Final = 7
_FORMATS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
_MAX_DIMENSIONS: Final = 4
_MAX_NESTING: Final = 4


@dataclass(frozen=True)
class Header:
    """A GGUF's header. `metadata` holds scalars and strings only; arrays (the vocabulary) are left out.

    `expected_size` is the least length in bytes of a whole file: the end of the tensor that ends last.
    """

    version: int
    architecture: str
    metadata: dict[str, Scalar]
    tensors: int
    expected_size: int

    @property
    def context_length(self) -> int | None:
        """The context that the model was trained for, in tokens; None where the file does not say."""
        value = self.metadata.get(f"{self.architecture}.context_length")
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class _Short(Exception):
    """The file ends before what it announces."""


class _Damaged(Exception):
    """The file says something that no GGUF says."""


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def skip(self, count: int) -> None:
        if count > len(self.data) - self.at:
            raise _Short
        self.at += count

    def number(self, form: str) -> int | float:
        start = self.at
        self.skip(struct.calcsize(form))
        value: int | float = struct.unpack_from(form, self.data, start)[0]
        return value

    def count(self, form: str = "<Q") -> int:
        return int(self.number(form))

    def text(self) -> str:
        length = self.count()
        start = self.at
        self.skip(length)
        return self.data[start : start + length].decode("utf-8", "replace")

    def value(self, kind: int, nesting: int = 0) -> Scalar | None:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            self._skip_array(nesting)
            return None
        if kind not in _FORMATS:
            raise _Damaged(f"unknown value type {kind}")
        number = self.number(_FORMATS[kind])
        return bool(number) if kind == _BOOL else number

    def _skip_array(self, nesting: int) -> None:
        kind, count = self.count("<I"), self.count()
        if kind in _FORMATS:
            self.skip(count * struct.calcsize(_FORMATS[kind]))
        elif kind == _STRING:
            for _ in range(count):
                self.skip(self.count())
        elif kind == _ARRAY and nesting < _MAX_NESTING:
            for _ in range(count):
                self._skip_array(nesting + 1)
        else:
            raise _Damaged(f"unknown array type {kind}")


def _tensor_bytes(kind: int, elements: int) -> int:
    """Bytes of a tensor; 0 for a type that the `gguf` package does not know yet."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # slow to import

    try:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        return 0
    return -(-elements // block) * size


def _parse(cursor: _Cursor) -> Header:
    cursor.skip(4)
    version = cursor.count("<I")
    if version not in (2, 3):
        raise _Damaged(f"GGUF version {version} is not 2 or 3 (a big-endian file reads so, too)")
    tensors, pairs = cursor.count(), cursor.count()
    metadata: dict[str, Scalar] = {}
    for _ in range(pairs):
        key = cursor.text()
        value = cursor.value(cursor.count("<I"))
        if value is not None:
            metadata[key] = value
    ends = [0]
    for _ in range(tensors):
        cursor.text()
        dimensions = cursor.count("<I")
        if dimensions > _MAX_DIMENSIONS:
            raise _Damaged(f"a tensor of {dimensions} dimensions")
        elements = 1
        for _ in range(dimensions):
            elements *= cursor.count()
        kind = cursor.count("<I")
        ends.append(cursor.count() + _tensor_bytes(kind, elements))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise _Damaged(f"general.alignment is {alignment!r}")
    architecture = str(metadata.get("general.architecture", ""))
    blocks = metadata.get(f"{architecture}.block_count", 0)
    if not isinstance(blocks, int) or not 0 <= blocks <= tensors:
        # llama.cpp ends the process at a number of layers that it can not hold.
        raise _Damaged(f"{architecture}.block_count is {blocks!r} for {tensors} tensors")
    start = -(-cursor.at // alignment) * alignment
    return Header(
        version=version,
        architecture=architecture,
        metadata=metadata,
        tensors=tensors,
        expected_size=start + max(ends) if tensors else cursor.at,
    )


def read(path: Path) -> Header:
    """The header of the GGUF at `path`.

    UserError for a missing or unreadable file, a folder, a file that is no GGUF, and one that ends too early (with
    the length that its tensors need and the length that was found).
    """
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder: give the path of a .gguf file")
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not an ordinary file: give the path of a .gguf file")
        with path.open("rb") as file:
            magic = file.read(4)
            if magic != b"GGUF":
                raise UserError(f"{path} is not a GGUF file: it begins with {magic!r}, a GGUF with b'GGUF'")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found = len(data)
                header = _parse(_Cursor(data))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _Short as error:
        raise UserError(f"{path} is truncated: {found} bytes end within the header; fetch the file again") from error
    except _Damaged as error:
        raise UserError(f"{path} is damaged or not supported: {error}") from error
    if found < header.expected_size:
        raise UserError(
            f"{path} is truncated: expected {header.expected_size} bytes, found {found}; fetch the file again"
        )
    return header
