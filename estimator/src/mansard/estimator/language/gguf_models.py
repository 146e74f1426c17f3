"""A language model from the header of its GGUF files.

The metadata has names of its own for the fields of config.json, by which ``families.py`` makes
the sizes. Each key follows the architecture's name: ``llama.block_count``. They are listed in
``gguf-py/gguf/constants.py`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.families import FAMILIES, Family, draft
from mansard.estimator.language.fields import Fields
from mansard.estimator.language.gguf import GgufHeader, read_header
from mansard.estimator.language.tensors import check_shapes, expected_shapes, layout_of

#: The key of each field of config.json.
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "num_hidden_layers": "block_count",
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "vocab_size": "vocab_size",
        "max_position_embeddings": "context_length",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "head_dim": "attention.key_length",
        "rotary_dim": "rope.dimension_count",
        "sliding_window": "attention.sliding_window",
        "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
        "n_shared_experts": "expert_shared_count",
        "first_k_dense_replace": "leading_dense_block_count",
        "kv_lora_rank": "attention.kv_lora_rank",
        "q_lora_rank": "attention.q_lora_rank",
        "qk_rope_head_dim": "rope.dimension_count",
        "v_head_dim": "attention.value_length",
    }
)


def _by_architecture() -> dict[str, Family]:
    """Families by their GGUF name, without the defaults of config.json: GGUF files say all."""
    families = {
        family.name: msgspec.structs.replace(family, defaults={}) for family in FAMILIES.values()
    }
    return families | {"qwen2vl": msgspec.structs.replace(families["qwen2"], name="qwen2vl")}


ARCHITECTURES: Mapping[str, Family] = MappingProxyType(_by_architecture())


def read_gguf(path: Path) -> Architecture:
    """The language model of a GGUF file, or of all parts of one.

    Raises ModelError where the file is cut or broken, its architecture is not known, or a tensor
    is missing or has another shape than the metadata says; StorageError where it cannot be read.
    """
    header = read_header(path)
    family = _family(header)
    read = draft(_fields(header, family), family)
    layout = layout_of(header.tensors)
    shapes = {name: weight.shape for name, weight in header.tensors.items()}
    check_shapes(expected_shapes(read.architecture, layout), shapes)
    return msgspec.structs.replace(read.architecture, weights=header.tensors)


def _family(header: GgufHeader) -> Family:
    name = header.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise ModelError(
            "general.architecture is missing", fix="give a language model's .gguf file"
        )
    if name not in ARCHITECTURES:
        what = "an image encoder without its language model" if name == "clip" else repr(name)
        raise ModelError(
            f"its architecture is {what}, which is unknown",
            fix=f"known are {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]


def _fields(header: GgufHeader, family: Family) -> Fields:
    """The metadata by the names of config.json."""
    names = {field: f"{family.name}.{key}" for field, key in _KEYS.items()}
    values: dict[str, Any] = {
        field: header.metadata[key] for field, key in names.items() if key in header.metadata
    }
    embedding = header.tensors.get("token_embd.weight")
    if embedding is not None:  # its rows, where the metadata does not say
        values.setdefault("vocab_size", embedding.shape[0])
    values["tie_word_embeddings"] = "output.weight" not in header.tensors
    if "kv_lora_rank" in values:
        values |= _latent_widths(header.metadata, family.name)
    return Fields(values, names=names)


def _latent_widths(metadata: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Widths of a head's keys and values.

    Files since April 2025 state those of the cache as ``key_length`` and ``value_length``, and
    those of the heads with ``_mla`` behind: https://github.com/ggml-org/llama.cpp/pull/12801.
    """
    part = f"{name}.attention."
    widths = [
        metadata.get(f"{part}{kind}_length_mla", metadata.get(f"{part}{kind}_length"))
        for kind in ("key", "value")
    ]
    rotary = metadata.get(f"{name}.rope.dimension_count")
    if type(widths[0]) is not int or type(rotary) is not int:
        raise ModelError(f"{part}key_length or {name}.rope.dimension_count is missing")
    return {"qk_nope_head_dim": widths[0] - rotary, "v_head_dim": widths[1]}
