"""The prompts as token ids, cut to one length."""

from __future__ import annotations

from pathlib import Path

from workload import BenchError, text


def cut(model: str, count: int, length: int) -> list[list[int]]:
    """`count` prompts of `length` tokens each. Raises BenchError where a text is too short for this vocabulary."""
    from runners.gateway.llama import Model

    opened = Model(Path(model), gpu_layers=0)
    try:
        prompts = [opened.tokenize(text(index))[:length] for index in range(count)]
    finally:
        opened.close()
    if any(len(prompt) < length for prompt in prompts):
        raise BenchError(f"a prompt has less than {length} tokens")
    return prompts
