"""Public language models by name: what their config.json says, and the parameters they publish."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import UsageError
from mansard.core.weight_formats import WEIGHT_FORMATS
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.families import read_config
from mansard.estimator.language.tensors import expected_shapes, stored_weights


class PublicModel(msgspec.Struct, frozen=True):
    """``config``: what its config.json says of sizes. ``source``: its model card.

    ``n_parameters``: as the card, or the files' index, publishes them.
    """

    source: str
    n_parameters: int
    config: Mapping[str, Any]


def _llama(width: int, blocks: int, feed_forward: int, heads: tuple[int, int], **more: Any) -> Any:
    """The fields that all models of the llama kind have."""
    return {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": blocks,
        "intermediate_size": feed_forward,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        **more,
    }


_HUB = "https://huggingface.co/"

MODELS: Mapping[str, PublicModel] = MappingProxyType(
    {
        "llama-3.1-8b": PublicModel(
            f"{_HUB}meta-llama/Llama-3.1-8B",
            8_030_261_248,
            _llama(4096, 32, 14336, (32, 8), vocab_size=128256, max_position_embeddings=131072),
        ),
        "tinyllama-1.1b": PublicModel(
            f"{_HUB}TinyLlama/TinyLlama-1.1B-Chat-v1.0",
            1_100_048_384,
            _llama(2048, 22, 5632, (32, 4), vocab_size=32000, max_position_embeddings=2048),
        ),
        "mistral-7b": PublicModel(
            f"{_HUB}mistralai/Mistral-7B-v0.3",
            7_248_023_552,
            _llama(
                4096,
                32,
                14336,
                (32, 8),
                model_type="mistral",
                vocab_size=32768,
                max_position_embeddings=32768,
            ),
        ),
        "qwen2.5-0.5b": PublicModel(
            f"{_HUB}Qwen/Qwen2.5-0.5B",
            494_032_768,
            _llama(
                896,
                24,
                4864,
                (14, 2),
                model_type="qwen2",
                vocab_size=151936,
                max_position_embeddings=32768,
                tie_word_embeddings=True,
            ),
        ),
    }
)


def architecture(name: str) -> Architecture:
    """A public model with the weights of its card, all of them bf16; raises UsageError."""
    model = MODELS.get(name.casefold())
    if model is None:
        raise UsageError(
            f"no language model is called {name!r}", fix=f"use one of {', '.join(MODELS)}"
        )
    draft = read_config(model.config)
    shapes = expected_shapes(draft.architecture, draft.layout)
    weights = stored_weights(shapes, lambda _name, _shape: WEIGHT_FORMATS["bf16"])
    return msgspec.structs.replace(draft.architecture, weights=weights)
