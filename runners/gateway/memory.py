"""An engine's KV memory: how many sequences and cells there are, and whether sequences share cells.

Attention on a CPU walks over all used cells of a unified cache, those of other sequences too: where six conversations
of 1,500 tokens share one, prefill runs at 107 tokens/s, and at 150 to 190 where each has cells of its own
(Qwen2.5-Coder-0.5B, two cores). That costs memory: `n_ctx` cells for each of two times `slots` sequences, the second
half for beginnings that idle ones keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from guards.errors import UserError
from runners.gateway.cells import CellBook
from runners.gateway.context import MAX_SEQUENCES, Context
from runners.gateway.engine_options import EngineOptions
from runners.gateway.llama import Model
from runners.gateway.placement import Placement


@dataclass(frozen=True)
class Memory:
    """A context, who holds which of its cells, and who begins where."""

    context: Context
    book: CellBook
    placement: Placement


def open_memory(model: Model, options: EngineOptions, *, slots: int, threads: int) -> Memory:
    """Raises UserError where `options` ask for what can not be had."""
    spare = model.cuttable and not options.deterministic
    unified = options.cells is not None or not spare or model.backend != "cpu"
    sequences = min(MAX_SEQUENCES, 4 * slots + 8 if unified else 2 * slots) if spare else slots
    cells = options.cells if options.cells is not None else options.n_ctx * (slots if unified else sequences)
    if cells < options.n_ctx:
        raise UserError(f"--cells {cells} is less than --n-ctx {options.n_ctx}: one request must fit")
    context = Context(
        model,
        cells=cells,
        sequences=sequences,
        batch=options.batch_tokens,
        threads=threads,
        kv_type=options.kv_type,
        unified=unified,
    )
    book = CellBook(cells, unified=unified)
    placement = Placement(
        context,
        book,
        cuttable=model.cuttable,
        aligned=options.batch_tokens if options.deterministic else None,
        snapshot_bytes=options.snapshot_bytes,
    )
    return Memory(context, book, placement)
