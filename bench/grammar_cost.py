"""What a grammar costs: the same logits sampled without one, with a lazy one, and with one that refuses the best."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict
from workload import CARD, BenchError

if TYPE_CHECKING:
    from runners.gateway.grammar import Grammar
    from runners.gateway.llama import Model

CALL: Final = '<tool_call>\n{"name": "read_file", "arguments": {"path": "src/main.py", "limit": 40}}\n</tool_call>'
REPEATS: Final = 5


class GrammarCost(BaseModel):
    """Milliseconds a token on one core, the least of several passes over `tokens` tokens.

    `plain` samples without a grammar, `lazy` with one that takes over at the call; both draw the same tokens.
    `refused` is a token for which the grammar refused the best one, so that it drew again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int
    plain: float
    lazy: float
    refused: float


def measure_grammar(model: str) -> GrammarCost:
    """Raises BenchError where the call does not go through the grammar as written."""
    from runners.gateway.conversation import Tool
    from runners.gateway.dialects.registry import dialect
    from runners.gateway.llama import Model
    from runners.gateway.sampler import Sampler
    from runners.gateway.sampling import TokenSampler

    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    }
    tools = (Tool("read_file", "Reads a file.", schema), Tool("list_files", "Lists files.", {"type": "object"}))
    spoken = dialect("qwen-coder")
    lazy, forced = spoken.grammar(tools, "lazy"), spoken.grammar(tools, "forced")
    opened = Model(Path(model), gpu_layers=0)
    try:
        said = opened.tokenize("I shall read the file first.\n") + opened.tokenize(CALL)
        logits = _logits(opened.n_vocab, said)

        def passed(grammar: Grammar | None) -> float:
            sampler = TokenSampler(
                opened,
                Sampler.model_validate(CARD),
                1,
                context=4096,
                history=said,
                grammar=grammar,
            )
            began = time.thread_time()
            drawn = [sampler.sample(row) for row in logits]
            used = time.thread_time() - began
            sampler.close()
            if drawn != said:
                raise BenchError("the grammar changed a call that it should let through")
            return used / len(said) * 1e3

        return GrammarCost(
            tokens=len(said),
            plain=min(passed(None) for _ in range(REPEATS)),
            lazy=min(passed(lazy) for _ in range(REPEATS)),
            refused=min(_refused(opened, forced) for _ in range(REPEATS)),
        )
    finally:
        opened.close()


def _logits(n_vocab: int, tokens: list[int]) -> npt.NDArray[np.float32]:
    """Noise in which each row's token stands out so far that every sampler draws it."""
    rows = np.random.default_rng(3).normal(0, 2, (len(tokens), n_vocab)).astype(np.float32)
    rows[np.arange(len(tokens)), tokens] = 60
    return rows


def _refused(opened: Model, grammar: Grammar | None) -> float:
    """Milliseconds for a first token where a strict grammar takes none of what the model likes best."""
    from runners.gateway.sampler import Sampler
    from runners.gateway.sampling import TokenSampler

    sampler = TokenSampler(
        opened,
        Sampler.model_validate(CARD),
        1,
        context=4096,
        history=[],
        grammar=grammar,
    )
    row = np.random.default_rng(4).normal(0, 2, opened.n_vocab).astype(np.float32)
    began = time.thread_time()
    sampler.sample(row)
    used = time.thread_time() - began
    sampler.close()
    return used * 1e3
