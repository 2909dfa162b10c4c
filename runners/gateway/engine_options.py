"""The engine's configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MAX_SLOTS = 32


class EngineOptions(BaseModel):
    """How a model is run. Numbers are tokens where nothing else is said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_ctx: int = Field(default=8192, ge=64)
    """The window of one request: prompt and completion together."""
    slots: int = Field(default=4, ge=1, le=MAX_SLOTS)
    """Requests decoded at the same time."""
    cells: int | None = Field(default=None, ge=64)
    """KV cells shared by all sequences; None gives each `n_ctx` of its own on a CPU (`memory`), and `n_ctx` times
    `slots` to all together elsewhere."""
    batch: int | None = Field(default=None, ge=32, le=4096)
    """Tokens of one llama_decode at most; see `batch_tokens` for None."""
    threads: int | None = Field(default=None, ge=1)
    """None is the number of cores this process may use."""
    kv_type: str = "f16"
    gpu_layers: int = Field(default=-1, ge=-1)
    """-1 is all, where the build has a GPU backend."""
    deterministic: bool = False
    queue: int = Field(default=64, ge=1)
    """Requests that may wait for a slot or for cells."""
    snapshot_bytes: int = Field(default=256 * 2**20, ge=0)
    """Memory for snapshots of sequences whose memory can not be cut."""

    @property
    def batch_tokens(self) -> int:
        """`batch`; where it is None 256, and 64 in deterministic mode: prefixes are reused there in whole batches, and
        what an agent's turn computes anew of them costs more than small batches do (a seventh of a run, measured)."""
        return self.batch or (64 if self.deterministic else 256)
