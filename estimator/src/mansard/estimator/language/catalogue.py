"""Public language models by name: what their config.json says, and the parameters they publish.

Sizes are facts of the files ``config.json`` beside the weights, parameters those of the index of
the weights (``model.safetensors.index.json``, or the count that the model's page shows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import UsageError
from mansard.core.weight_formats import WEIGHT_FORMATS
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.families import read_config
from mansard.estimator.language.tensors import stored_weights


class PublicModel(msgspec.Struct, frozen=True):
    """``config``: what its config.json says of sizes. ``page``: its model card.

    ``n_parameters``: of all weights, as published; matrices that are used twice count once.
    """

    page: str
    n_parameters: int
    config: Mapping[str, Any]


def _config(
    model_type: str,
    sizes: tuple[int, int, int],
    heads: tuple[int, int],
    vocabulary: int,
    context: int,
    **more: Any,
) -> dict[str, Any]:
    """A config.json. ``sizes``: hidden, blocks, feed-forward. ``heads``: of queries, of keys."""
    return {
        "model_type": model_type,
        **dict(zip(("hidden_size", "num_hidden_layers", "intermediate_size"), sizes, strict=True)),
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        **more,
    }


def _with_vision(model_type: str, text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    return {"model_type": model_type, "text_config": text, "vision_config": vision}


_SIGLIP = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
_CLIP = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 336,
}
_QWEN_VISION = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
_TIED = {"tie_word_embeddings": True}
_QWEN3 = {"head_dim": 128}
_EXPERTS_30B = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
_DEEPSEEK_LITE = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
}
_GEMMA3 = {"head_dim": 256, "sliding_window": 1024}


def _gemma3(
    sizes: tuple[int, int, int], heads: tuple[int, int], vocabulary: int, context: int
) -> dict[str, Any]:
    text = _config("gemma3_text", sizes, heads, vocabulary, context, **_GEMMA3)
    return _with_vision("gemma3", text, {**_SIGLIP, "image_size": 896})


_MODELS: Mapping[str, tuple[str, int, dict[str, Any]]] = {
    "tinyllama-1.1b": (
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        1_100_048_384,
        _config("llama", (2048, 22, 5632), (32, 4), 32000, 2048),
    ),
    "smollm2-135m": (
        "HuggingFaceTB/SmolLM2-135M",
        134_515_008,
        _config("llama", (576, 30, 1536), (9, 3), 49152, 8192, **_TIED),
    ),
    "smollm2-360m": (
        "HuggingFaceTB/SmolLM2-360M",
        361_821_120,
        _config("llama", (960, 32, 2560), (15, 5), 49152, 8192, **_TIED),
    ),
    "smollm2-1.7b": (
        "HuggingFaceTB/SmolLM2-1.7B",
        1_711_376_384,
        _config("llama", (2048, 24, 8192), (32, 32), 49152, 8192, **_TIED),
    ),
    "smollm3-3b": (
        "HuggingFaceTB/SmolLM3-3B",
        3_075_098_624,
        _config("smollm3", (2048, 36, 11008), (16, 4), 128256, 65536, **_TIED),
    ),
    "llama-3.2-1b": (
        "meta-llama/Llama-3.2-1B",
        1_235_814_400,
        _config("llama", (2048, 16, 8192), (32, 8), 128256, 131072, **_TIED),
    ),
    "llama-3.2-3b": (
        "meta-llama/Llama-3.2-3B",
        3_212_749_824,
        _config("llama", (3072, 28, 8192), (24, 8), 128256, 131072, **_TIED),
    ),
    "llama-3.1-8b": (
        "meta-llama/Llama-3.1-8B",
        8_030_261_248,
        _config("llama", (4096, 32, 14336), (32, 8), 128256, 131072),
    ),
    "llama-3.3-70b": (
        "meta-llama/Llama-3.3-70B-Instruct",
        70_553_706_496,
        _config("llama", (8192, 80, 28672), (64, 8), 128256, 131072),
    ),
    "mistral-7b": (
        "mistralai/Mistral-7B-v0.3",
        7_248_023_552,
        _config("mistral", (4096, 32, 14336), (32, 8), 32768, 32768),
    ),
    "mixtral-8x7b": (
        "mistralai/Mixtral-8x7B-v0.1",
        46_702_792_704,
        _config(
            "mixtral",
            (4096, 32, 14336),
            (32, 8),
            32000,
            32768,
            num_local_experts=8,
            num_experts_per_tok=2,
        ),
    ),
    "qwen2.5-0.5b": (
        "Qwen/Qwen2.5-0.5B",
        494_032_768,
        _config("qwen2", (896, 24, 4864), (14, 2), 151936, 32768, **_TIED),
    ),
    "qwen2.5-1.5b": (
        "Qwen/Qwen2.5-1.5B",
        1_543_714_304,
        _config("qwen2", (1536, 28, 8960), (12, 2), 151936, 131072, **_TIED),
    ),
    "qwen2.5-3b": (
        "Qwen/Qwen2.5-3B",
        3_085_938_688,
        _config("qwen2", (2048, 36, 11008), (16, 2), 151936, 32768, **_TIED),
    ),
    "qwen2.5-7b": (
        "Qwen/Qwen2.5-7B",
        7_615_616_512,
        _config("qwen2", (3584, 28, 18944), (28, 4), 152064, 131072),
    ),
    "qwen3-0.6b": (
        "Qwen/Qwen3-0.6B",
        596_049_920,
        _config("qwen3", (1024, 28, 3072), (16, 8), 151936, 40960, **_TIED, **_QWEN3),
    ),
    "qwen3-1.7b": (
        "Qwen/Qwen3-1.7B",
        1_720_574_976,
        _config("qwen3", (2048, 28, 6144), (16, 8), 151936, 40960, **_TIED, **_QWEN3),
    ),
    "qwen3-4b": (
        "Qwen/Qwen3-4B",
        4_022_468_096,
        _config("qwen3", (2560, 36, 9728), (32, 8), 151936, 40960, **_TIED, **_QWEN3),
    ),
    "qwen3-8b": (
        "Qwen/Qwen3-8B",
        8_190_735_360,
        _config("qwen3", (4096, 36, 12288), (32, 8), 151936, 40960, **_QWEN3),
    ),
    "qwen3-30b-a3b": (
        "Qwen/Qwen3-30B-A3B",
        30_532_122_624,
        _config("qwen3_moe", (2048, 48, 6144), (32, 4), 151936, 40960, **_QWEN3, **_EXPERTS_30B),
    ),
    "gemma-2-2b": (
        "google/gemma-2-2b",
        2_614_341_888,
        _config("gemma2", (2304, 26, 9216), (8, 4), 256000, 8192, head_dim=256),
    ),
    "gemma-3-1b": (
        "google/gemma-3-1b-it",
        999_885_952,
        _config(
            "gemma3_text",
            (1152, 26, 6912),
            (4, 1),
            262144,
            32768,
            head_dim=256,
            sliding_window=512,
        ),
    ),
    "gemma-3-4b": (
        "google/gemma-3-4b-it",
        4_300_079_472,
        _with_vision(
            "gemma3",
            _config("gemma3_text", (2560, 34, 10240), (8, 4), 262208, 131072, **_GEMMA3),
            {**_SIGLIP, "image_size": 896},
        ),
    ),
    "gemma-3-12b": (
        "google/gemma-3-12b-it",
        12_187_325_040,
        _with_vision(
            "gemma3",
            _config("gemma3_text", (3840, 48, 15360), (16, 8), 262208, 131072, **_GEMMA3),
            {**_SIGLIP, "image_size": 896},
        ),
    ),
    "phi-3-mini": (
        "microsoft/Phi-3-mini-4k-instruct",
        3_821_079_552,
        _config("phi3", (3072, 32, 8192), (32, 32), 32064, 4096, sliding_window=2047),
    ),
    "phi-4": (
        "microsoft/phi-4",
        14_659_507_200,
        _config("phi3", (5120, 40, 17920), (40, 10), 100352, 16384),
    ),
    "phi-4-mini": (
        "microsoft/Phi-4-mini-instruct",
        3_836_021_760,
        _config(
            "phi3",
            (3072, 32, 8192),
            (24, 8),
            200064,
            131072,
            **_TIED,
            partial_rotary_factor=0.75,
            sliding_window=262144,
        ),
    ),
    "deepseek-r1-distill-qwen-1.5b": (
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        1_777_088_000,
        _config("qwen2", (1536, 28, 8960), (12, 2), 151936, 131072),
    ),
    "deepseek-r1-distill-qwen-7b": (
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        7_615_616_512,
        _config("qwen2", (3584, 28, 18944), (28, 4), 152064, 131072),
    ),
    "deepseek-r1-distill-llama-8b": (
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        8_030_261_248,
        _config("llama", (4096, 32, 14336), (32, 8), 128256, 131072),
    ),
    "llava-1.5-7b": (
        "llava-hf/llava-1.5-7b-hf",
        7_063_427_072,
        _with_vision("llava", _config("llama", (4096, 32, 11008), (32, 32), 32064, 4096), _CLIP),
    ),
    "paligemma-3b": (
        "google/paligemma-3b-pt-224",
        2_923_466_480,
        _with_vision(
            "paligemma", _config("gemma", (2048, 18, 16384), (8, 1), 257216, 8192), _SIGLIP
        ),
    ),
    "qwen2.5-vl-3b": (
        "Qwen/Qwen2.5-VL-3B-Instruct",
        3_754_622_976,
        _with_vision(
            "qwen2_5_vl",
            _config("qwen2", (2048, 36, 11008), (16, 2), 151936, 128000, **_TIED),
            {**_QWEN_VISION, "out_hidden_size": 2048},
        ),
    ),
    "qwen2.5-vl-7b": (
        "Qwen/Qwen2.5-VL-7B-Instruct",
        8_292_166_656,
        _with_vision(
            "qwen2_5_vl",
            _config("qwen2", (3584, 28, 18944), (28, 4), 152064, 128000),
            {**_QWEN_VISION, "out_hidden_size": 3584},
        ),
    ),
    "deepseek-v2-lite": (
        "deepseek-ai/DeepSeek-V2-Lite",
        15_706_484_224,
        _config("deepseek_v2", (2048, 27, 10944), (16, 16), 102400, 163840, **_DEEPSEEK_LITE),
    ),
}


def _models() -> Iterator[tuple[str, PublicModel]]:
    for name, (page, n_parameters, config) in _MODELS.items():
        yield name, PublicModel(f"https://huggingface.co/{page}", n_parameters, config)


MODELS: Mapping[str, PublicModel] = MappingProxyType(dict(_models()))


def architecture(name: str) -> Architecture:
    """A public model with the weights of its card, all of them bf16; raises UsageError."""
    model = MODELS.get(name.casefold())
    if model is None:
        raise UsageError(
            f"no language model is called {name!r}", fix=f"use one of {', '.join(MODELS)}"
        )
    draft = read_config(model.config)
    shapes = draft.shapes()
    weights = stored_weights(shapes, lambda _name, _shape: WEIGHT_FORMATS["bf16"])
    return msgspec.structs.replace(draft.architecture, weights=weights)
