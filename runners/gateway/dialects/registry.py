"""The dialects by name."""

from __future__ import annotations

from guards.errors import UserError
from runners.gateway.dialects.base import Dialect
from runners.gateway.dialects.generic import Generic
from runners.gateway.dialects.qwen_coder import Hermes, QwenCoder

_DIALECTS: dict[str, Dialect] = {one.name: one for one in (QwenCoder(), Hermes(), Generic())}

NAMES: tuple[str, ...] = tuple(_DIALECTS)


def dialect(name: str) -> Dialect:
    """The dialect of that name. Raises UserError for an unknown one."""
    if name not in _DIALECTS:
        raise UserError(f"no dialect {name!r}; known are {', '.join(NAMES)}")
    return _DIALECTS[name]


def choose(template_source: str) -> Dialect:
    """The dialect for a GGUF that no catalogue names, by its chat template's source.

    `hermes` where the template prints tools and `<tool_call>`; else `generic`, which puts the tools into plain text
    and so works with any template.
    """
    return _DIALECTS["hermes" if "tools" in template_source and "<tool_call>" in template_source else "generic"]
