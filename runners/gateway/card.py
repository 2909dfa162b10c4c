"""What a model is to the gateway, apart from its weights: all that is needed to serve its tape without the file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from guards.errors import UserError
from runners.gateway.sampler import Sampler


class ModelCard(BaseModel):
    """A model as it is served. Stored in the tape; every field but `name` and `sampler` goes into tape keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    sha256: str
    template: str
    """The chat template's source."""
    bos: str
    eos: str
    dialect: str
    window: int
    """Most tokens of prompt and completion together."""
    engine: str
    backend: str
    kv_type: str
    deterministic: bool
    sampler: Sampler
    """Used where an episode names none."""

    @classmethod
    def read(cls, value: dict[str, Any], where: str) -> ModelCard:
        """Raises UserError where a tape's card is not one."""
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{where}: model card: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
