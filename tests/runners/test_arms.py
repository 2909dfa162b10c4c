"""Arms by name, over the guards of a stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from guards.errors import UserError
from guards.stack import Stack, StackGuard, default_stack
from runners.arms import NULL, PLAIN, REMINDER, SAMPLER_ARMS, Arm, Mount, parse_arm, parse_arms
from runners.gateway.sampler import Sampler

STACK = default_stack()
NAMES = tuple(guard.name for guard in STACK.guards)


def mounts(text: str, stack: Stack = STACK) -> list[str]:
    return [str(mount) for mount in parse_arm(text, stack).mounts]


@pytest.mark.parametrize(
    ("text", "mounted"),
    [
        ("off", []),
        ("stock", [f"{REMINDER}@host"]),
        ("null", [f"{NULL}@host", f"{NULL}@agent"]),
        ("host", [f"{name}@host" for name in NAMES]),
        ("agent", [f"{name}@agent" for name in NAMES]),
        ("both", [f"{name}@{plane}" for plane in ("host", "agent") for name in NAMES]),
        *((f"only:{name}@{plane}", [f"{name}@{plane}"]) for name in NAMES for plane in ("host", "agent")),
        *((name, []) for name in SAMPLER_ARMS),
    ],
)
def test_what_an_arm_mounts(text: str, mounted: list[str]) -> None:
    arm = parse_arm(text, STACK)
    assert (arm.name, [str(mount) for mount in arm.mounts]) == (text, mounted)
    assert dict(arm.sampler) == dict(SAMPLER_ARMS.get(text, {}))


def test_a_smaller_stack_has_smaller_arms() -> None:
    stack = Stack("s", (StackGuard("loop-guard"),))
    assert mounts("both", stack) == ["loop-guard@host", "loop-guard@agent"]
    assert mounts("stock", stack) == [f"{REMINDER}@host"]
    with pytest.raises(UserError, match=r"GUARD one of loop-guard$"):
        parse_arm("only:circuit-breaker@host", stack)
    with pytest.raises(UserError, match=r"GUARD one of none: the stack is empty$"):
        parse_arm("only:circuit-breaker@host", Stack("s", ()))


def test_a_guard_s_name_may_hold_an_at_sign() -> None:
    stack = Stack("s", (StackGuard("@someone/guard", path=Path("x")),))
    assert parse_arm("only:@someone/guard@agent", stack).mounts == (Mount("@someone/guard", "agent"),)


def test_the_control_guard_s_name_is_taken() -> None:
    """Else someone else's plugin of that name would silently be replaced by ours."""
    with pytest.raises(UserError, match="stack s: 'null' is the control guard's name"):
        parse_arm("host", Stack("s", (StackGuard("null", path=Path("x")),)))


@pytest.mark.parametrize("name", SAMPLER_ARMS)
def test_sampler_arms_are_samplers_and_differ_from_the_default(name: str) -> None:
    assert Sampler.model_validate(SAMPLER_ARMS[name]) != Sampler()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Off",
        "none",
        "only",
        "only:",
        "only:@host",
        "only:loop-guard",
        "only:loop-guard@",
        "only:loop-guard@both",
        "only:null@host",
        "only:nothing@host",
        "loop-guard@host",
        "host agent",
    ],
)
def test_what_is_no_arm(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_arm(text, STACK)
    assert str(error.value).startswith(f"--arms: {text!r} is no arm; use {', '.join(PLAIN)}, only:GUARD@host")
    assert str(error.value).endswith(f"GUARD one of {', '.join(NAMES)}")


def test_a_list_of_arms() -> None:
    assert parse_arms(" off, only:loop-guard@host ,", STACK) == (
        Arm("off"),
        Arm("only:loop-guard@host", (Mount("loop-guard", "host"),)),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "name at least one arm"),
        (" , ", "name at least one arm"),
        ("off,host,off", "'off' stands there twice"),
        ("off,nothing", "'nothing' is no arm"),
    ],
)
def test_a_bad_list(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_arms(text, STACK)
