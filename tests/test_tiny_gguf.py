"""The tiny models load, are what they claim to be, and answer differently when an early token differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import jinja2
import llama_cpp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.tiny_gguf import CHAT_TEMPLATE, WINDOW, Arch, write

ARCHES: tuple[Arch, ...] = get_args(Arch)
DECODERS: tuple[Arch, ...] = ("llama", "mamba", "hybrid", "swa")
N_VOCAB = 260
CHUNK = 64


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Arch, Any]]:
    """Each architecture's loaded model."""
    llama_cpp.llama_backend_init()
    folder = tmp_path_factory.mktemp("tiny")
    loaded = {arch: _load(write(folder / f"{arch}.gguf", arch)) for arch in ARCHES}
    yield loaded
    for model in loaded.values():
        llama_cpp.llama_model_free(model)


def _load(path: Path) -> Any:
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    assert model, f"{path} does not load"
    return model


@contextmanager
def _context(model: Any, *, embeddings: bool = False) -> Iterator[Any]:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, CHUNK, CHUNK
    params.n_threads = params.n_threads_batch = 1
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED  # it sums in half precision on CPUs
    params.swa_full = False
    params.embeddings = embeddings
    context = llama_cpp.llama_init_from_model(model, params)
    assert context
    try:
        yield context
    finally:
        llama_cpp.llama_free(context)


def _feed(context: Any, tokens: list[int]) -> None:
    """Append `tokens` to the sequence 0 of `context`, in chunks."""
    for start in range(0, len(tokens), CHUNK):
        part = _array(tokens[start : start + CHUNK])  # the batch only points to it
        assert llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(part, len(part))) == 0


def _array(tokens: list[int]) -> Any:
    return (llama_cpp.llama_token * len(tokens))(*tokens)


def _last_logits(context: Any) -> NDArray[np.float32]:
    """Shape (N_VOCAB,): the logits after the last token that was fed."""
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (N_VOCAB,)).copy()


def _fresh_logits(model: Any, tokens: list[int]) -> NDArray[np.float32]:
    """The logits after `tokens`, in a context of their own."""
    with _context(model) as context:
        _feed(context, tokens)
        return _last_logits(context)


def _history(length: int, changed: int | None = None) -> list[int]:
    """Token ids of bytes, the same in each run; `changed` is the position of a token that is another one."""
    tokens = [int(token) for token in np.random.default_rng(1).integers(0, 256, length)]
    if changed is not None:
        tokens[changed] = (tokens[changed] + 100) % 256
    return tokens


def _tokenize(model: Any, text: str, *, special: bool = False) -> list[int]:
    data = text.encode()
    room = _array([0] * (len(data) + 8))
    vocab = llama_cpp.llama_model_get_vocab(model)
    count = llama_cpp.llama_tokenize(vocab, data, len(data), room, len(room), True, special)
    assert count >= 0
    return list(room[:count])


def _detokenize(model: Any, tokens: list[int]) -> str:
    room = bytes(16 * len(tokens) + 16)
    vocab = llama_cpp.llama_model_get_vocab(model)
    count = llama_cpp.llama_detokenize(vocab, _array(tokens), len(tokens), room, len(room), False, True)
    assert count >= 0
    return room[:count].decode()


@pytest.mark.parametrize("arch", ARCHES)
def test_equal_arguments_give_equal_bytes(arch: Arch, tmp_path: Path) -> None:
    first = write(tmp_path / "a.gguf", arch, seed=3, context_length=512).read_bytes()
    assert write(tmp_path / "b.gguf", arch, seed=3, context_length=512).read_bytes() == first
    other = write(tmp_path / "a.gguf", arch, seed=4, context_length=512).read_bytes()
    assert len(other) == len(first)
    assert other != first


@pytest.mark.parametrize("arch", ARCHES)
def test_files_are_below_a_megabyte(arch: Arch, tmp_path: Path) -> None:
    length = 2048 if arch == "embedding" else 4096
    assert write(tmp_path / "model.gguf", arch, context_length=length).stat().st_size < 1_000_000


def test_context_length_is_what_was_asked_for(tmp_path: Path) -> None:
    for length in (256, 32768):
        model = _load(write(tmp_path / "model.gguf", "llama", context_length=length))
        assert llama_cpp.llama_model_n_ctx_train(model) == length
        llama_cpp.llama_model_free(model)


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("llama", (False, False, 0, False)),
        ("mamba", (True, False, 0, False)),
        ("hybrid", (False, True, 0, False)),
        ("swa", (False, False, WINDOW, False)),
        ("encoder", (False, False, 0, True)),
        ("embedding", (False, False, 0, False)),
    ],
)
def test_llama_cpp_sees_the_kind(models: dict[Arch, Any], arch: Arch, expected: tuple[bool, bool, int, bool]) -> None:
    """Expected: recurrent, hybrid, tokens in the sliding window, has an encoder."""
    model = models[arch]
    assert (
        llama_cpp.llama_model_is_recurrent(model),
        llama_cpp.llama_model_is_hybrid(model),
        llama_cpp.llama_model_n_swa(model),
        llama_cpp.llama_model_has_encoder(model),
    ) == expected
    with _context(model) as context:
        assert bool(llama_cpp.llama_get_memory(context)) == (arch != "embedding")


