"""A model's own chat template, from the GGUF metadata, rendered as transformers and llama.cpp render it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser

from guards.errors import UserError
from runners.gateway.template_budget import Budget, TemplateLimit
from runners.gateway.template_sandbox import BoundedEnvironment

NOW = datetime(2025, 1, 1, 12, 0, 0)
"""What `strftime_now` tells a template, on every machine and every day: nothing volatile may reach a prompt."""
SOURCE_LIMIT = 256 * 1024
"""Characters of template source; the longest known chat templates have about 20,000."""
INDENT_LIMIT = 64


class TemplateRefusal(UserError):
    """The template itself refused the conversation with `raise_exception`; `reason` is its text."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"chat template {name} refuses the conversation: {_line(reason)}")
        self.reason = reason


class ChatTemplate:
    """A compiled chat template.

    `source` is the Jinja text, `bos` and `eos` the texts of those tokens ("" where the model has none), `name` what
    error messages call the template (a model's name). Raises UserError when the source does not compile.
    A rendering is a pure function of the arguments: no clock, no randomness, no addresses.
    """

    def __init__(self, source: str, bos: str = "", eos: str = "", *, name: str = "(unnamed)") -> None:
        self.source = source
        self.bos = bos
        self.eos = eos
        self.name = name
        if len(source) > SOURCE_LIMIT:
            raise TemplateLimit(f"chat template {name}: more than {SOURCE_LIMIT} characters of source")
        self._environment = BoundedEnvironment([_Generation])
        self._environment.add_filter("tojson", _tojson)
        self._environment.globals |= {"raise_exception": self._refuse, "strftime_now": _strftime_now}
        self._environment.spend(Budget(name, ()))
        try:
            self._template = self._environment.from_string(source)
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, SyntaxError) as error:
            raise UserError(f"chat template {name} does not compile: {_line(error)}; use another GGUF") from error
        except (RecursionError, MemoryError) as error:
            raise TemplateLimit(f"chat template {name}: nested too deeply to compile; use another GGUF") from error

    @property
    def digest(self) -> str:
        """sha256 of the source, UTF-8, in hex."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        **extra: Any,
    ) -> str:
        """The prompt text for messages in the chat-completions shape; `tools` None means that there are none.

        `extra` gives further variables (such as `enable_thinking`). Raises TemplateRefusal when the template calls
        `raise_exception`, TemplateLimit when it crosses a bound, UserError for anything else that goes wrong in it.
        """
        budget = Budget(self.name, (list(messages), list(tools or ())))
        self._environment.spend(budget)
        values = {
            "messages": list(messages),
            "tools": list(tools) if tools else None,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos,
            "eos_token": self.eos,
            **extra,
        }
        try:
            return "".join(self._template.generate(values))
        except UserError:
            raise
        except RecursionError as error:
            raise budget.cross("recursion too deep") from error
        except MemoryError as error:
            raise budget.cross("out of memory") from error
        except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UserError(f"chat template {self.name} fails: {_line(error)}; use another model or dialect") from error

    def _refuse(self, message: object = "") -> None:
        raise TemplateRefusal(self.name, message if isinstance(message, str) else type(message).__name__)


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}`, which marks what the assistant wrote; for a prompt just its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """transformers' `tojson`: plain `json.dumps`, not escaped for HTML, non-ASCII characters as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(form: str) -> str:
    return NOW.strftime(str(form)[:64])


def _line(error: object) -> str:
    """One line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
