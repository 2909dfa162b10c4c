"""`tripbench serve`: the gateway alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from guards.errors import UserError
from runners.cli_models import CacheOption

DEFAULT_PORT = 8642


def serve(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH|actor:SCRIPT",
            help="Default: the catalogue's default model. docs/gateway.md shows a script.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="TCP port on 127.0.0.1; 0 takes a free one.")] = DEFAULT_PORT,
    socket: Annotated[Path | None, typer.Option(metavar="PATH", help="Listen on this Unix socket too.")] = None,
    decode_mode: Annotated[
        Literal["free", "lazy", "forced"],
        typer.Option(help="lazy: a grammar takes over once a tool call begins; forced: every reply is a call."),
    ] = "lazy",
    sampler: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Over the model's recommended sampler; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed index of requests that name no episode.")] = 0,
    n_ctx: Annotated[int | None, typer.Option(help="Window of one request, in tokens; default 8192.")] = None,
    slots: Annotated[int | None, typer.Option(help="Requests decoded at the same time; default 4.")] = None,
    cells: Annotated[
        int | None,
        typer.Option(help="KV cells shared by all; default: on a CPU n-ctx for each, else n-ctx times slots."),
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Most tokens of one decode; default 256.")] = None,
    threads: Annotated[int | None, typer.Option(help="Default: the cores that this process may use.")] = None,
    kv_type: Annotated[str | None, typer.Option(help="Type of the KV cells: f16, q8_0 ...")] = None,
    gpu_layers: Annotated[int | None, typer.Option(help="Layers on a GPU; -1, the default, is all.")] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="One request at a time; equal requests give equal completions.")
    ] = False,
    tape: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Record completions here, and answer from it.")
    ] = None,
    tape_only: Annotated[
        bool, typer.Option("--tape-only", help="Answer from the tape alone; no model is loaded.")
    ] = False,
    cache: CacheOption = None,
) -> None:
    """Serve one model, or a scripted actor, over the Anthropic Messages format on loopback."""
    from pydantic import ValidationError

    from runners.gateway.app import Gateway
    from runners.gateway.engine_options import EngineOptions
    from runners.gateway.episode import EpisodeSettings
    from runners.gateway.opening import calm_threads, open_backend, parse_sampler
    from runners.gateway.server import GatewayServer, bind_port, bind_socket, release, socket_files
    from runners.models import catalog

    calm_threads()
    given = {
        "n_ctx": n_ctx,
        "slots": slots,
        "cells": cells,
        "batch": batch,
        "threads": threads,
        "kv_type": kv_type,
        "gpu_layers": gpu_layers,
        "deterministic": deterministic,
    }
    given = {key: value for key, value in given.items() if value is not None and value is not False}
    if tape_only and given:
        option = "--" + next(iter(given)).replace("_", "-")
        raise UserError(f"{option} has no meaning with --tape-only: the tape says how its model was run; leave it out")
    try:
        options = EngineOptions.model_validate(given)
        settings = EpisodeSettings(seed=seed, decode_mode=decode_mode)
    except ValidationError as error:
        first = error.errors()[0]
        option = "--" + str(first["loc"][0]).replace("_", "-")
        raise UserError(f"{option} {first['input']}: {first['msg']}") from error
    name = model if model is not None else catalog.builtin().default
    listeners = [bind_port(port)]
    backend = None
    try:
        if socket is not None:
            listeners.append(bind_socket(socket))
        backend = open_backend(name, options, tape=tape, tape_only=tape_only, cache=cache)
        if sampler:
            settings = settings.model_copy(update={"sampler": parse_sampler(sampler, backend.sampler)})
        server = GatewayServer(Gateway(backend, settings), listeners)
    except BaseException:
        release(listeners, socket_files(listeners))
        if backend is not None:
            backend.close()
        raise

    def ready() -> None:
        where = f"http://127.0.0.1:{server.port}" + (f" and {socket}" if socket is not None else "")
        print(f"serving {backend.name} at {where}", flush=True)

    server.run(ready)