@pytest.mark.parametrize("arch", DECODERS)
@pytest.mark.parametrize(("length", "changed"), [(40, 0), (40, 2), (40, 20), (300, 0), (300, 150), (300, 280)])
def test_logits_depend_on_the_history(models: dict[Arch, Any], arch: Arch, length: int, changed: int) -> None:
    base = _fresh_logits(models[arch], _history(length))
    other = _fresh_logits(models[arch], _history(length, changed))
    assert np.isfinite(base).all()
    assert np.isfinite(other).all()
    assert np.abs(other - base).max() > 0.05


@pytest.mark.parametrize("arch", DECODERS)
def test_logits_do_not_depend_on_how_the_prompt_is_cut(models: dict[Arch, Any], arch: Arch) -> None:
    tokens = _history(140)
    whole = _fresh_logits(models[arch], tokens)
    with _context(models[arch]) as context:
        _feed(context, tokens[:37])
        for token in tokens[37:45]:
            _feed(context, [token])
        _feed(context, tokens[45:])
        assert np.abs(_last_logits(context) - whole).max() < 1e-3


def test_ordinary_attention_can_be_cut_anywhere(models: dict[Arch, Any]) -> None:
    head, tail = _history(600)[:100], _history(40, 5)
    with _context(models["llama"]) as context:
        _feed(context, _history(600))
        assert llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(context), 0, len(head), -1)
        _feed(context, tail)
        assert np.abs(_last_logits(context) - _fresh_logits(models["llama"], head + tail)).max() < 1e-3


@pytest.mark.parametrize("arch", ["mamba", "hybrid"])
def test_recurrent_memory_refuses_a_cut(models: dict[Arch, Any], arch: Arch) -> None:
    with _context(models[arch]) as context:
        _feed(context, _history(100))
        memory = llama_cpp.llama_get_memory(context)
        assert not llama_cpp.llama_memory_seq_rm(memory, 0, 99, -1)
        assert llama_cpp.llama_memory_seq_rm(memory, 0, 0, -1)


def test_a_cut_behind_the_window_is_granted_and_wrong(models: dict[Arch, Any]) -> None:
    """What an engine must not fall for: the cells of old tokens are gone, yet the removal answers yes."""
    head, tail = _history(600)[:100], _history(40, 5)
    with _context(models["swa"]) as context:
        _feed(context, _history(600))
        memory = llama_cpp.llama_get_memory(context)
        assert llama_cpp.llama_memory_seq_pos_min(memory, 0) > len(head)
        assert llama_cpp.llama_memory_seq_rm(memory, 0, len(head), -1)
        _feed(context, tail)
        assert np.abs(_last_logits(context) - _fresh_logits(models["swa"], head + tail)).max() > 0.05


def test_encoder_and_decoder_work(models: dict[Arch, Any]) -> None:
    """The file is whole, so that a refusal is the engine's and not the loader's."""

    def logits(tokens: list[int]) -> NDArray[np.float32]:
        with _context(models["encoder"]) as context:
            source = _array(tokens)
            assert llama_cpp.llama_encode(context, llama_cpp.llama_batch_get_one(source, len(source))) == 0
            _feed(context, [llama_cpp.llama_model_decoder_start_token(models["encoder"])])
            return _last_logits(context)

    base = logits(_history(40))
    assert np.isfinite(base).all()
    assert np.abs(logits(_history(40, 2)) - base).max() > 0.05


def test_embeddings_work(models: dict[Arch, Any]) -> None:
    def embedding(tokens: list[int]) -> NDArray[np.float32]:
        with _context(models["embedding"], embeddings=True) as context:
            _feed(context, tokens)
            width = llama_cpp.llama_model_n_embd(models["embedding"])
            return np.ctypeslib.as_array(llama_cpp.llama_get_embeddings_seq(context, 0), (width,)).copy()

    base = embedding(_history(40))
    assert np.isfinite(base).all()
    assert np.abs(embedding(_history(40, 2)) - base).max() > 0.01


@settings(deadline=None)
@given(text=st.text())
def test_any_text_comes_back_from_its_tokens(models: dict[Arch, Any], text: str) -> None:
    assert _detokenize(models["llama"], _tokenize(models["llama"], text)) == text


@pytest.mark.parametrize("arch", ARCHES)
def test_a_token_is_a_byte_or_a_control_token(models: dict[Arch, Any], arch: Arch) -> None:
    model, text = models[arch], "<|im_start|>a\n  é\t世界 😀<|im_end|>"
    assert llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)) == N_VOCAB
    assert len(_tokenize(model, text)) == len(text.encode())
    tokens = _tokenize(model, text, special=True)
    assert len(tokens) == len("a\n  é\t世界 😀".encode()) + 2
    assert _detokenize(model, tokens) == text
    vocab = llama_cpp.llama_model_get_vocab(model)
    ends = [token for token in range(N_VOCAB) if llama_cpp.llama_vocab_is_eog(vocab, token)]
    assert tokens[-1] in ends
    assert tokens[0] not in ends
    assert all(llama_cpp.llama_vocab_is_control(vocab, token) for token in (tokens[0], *ends))


@pytest.mark.parametrize("arch", ARCHES)
def test_the_chat_template_is_chatml(models: dict[Arch, Any], arch: Arch) -> None:
    template = llama_cpp.llama_model_chat_template(models[arch], None).decode()
    assert template == CHAT_TEMPLATE
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert jinja2.Template(template, keep_trailing_newline=True).render(
        messages=messages, add_generation_prompt=True
    ) == ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
