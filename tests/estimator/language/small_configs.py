"""Configurations of small models, one of each family."""

from __future__ import annotations

from typing import Any


def config(model_type: str, **more: Any) -> dict[str, Any]:
    """A small model: 2 blocks of 256, 4 heads of 64 that share 2 keys and values."""
    return {
        "model_type": model_type,
        "hidden_size": 256,
        "num_hidden_layers": 2,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 96,
        "max_position_embeddings": 1024,
        **more,
    }


MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
LATENT = {
    "kv_lora_rank": 256,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64,
    "v_head_dim": 64,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "first_k_dense_replace": 1,
}
CASES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama tied": {"tie_word_embeddings": True},
    "mistral": {},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "smollm3": {},
    "qwen2": {},
    "qwen2_moe": {**MIXTURE, "shared_expert_intermediate_size": 512},
    "qwen3": {},
    "qwen3_moe": MIXTURE,
    "gemma": {},
    "gemma2": {"sliding_window": 64},
    "gemma3_text": {"sliding_window": 64},
    "phi3": {},
    "deepseek_v2": LATENT,
    "deepseek_v3": {**LATENT, "q_lora_rank": 256},
}
