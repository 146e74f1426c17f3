"""Tiny GGUF files of any family, written by llama.cpp's own library from the sizes of a config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mansard.core.weight_formats import WEIGHT_FORMATS
from mansard.estimator.language.families import read_config
from mansard.estimator.language.tensors import expected_shapes

gguf = pytest.importorskip("gguf", reason="the library gguf is not installed (make llm)")

_TYPES = {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}


def metadata(writer: Any, sizes: Mapping[str, Any]) -> None:
    """The keys of the architecture that converters write."""
    writer.add_block_count(sizes["num_hidden_layers"])
    writer.add_embedding_length(sizes["hidden_size"])
    writer.add_feed_forward_length(sizes["intermediate_size"])
    writer.add_context_length(sizes["max_position_embeddings"])
    writer.add_head_count(sizes["num_attention_heads"])
    writer.add_head_count_kv(sizes["num_key_value_heads"])
    if "kv_lora_rank" in sizes:
        _latent_metadata(writer, sizes)
    else:
        writer.add_key_length(sizes["head_dim"])
        writer.add_value_length(sizes["head_dim"])
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
    writer.add_kv_lora_rank(rank)
    if sizes.get("q_lora_rank"):
        writer.add_q_lora_rank(sizes["q_lora_rank"])
    writer.add_rope_dimension_count(rotary)
    writer.add_key_length(rank + rotary)
    writer.add_value_length(rank)
    writer.add_key_length_mla(sizes["qk_nope_head_dim"] + rotary)
    writer.add_value_length_mla(sizes["v_head_dim"])
    writer.add_leading_dense_block_count(sizes["first_k_dense_replace"])
    writer.add_expert_shared_count(sizes["n_shared_experts"])


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
) -> Path:
    """A file of the sizes of ``sizes``: zeros as ``matrices``, other tensors as fp32.

    ``parts``: tensors of each of several files; 0: one file. ``told``: what the metadata says
    instead. ``extra``: more tensors.
    """
    read = read_config(sizes)
    writer = gguf.GGUFWriter(
        path, architecture or read.architecture.family, split_max_tensors=parts
    )
    metadata(writer, told or sizes)
    writer.add_token_list([f"token {index}" for index in range(sizes["vocab_size"])])
    writer.add_token_scores([0.0] * sizes["vocab_size"])
    shapes = expected_shapes(read.architecture, read.layout) | dict(extra or {})
    shapes.pop(without, None)
    for name, shape in shapes.items():
        kind = matrices if len(shape) > 1 and "ffn_gate_inp" not in name else "fp32"
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
