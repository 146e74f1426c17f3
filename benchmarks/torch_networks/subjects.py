"""Which networks are looked at, and what is published about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mansard.estimator.export.network import need
from mansard.estimator.export.request import ExportInput, parse_settings

TRANSFORMERS = {
    "bert_base": "BertConfig",
    "distilbert": "DistilBertConfig",
    "albert": "AlbertConfig num_hidden_layers=4",
    "electra": "ElectraConfig",
    "gpt2": "GPT2LMHeadModel n_layer=6",
    "llama": "LlamaForCausalLM hidden_size=512 intermediate_size=1376 num_hidden_layers=4 "
    "num_attention_heads=8 num_key_value_heads=2",
    "qwen2": "Qwen2ForCausalLM hidden_size=512 intermediate_size=1376 num_hidden_layers=4 "
    "num_attention_heads=8 num_key_value_heads=2 vocab_size=32000",
    "mistral": "MistralConfig hidden_size=512 intermediate_size=1376 num_hidden_layers=4 "
    "num_attention_heads=8 num_key_value_heads=2",
    "t5": "T5Model num_layers=2",
    "whisper": "WhisperModel d_model=384 encoder_attention_heads=6 "
    "decoder_attention_heads=6 encoder_layers=4 decoder_layers=4 encoder_ffn_dim=1536 "
    "decoder_ffn_dim=1536",
    "wav2vec2": "Wav2Vec2Config num_hidden_layers=4",
    "hf_vit": "ViTConfig",
    "hf_deit": "DeiTConfig",
    "hf_swin": "SwinConfig",
    "hf_convnext": "ConvNextConfig",
    "hf_segformer": "SegformerConfig",
    "hf_mobilevit": "MobileViTConfig",
    "clip": "CLIPModel",
}
"""Networks of transformers: a class, and settings that make it small enough."""


class Subject(msgspec.Struct, frozen=True):
    """One network to look at. ``published_gmac`` None: nothing to compare with."""

    name: str
    source: str
    inputs: tuple[ExportInput, ...] = ()
    settings: Mapping[str, object] = {}
    published_gmac: float | None = None


def subjects(data: Path) -> Iterator[Subject]:
    """torchvision's classifiers with their published figures, then those of transformers."""
    listed = json.loads((data / "torchvision_gmacs.json").read_text())
    for name, recorded in listed.items():
        facts = recorded or published_by_torchvision(name)  # two are listed without figures
        crop = facts["crop"]
        image = ExportInput("x", (1, 3, crop, crop))
        gmac = facts["published_gmacs"]
        yield Subject(name, f"torchvision:{name}", (image,), published_gmac=gmac)
    for name, told in TRANSFORMERS.items():
        cls, *settings = told.split()
        yield Subject(name, f"transformers:{cls}", settings=parse_settings(settings))


def published_by_torchvision(name: str) -> dict[str, Any]:
    """Crop and GMAC of a classifier at the smallest size that it has weights for."""
    weights = need("torchvision").models.get_model_weights(name)
    smallest = min(weights, key=lambda one: one.transforms.keywords["crop_size"])
    crop = smallest.transforms.keywords["crop_size"]
    return {"crop": crop, "published_gmacs": smallest.meta["_ops"]}
