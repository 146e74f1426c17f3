"""A language model with random weights as a GGUF file, for servers that the tests start.

Its architecture is llama's; its vocabulary has the 256 bytes and some words, in the form of
SentencePiece. It knows nothing: what counts is that a server loads it and runs all of its layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

N_WORDS = 740
_FIRST_WORD = 3 + 256  # behind three special tokens and the bytes
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # kinds of tokens in GGUF
_N_CONTEXT = 16384


def write_tiny_model(
    path: Path, *, n_layers: int = 2, n_embedding: int = 64, n_heads: int = 4, n_inner: int = 128
) -> Path:
    """Write the model, about 1 MB with the defaults; returns ``path``. Needs the gguf library."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(_N_CONTEXT)
    writer.add_embedding_length(n_embedding)
    writer.add_block_count(n_layers)
    writer.add_feed_forward_length(n_inner)
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(n_heads)
    writer.add_rope_dimension_count(n_embedding // n_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_vocabulary(writer)
    random = np.random.default_rng(0)
    for name, shape in _tensors(n_layers, n_embedding, n_inner):
        values = random.normal(0.0, 0.3 / np.sqrt(shape[-1]), shape)
        if name == "output.weight":
            values[:_FIRST_WORD] = 0.0  # the likeliest token is never a byte or the end
        is_norm = len(shape) == 1
        writer.add_tensor(name, (np.ones(shape) if is_norm else values).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _words() -> list[str]:
    """``▁w000`` to ``▁w739`` with the parts that SentencePiece's merges pass through."""
    whole = [f"▁w{number:03d}" for number in range(N_WORDS)]
    parts = {word[:end] for word in whole for end in range(1, 5)} | set("w0123456789")
    return [*sorted(parts, key=lambda part: (-len(part), part)), *whole]


def _add_vocabulary(writer: Any) -> None:
    words = _words()
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256, *[_NORMAL] * len(words)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(at) for at in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_vocab_size(len(tokens))
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)


def _tensors(
    n_layers: int, n_embedding: int, n_inner: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    n_vocabulary = _FIRST_WORD + len(_words())
    yield "token_embd.weight", (n_vocabulary, n_embedding)
    for layer in range(n_layers):
        yield f"blk.{layer}.attn_norm.weight", (n_embedding,)
        for part in ("q", "k", "v", "output"):
            yield f"blk.{layer}.attn_{part}.weight", (n_embedding, n_embedding)
        yield f"blk.{layer}.ffn_norm.weight", (n_embedding,)
        yield f"blk.{layer}.ffn_gate.weight", (n_inner, n_embedding)
        yield f"blk.{layer}.ffn_up.weight", (n_inner, n_embedding)
        yield f"blk.{layer}.ffn_down.weight", (n_embedding, n_inner)
    yield "output_norm.weight", (n_embedding,)
    yield "output.weight", (n_vocabulary, n_embedding)
