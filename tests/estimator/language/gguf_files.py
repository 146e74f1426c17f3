"""Tiny GGUF files of any family, written by llama.cpp's own library from the sizes of a config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mansard.core.weight_formats import WEIGHT_FORMATS
from mansard.estimator.language.families import read_config
from mansard.estimator.language.tensors import TensorLayout, expected_shapes
from tests.inference import tiny_language_model

gguf = pytest.importorskip("gguf", reason="the library gguf is not installed (make llm)")

N_TOKENS = 3 + 256 + len(tiny_language_model._words())
_TYPES = {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}


def metadata(writer: Any, sizes: Mapping[str, Any]) -> None:
    """The keys of the architecture that converters write."""
    writer.add_block_count(sizes["num_hidden_layers"])
    writer.add_embedding_length(sizes["hidden_size"])
    writer.add_feed_forward_length(sizes["intermediate_size"])
    writer.add_context_length(sizes["max_position_embeddings"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_head_count(sizes["num_attention_heads"])
    is_shared = "kv_lora_rank" in sizes and not sizes.get("is_old")  # all heads share the cache
    writer.add_head_count_kv(1 if is_shared else sizes["num_key_value_heads"])
    if "kv_lora_rank" in sizes:
        _latent_metadata(writer, sizes)
    else:
        writer.add_key_length(sizes["head_dim"])
        writer.add_value_length(sizes["head_dim"])
        writer.add_rope_dimension_count(sizes["head_dim"])
    if sizes["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)
    if sizes.get("sliding_window"):
        writer.add_sliding_window(sizes["sliding_window"])
    experts = sizes.get("num_experts") or sizes.get("num_local_experts")
    if experts or sizes.get("n_routed_experts"):
        writer.add_expert_count(experts or sizes["n_routed_experts"])
        writer.add_expert_used_count(sizes["num_experts_per_tok"])
    if sizes.get("moe_intermediate_size"):
        writer.add_expert_feed_forward_length(sizes["moe_intermediate_size"])
    if sizes.get("shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(sizes["shared_expert_intermediate_size"])


def _latent_metadata(writer: Any, sizes: Mapping[str, Any]) -> None:
    rotary, rank = sizes["qk_rope_head_dim"], sizes["kv_lora_rank"]
    width = sizes["qk_nope_head_dim"] + rotary
    writer.add_kv_lora_rank(rank)
    if sizes.get("q_lora_rank"):
        writer.add_q_lora_rank(sizes["q_lora_rank"])
    writer.add_rope_dimension_count(rotary)
    if sizes.get("is_old"):  # before April 2025
        writer.add_key_length(width)
        writer.add_value_length(sizes["v_head_dim"])
    else:
        writer.add_key_length(rank + rotary)
        writer.add_value_length(rank)
        writer.add_key_length_mla(width)
        writer.add_value_length_mla(sizes["v_head_dim"])
    writer.add_leading_dense_block_count(sizes["first_k_dense_replace"])
    writer.add_expert_shared_count(sizes["n_shared_experts"])
    writer.add_expert_weights_scale(1.0)
    if sizes["model_type"] == "deepseek_v3":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def layout(sizes: Mapping[str, Any]) -> TensorLayout:
    """The layout of a converted file: newer ones store the halves of ``attn_kv_b`` apart."""
    is_split = "kv_lora_rank" in sizes and not sizes.get("is_old")
    return msgspec.structs.replace(read_config(sizes).layout, has_split_latent=is_split)


def _vocabulary(writer: Any, n_tokens: int, *, is_runnable: bool) -> None:
    if is_runnable:
        tiny_language_model._add_vocabulary(writer)
    else:
        writer.add_token_list([f"token {index}" for index in range(n_tokens)])
        writer.add_token_scores([0.0] * n_tokens)


def write(
    path: Path,
    sizes: Mapping[str, Any],
    matrices: str = "Q4_K",
    *,
    parts: int = 0,
    told: Mapping[str, Any] | None = None,
    architecture: str | None = None,
    extra: Mapping[str, tuple[int, ...]] | None = None,
    without: str = "",
    is_runnable: bool = False,
) -> Path:
    """A file of the sizes of ``sizes``: zeros as ``matrices``, other tensors as fp32.

    ``parts``: tensors of each of several files; 0: one file. ``told``: what the metadata says
    instead. ``extra``: more tensors. ``is_runnable``: with the vocabulary that llama.cpp needs, of
    ``N_TOKENS``.
    """
    read = read_config(sizes)
    writer = gguf.GGUFWriter(
        path, architecture or read.architecture.family, split_max_tensors=parts
    )
    metadata(writer, told or sizes)
    _vocabulary(writer, sizes["vocab_size"], is_runnable=is_runnable)
    shapes = expected_shapes(read.architecture, layout(sizes)) | dict(extra or {})
    shapes.pop(without, None)
    for name, shape in shapes.items():
        kind = matrices if len(shape) > 1 and "ffn_gate_inp" not in name else "fp32"
        if shape[-1] % WEIGHT_FORMATS[kind].block_elements:
            kind = "fp16"
        form = WEIGHT_FORMATS[kind]
        row_bytes = shape[-1] // form.block_elements * form.block_bytes
        writer.add_tensor(
            name,
            np.zeros((*shape[:-1], row_bytes), np.uint8),
            raw_dtype=gguf.GGMLQuantizationType[_TYPES.get(kind, kind)],
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
