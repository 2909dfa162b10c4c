"""Where a request's sequence begins: which computed prefix it takes over, and what is evicted for it.

Memory that can be cut (plain attention) shares any common prefix, cell by cell, with any sequence, running or idle.
A recurrent state or a sliding window can not go back: there a prefix is reused only whole, from an idle sequence that
ended exactly there or from a snapshot taken one token before the end of a prompt. Anything else is a full prefill.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from runners.gateway.cells import CellBook, common_prefix
from runners.gateway.context import Context
from runners.gateway.llama import EngineError, Tokens


class Placement:
    """Sequences of a context and their book. `aligned` (deterministic mode) keeps one sequence and reuses multiples
    of that many tokens; None shares freely."""

    def __init__(
        self, context: Context, book: CellBook, *, cuttable: bool, aligned: int | None, snapshot_bytes: int
    ) -> None:
        self._context = context
        self._book = book
        self._cuttable = cuttable
        self._aligned = aligned
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Sequences that hold a prefix and run nothing, least recently used first."""
        self._unused = list(range(context.sequences - 1, -1, -1))
        self._snapshots: OrderedDict[bytes, tuple[Tokens, bytes]] = OrderedDict()
        self._snapshot_room = snapshot_bytes if aligned is None and not cuttable else 0

    def chunk_end(self, length: int, filled: int, room: int) -> int:
        """Where the next piece of a prompt of that length ends (exclusive), `filled` of it being done."""
        if self._aligned is not None:
            end = min(length, filled + self._aligned - filled % self._aligned)
            return end if end - filled <= room else filled
        end = min(length, filled + room)
        # One token before the end a snapshot is taken: the last token must be left to give logits after a reuse.
        return min(end, length - 1) if self._snapshot_room and filled < length - 1 else end

    def filled(self, seq: int, prompt: Tokens, filled: int) -> None:
        """Told after each computed piece of a prompt."""
        if self._snapshot_room and 0 < filled == len(prompt) - 1:
            self._remember(prompt[:filled], self._context.save(seq))

    def place(self, prompt: Tokens, limit: int, *, active: Sequence[int], reserved: int) -> tuple[int, int] | None:
        """A sequence for this prompt and `limit` more tokens, and how many of its tokens it already holds.

        None where the cells are not to be had while `active` run, which may still take `reserved` cells.
        """
        if not self._can_fit(len(prompt) + limit, active, reserved):
            return None
        if self._aligned is not None:
            return self._continue_one(prompt)
        return self._share(prompt, limit, active, reserved) if self._cuttable else self._resume(prompt, limit, reserved)

    def release(self, seq: int, prompt: int) -> None:
        """The sequence's request ended; what it holds stays as a prefix until it is evicted. In deterministic mode only
        the whole batches of its `prompt` tokens stay: what it generated was computed in batches of other shapes."""
        if self._aligned is not None:
            self._cut(seq, prompt - prompt % self._aligned if self._cuttable else 0)
        if self._book.length(seq):
            self._idle[seq] = None
        else:
            self._drop(seq)

    def forget(self) -> None:
        """Drops all idle prefixes and snapshots."""
        for seq in list(self._idle):
            self._drop(seq)
        self._snapshots.clear()

    # -- plain attention ---------------------------------------------------------------------------------------

    def _can_fit(self, need: int, active: Sequence[int], reserved: int) -> bool:
        """Whether `need` cells are free once every idle sequence is evicted: prefixes shared with active ones are
        counted twice here, which can make a request wait but never starve it."""
        if self._book.free - reserved >= need:
            return True
        held = self._book.held_by(active)
        return self._book.cells - held - reserved >= need

    def _share(self, prompt: Tokens, limit: int, active: Sequence[int], reserved: int) -> tuple[int, int] | None:
        best, shared = -1, 0
        for seq in (*active, *self._idle):
            n = min(common_prefix(self._book.tokens(seq), prompt), len(prompt) - 1)
            if n > shared:
                best, shared = seq, n
        if best in self._idle and shared == self._book.length(best):
            seq = best
            del self._idle[seq]
        else:
            if best in self._idle:
                self._idle.move_to_end(best)
            if not self._unused and len(self._idle) == 1 and best in self._idle:
                # The only sequence to be had is the source itself: it is cut instead of copied.
                seq = best
                del self._idle[seq]
                self._cut(seq, shared)
            else:
                seq = self._take()
                if shared:
                    self._context.copy(best, seq, shared)
                    self._book.share(best, seq, shared)
        while self._book.free - reserved < len(prompt) - shared + limit:
            if not self._idle:
                raise EngineError("the book of KV cells does not add up")
            self._drop(next(iter(self._idle)))
        return seq, shared

    def _continue_one(self, prompt: Tokens) -> tuple[int, int]:
        """Deterministic mode: the one sequence goes on from the last multiple of the batch that it shares."""
        assert self._aligned is not None
        if not self._idle:
            return self._take(), 0
        seq = next(iter(self._idle))
        del self._idle[seq]
        shared = min(common_prefix(self._book.tokens(seq), prompt), len(prompt) - 1)
        shared -= shared % self._aligned
        self._cut(seq, shared)
        return seq, shared

    # -- memory that can not be cut ----------------------------------------------------------------------------

    def _resume(self, prompt: Tokens, limit: int, reserved: int) -> tuple[int, int]:
        usable = len(prompt) - 1
        best, shared = -1, 0
        for seq in self._idle:
            held = self._book.tokens(seq)
            if shared < len(held) <= usable and common_prefix(held, prompt) == len(held):
                best, shared = seq, len(held)
        snapshot: tuple[Tokens, bytes] | None = None
        for key, (tokens, state) in self._snapshots.items():
            if shared < len(tokens) <= usable and common_prefix(tokens, prompt) == len(tokens):
                best, shared, snapshot, found = -1, len(tokens), (tokens, state), key
        if snapshot is not None:
            self._snapshots.move_to_end(found)
        if best >= 0:
            seq = best
            del self._idle[seq]
            kept = shared
        else:
            seq = self._take()
            kept = 0
        while self._book.free - reserved < len(prompt) - kept + limit:
            if not self._idle:
                raise EngineError("the book of KV cells does not add up")
            self._drop(next(iter(self._idle)))
        if snapshot is None:
            return seq, kept
        if not self._context.restore(seq, snapshot[1]):
            return seq, 0
        self._book.append(seq, snapshot[0])
        return seq, shared

    def _remember(self, tokens: Tokens, state: bytes) -> None:
        key = tokens.tobytes()
        self._snapshots.pop(key, None)
        if len(state) > self._snapshot_room:
            return
        self._snapshots[key] = (tokens.copy(), state)
        while sum(len(kept) for _, kept in self._snapshots.values()) > self._snapshot_room:
            self._snapshots.popitem(last=False)

    # -- sequences ---------------------------------------------------------------------------------------------

    def _take(self) -> int:
        """An empty sequence, evicting the least recently used idle one where none is left."""
        if not self._unused:
            if not self._idle:
                raise EngineError("no sequence is free")
            self._drop(next(iter(self._idle)))
        return self._unused.pop()

    def _drop(self, seq: int) -> None:
        self._idle.pop(seq, None)
        self._context.drop(seq)
        self._book.drop(seq)
        self._unused.append(seq)

    def _cut(self, seq: int, position: int) -> None:
        if position == 0:
            self._context.drop(seq)
        elif self._book.length(seq) > position and not self._context.cut(seq, position):
            raise EngineError(f"llama.cpp can not cut sequence {seq} at {position}")
        self._book.cut(seq, position)
