"""Tiny GGUF files with random weights, one for each kind of memory that llama.cpp knows (a test aid).

The models are not trained: what they say is noise. The noise depends clearly on the whole history, so that an engine
which reuses a wrong cache is caught by comparing logits. Keys and tensors are those which llama.cpp's loader asks of
each architecture; weights are float32 and depend on the seed and the tensor's name alone.

The vocabulary is the same everywhere: one token a byte (GPT-2 byte symbols, token ids not in byte order), then
`<|endoftext|>`, `<|im_start|>` and `<|im_end|>` (end of generation) as control tokens. No begin token is added.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from gguf import GGUFWriter, TokenType

Arch = Literal["llama", "mamba", "hybrid", "swa", "encoder", "embedding"]

WINDOW = 16
"""Tokens that a sliding-window layer of `swa` sees, its own token included."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_EMBEDDING, _FEED_FORWARD = 64, 96
_HEADS, _KV_HEADS, _HEAD_SIZE = 2, 1, 32
_CONVOLUTION = 4  # tokens under the short convolution of a recurrent layer, its own included


def write(path: Path, arch: Arch, *, seed: int = 0, context_length: int = 4096) -> Path:
    """Write one tiny model to `path` (replaced when it exists) and return `path`.

    `llama`: ordinary attention. `mamba`: recurrent layers only. `hybrid`: `qwen35`, gated delta-net layers around one
    attention layer. `swa`: `gemma3`, two layers that see `WINDOW` tokens below one that sees all. `encoder`: `t5`, an
    encoder and a decoder. `embedding`: `bert`, which has no memory and gives no logits. Files are below 1 MB, but for
    `embedding`, which has a table of `context_length` (tokens) positions. Equal arguments give equal bytes.
    """
    name, layers, build = _BUILDERS[arch]
    model = _Model(path, name, layers, context_length, seed)
    writer = model.writer
    writer.add_name(f"tiny-{arch}-{seed}")
    writer.add_file_type(0)  # all float32
    writer.add_context_length(context_length)
    writer.add_embedding_length(_EMBEDDING)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_block_count(layers)
    _add_vocabulary(writer)
    build(model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class _Model:
    """A GGUF file in the making: float32 tensors drawn from the seed and their names, row-major (out, in)."""

    def __init__(self, path: Path, arch: str, layers: int, context_length: int, seed: int) -> None:
        self.writer = GGUFWriter(path, arch)
        self.arch = arch
        self.layers = layers
        self.context_length = context_length
        self._seed = seed

    def _random(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, zlib.crc32(name.encode())])

    def matrix(self, name: str, out: int, inner: int, gain: float = 1.0) -> None:
        """`name`.weight of shape (out, inner), normal, scaled so that it keeps the size of its input times `gain`."""
        self._put(f"{name}.weight", self._random(name).standard_normal((out, inner)) * gain / np.sqrt(inner))

    def norm(self, name: str, size: int, *, bias: bool = False) -> None:
        """`name`.weight of shape (size,), near one, and with `bias` `name`.bias, near zero."""
        random = self._random(name)
        self._put(f"{name}.weight", random.uniform(0.8, 1.2, size))
        if bias:
            self._put(f"{name}.bias", random.uniform(-0.1, 0.1, size))

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> None:
        """The tensor `name` (full name, suffix included) with entries from [low, high)."""
        self._put(name, self._random(name).uniform(low, high, shape))

    def _put(self, name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        self.writer.add_tensor(name, values.astype(np.float32))

    def embeddings(self) -> None:
        """Input embeddings with entries of size one, as large as what a layer adds: neither drowns the other."""
        self.matrix("token_embd", len(_tokens()), _EMBEDDING, gain=np.sqrt(_EMBEDDING))

    def head(self) -> None:
        """Final norm and an output matrix of its own (tied ones would let the last token alone decide)."""
        self.norm("output_norm", _EMBEDDING)
        self.matrix("output", len(_tokens()), _EMBEDDING, gain=3.0)

    def attention(self, stem: str, *, gated: bool = False, kv_heads: int = _KV_HEADS, out: str = "output") -> None:
        """Query, key, value and output matrices; `gated` doubles the queries' rows (query and gate in turn, by head).

        Values have a gain above one: attention takes a mean over the history, in which a single token hardly shows.
        """
        inner = _HEADS * _HEAD_SIZE
        self.matrix(f"{stem}_q", inner * (2 if gated else 1), _EMBEDDING)
        self.matrix(f"{stem}_k", kv_heads * _HEAD_SIZE, _EMBEDDING)
        self.matrix(f"{stem}_v", kv_heads * _HEAD_SIZE, _EMBEDDING, gain=2.0)
        self.matrix(f"{stem}_{out}", _EMBEDDING, inner)

    def feed_forward(self, prefix: str, *, gate: bool = True) -> None:
        if gate:
            self.matrix(f"{prefix}.ffn_gate", _FEED_FORWARD, _EMBEDDING)
        self.matrix(f"{prefix}.ffn_up", _FEED_FORWARD, _EMBEDDING)
        self.matrix(f"{prefix}.ffn_down", _EMBEDDING, _FEED_FORWARD)


def _build_llama(model: _Model) -> None:
    _add_attention_keys(model.writer)
    model.writer.add_rope_dimension_count(_HEAD_SIZE)
    model.embeddings()
    for layer in range(model.layers):
        block = f"blk.{layer}"
        model.norm(f"{block}.attn_norm", _EMBEDDING)
        model.attention(f"{block}.attn")
        model.norm(f"{block}.ffn_norm", _EMBEDDING)
        model.feed_forward(block)
    model.head()


def _build_mamba(model: _Model) -> None:
    inner, state, rank = 2 * _EMBEDDING, 16, 4  # the loader takes no other inner size
    model.writer.add_layer_norm_rms_eps(1e-5)
    _add_ssm_keys(model.writer, inner=inner, state=state, rank=rank)
    model.embeddings()
    for layer in range(model.layers):
        block = f"blk.{layer}"
        model.norm(f"{block}.attn_norm", _EMBEDDING)
        model.matrix(f"{block}.ssm_in", 2 * inner, _EMBEDDING)
        model.matrix(f"{block}.ssm_conv1d", inner, _CONVOLUTION, gain=2.0)
        model.uniform(f"{block}.ssm_conv1d.bias", (inner,), -0.1, 0.1)
        model.matrix(f"{block}.ssm_x", rank + 2 * state, inner, gain=2.0)
        model.matrix(f"{block}.ssm_dt", inner, rank)
        model.uniform(f"{block}.ssm_dt.bias", (inner,), -2.0, -0.5)
        # A step keeps exp(step size * a) of the state, which is near one: an early token stays visible for hundreds.
        model.uniform(f"{block}.ssm_a", (inner, state), -0.1, -0.002)
        model.uniform(f"{block}.ssm_d", (inner,), 0.5, 1.0)
        model.matrix(f"{block}.ssm_out", _EMBEDDING, inner)
    model.head()


def _build_hybrid(model: _Model) -> None:
    groups, heads, size = 2, 4, 16  # key heads, value heads, width of each
    keys, values = groups * size, heads * size
    writer = model.writer
    _add_attention_keys(writer)
    _add_ssm_keys(writer, inner=values, state=size, rank=heads)
    writer.add_ssm_group_count(groups)
    writer.add_uint32(f"{model.arch}.full_attention_interval", 2)  # recurrent, attention, recurrent
    writer.add_rope_dimension_count(_HEAD_SIZE // 2)
    writer.add_rope_dimension_sections([4, 2, 2, 0])
    model.embeddings()
    for layer in range(model.layers):
        block = f"blk.{layer}"
        model.norm(f"{block}.attn_norm", _EMBEDDING)
        model.norm(f"{block}.post_attention_norm", _EMBEDDING)
        if layer % 2:
            model.attention(f"{block}.attn", gated=True)
            model.norm(f"{block}.attn_q_norm", _HEAD_SIZE)
            model.norm(f"{block}.attn_k_norm", _HEAD_SIZE)
        else:
            model.matrix(f"{block}.attn_qkv", 2 * keys + values, _EMBEDDING)
            model.matrix(f"{block}.attn_gate", values, _EMBEDDING)
            model.matrix(f"{block}.ssm_conv1d", 2 * keys + values, _CONVOLUTION, gain=2.0)
            model.uniform(f"{block}.ssm_dt.bias", (heads,), -2.0, -0.5)
            model.uniform(f"{block}.ssm_a", (heads,), -0.1, -0.002)  # as in mamba: a slow decay
            model.matrix(f"{block}.ssm_beta", heads, _EMBEDDING)
            model.matrix(f"{block}.ssm_alpha", heads, _EMBEDDING)
            model.norm(f"{block}.ssm_norm", size)
            model.matrix(f"{block}.ssm_out", _EMBEDDING, values)
        model.feed_forward(block)
    model.head()


def _build_swa(model: _Model) -> None:
    _add_attention_keys(model.writer)
    model.writer.add_sliding_window(WINDOW)
    # The last layer of each such group sees all.
    model.writer.add_uint32(f"{model.arch}.attention.sliding_window_pattern", model.layers)
    # Gemma multiplies embeddings by the square root of their width; this undoes it.
    model.matrix("token_embd", len(_tokens()), _EMBEDDING)
    for layer in range(model.layers):
        block = f"blk.{layer}"
        model.norm(f"{block}.attn_norm", _EMBEDDING)
        model.attention(f"{block}.attn")
        model.norm(f"{block}.attn_q_norm", _HEAD_SIZE)
        model.norm(f"{block}.attn_k_norm", _HEAD_SIZE)
        model.norm(f"{block}.post_attention_norm", _EMBEDDING)
        model.norm(f"{block}.ffn_norm", _EMBEDDING)
        model.feed_forward(block)
        model.norm(f"{block}.post_ffw_norm", _EMBEDDING)
    model.head()


def _build_encoder(model: _Model) -> None:
    buckets = 32
    writer = model.writer
    _add_attention_keys(writer, kv_heads=_HEADS)
    writer.add_relative_attn_buckets_count(buckets)
    writer.add_decoder_start_token_id(_tokens().index("<|endoftext|>"))
    model.embeddings()
    for side in ("enc", "dec"):
        for layer in range(model.layers):
            block = f"{side}.blk.{layer}"
            model.norm(f"{block}.attn_norm", _EMBEDDING)
            model.attention(f"{block}.attn", kv_heads=_HEADS, out="o")
            model.uniform(f"{block}.attn_rel_b.weight", (buckets, _HEADS), -1.0, 1.0)
            if side == "dec":
                model.norm(f"{block}.cross_attn_norm", _EMBEDDING)
                model.attention(f"{block}.cross_attn", kv_heads=_HEADS, out="o")
            model.norm(f"{block}.ffn_norm", _EMBEDDING)
            model.feed_forward(block)
        model.norm(f"{side}.output_norm", _EMBEDDING)
    model.matrix("output", len(_tokens()), _EMBEDDING)


def _build_embedding(model: _Model) -> None:
    writer = model.writer
    writer.add_head_count(_HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    writer.add_uint32(f"{model.arch}.pooling_type", 1)  # mean
    writer.add_token_type_count(1)
    model.embeddings()
    model.norm("token_embd_norm", _EMBEDDING, bias=True)
    model.matrix("token_types", 1, _EMBEDDING)
    model.matrix("position_embd", model.context_length, _EMBEDDING)
    for layer in range(model.layers):
        block = f"blk.{layer}"
        model.attention(f"{block}.attn", kv_heads=_HEADS)
        model.norm(f"{block}.attn_output_norm", _EMBEDDING, bias=True)
        model.feed_forward(block, gate=False)
        model.norm(f"{block}.layer_output_norm", _EMBEDDING, bias=True)


_BUILDERS: dict[Arch, tuple[str, int, Callable[[_Model], None]]] = {
    "llama": ("llama", 3, _build_llama),
    "mamba": ("mamba", 3, _build_mamba),
    "hybrid": ("qwen35", 3, _build_hybrid),
    "swa": ("gemma3", 3, _build_swa),
    "encoder": ("t5", 2, _build_encoder),
    "embedding": ("bert", 2, _build_embedding),
}


def _add_attention_keys(writer: GGUFWriter, kv_heads: int = _KV_HEADS) -> None:
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(_HEAD_SIZE)
    writer.add_value_length(_HEAD_SIZE)
    writer.add_layer_norm_rms_eps(1e-5)


def _add_ssm_keys(writer: GGUFWriter, *, inner: int, state: int, rank: int) -> None:
    writer.add_ssm_conv_kernel(_CONVOLUTION)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)


def _add_vocabulary(writer: GGUFWriter) -> None:
    tokens = _tokens()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if token in _CONTROL else TokenType.NORMAL for token in tokens])
    # llama.cpp wants at least one merge, and its writer drops an empty list: this one joins two NUL bytes.
    writer.add_token_merges([f"{_byte_symbol(0)} {_byte_symbol(0)}"])
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_pad_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _tokens() -> list[str]:
    """The vocabulary in the order of token ids: 256 byte symbols in code point order, two NUL bytes, control tokens."""
    return [*sorted(map(_byte_symbol, range(256))), 2 * _byte_symbol(0), *_CONTROL]


def _byte_symbol(byte: int) -> str:
    """GPT-2's printable stand-in for a byte: a printable Latin-1 character stands for itself, the others, in order, for
    the code points from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(256 + [other for other in range(256) if other not in printable].index(byte))
