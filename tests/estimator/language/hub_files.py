"""Folders as Hugging Face's Transformers write them: config.json, and safetensors of zeros."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mansard.estimator.language.families import read_config
from mansard.estimator.language.hub_names import modules_of
from mansard.estimator.language.safetensors import TYPE_BITS
from mansard.estimator.language.tensors import expected_shapes, is_linear

Parts = dict[str, tuple[str, tuple[int, ...]]]  # each with its type and shape
_EXPERTS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def write_config(folder: Path, sizes: Mapping[str, Any], **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    content = json.dumps({"torch_dtype": "bfloat16", **sizes, **more})
    (folder / "config.json").write_text(content, encoding="utf-8")
    return folder


def write_safetensors(path: Path, tensors: Parts, cut: int = 0) -> None:
    """A file of zeros, without its last ``cut`` bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + math.prod(shape) * TYPE_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    data = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(data).to_bytes(8, "little") + data)
        file.truncate(8 + len(data) + end - cut)


def tensors_of(
    sizes: Mapping[str, Any], quantized: Callable[[int, int], Parts] | None = None
) -> Parts:
    """Every tensor by its name; ``quantized``: parts of a matrix of so many rows and columns."""
    read = read_config(sizes)
    tensors: Parts = {}
    for name, shape in expected_shapes(read.architecture, read.layout).items():
        part = name.rpartition(".")[2]
        parts: Parts = {part: ("BF16", shape)}
        if quantized is not None and is_linear(name, shape):
            parts = quantized(*shape[-2:])
        elif name.endswith("_exps.weight"):
            parts = {part: ("BF16", shape[1:])}
        if name.endswith("exp_probs_b.bias"):
            parts = {"e_score_correction_bias": ("BF16", shape)}
        for module in _modules(
            name, shape, has_post_norms=read.architecture.blocks[0].has_post_norms
        ):
            tensors |= {f"{module}.{key}": value for key, value in parts.items()}
    return tensors


def _modules(name: str, shape: tuple[int, ...], *, has_post_norms: bool) -> list[str]:
    kind = name.split(".")[-2]
    if kind.endswith("_exps"):
        block = f"model.layers.{name.split('.')[1]}"
        projection = _EXPERTS[kind.split("_")[1]]
        return [f"{block}.mlp.experts.{index}.{projection}" for index in range(shape[0])]
    if kind == "exp_probs_b":
        return [f"model.layers.{name.split('.')[1]}.mlp.gate"]
    if kind == "post_attention_norm":
        return [f"model.layers.{name.split('.')[1]}.post_attention_layernorm"]
    modules = modules_of(name)
    module = modules[1] if kind == "ffn_norm" and has_post_norms else modules[0]
    is_outside = not name.startswith("blk") and module != "lm_head"
    return [f"model.{module}" if is_outside else module]
