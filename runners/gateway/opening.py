"""From what a user names to a backend that serves it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from guards.errors import UserError

if TYPE_CHECKING:
    from runners.gateway.asking import Backend
    from runners.gateway.card import ModelCard
    from runners.gateway.engine import Engine
    from runners.gateway.engine_options import EngineOptions
    from runners.gateway.sampler import Sampler
    from runners.gateway.tape import Tape

ACTOR_PREFIX = "actor:"


def calm_threads() -> None:
    """Has OpenMP's threads wait with little spinning; must be called before llama.cpp is loaded.

    With its default, a decode on a machine whose cores are not all free takes many times as long: the threads that
    wait at a barrier burn the time that the late one needs. A value that the user set stays.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def open_backend(
    model: str,
    options: EngineOptions | None = None,
    *,
    tape: Path | None = None,
    tape_only: bool = False,
    cache: Path | None = None,
) -> Backend:
    """A backend for a model's name, a path to a GGUF, or `actor:SCRIPT.json`. `options` None are the defaults.

    With `tape_only` no model file is needed or read: `model` names a card in the tape by name or sha256.
    Raises UserError where something of this can not be had.
    """
    if model.startswith(ACTOR_PREFIX):
        from runners.gateway.actors import ActorBackend, ScriptedActor

        if tape is not None or tape_only:
            raise UserError(f"--tape: {model} is an actor, and actors are not taped")
        actor = ScriptedActor.load(Path(model.removeprefix(ACTOR_PREFIX)))
        return ActorBackend(actor, window=actor.script.window)
    calm_threads()
    from runners.gateway.model_backend import ModelBackend
    from runners.gateway.tape import Tape

    if tape_only:
        if tape is None:
            raise UserError("--tape-only needs --tape PATH")
        recorded = Tape.open(tape, read_only=True)
        try:
            return ModelBackend(_card_of(recorded, model), None, recorded)
        except BaseException:
            recorded.close()
            raise
    return _open_model(model, options, tape, cache)


def _open_model(model: str, options: EngineOptions | None, tape: Path | None, cache: Path | None) -> Backend:
    from runners.gateway.engine import Engine
    from runners.gateway.engine_options import EngineOptions
    from runners.gateway.model_backend import ModelBackend
    from runners.gateway.tape import Tape
    from runners.models.resolve import resolve

    file = resolve(model, cache)
    engine = Engine(file.path, options or EngineOptions())
    recorder: Tape | None = None
    try:
        card = _card_from(engine, file.name, file.sha256, file.dialect, file.sampler)
        recorder = None if tape is None else Tape.open(tape)
        return ModelBackend(card, engine, recorder)
    except BaseException:
        engine.close()
        if recorder is not None:
            recorder.close()
        raise


def _card_from(
    engine: Engine, name: str, sha256: str, dialect: str | None, sampler: dict[str, float | int] | None
) -> ModelCard:
    from runners.gateway.card import ModelCard
    from runners.gateway.dialects.registry import choose
    from runners.gateway.llama import build
    from runners.gateway.sampler import Sampler

    template = engine.model.metadata("tokenizer.chat_template")
    if template is None:
        raise UserError(f"{engine.model.path}: the GGUF has no chat template; use an instruct model's file")
    return ModelCard(
        name=name,
        sha256=sha256,
        template=template,
        bos=engine.model.bos,
        eos=engine.model.eos,
        dialect=dialect or choose(template).name,
        window=engine.options.n_ctx,
        engine=build(),
        # The batch size is in it since the shape of batches moves logits.
        backend=f"{engine.model.backend} batch {engine.options.batch_tokens}",
        kv_type=engine.options.kv_type,
        deterministic=engine.options.deterministic,
        sampler=Sampler.model_validate(sampler or {}),
    )


def _card_of(tape: Tape, model: str) -> ModelCard:
    from runners.gateway.card import ModelCard

    cards = [ModelCard.read(card, str(tape.path)) for sha in tape.models() if (card := tape.card(sha)) is not None]
    found = [card for card in cards if model in (card.name, card.sha256)]
    if not found:
        names = ", ".join(f"{card.name} ({card.sha256[:12]})" for card in cards) or "none"
        raise UserError(f"{tape.path}: no completions of model {model!r}; it has: {names}")
    if len(found) > 1:
        raise UserError(f"{tape.path}: several models are named {model!r}; give the sha256")
    return found[0]


def parse_sampler(settings: list[str], base: Sampler) -> Sampler:
    """A sampler from KEY=VALUE texts over a base one. Raises UserError naming key, value and what is allowed."""
    from runners.gateway.sampler import Sampler

    values = base.model_dump()
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in Sampler.model_fields:
            raise UserError(f"--sampler {setting}: give KEY=VALUE with KEY one of {', '.join(Sampler.model_fields)}")
        values[key] = tuple(value.split(",")) if key == "dry_breakers" else value
    try:
        return Sampler.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"--sampler {first['loc'][0]}={first['input']}: {first['msg']}") from error
