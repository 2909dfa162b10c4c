"""The book of KV cells against a naive model of shared cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.gateway.cells import CellBook, common_prefix

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "share", "cut", "drop"]), st.integers(0, 3), st.integers(0, 3), st.integers(0, 12)
    ),
    max_size=40,
)


def tokens(n: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + n, dtype=np.int32)


@given(OPERATIONS, st.booleans())
def test_book_counts_as_sets_of_cells_do(operations: list[tuple[str, int, int, int]], unified: bool) -> None:
    book = CellBook(30, unified=unified)
    held: dict[int, list[int]] = {seq: [] for seq in range(4)}
    fresh = iter(range(10_000))
    for what, seq, other, n in operations:
        used = len({cell for cells in held.values() for cell in cells})
        if what == "append":
            if used + n > 30:
                with pytest.raises(ValueError, match="free"):
                    book.append(seq, tokens(n))
                continue
            book.append(seq, tokens(n, len(held[seq])))
            held[seq] += [next(fresh) for _ in range(n)]
        elif what == "share" and not held[other] and seq != other:
            end = min(n, len(held[seq]))
            if not unified and used + end > 30:
                with pytest.raises(ValueError, match="free"):
                    book.share(seq, other, end)
                continue
            book.share(seq, other, end)
            held[other] = held[seq][:end] if unified else [next(fresh) for _ in range(end)]
        elif what == "cut":
            book.cut(seq, n)
            held[seq] = held[seq][:n]
        elif what == "drop":
            book.drop(seq)
            held[seq] = []
        used = len({cell for cells in held.values() for cell in cells})
        assert (book.used, book.free) == (used, 30 - used)
        for one, cells in held.items():
            assert book.length(one) == len(cells)
        assert book.held_by([0, 1]) == len(set(held[0]) | set(held[1]))


def test_sharing_into_a_sequence_that_holds_cells_is_refused() -> None:
    book = CellBook(8)
    book.append(0, tokens(2))
    book.append(1, tokens(2))
    with pytest.raises(ValueError, match="not empty"):
        book.share(0, 1, 1)


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_common_prefix(a: list[int], b: list[int]) -> None:
    n = common_prefix(np.array(a, np.int32), np.array(b, np.int32))
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]
