"""What the configuration of every guard has in common: all keys known, every error one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NoReturn, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from guards.errors import UserError
from guards.json_text import dump


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# To JavaScript 6.0 is the integer 6.
Integer = Annotated[int, BeforeValidator(_whole)]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Flag = Annotated[bool, Field(description="true or false")]


class GuardConfig(BaseModel):
    """The keys of one guard: attributes in snake_case, keys in camelCase. A key's description says what is allowed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    guard: ClassVar[str]

    @classmethod
    def load(cls, settings: Mapping[str, Any]) -> Self:
        """The configuration with defaults filled in. Raises UserError naming key, value and what is allowed."""
        try:
            config = cls.model_validate(dict(settings))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                known = ", ".join(field.alias or name for name, field in cls.model_fields.items())
                raise UserError(
                    f'{cls.guard}: unknown key "{key}" (value {_show(settings[key])}); allowed keys: {known}'
                ) from None
            cls.refuse(key, settings[key])
        config.check()
        return config

    @classmethod
    def refuse(cls, key: str, value: Any, note: str = "") -> NoReturn:
        """Raises the UserError for a key's value; `note` follows what is allowed."""
        allowed = next(field.description for field in cls.model_fields.values() if field.alias == key)
        raise UserError(f"{cls.guard}: {key} is {_show(value)}; allowed: {allowed}{note}")

    def check(self) -> None:
        """Rules between keys; raises UserError."""

    def effective(self) -> dict[str, Any]:
        """Every key with its value in force, as JSON values; keys of a base engine that were not given are absent."""
        dumped = self.model_dump(by_alias=True, exclude_none=True)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dumped.items()}


def _show(value: Any) -> str:
    try:
        text = dump(value)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
