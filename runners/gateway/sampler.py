"""The sampler's configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Sampler(BaseModel):
    """Sampler settings with llama.cpp's names and meanings; the defaults change nothing but the temperature."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(default=0.0, ge=0, le=10, allow_inf_nan=False)
    """0 takes the most probable token (after penalties); no seed matters then."""
    top_k: int = Field(default=0, ge=0, lt=2**31)
    """0 keeps all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repeat_penalty: float = Field(default=1.0, gt=0, le=10)
    """1 is off; multiplies the logits of tokens among the last `repeat_last_n`."""
    repeat_last_n: int = Field(default=64, ge=-1, lt=2**31)
    """Tokens that the three penalties look back, prompt included; -1 is the whole context, 0 none."""
    frequency_penalty: float = Field(default=0.0, ge=-10, le=10)
    presence_penalty: float = Field(default=0.0, ge=-10, le=10)
    dry_multiplier: float = Field(default=0.0, ge=0, le=100)
    """0 is off."""
    dry_base: float = Field(default=1.75, ge=1, le=10)
    dry_allowed_length: int = Field(default=2, ge=0, lt=2**31)
    dry_last_n: int = Field(default=-1, ge=-1, lt=2**31)
    """-1 is the whole context."""
    dry_breakers: tuple[str, ...] = ("\n", ":", '"', "*")

    @property
    def penalises(self) -> bool:
        return self.repeat_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0
