"""llama.cpp as this product sees it: a model, its vocabulary, one context of several sequences.

The only module beside `sampling` that imports llama_cpp. It adds types, bounds and errors to the low-level API and
holds no policy: which sequence gets which tokens is the engine's business.
"""

from __future__ import annotations

import ctypes
from collections import deque
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

from guards.errors import UserError

Tokens = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]


class EngineError(RuntimeError):
    """llama.cpp failed where it should not: never the user's mistake and never a model's outcome."""


class Log:
    """The last lines that llama.cpp logged, for error texts; nothing is printed."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=60)
        self._callback = llama_cpp.llama_log_callback(self._take)

    def _take(self, level: int, text: bytes, _data: object) -> None:
        self.lines.append(text.decode("utf-8", "replace"))

    def install(self) -> None:
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def errors(self) -> str:
        """The lines that speak of an error, in one line of text."""
        wanted = [line.strip() for line in self.lines if "error" in line.lower() or "fail" in line.lower()]
        return "; ".join(wanted[:3])


LOG = Log()


def build() -> str:
    """The engine build that goes into tape keys: llama-cpp-python's version fixes llama.cpp's commit."""
    return f"llama-cpp-python {llama_cpp.__version__}"


def system_info() -> str:
    """What llama.cpp says of the CPU features and backends it was compiled with."""
    return str(llama_cpp.llama_print_system_info().decode())


def supports_gpu() -> bool:
    """Whether this build can put layers on a GPU."""
    return bool(llama_cpp.llama_supports_gpu_offload())


class Model:
    """A loaded GGUF. `gpu_layers` -1 puts all layers on a GPU where the build has one."""

    def __init__(self, path: Path, *, gpu_layers: int = -1) -> None:
        LOG.install()
        LOG.lines.clear()
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = gpu_layers if gpu_layers >= 0 else 999
        handle = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not handle:
            raise UserError(f"{path}: llama.cpp can not load this model: {LOG.errors() or 'no reason given'}")
        self._handle: Any = handle
        self.path = path
        self._vocab: Any = llama_cpp.llama_model_get_vocab(handle)
        self.n_vocab = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self.n_layer = int(llama_cpp.llama_model_n_layer(handle))
        self.n_ctx_train = int(llama_cpp.llama_model_n_ctx_train(handle))
        self.gpu_layers = 0
        if supports_gpu():
            self.gpu_layers = min(params.n_gpu_layers, self.n_layer + 1)
        if not llama_cpp.llama_model_has_decoder(handle) or llama_cpp.llama_model_has_encoder(handle):
            self.close()
            raise UserError(f"{path}: not a model that continues text (it has an encoder); use a decoder-only GGUF")
        self._pieces: dict[int, bytes] = {}
        self._bytes: dict[int, int] = {}

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def vocab(self) -> Any:
        return self._vocab

    @property
    def backend(self) -> str:
        """`cpu`, or the GPU and how many of the layers lie on it, as recorded in tape keys."""
        return f"gpu {self.gpu_layers}/{self.n_layer + 1}" if self.gpu_layers else "cpu"

    @property
    def cuttable(self) -> bool:
        """Whether a sequence's memory can be cut at any position: not with a recurrent state or a sliding window."""
        return not (
            llama_cpp.llama_model_is_recurrent(self._handle)
            or llama_cpp.llama_model_is_hybrid(self._handle)
            or llama_cpp.llama_model_n_swa(self._handle) > 0
        )

    def metadata(self, key: str) -> str | None:
        """A metadata value as text; None where the file has no such key."""
        size = llama_cpp.llama_model_meta_val_str(self._handle, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        llama_cpp.llama_model_meta_val_str(self._handle, key.encode(), buffer, size + 1)
        return buffer.value.decode("utf-8", "replace")

    def special(self, token: int) -> str:
        """The text of a special token; empty for the id -1 that llama.cpp gives for a missing one."""
        return "" if token < 0 else self.piece(token).decode("utf-8", "replace")

    @property
    def bos(self) -> str:
        return self.special(llama_cpp.llama_vocab_bos(self._vocab))

    @property
    def eos(self) -> str:
        return self.special(llama_cpp.llama_vocab_eos(self._vocab))

    def ends(self, token: int) -> bool:
        """Whether the token ends a generation (any of the vocabulary's end tokens)."""
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of the text. A beginning token is added where the vocabulary wants one and the text has none.

        With `special`, the texts of control tokens become these tokens, as a chat template needs.
        """
        raw = text.encode("utf-8")
        add = bool(llama_cpp.llama_vocab_get_add_bos(self._vocab)) and not (self.bos and text.startswith(self.bos))
        room = len(raw) + 8
        buffer = (ctypes.c_int32 * room)()
        n = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), buffer, room, add, special)
        if n < 0:
            raise EngineError(f"tokenize: {-n} tokens for {len(raw)} bytes")
        return list(buffer[:n])

    def piece(self, token: int) -> bytes:
        """The bytes of a token, control tokens included; they need not be whole UTF-8 characters."""
        known = self._pieces.get(token)
        if known is None:
            buffer = ctypes.create_string_buffer(512)
            n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, 512, 0, True)
            if n < 0:
                buffer = ctypes.create_string_buffer(-n)
                n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, -n, 0, True)
            known = self._pieces[token] = buffer.raw[:n]
        return known

    def spell(self, text: str) -> list[int]:
        """The text as tokens of one byte each: what a grammar reads without regard to how a model would cut it."""
        if not self._bytes:
            for token in range(self.n_vocab):
                piece = self.piece(token)
                if len(piece) == 1:
                    self._bytes.setdefault(piece[0], token)
        try:
            return [self._bytes[byte] for byte in text.encode("utf-8")]
        except KeyError as missing:
            raise EngineError(f"{self.path}: the vocabulary has no token for byte {missing}") from None

    def close(self) -> None:
        """Frees the model; closing twice does nothing."""
        if self._handle:
            llama_cpp.llama_model_free(self._handle)
            self._handle = None
