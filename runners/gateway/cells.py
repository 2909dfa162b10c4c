"""Which sequence holds which KV cells, whether copies share them or not.

llama.cpp does not tell how many cells are in use, and finds out in mid-decode that none is left. This book mirrors
its rules exactly (`llama_kv_cache`: one cell a token, in a unified cache shared by copies, free when its last sequence
lets go), so that the engine admits only what fits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from runners.gateway.llama import Tokens


class CellBook:
    """`cells` KV cells. A sequence is known by its number and holds the tokens at positions 0, 1, 2 ...

    `unified` says whether copies share cells; otherwise each sequence has cells of its own, and a copy fills as many.
    """

    def __init__(self, cells: int, *, unified: bool = True) -> None:
        self.cells = cells
        self._unified = unified
        self._owners = np.zeros(cells, np.int32)
        self._free: list[int] = list(range(cells - 1, -1, -1))
        self._held: dict[int, Tokens] = {}
        self._tokens: dict[int, Tokens] = {}

    @property
    def free(self) -> int:
        """Cells that no sequence holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        return self.cells - len(self._free)

    def sequences(self) -> tuple[int, ...]:
        """The sequences that hold a cell."""
        return tuple(self._held)

    def tokens(self, seq: int) -> Tokens:
        """The tokens whose cells the sequence holds, by position."""
        return self._tokens.get(seq, _NOTHING)

    def length(self, seq: int) -> int:
        return len(self.tokens(seq))

    def append(self, seq: int, tokens: Tokens) -> None:
        """New cells at the end of the sequence. Raises ValueError where too few are free."""
        n = len(tokens)
        if n > len(self._free):
            raise ValueError(f"{n} cells asked, {len(self._free)} free")
        if not n:
            return
        fresh = np.array([self._free.pop() for _ in range(n)], np.int32)
        self._owners[fresh] = 1
        self._held[seq] = np.concatenate([self._held.get(seq, _NOTHING), fresh])
        self._tokens[seq] = np.concatenate([self.tokens(seq), tokens])

    def share(self, source: int, target: int, end: int) -> None:
        """Gives the empty sequence `target` what `source` holds at positions below `end`."""
        if self.length(target):
            raise ValueError(f"sequence {target} is not empty")
        if not end:
            return
        if not self._unified:
            self.append(target, self._tokens[source][:end])
            return
        shared = self._held[source][:end]
        self._owners[shared] += 1
        self._held[target] = shared.copy()
        self._tokens[target] = self._tokens[source][:end].copy()

    def cut(self, seq: int, position: int) -> None:
        """The sequence lets go of its cells from `position` (inclusive) on."""
        held = self._held.get(seq)
        if held is None or position >= len(held):
            return
        gone = held[position:]
        self._owners[gone] -= 1
        self._free.extend(int(cell) for cell in gone[self._owners[gone] == 0])
        if position:
            self._held[seq] = held[:position]
            self._tokens[seq] = self._tokens[seq][:position]
        else:
            del self._held[seq]
            del self._tokens[seq]

    def drop(self, seq: int) -> None:
        self.cut(seq, 0)

    def held_by(self, sequences: Iterable[int]) -> int:
        """Cells that at least one of these sequences holds."""
        held = [self._held[seq] for seq in sequences if seq in self._held]
        return len(np.unique(np.concatenate(held))) if held else 0


_NOTHING: Tokens = np.zeros(0, np.int32)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """Length of the longest common beginning of two token arrays."""
    n = min(len(a), len(b))
    differs = np.nonzero(a[:n] != b[:n])[0]
    return int(differs[0]) if len(differs) else n
