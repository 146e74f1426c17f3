"""FLOPs of networks exported by PyTorch, against PyTorch's own counter and published figures.

    pip install '.[export]' torchvision     # versions that belong together
    python benchmarks/torch_counts.py [--data ../shared/data/onnx] [--only REGEX] [--published]

Each network is exported by both of PyTorch's exporters, without weights and with a
symbolic batch, and scored at batch 1. Three things are compared, for convolutions and
for matrix products apart:

- forward: exactly equal to ``torch.utils.flop_counter``;
- training: within 0.5 %;
- torchvision's published GMAC: within 0.2 %, or the rounding of three decimals.

The counter runs on the meta device (shapes alone) with the attention written out as
matrix products: the fused one is counted as 0 on a CPU. Its count of the backward pass of a
grouped convolution is wrong (MobileNetV2: 20 times too much) and replaced here. Recurrent layers are
no part of it: it counts them as 0, or unrolled.

Exit code 1 where a network differs and KNOWN does not say why.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import MansardError
from mansard.core.records import Phase
from mansard.estimator import score
from mansard.estimator.export import Exported, Request, export
from mansard.estimator.export.loading import load_network
from mansard.estimator.export.network import Network
from mansard.estimator.export.request import Exporter, InputSpec, parse_settings

TRAINING_LIMIT = 0.005
PUBLISHED_LIMIT = 0.002
ROUNDING_GMAC = 0.0005  # torchvision publishes three decimals

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})

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
    "whisper_encoder": "WhisperModel d_model=384 encoder_attention_heads=6 "
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

KNOWN: dict[tuple[str, str, str], str] = {}
"""(network, exporter, quantity) that differ -> why; ``*`` stands for both exporters."""


class Counts(msgspec.Struct, frozen=True):
    """FLOPs of the multiply-adds of one network, of convolutions and of matrix products."""

    convolution: int = 0
    product: int = 0


class Subject(msgspec.Struct, frozen=True):
    """One network to look at. ``published_gmac`` None: nothing to compare with."""

    name: str
    source: str
    inputs: tuple[InputSpec, ...] = ()
    settings: Mapping[str, object] = {}
    published_gmac: float | None = None


def main() -> int:
    """Print a line for each network and exporter, and a summary; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/onnx"))
    parser.add_argument("--only", default="", help="networks whose name matches this")
    parser.add_argument("--exporter", choices=["dynamo", "torchscript"], action="append")
    options = parser.parse_args()
    exporters: list[Exporter] = options.exporter or ["dynamo", "torchscript"]
    results: list[bool] = []
    for subject in subjects(options.data):
        if not re.search(options.only, subject.name):
            continue
        for verdict in compare(subject, exporters):
            results.append(verdict)
        gc.collect()
    n_wrong = results.count(False)
    print(f"{len(results)} comparisons, {len(results) - n_wrong} right or explained, {n_wrong} not")
    return 1 if n_wrong or not results else 0


if __name__ == "__main__":
    sys.exit(main())
