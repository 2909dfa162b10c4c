"""One llama.cpp context: batches of several sequences, their memory, their logits."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import llama_cpp
import numpy as np

from guards.errors import UserError
from runners.gateway.llama import LOG, EngineError, Logits, Model, Tokens

KV_TYPES: Final = {"f32": 0, "f16": 1, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2}
"""KV cache types by name, with their ggml type number (ggml.h)."""

MAX_SEQUENCES: Final = 64


class Context:
    """One llama.cpp context of `cells` KV cells and `sequences` sequences, batches of up to `batch` tokens.

    `unified`: all sequences share the cells; otherwise each has an equal part of its own, and attends to nothing else.
    """

    def __init__(
        self, model: Model, *, cells: int, sequences: int, batch: int, threads: int, kv_type: str, unified: bool
    ) -> None:
        if kv_type not in KV_TYPES:
            raise UserError(f"--kv-type: {kv_type!r} is not one of {', '.join(KV_TYPES)}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = cells
        params.n_batch = params.n_ubatch = batch
        params.n_seq_max = sequences
        params.n_outputs_max = min(batch, sequences)
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = KV_TYPES[kv_type]
        params.kv_unified = self._unified = unified
        params.swa_full = False
        params.no_perf = True
        LOG.lines.clear()
        handle = llama_cpp.llama_init_from_model(model.handle, params)
        if not handle:
            raise UserError(
                f"{model.path}: llama.cpp can not make a context of {cells} cells with KV type {kv_type}: "
                f"{LOG.errors() or 'no reason given'}; ask for a smaller --n-ctx or fewer --slots"
            )
        self._handle: Any = handle
        self._memory: Any = llama_cpp.llama_get_memory(handle)
        if not self._memory:
            self.close()
            raise UserError(f"{model.path}: not a model that continues text (it keeps no memory of it)")
        self._n_vocab = model.n_vocab
        self.cells = int(llama_cpp.llama_n_ctx(handle))
        self.sequences = sequences
        self.batch = batch
        self._tokens: Tokens = np.zeros(batch, np.int32)
        self._positions: Tokens = np.zeros(batch, np.int32)
        self._counts: Tokens = np.ones(batch, np.int32)
        self._seqs: Tokens = np.zeros(batch, np.int32)
        self._wanted = np.zeros(batch, np.int8)
        addresses = self._seqs.ctypes.data + 4 * np.arange(batch, dtype=np.uint64)
        self._seq_pointers = addresses
        self._batch = llama_cpp.llama_batch(
            n_tokens=0,
            token=self._tokens.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            embd=None,
            pos=self._positions.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            n_seq_id=self._counts.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            seq_id=ctypes.cast(addresses.ctypes.data, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
            logits=self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        self._filled = 0

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def room(self) -> int:
        """Tokens that still fit into the batch."""
        return self.batch - self._filled

    @property
    def filled(self) -> int:
        """Tokens in the batch."""
        return self._filled

    def add(self, seq: int, tokens: Sequence[int] | Tokens, position: int, *, logits: bool) -> int:
        """Puts tokens of a sequence into the batch, from `position` on; with `logits`, those after the last token are
        kept. Returns the batch index of the last token, by which `logits()` finds them."""
        n = len(tokens)
        if n < 1 or n > self.room:
            raise EngineError(f"batch: {n} tokens asked, room for {self.room}")
        lo, hi = self._filled, self._filled + n
        self._tokens[lo:hi] = tokens
        self._positions[lo:hi] = np.arange(position, position + n, dtype=np.int32)
        self._seqs[lo:hi] = seq
        self._wanted[lo:hi] = 0
        self._wanted[hi - 1] = logits
        self._filled = hi
        return hi - 1

    def decode(self) -> None:
        """Runs the batch and empties it. Raises EngineError for whatever llama.cpp reports."""
        self._batch.n_tokens = self._filled
        self._filled = 0
        code = llama_cpp.llama_decode(self._handle, self._batch)
        if code != 0:
            raise EngineError(f"llama_decode: code {code} for {self._batch.n_tokens} tokens; {LOG.errors()}")

    def synchronize(self) -> None:
        """Waits until the computation of the last batch is done (a GPU returns before)."""
        llama_cpp.llama_synchronize(self._handle)

    def logits(self, index: int) -> Logits:
        """The logits (n_vocab float32) after the token at that batch index; valid until the next `decode`."""
        pointer = llama_cpp.llama_get_logits_ith(self._handle, index)
        if not pointer:
            raise EngineError(f"no logits at batch index {index}")
        return np.ctypeslib.as_array(pointer, shape=(self._n_vocab,))

    def cut(self, seq: int, position: int) -> bool:
        """Forgets a sequence from `position` (inclusive) on; False where this memory can not."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, seq, position, -1))

    def drop(self, seq: int) -> None:
        """Forgets a whole sequence."""
        llama_cpp.llama_memory_seq_rm(self._memory, seq, -1, -1)

    def copy(self, source: int, target: int, end: int) -> None:
        """Gives the empty `target` what `source` holds at positions below `end`: its cells, or a copy of them."""
        # Between sequences with cells of their own llama.cpp copies only the whole.
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, end if self._unified else -1)
        if not self._unified and not self.cut(target, end):
            raise EngineError(f"llama.cpp can not cut sequence {target} at {end}")

    def save(self, seq: int) -> bytes:
        """A snapshot of a sequence's whole memory."""
        size = llama_cpp.llama_state_seq_get_size(self._handle, seq)
        buffer = (ctypes.c_uint8 * size)()
        n = llama_cpp.llama_state_seq_get_data(self._handle, buffer, size, seq)
        if n == 0:
            raise EngineError(f"no snapshot of sequence {seq}")
        return bytes(memoryview(buffer)[:n])

    def restore(self, seq: int, snapshot: bytes) -> bool:
        """Puts a snapshot into an empty sequence; False where it can not be placed (the sequence is then empty)."""
        buffer = (ctypes.c_uint8 * len(snapshot)).from_buffer_copy(snapshot)
        if llama_cpp.llama_state_seq_set_data(self._handle, buffer, len(snapshot), seq) == 0:
            self.drop(seq)
            return False
        return True

    def state_bytes(self) -> int:
        """Bytes that a dump of the whole state would take: it grows with each KV cell in use."""
        return int(llama_cpp.llama_state_get_size(self._handle))

    def close(self) -> None:
        """Frees the context; closing twice does nothing."""
        if self._handle:
            llama_cpp.llama_free(self._handle)
            self._handle = None
