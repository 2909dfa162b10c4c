"""The contenders, each opened in a process of its own: what it is, its settings, and how it is asked."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from workload import CARD, REPEAT_LAST_N, Answer, BenchError, Job, Outcome, SamplerName, measure


def engine(job: Job) -> Outcome:
    """tripbench's engine with as many slots as sequences."""
    from runners.gateway.opening import calm_threads

    calm_threads()
    from runners.gateway.engine import Engine
    from runners.gateway.engine_options import EngineOptions
    from runners.gateway.generation import Generation, Request
    from runners.gateway.llama import build, system_info
    from runners.gateway.sampler import Sampler

    options = EngineOptions(n_ctx=job.window, slots=job.sequences, threads=job.threads, gpu_layers=0)
    served = Engine(Path(job.model), options)
    samplers = {"greedy": Sampler(), "card": Sampler.model_validate(CARD | {"repeat_last_n": REPEAT_LAST_N})}

    class Waiter:
        def __init__(self) -> None:
            self.ended = threading.Event()
            self.result: Generation | Exception | None = None

        def text(self, delta: str) -> None:
            pass

        def done(self, generation: Generation) -> None:
            self.result = generation
            self.ended.set()

        def failed(self, error: Exception) -> None:
            self.result = error
            self.ended.set()

    def ask(tokens: int, sampler: SamplerName, at: int, prompt: list[int]) -> Answer:
        waiter = Waiter()
        served.submit(Request(prompt, tokens, samplers[sampler], seed=at), waiter)
        waiter.ended.wait()
        if not isinstance(waiter.result, Generation):
            raise BenchError(f"the engine failed: {waiter.result}")
        return Answer(waiter.result.prompt_tokens - waiter.result.reused_tokens, len(waiter.result.tokens))

    def run(prompts: list[list[int]], tokens: int, sampler: SamplerName) -> list[Answer]:
        return in_flight(prompts, lambda at, prompt: ask(tokens, sampler, at, prompt))

    settings = f"batch {options.batch_tokens}, one cache for all sequences, {_spin()}"
    try:
        return measure(job, run, f"{build()} ({_features(system_info())})", settings)
    finally:
        served.close()


def completion(job: Job) -> Outcome:
    """`Llama.create_completion` of llama-cpp-python, one request at a time."""
    import llama_cpp

    batch = 512
    model: Any = llama_cpp.Llama(
        job.model,
        n_ctx=job.window,
        n_threads=job.threads,
        n_threads_batch=job.threads,
        n_batch=batch,
        flash_attn=True,
        last_n_tokens_size=REPEAT_LAST_N,
        verbose=False,
    )
    samplers: dict[SamplerName, dict[str, float]] = {"greedy": {"temperature": 0.0}, "card": CARD}

    def run(prompts: list[list[int]], tokens: int, sampler: SamplerName) -> list[Answer]:
        answers = []
        for at, prompt in enumerate(prompts):
            reply = model.create_completion(prompt, max_tokens=tokens, seed=at, min_p=0.0, **samplers[sampler])
            usage = reply["usage"]
            answers.append(Answer(None, usage["completion_tokens"]))
        return answers

    features = _features(llama_cpp.llama_print_system_info().decode())
    settings = f"batch {batch}, {_spin()}"
    return measure(job, run, f"llama-cpp-python {llama_cpp.__version__} ({features})", settings)


def server(job: Job) -> Outcome:
    """llama.cpp's server in the process (wheel `xllamacpp`), as many slots as sequences."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = job.model
    params.n_parallel = job.sequences
    params.n_ctx = job.window * job.sequences
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = job.threads
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.endpoint_slots = False
    params.ui = False
    params.verbosity = -1
    served = xllamacpp.Server(params)
    samplers: dict[SamplerName, dict[str, float]] = {"greedy": {"temperature": 0.0, "top_k": 1}, "card": CARD}

    def ask(tokens: int, sampler: SamplerName, at: int, prompt: list[int]) -> Answer:
        body: dict[str, Any] = {"prompt": prompt, "max_tokens": tokens, "seed": at, "min_p": 0.0, "cache_prompt": True}
        body |= {"repeat_last_n": REPEAT_LAST_N} | samplers[sampler]
        reply: Any = served.handle_completions(body)
        if isinstance(reply, (str, bytes)):
            reply = json.loads(reply)
        if "timings" not in reply:
            raise BenchError(f"the server failed: {str(reply)[:300]}")
        return Answer(reply["timings"]["prompt_n"], reply["timings"]["predicted_n"])

    def run(prompts: list[list[int]], tokens: int, sampler: SamplerName) -> list[Answer]:
        return in_flight(prompts, lambda at, prompt: ask(tokens, sampler, at, prompt))

    features = _features(xllamacpp.get_system_info())
    settings = f"batch {params.n_batch}/{params.n_ubatch}, a cache for each sequence, {_spin()}"
    return measure(job, run, f"xllamacpp {xllamacpp.__version__} ({features})", settings)


CONTENDERS: Final[dict[str, Callable[[Job], Outcome]]] = {
    "engine": engine,
    "create_completion": completion,
    "server": server,
}


def in_flight(prompts: list[list[int]], ask: Callable[[int, list[int]], Answer]) -> list[Answer]:
    """Asks all at once, each from a thread of its own. Raises what `ask` raises."""
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(ask, range(len(prompts)), prompts))


def _features(info: str) -> str:
    """The CPU features that a build of llama.cpp uses and that decide its speed."""
    on = [part.split("=")[0].strip() for part in info.replace("CPU :", "").split("|") if part.strip().endswith("= 1")]
    wanted = [name for name in on if name.startswith(("AVX", "AMX", "NEON", "SVE", "DOTPROD", "LLAMAFILE"))]
    return " ".join(wanted) or "no vector features"


def _spin() -> str:
    """How OpenMP's threads wait: tripbench's own setting for the engine; the others keep the default, which is the
    faster one on an idle machine."""
    return f"GOMP_SPINCOUNT {os.environ.get('GOMP_SPINCOUNT', 'by default')}"
