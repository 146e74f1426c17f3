"""Names of modules in Hugging Face's files, and the GGUF names of the same weights.

As ``gguf-py/gguf/tensor_mapping.py`` of llama.cpp pairs them, for the families that are read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_PROJECTIONS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down"} | {
    # Mixtral's
    "w1": "gate",
    "w3": "up",
    "w2": "down",
}
_IN_BLOCK: Mapping[str, str] = MappingProxyType(
    {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
        **{f"self_attn.{letter}_proj": f"attn_{letter}" for letter in "qkv"},
        "self_attn.qkv_proj": "attn_qkv",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "self_attn.q_a_proj": "attn_q_a",
        "self_attn.q_a_layernorm": "attn_q_a_norm",
        "self_attn.q_b_proj": "attn_q_b",
        "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
        "self_attn.kv_a_layernorm": "attn_kv_a_norm",
        "self_attn.kv_b_proj": "attn_kv_b",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.gate_up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "mlp.gate": "ffn_gate_inp",
        "block_sparse_moe.gate": "ffn_gate_inp",
        "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
        **{
            f"mlp.{shared}.{name}": f"ffn_{kind}_shexp"
            for shared in ("shared_expert", "shared_experts")
            for name, kind in _PROJECTIONS.items()
        },
    }
)
_OUTSIDE = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
_EXPERT = re.compile(r"(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)")
_PREFIX = re.compile(r"(?:(?:model|language_model)\.)*")
_BLOCK = re.compile(r"layers\.(\d+)\.(.+)")
_VISION = re.compile(
    r"(?:model\.)*(?:vision_tower|vision_model|visual|multi_modal_projector)\.(?:vision_model\.)?"
)
_VISION_BLOCK = re.compile(r"(?:encoder\.layers|blocks)\.(\d+)\.(.+)")
_OF_ENCODER: Mapping[str, str] = MappingProxyType(
    {
        "embeddings.patch_embedding": "v.patch_embd",
        "patch_embed.proj": "v.patch_embd",
        "embeddings.position_embedding": "v.position_embd",
        "pre_layrnorm": "v.pre_ln",  # spelt so
        "post_layernorm": "v.post_ln",
        "merger.ln_q": "v.post_ln",
        "merger.mlp.0": "mm.0",
        "linear_1": "mm.0",
        "linear": "mm.0",
        "merger.mlp.2": "mm.2",
        "linear_2": "mm.2",
        "mm_soft_emb_norm": "mm.soft_emb_norm",
    }
)
_IN_ENCODER: Mapping[str, str] = MappingProxyType(
    {
        **{f"{norm}{number}": f"ln{number}" for norm in ("layer_norm", "norm") for number in "12"},
        **{f"self_attn.{letter}_proj": f"attn_{letter}" for letter in "qkv"},
        "self_attn.out_proj": "attn_out",
        "attn.proj": "attn_out",
        "attn.qkv": "attn_qkv",
        "mlp.fc1": "ffn_up",
        "mlp.fc2": "ffn_down",
        **{f"mlp.{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")},
    }
)
_ENDING = re.compile(r"(.+?)\.(weight\..+|[^.]+)")


class WeightPart(NamedTuple):
    """One stored tensor of a weight: the weight's GGUF name, and which part of it this is.

    ``part``: ``weight``, ``qweight``, ``scales`` … ``block``: None outside the blocks.
    """

    name: str
    part: str
    block: int | None


def part_of(name: str, *, has_post_norms: bool) -> WeightPart | None:
    """What a tensor is part of; None where it is none of the model's weights.

    ``has_post_norms``: gemma 2 and 3 call the norm behind the attention as others do the one
    before the feed-forward.
    """
    encoder = _VISION.match(name)
    if encoder is not None:
        return _part_of_encoder(name[encoder.end() :])
    match = _ENDING.fullmatch(name[len(_PREFIX.match(name)[0]) :])  # type: ignore[index]
    if match is None:
        return None
    module, part = match[1], match[2]
    if part == "e_score_correction_bias":
        module, part = module.removesuffix(".gate") + ".correction", "bias"
    ending = "bias" if part == "bias" else "weight"
    if module in _OUTSIDE:
        return WeightPart(f"{_OUTSIDE[module]}.{ending}", part, None)
    in_block = _BLOCK.fullmatch(module)
    if in_block is None:
        return None
    inner = _inner(in_block[2], has_post_norms=has_post_norms)
    block = int(in_block[1][:9])
    return WeightPart(f"blk.{block}.{inner}.{ending}", part, block) if inner else None


def _part_of_encoder(name: str) -> WeightPart | None:
    if name == "embeddings.class_embedding":
        return WeightPart("v.class_embd", "weight", None)
    if name == "mm_input_projection_weight":
        return WeightPart("mm.input_projection.weight", "weight", None)
    match = _ENDING.fullmatch(name)
    if match is None:
        return None
    module, part = match[1], match[2]
    ending = "bias" if part == "bias" else "weight"
    in_block = _VISION_BLOCK.fullmatch(module)
    if in_block is None:
        known = _OF_ENCODER.get(module)
    else:
        inner = _IN_ENCODER.get(in_block[2])
        known = f"v.blk.{int(in_block[1][:9])}.{inner}" if inner else None
    return WeightPart(f"{known}.{ending}", part, None) if known else None


def modules_of(name: str) -> list[str]:
    """The modules whose weights GGUF calls ``name``, as Hugging Face's files name them."""
    parts = name.split(".")
    if parts[0] != "blk":
        return [module for module, part in _OUTSIDE.items() if part == parts[0]]
    block = f"model.layers.{parts[1]}"
    names = [f"{block}.{module}" for module, part in _IN_BLOCK.items() if part == parts[2]]
    if parts[2].endswith("_exps"):
        names += [f"{block}.mlp.experts", f"{block}.block_sparse_moe.experts"]
    return names


def _inner(module: str, *, has_post_norms: bool) -> str | None:
    if module == "mlp.correction":
        return "exp_probs_b"
    if has_post_norms and module == "post_attention_layernorm":
        return "post_attention_norm"
    expert = _EXPERT.fullmatch(module)
    if expert is not None:
        kind = _PROJECTIONS.get(expert[2])
        return f"ffn_{kind}_exps" if kind else None
    return _IN_BLOCK.get(module)
