"""What `tripbench run` was asked for: its options, and the stack, matrix and plans that they come to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guards.errors import UserError
from guards.stack import Stack, default_stack, load_stack
from runners.gateway.asking import DecodeMode
from runners.gateway.opening import parse_sampler
from runners.harness.composition import Addresses, compose
from runners.plan import GREEDY, Matrix, Mode, Player, greedy, parse_actor, parse_scenarios, plan
from runners.run_directory import installed_harness
from runners.spec import EpisodeSpec
from runners.suite_file import load_suite, parse_seeds
from scenarios.base import Size

if TYPE_CHECKING:
    from runners.gateway.sampler import Sampler

DEFAULT_ARMS = {"dsh": ("off", "host", "agent", "both"), "native": ("off", "stack")}
ORACLE = 1
"""Version of the judge: it goes up with every change of a verdict."""


@dataclass(frozen=True)
class Request:
    """The options of `tripbench run`; None is what was not given."""

    runner: Literal["dsh", "native"]
    scenarios: str | None
    suite: str | None
    models: tuple[str, ...]
    arms: str | None
    seeds: str | None
    size: Size
    horizon: int | None
    priming: int | None
    stack: Path | None
    harness: str | None
    decode_mode: DecodeMode | None
    sampler: tuple[str, ...]
    out: Path | None
    resume: bool
    tape_only: bool
    dry_run: bool
    jobs: int | None
    gpu_layers: int | None
    wall_limit: float
    cache: Path | None
    as_json: bool


class Asked:
    """A request, checked as far as it can be before a model is loaded or a folder made.

    `plans`: the episodes by model, with what the models' cards are known to recommend. Raises UserError for what the
    user can mend.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.stack: Stack = load_stack(request.stack) if request.stack is not None else default_stack()
        self.name, self.matrix = self._asked()
        self.models = request.models or (_default_model(),)
        self._check()
        self.plans = {model: self.plan(self.player(model)) for model in self.models}
        if not any(self.plans.values()):
            raise UserError("nothing to run: none of the scenarios has a looping course")
        self._check_plans()

    @property
    def specs(self) -> tuple[EpisodeSpec, ...]:
        """The episodes of all models."""
        return tuple(spec for model in self.models for spec in self.plans[model])

    @property
    def batched(self) -> bool:
        """Whether models decode several episodes in one batch: rounding then depends on what is decoded beside."""
        return (self.request.jobs or 1) > 1 and any(parse_actor(model) is None for model in self.models)

    def plan(self, player: Player) -> tuple[EpisodeSpec, ...]:
        return plan(self.matrix, self.stack, player, native=self.request.runner == "native")

    def player(self, model: str) -> Player:
        """As far as it is known before the model is there: without its digest."""
        actor = parse_actor(model)
        if actor is not None:
            return Player(model, None, actor, None)
        name, sampler = self._known(model)
        return Player(name, None, None, sampler)

    def data(self) -> dict[str, Any]:
        """What decides the episodes: a run is only gone on with by the same."""
        matrix = self.matrix
        # What a tape gives does not depend on how it was decoded.
        engine = {} if self.request.tape_only else {"batched": self.batched}
        return {
            "runner": self.request.runner,
            "scenarios": [list(each) for each in matrix.scenarios],
            "arms": list(matrix.arms),
            "seeds": list(matrix.seeds),
            "modes": [json.loads(json.dumps(asdict(mode))) for mode in matrix.modes],
            "priming": matrix.priming,
            "horizon": matrix.horizon,
            "stack": self.stack.digest,
            "models": list(self.models),
            **engine,
        }

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it; `models` are booked as they are opened."""
        matrix = self.matrix
        guards = [{"name": guard.name, "config": guard.effective()} for guard in self.stack.guards]
        return {
            "arms": list(matrix.arms),
            "seeds": list(matrix.seeds),
            "models": [],
            "stack": {"name": self.stack.name, "digest": self.stack.digest, "guards": guards},
            "stamp": {
                "oracle": ORACLE,
                "decode_modes": sorted({mode.decode_mode for mode in matrix.modes}),
                "priming": matrix.priming,
                "horizon": matrix.horizon,
                "stack": self.stack.digest,
            },
        }

    def _asked(self) -> tuple[str, Matrix]:
        request = self.request
        if (request.suite is None) == (request.scenarios is None):
            raise UserError("say what to run: --suite NAME or --scenario NAME,... (one of the two)")
        if request.suite is not None:
            name, matrix = load_suite(request.suite)
        else:
            assert request.scenarios is not None
            name = "run"
            matrix = Matrix(
                parse_scenarios(request.scenarios, request.size), DEFAULT_ARMS[request.runner], (0,), (Mode(),)
            )
        changes: dict[str, Any] = {}
        if request.arms is not None:
            changes["arms"] = tuple(arm.strip() for arm in request.arms.split(",") if arm.strip())
        if request.seeds is not None:
            changes["seeds"] = parse_seeds(request.seeds)
        if request.horizon is not None:
            changes["horizon"] = at_least("--horizon", request.horizon, 1)
        if request.priming is not None:
            changes["priming"] = at_least("--priming", request.priming, 0)
        if request.sampler or request.decode_mode is not None:
            changes["modes"] = (self._mode(matrix),)
        return name, Matrix(**{**vars(matrix), **changes})

    def _mode(self, matrix: Matrix) -> Mode:
        first = matrix.modes[0]
        settings = sampler_settings(self.request.sampler) or first.settings
        return Mode(self.request.decode_mode or first.decode_mode, settings)

    def _check(self) -> None:
        request = self.request
        if request.jobs is not None:
            at_least("--jobs", request.jobs, 1)
        if not 0 < request.wall_limit < float("inf"):
            raise UserError(f"--wall-limit {request.wall_limit:g}: give seconds above 0")
        if (request.resume or request.tape_only) and request.out is None:
            raise UserError("--resume and --tape-only go on with a run: name its folder with --out")
        if request.tape_only and request.resume:
            raise UserError("--tape-only plays all of a run again, and --resume what is left of it: give one of them")
        if request.harness not in (None, installed := installed_harness()["version"]):
            raise UserError(
                f"--harness {request.harness}: {installed} is installed; put the other one into this environment with "
                f"pip install deepseek-harness-sdk=={request.harness} deepseek-harness-runtime-bin=={request.harness}"
            )
        for model in self.models:
            if self.models.count(model) > 1:
                raise UserError(f"--model {model} stands there twice")

    def _check_plans(self) -> None:
        owners: dict[str, str] = {}
        kinds: set[tuple[str, str]] = set()
        for model, specs in self.plans.items():
            for spec in specs:
                if (owner := owners.setdefault(spec.name, model)) != model:
                    raise UserError(f"--model {owner} and --model {model} have one name, {spec.model}: rename a file")
                kind = (spec.arm.name, str(spec.scenario.needs))
                if kind not in kinds:
                    kinds.add(kind)
                    # For what is wrong with the folders of plugins.
                    compose(spec.arm, self.stack, spec.scenario.needs, 1, Addresses("", "", ""))

    def _known(self, model: str) -> tuple[str, Sampler]:
        """The name that a model has in the run, and the sampler of its card. Raises UserError where there is none of
        that name, or its file is not there although it will be loaded."""
        from runners.gateway.sampler import Sampler
        from runners.models import catalog, resolve

        if not (self.request.dry_run or self.request.tape_only):
            file = resolve.resolve(model, self.request.cache)
            return file.name, Sampler.model_validate(file.sampler or {})
        known = catalog.builtin()
        if model not in known.models and resolve.is_path(model):
            return Path(model).stem, Sampler()
        entry = known.find(model, also="; or give the path of a .gguf file")
        return entry.name, Sampler.model_validate(entry.sampler.given())


def _default_model() -> str:
    from runners.models import catalog

    return catalog.builtin().default


def sampler_settings(texts: tuple[str, ...]) -> dict[str, Any]:
    """Values of `KEY=VALUE` options, checked, or those of `greedy`; empty where none is given. Raises UserError."""
    from runners.gateway.sampler import Sampler

    if texts == (GREEDY,):
        return greedy()
    given = parse_sampler(list(texts), Sampler())
    return {name: getattr(given, name) for name in (text.partition("=")[0] for text in texts)}


def at_least(option: str, value: int, least: int) -> int:
    """The value of an option. Raises UserError for one below `least`."""
    if value < least:
        raise UserError(f"{option} {value}: give {least} or more")
    return value
