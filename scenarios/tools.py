"""Tools as a model sees them: a pydantic model of the arguments gives name, description and JSON schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

MOST_CHARACTERS = 4000
"""Longer text arguments are refused."""
MOST_PROBLEMS = 3
_SHOWN = 60


@dataclass(frozen=True)
class Tool:
    """`parameters` is the JSON schema of the arguments object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Args(BaseModel):
    """Arguments of one tool. A subclass sets `tool`; its docstring is the tool's description.

    Unknown arguments, wrong types, texts above `MOST_CHARACTERS`, lone surrogates and control characters other than tab
    and line breaks are refused.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    tool: ClassVar[str] = ""

    @field_validator("*")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) > MOST_CHARACTERS:
                raise ValueError(f"text is longer than {MOST_CHARACTERS} characters")
            if any(sign < " " and sign not in "\t\n\r" for sign in value) or "\x7f" in value:
                raise ValueError("text holds control characters")
            if any("\ud800" <= sign <= "\udfff" for sign in value):
                raise ValueError("text is not valid Unicode")
        return value

    @classmethod
    def described(cls) -> Tool:
        """The tool of these arguments."""
        schema = {
            "type": "object",
            "properties": {},
            "required": [],
            **_plain_schema(cls.model_json_schema()),
        }
        del schema["description"]
        return Tool(cls.tool, " ".join((cls.__doc__ or "").split()), schema)

    @classmethod
    def parse(cls, value: Any) -> Args | str:
        """The arguments, or what is wrong with `value` (any JSON value) in words for a model; the words are the same
        for the same mistake, whatever the size of the value."""
        if isinstance(value, dict):
            value = {name: _whole(each) for name, each in value.items()}
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            return "; ".join(_problems(error))


def names_file(given: str, path: str) -> bool:
    """Whether a path that a model gives means the file at the relative `path`: as it is, from ".", or absolute, as
    harnesses that tell their working folder have models write it."""
    given = given.strip()
    return given.removeprefix("./") == path or (given.startswith("/") and given.endswith(f"/{path}"))


def _problems(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False, include_input=False)[:MOST_PROBLEMS]:
        where = ".".join(str(step) for step in problem["loc"])
        name = where.encode("ascii", "backslashreplace").decode() or "arguments"
        name = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
        if problem["type"] == "model_type":
            yield f"{name}: must be a JSON object"
        else:
            yield f"{name}: {problem['msg'].removeprefix('Value error, ')}"


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is the integer 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic adds."""
    properties = {
        name: {key: value for key, value in each.items() if key != "title"}
        for name, each in schema.get("properties", {}).items()
    }
    return {key: value for key, value in schema.items() if key != "title"} | {"properties": properties}
