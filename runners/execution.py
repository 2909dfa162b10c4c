"""What `tripbench run` does: from what was asked for to a run directory with traces, tables and a report."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from guards.errors import UserError
from results.run import console_table, load_run, write_report, write_tables
from runners.asked import Asked, Request
from runners.dsh import DshRunner
from runners.gateway.cast import Cast
from runners.gateway.engine_options import MAX_SLOTS, EngineOptions
from runners.gateway.house import House
from runners.gateway.opening import calm_threads, open_backend
from runners.harness.layout import Scratch
from runners.harness.proof import NotProven, Prover
from runners.interruptible import interruptible
from runners.native import NativeRunner
from runners.plan import Player, parse_actor
from runners.progress import Progress, estimate
from runners.run_directory import RunDirectory, new_path, surroundings
from runners.spec import EpisodeSpec, Interrupted, Runner
from runners.spent import tokens
from runners.suite import Finished, PromptsDiffer, Suite
from runners.summary import outcome

if TYPE_CHECKING:
    from runners.gateway.asking import Backend
    from runners.gateway.card import ModelCard

INTERRUPTED = 130
WIDTH = 150


def execute(request: Request) -> int:
    """Gives the exit status. Raises UserError for what the user can mend, before anything is written where it can."""
    calm_threads()
    with interruptible():
        return _Execution(Asked(request)).run()


class _Execution:
    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._request = asked.request

    # -- the run -------------------------------------------------------------------------------------------------

    def run(self) -> int:
        request = self._request
        specs = self._asked.specs
        if request.dry_run:
            return self._print_plan(specs)
        finished: list[Finished] = []
        with _scratch() as scratch:
            directory = self._directory()
            say = _Say(directory, quiet=request.as_json)
            try:
                self._prove(directory, scratch, specs, say)
                tty = sys.stderr.isatty() and not request.as_json
                with Progress(specs, tty=tty, jobs=lambda spec: self._jobs(spec.actor)) as progress:
                    for model in self._asked.models:
                        finished += self._play(model, directory, scratch, progress)
            except (PromptsDiffer, NotProven) as failed:
                say(f"tripbench: error: {failed}", error=True)
                return 1
            except (KeyboardInterrupt, Interrupted):
                # The command line says that it was interrupted.
                say(f"tripbench: what is finished is kept; go on with: {self._go_on(directory)}", error=True)
                return INTERRUPTED
        failed_ones = [each for each in finished if each.failure is not None]
        for each in failed_ones:
            say(f"tripbench: error: episode {each.spec.name}: {each.failure}", error=True)
        self._report(directory, finished, say, anything=len(failed_ones) < len(finished))
        return 1 if failed_ones else 0

    def _play(self, model: str, directory: RunDirectory, scratch: Scratch, progress: Progress) -> list[Finished]:
        request = self._request
        actor = parse_actor(model)
        backend = None if actor is not None else self._backend(model, directory)
        player = self._asked.player(model)
        if backend is not None:
            self._book(directory, model, backend)
            player = Player(backend.name, _card(backend).sha256, None, backend.sampler)
        specs = self._asked.plan(player)
        with self._runner(backend, directory, scratch) as runner:
            suite = Suite(runner, directory, jobs=self._jobs(actor), fresh=request.tape_only)
            return suite.play(specs, progress.finished)

    @contextmanager
    def _runner(self, backend: Backend | None, directory: RunDirectory, scratch: Scratch) -> Iterator[Runner]:
        """The runner for a backend (None: actors alone), which is closed with it."""
        if self._request.runner == "native":
            try:
                yield NativeRunner(backend, self._asked.stack)
            finally:
                if backend is not None:
                    backend.close()
            return
        with House(Cast(backend)) as house:
            seconds = self._request.wall_limit
            yield DshRunner(house, self._asked.stack, scratch, kept=directory.failed, wall_seconds=seconds)

    def _backend(self, model: str, directory: RunDirectory) -> Backend:
        request = self._request
        options = None
        if not request.tape_only:
            layers: dict[str, Any] = {} if request.gpu_layers is None else {"gpu_layers": request.gpu_layers}
            slots = min(self._jobs(None), MAX_SLOTS)
            # One request at a time and prefixes reused in whole batches, unless episodes are played side by side.
            options = EngineOptions(deterministic=not self._asked.batched, slots=slots, **layers)
        name = model
        if request.tape_only:
            booked = (each for each in directory.manifest.get("models", ()) if each["given"] == model)
            name = next((each["sha256"] for each in booked), model)
        return open_backend(name, options, tape=directory.tape, tape_only=request.tape_only, cache=request.cache)

    def _jobs(self, actor: str | None) -> int:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self._request.jobs or (cores if actor is not None else 1)

    def _prove(self, directory: RunDirectory, scratch: Scratch, specs: Sequence[EpisodeSpec], say: _Say) -> None:
        """Once a run in the harness: what is in `proof.json` already was proven by the same stack and harness."""
        mounts = list(dict.fromkeys(mount for spec in specs for mount in spec.arm.mounts))
        path = directory.path / "proof.json"
        known = json.loads(path.read_bytes()) if path.exists() else []
        have = {(proof["guard"], proof["plane"]) for proof in known}
        due = [mount for mount in mounts if (mount.guard, mount.plane) not in have]
        if not due or self._request.runner == "native":
            return
        with House(Cast(None)) as house:
            runner = DshRunner(house, self._asked.stack, scratch, kept=directory.failed, wall_seconds=300.0)
            with _stopping(runner):
                if strange := [each.data() for each in runner.outside()]:
                    directory.manifest["outside"] = strange
                    directory.write_manifest()
                for proof, trace in Prover(runner, self._asked.stack).prove(due):
                    directory.write_proof(trace)
                    known.append(proof.data())
                    first = next((f"{action} at {index}" for action, index, _ in proof.actions), "no action")
                    say(f"proven: {proof.guard}@{proof.plane}: {first}{': ' + proof.note if proof.note else ''}")
        directory.write_json("proof.json", known)

    # -- what is written and said --------------------------------------------------------------------------------

    def _directory(self) -> RunDirectory:
        asked = self._asked.data()
        if self._request.resume or self._request.tape_only:
            assert self._request.out is not None
            return RunDirectory.resume(self._request.out, asked)
        path = self._request.out or new_path(self._asked.name)
        return RunDirectory.create(
            path, {**surroundings(), "suite": self._asked.name, **self._asked.facts(), "plan": asked}
        )

    def _book(self, directory: RunDirectory, given: str, backend: Backend) -> None:
        """Writes the model into the manifest, once. Raises UserError where it was another one, or served otherwise: the
        episodes of two could not be told apart any more."""
        from runners.gateway.dialects.registry import dialect

        card = _card(backend)
        entry = {
            "given": given,
            # Before the name, which comes of the file: another file is spoken of by its digest.
            "sha256": card.sha256,
            "name": card.name,
            "window": card.window,
            "dialect": f"{card.dialect}/{dialect(card.dialect).version}",
            "engine": card.engine,
            "backend": card.backend,
            "deterministic": card.deterministic,
            "sampler": card.sampler.model_dump(mode="json"),
        }
        models = directory.manifest.setdefault("models", [])
        known = next((each for each in models if each["given"] == given), None)
        if known is None:
            models.append(entry)
            directory.write_manifest()
        elif changed := [name for name, value in entry.items() if known.get(name) != value]:
            first = changed[0]
            raise UserError(
                f"--model {given}: the run in {directory.path} was begun with another one: {first} "
                f"{json.dumps(known.get(first))} there, {json.dumps(entry[first])} now; go on as it was begun, or take "
                "another --out"
            )

    def _report(self, directory: RunDirectory, finished: Sequence[Finished], say: _Say, *, anything: bool) -> None:
        if anything:
            directory.manifest["tokens"] = tokens(each.trace for each in finished)
            directory.write_manifest()
            run = load_run(directory.path)
            write_tables(run)
            write_report(run)
            if not self._request.as_json:
                show(console_table(run))
        say(f"traces: {directory.path / 'traces'}")
        if anything:
            say(f"report: {directory.path / 'report.html'}")
        if self._request.as_json:
            print(json.dumps(outcome(directory.path, [each.trace for each in finished])))

    def _print_plan(self, specs: Sequence[EpisodeSpec]) -> int:
        if self._request.as_json:
            print(json.dumps({"episodes": [spec.name for spec in specs]}))
            return 0
        for spec in specs:
            print(spec.name)
        print(f"{len(specs)} episodes; {estimate(specs, batched=self._asked.batched)}")
        return 0

    def _go_on(self, directory: RunDirectory) -> str:
        words = [word for word in sys.argv[1:] if word != "--resume"]
        if self._request.out is None:
            words += ["--out", str(directory.path)]
        return shlex.join(["tripbench", *words, "--resume"])


class _Say:
    """Lines for people: to the run's log always, to stderr unless the outcome is wanted as data."""

    def __init__(self, directory: RunDirectory, *, quiet: bool) -> None:
        self._directory = directory
        self._quiet = quiet

    def __call__(self, text: str, *, error: bool = False) -> None:
        self._directory.log(text)
        if error or not self._quiet:
            print(text, file=sys.stderr, flush=True)


@contextmanager
def _scratch() -> Iterator[Scratch]:
    scratch = Scratch()
    try:
        yield scratch
    finally:
        scratch.remove()


@contextmanager
def _stopping(runner: DshRunner) -> Iterator[None]:
    """Ends the runner's processes when something else ends what is done with it."""
    try:
        yield
    except BaseException:
        runner.interrupt()
        raise


def show(renderable: Any) -> None:
    """Prints a table on stdout."""
    from rich.console import Console

    console = Console()
    # Where there is no terminal, nobody has asked for 80 columns.
    (console if console.is_terminal else Console(width=WIDTH)).print(renderable)


def _card(backend: Backend) -> ModelCard:
    from runners.gateway.model_backend import ModelBackend

    assert isinstance(backend, ModelBackend)
    return backend.card
