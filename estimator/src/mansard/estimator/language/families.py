"""Configurations of Hugging Face models become sizes, family by family.

Names and defaults of the fields are those of ``configuration_*.py`` of Transformers
(https://github.com/huggingface/transformers/tree/main/src/transformers/models). A family has the
name of its architecture in GGUF; several model types share one (mistral and mixtral are "llama").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.language.architecture import (
    Activation,
    Architecture,
    AttentionSizes,
    DecoderBlock,
    ExpertSizes,
    LatentSizes,
)
from mansard.estimator.language.fields import MAX_BLOCKS, Fields
from mansard.estimator.language.tensors import Shape, TensorLayout, expected_shapes
from mansard.estimator.language.vision import read_vision


class SizesDraft(msgspec.Struct, frozen=True):
    """An architecture whose weights are not known yet, and which tensors there will be.

    ``vision``: those of the encoder of images and its projection.
    """

    architecture: Architecture
    layout: TensorLayout
    vision: Mapping[str, Shape] = {}

    def shapes(self) -> dict[str, Shape]:
        """Every tensor by its GGUF name."""
        return expected_shapes(self.architecture, self.layout) | dict(self.vision)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """What the models of one type share, beside their sizes.

    ``name``: of the architecture in GGUF. ``windows``: of every ``windows`` blocks all but the
    last see a window only; 1: all blocks do. ``defaults``: of fields that a file may leave out.
    """

    name: str
    layout: TensorLayout = TensorLayout()
    activation: Activation = "silu"
    is_tied: bool = False
    windows: int = 1
    has_post_norms: bool = False
    has_scaled_embedding: bool = False
    defaults: Mapping[str, Any] = {}


_GEMMA = Family(name="gemma", activation="gelu_tanh", is_tied=True, has_scaled_embedding=True)

#: By ``model_type`` of config.json.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": Family(name="llama"),
        "smollm3": Family(name="smollm3", is_tied=True),
        "mistral": Family(name="llama", defaults={"num_key_value_heads": 8}),
        "mixtral": Family(name="llama", defaults={"num_key_value_heads": 8}),
        "qwen2": Family(name="qwen2", layout=TensorLayout(has_qkv_bias=True)),
        "qwen2_moe": Family(
            name="qwen2moe", layout=TensorLayout(has_qkv_bias=True, has_shared_gate=True)
        ),
        "qwen3": Family(
            name="qwen3", layout=TensorLayout(has_qk_norm=True), defaults={"head_dim": 128}
        ),
        "qwen3_moe": Family(
            name="qwen3moe", layout=TensorLayout(has_qk_norm=True), defaults={"head_dim": 128}
        ),
        "gemma": msgspec.structs.replace(_GEMMA, defaults={"head_dim": 256}),
        "gemma2": msgspec.structs.replace(
            _GEMMA,
            name="gemma2",
            windows=2,
            has_post_norms=True,
            defaults={
                "head_dim": 256,
                "attn_logit_softcapping": 50.0,
                "final_logit_softcapping": 30.0,
                "sliding_window": 4096,
            },
        ),
        "gemma3_text": msgspec.structs.replace(
            _GEMMA,
            name="gemma3",
            windows=6,
            has_post_norms=True,
            layout=TensorLayout(has_qk_norm=True),
            defaults={
                "vocab_size": 262208,
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "head_dim": 256,
                "sliding_window": 4096,
                "max_position_embeddings": 131072,
            },
        ),
        "phi3": Family(name="phi3", layout=TensorLayout(is_qkv_fused=True, is_gate_up_fused=True)),
        "deepseek_v2": Family(name="deepseek2"),
        "deepseek_v3": Family(name="deepseek2", layout=TensorLayout(has_router_bias=True)),
    }
)

_ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "relu2": "relu2",
}


#: Types of models with an encoder of images: the type of their language model, and defaults.
_WITH_VISION: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llava": (
        "llama",
        {
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    "paligemma": ("gemma", {}),
    "gemma3": ("gemma3_text", {}),
    "qwen2_vl": ("qwen2", {}),
    "qwen2_5_vl": ("qwen2", {}),
}


def read_config(config: Mapping[str, Any]) -> SizesDraft:
    """The sizes that a config.json of a language model states.

    Raises ModelError for a model type that is not known, and for sizes that cannot be.
    """
    fields = Fields(config)
    model_type = fields.text("model_type", "")
    if not model_type:
        raise ModelError(
            "config.json has no model_type",
            fix="give the folder of a language model as Hugging Face's Transformers write it",
        )
    if model_type not in _WITH_VISION:
        return _read_text(fields, model_type, {})
    text_type, defaults = _WITH_VISION[model_type]
    # Qwen's older files have the language model's fields beside those of the encoder.
    text = fields.inner("text_config") or fields
    is_tied = config.get("tie_word_embeddings")
    text_fields = Fields({"tie_word_embeddings": is_tied, **text.values}, text.prefix)
    stated = text_fields.text("model_type", text_type)
    read = _read_text(text_fields, stated if stated in FAMILIES else text_type, defaults)
    vision = read_vision(model_type, fields, read.architecture.hidden)
    if vision is None:
        return read
    architecture = msgspec.structs.replace(read.architecture, vision=vision.tower)
    return msgspec.structs.replace(read, architecture=architecture, vision=vision.shapes)


def _read_text(fields: Fields, model_type: str, defaults: Mapping[str, Any]) -> SizesDraft:
    family = FAMILIES.get(model_type)
    if family is None:
        raise ModelError(
            f"models of type {model_type!r} are unknown",
            fix=f"known are {', '.join((*FAMILIES, *_WITH_VISION))}",
        )
    stated = {name: value for name, value in fields.values.items() if value is not None}
    return draft(Fields({**family.defaults, **defaults, **stated}, fields.prefix), family)


def draft(fields: Fields, family: Family) -> SizesDraft:
    """The sizes of a model of ``family``; raises ModelError for those that cannot be."""
    n_blocks = fields.size("num_hidden_layers")
    if n_blocks > MAX_BLOCKS:
        raise fields.bad("num_hidden_layers", f"at most {MAX_BLOCKS}")
    activation = fields.text("hidden_activation", fields.text("hidden_act", family.activation))
    if family.has_scaled_embedding:  # early files of gemma say "gelu" and mean this one
        activation = "gelu_pytorch_tanh"
    if activation not in _ACTIVATIONS:
        raise fields.bad("hidden_act", f"one of {', '.join(_ACTIVATIONS)}")
    architecture = Architecture(
        family=family.name,
        hidden=fields.size("hidden_size"),
        vocabulary=fields.size("vocab_size"),
        blocks=tuple(_block(fields, family, index) for index in range(n_blocks)),
        weights={},
        is_tied=fields.flag("tie_word_embeddings", default=family.is_tied),
        activation=_ACTIVATIONS[activation],
        context=fields.optional("max_position_embeddings"),
        has_output_softcap=bool(fields.values.get("final_logit_softcapping")),
        has_scaled_embedding=family.has_scaled_embedding,
    )
    return SizesDraft(architecture, _layout(fields, family))


def _layout(fields: Fields, family: Family) -> TensorLayout:
    has_bias = fields.flag("attention_bias")
    return msgspec.structs.replace(
        family.layout,
        has_qkv_bias=family.layout.has_qkv_bias or has_bias,
        has_output_bias=has_bias,
        has_feed_forward_bias=fields.flag("mlp_bias"),
    )


def _block(fields: Fields, family: Family, index: int) -> DecoderBlock:
    experts = _experts(fields, index)
    return DecoderBlock(
        attention=_attention(fields, family, index),
        width=None if experts else fields.size("intermediate_size"),
        experts=experts,
        has_post_norms=family.has_post_norms,
    )


def _attention(fields: Fields, family: Family, index: int) -> AttentionSizes:
    n_heads = fields.size("num_attention_heads")
    if fields.optional("kv_lora_rank"):
        return _latent_attention(fields, n_heads)
    n_kv_heads = fields.size("num_key_value_heads", n_heads)
    if n_heads % n_kv_heads:
        raise fields.bad("num_key_value_heads", f"a divisor of the {n_heads} heads")
    width = fields.optional("head_dim")
    if width is None:
        width, rest = divmod(fields.size("hidden_size"), n_heads)
        if rest or not width:
            raise fields.bad("hidden_size", f"a multiple of the {n_heads} heads")
    return AttentionSizes(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_width=width,
        value_width=width,
        rotary_width=fields.size("rotary_dim", math.floor(width * _rotary_share(fields))),
        window=_window(fields, family, index),
        has_softcap=bool(fields.values.get("attn_logit_softcapping")),
    )


def _rotary_share(fields: Fields) -> float:
    """The share of a head that is rotated; Transformers 5 has it inside ``rope_parameters``."""
    share = fields.share("partial_rotary_factor", 1.0)
    rope = fields.inner("rope_parameters")
    return share if rope is None else rope.share("partial_rotary_factor", share)


def _latent_attention(fields: Fields, n_heads: int) -> AttentionSizes:
    rotary = fields.size("qk_rope_head_dim")
    return AttentionSizes(
        n_heads=n_heads,
        n_kv_heads=n_heads,
        head_width=fields.size("qk_nope_head_dim") + rotary,
        value_width=fields.size("v_head_dim"),
        rotary_width=rotary,
        latent=LatentSizes(
            key_rank=fields.size("kv_lora_rank"),
            rotary_width=rotary,
            query_rank=fields.optional("q_lora_rank"),
        ),
    )


def _window(fields: Fields, family: Family, index: int) -> int | None:
    """The window of a block: Transformers' ``layer_types``, or the rule of the family."""
    window = fields.optional("sliding_window")
    kinds = fields.list_of("layer_types", str)
    if kinds is not None:
        if index >= len(kinds):
            raise fields.bad("layer_types", "as long as there are layers")
        return window if kinds[index] == "sliding_attention" else None
    if family.name.startswith("qwen"):
        is_in = fields.flag("use_sliding_window") and index >= fields.count("max_window_layers", 28)
        return window if is_in else None
    every = fields.size("sliding_window_pattern", family.windows)
    return window if every == 1 or (index + 1) % every else None


