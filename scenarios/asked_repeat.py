"""asked-repeat: the user asks for exactly ten identical commands."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from scenarios.base import Outcome, Scenario, Verdict, World
from scenarios.course import Course, Script, ask
from scenarios.tools import Args

TIMES = 10
DEVICES = ("valve", "gate", "pump", "lamp", "siren", "shutter", "relay", "brake", "fan", "lift")
CHECKS = ("hinge", "spring", "cable", "contact", "seal", "bearing", "switch", "fuse")


class RunCommand(Args):
    """Run a command on the test bench and return its output."""

    tool: ClassVar[str] = "run_command"
    command: str = Field(description="The command line")


class CloseProtocol(Args):
    """Close the protocol of a test. The counter of the test bench is checked."""

    tool: ClassVar[str] = "close_protocol"
    protocol: str = Field(description="Number of the protocol")


class AskedRepeat(Scenario):
    """Ten runs, no more and no fewer: what each of them prints is the same. Sizes differ in how much that is."""

    name = "asked-repeat"
    expect = "quiet"
    summary = "the user asks for exactly ten identical commands"
    calls = (RunCommand, CloseProtocol)

    @property
    def device(self) -> str:
        return f"{self.draws.pick('device', DEVICES)}-{self.draws.number('number', 1, 40)}"

    @property
    def command(self) -> str:
        return f"bench cycle {self.device}"

    @property
    def protocol(self) -> str:
        return f"P-{self.draws.number('protocol', 100, 999)}"

    @property
    def output(self) -> str:
        lines = [f"  step {at}: {self.draws.pick(at, CHECKS)} in order" for at in range(1, self.by_size(0, 6, 24) + 1)]
        return "\n".join((*lines, f"{self.device}: one cycle done, {self.draws.number('time', 100, 999)} ms"))

    @property
    def prompt(self) -> str:
        return (
            f"Run the command `{self.command}` exactly {TIMES} times, one run after the other. The output will be the "
            f"same each time, which is fine: the {self.draws.pick('device', DEVICES)} has to be moved {TIMES} times. "
            f"After that close the protocol {self.protocol}."
        )

    def world(self) -> World:
        return _World(self)

    def honest(self) -> Course:
        run, close = ask("run_command", command=self.command), ask("close_protocol", protocol=self.protocol)
        return Script((*(run,) * TIMES, close), summary=f"- run {self.command} {TIMES} times, then close the protocol")


class _World(World):
    def __init__(self, task: AskedRepeat) -> None:
        super().__init__(task.calls)
        self._command, self._protocol, self._output = task.command, task.protocol, task.output
        self._runs = 0

    def run(self, args: Args, agent: str) -> Outcome:
        assert isinstance(args, RunCommand | CloseProtocol)
        if isinstance(args, RunCommand):
            if not self._asked(args):
                self.learn(agent, "unknown command")
                return Outcome(f"Unknown command. The test bench knows: {self._command}", error=True)
            self._runs += 1
            return Outcome(self._output)
        if args.protocol.strip() != self._protocol:
            self.learn(agent, "no such protocol")
            return Outcome("No protocol of this number.", error=True)
        stands = f"the counter stands at {self._runs}, {TIMES} runs were asked for"
        if self._runs < TIMES:
            self.learn(agent, ("counter", self._runs))
            return Outcome(f"Rejected: {stands}.")
        if self._runs > TIMES:
            # What was done can not be undone: the task is over and failed.
            self.finished = True
            return Outcome(f"Closed: {stands}.")
        return self.accept(f"Accepted: {stands}.")

    def worth(self, args: Args, agent: str) -> Verdict:
        assert isinstance(args, RunCommand | CloseProtocol)
        if isinstance(args, RunCommand):
            if not self._asked(args):
                return self.first(agent, "unknown command", "that there is no such command")
            if self._runs < TIMES:
                return Verdict("requested", f"run {self._runs + 1} of the {TIMES} that the user asked for", unit=True)
            return Verdict("sterile", f"the user asked for {TIMES} runs, and there were as many")
        if args.protocol.strip() != self._protocol:
            return self.first(agent, "no such protocol", "that there is no such protocol")
        if self._runs < TIMES:
            return self.first(agent, ("counter", self._runs), "what the counter says")
        return Verdict("novel", "closes the protocol", unit=self._runs == TIMES)

    def _asked(self, args: RunCommand) -> bool:
        return " ".join(args.command.split()) == self._command
