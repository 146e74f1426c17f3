"""A folder of Hugging Face's Transformers: config.json and, where there are any, safetensors.

Of safetensors only the headers are read (``safetensors.py``). Without them the bytes follow from
the data type and the quantisation that config.json states (``quantizers.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.core.weight_formats import WEIGHT_FORMATS, WeightFormat
from mansard.estimator.language.architecture import Architecture, StoredWeight
from mansard.estimator.language.families import read_config
from mansard.estimator.language.hub_names import WeightPart, modules_of, part_of
from mansard.estimator.language.quantizers import (
    PLAIN_TYPES,
    StoredPart,
    format_of_parts,
    read_quantization,
)
from mansard.estimator.language.safetensors import TensorEntry, read_json, read_tensors
from mansard.estimator.language.tensors import (
    Shape,
    is_linear,
    stored,
    stored_weights,
)

_DTYPES = {
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "FP8",
}


def read_folder(folder: Path) -> Architecture:
    """The language model in a folder; raises ModelError or StorageError."""
    path = folder / "config.json"
    if not path.exists():
        raise ModelError(
            "the folder has no config.json",
            fix="give the whole folder of a language model, or a .gguf file",
        )
    config = read_json(path)
    draft = read_config(config)
    shapes = draft.shapes()
    tensors = read_tensors(folder)
    return msgspec.structs.replace(
        draft.architecture,
        weights=_of_tensors(tensors, shapes, draft.architecture)
        if tensors
        else _of_config(config, folder, shapes),
    )


def _of_config(
    config: Mapping[str, Any], folder: Path, shapes: Mapping[str, Shape]
) -> dict[str, StoredWeight]:
    plain = plain_format(config)
    modelopt = folder / "hf_quant_config.json"
    quantization = read_quantization(config, read_json(modelopt) if modelopt.exists() else None)

    def form(name: str, shape: Shape) -> WeightFormat:
        if quantization is None or not is_linear(name, shape):
            return plain
        if any(map(quantization.skips, modules_of(name))):
            return plain
        return quantization.format_of(shape)

    return stored_weights(shapes, form)


def plain_format(config: Mapping[str, Any]) -> WeightFormat:
    """The format of what is not quantised, from ``dtype`` or, in older files, ``torch_dtype``."""
    name = config.get("dtype") or config.get("torch_dtype")
    if name is None:
        raise ModelError(
            "config.json has no dtype, and no safetensors are beside it",
            fix='add "dtype": "bfloat16", or get the .safetensors files',
        )
    known = _DTYPES.get(str(name).removeprefix("torch."))
    if known is None:
        raise ModelError(f"dtype {name!r} is unknown", fix=f"use one of {', '.join(_DTYPES)}")
    return WEIGHT_FORMATS[known]


def _of_tensors(
    tensors: Mapping[str, TensorEntry], shapes: Mapping[str, Shape], model: Architecture
) -> dict[str, StoredWeight]:
    """Every weight with all its parts; other tensors by their own names."""
    weights: dict[str, StoredWeight] = {}
    parts: dict[str, dict[str, list[TensorEntry]]] = defaultdict(lambda: defaultdict(list))
    for name, entry in tensors.items():
        part = part_of(name, has_post_norms=model.blocks[0].has_post_norms)
        if part is None:
            weights[name] = _as_it_is(entry)
        elif _is_loaded(part, model):
            parts[part.name][part.part].append(entry)
    for name, shape in shapes.items():
        if name not in parts:
            raise ModelError(
                f"the safetensors files have no weight {name!r} (GGUF's name)",
                fix="get all files of the model",
            )
        weights[name] = _joined(name, shape, parts.pop(name))
    for name, more in parts.items():
        weights |= {f"{name}.{part}": _as_it_is(one) for part, all_ in more.items() for one in all_}
    return weights


def _is_loaded(part: WeightPart, model: Architecture) -> bool:
    """Not the output where it is the embedding, nor blocks that predict further tokens."""
    if part.name == "output.weight" and model.is_tied:
        return False
    return part.block is None or part.block < len(model.blocks)


def _joined(name: str, shape: Shape, parts: Mapping[str, list[TensorEntry]]) -> StoredWeight:
    """A weight of several tensors, of all experts together."""
    sums = {
        part: StoredPart(
            entries[0].dtype,
            sum(entry.n_numbers for entry in entries),
            sum(entry.n_bytes for entry in entries),
        )
        for part, entries in parts.items()
    }
    try:
        form = format_of_parts(sums, shape)
    except ModelError as error:
        raise ModelError(
            f"the weight {name!r}, by its sizes {list(shape)}: {error.what}",
            fix="get the model again: config.json and its files do not belong together",
        ) from error
    return StoredWeight(
        format=form.name,
        shape=shape,
        n_bytes=sum(one.n_bytes for one in sums.values()),
        compute=form.compute,
        unpack_ops=form.unpack_ops,
    )


def _as_it_is(entry: TensorEntry) -> StoredWeight:
    known = PLAIN_TYPES.get(entry.dtype)
    if known is not None:
        return stored(entry.shape, WEIGHT_FORMATS[known])
    kind = entry.dtype.casefold()
    return StoredWeight(format=kind, shape=entry.shape, n_bytes=entry.n_bytes, compute=kind)