def _experts(fields: Fields, index: int) -> ExpertSizes | None:
    """The experts of a block; None where it is dense.

    The names of the counts: ``num_local_experts`` of mixtral, ``num_experts`` of qwen,
    ``n_routed_experts`` of deepseek.
    """
    n_experts = (
        fields.optional("num_local_experts")
        or fields.optional("num_experts")
        or fields.optional("n_routed_experts")
    )
    if n_experts is None or _is_dense(fields, index):
        return None
    width = fields.optional("moe_intermediate_size") or fields.size("intermediate_size")
    shared = fields.optional("shared_expert_intermediate_size")
    n_active = fields.size("num_experts_per_tok")
    if n_active > n_experts:
        raise fields.bad("num_experts_per_tok", f"at most the {n_experts} experts")
    return ExpertSizes(
        n_experts=n_experts,
        n_active=n_active,
        width=width,
        shared_width=shared or width * fields.count("n_shared_experts", 0),
    )


def _is_dense(fields: Fields, index: int) -> bool:
    """Whether a block of a mixture is an ordinary one: the first ones of deepseek, some of qwen."""
    dense = fields.list_of("mlp_only_layers", int) or []
    if index in dense or index < fields.count("first_k_dense_replace", 0):
        return True
    if fields.optional("n_routed_experts"):
        return bool(index % fields.size("moe_layer_freq", 1))
    return bool((index + 1) % fields.size("decoder_sparse_step", 1))
