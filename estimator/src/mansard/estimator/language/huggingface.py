"""A folder of Hugging Face's Transformers: config.json and, where there are any, safetensors.

Of safetensors only the headers are read (``safetensors.py``). Without them the bytes follow from
the data type and the quantisation that config.json states (``quantisation.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.core.storage.files import storage_error
from mansard.core.weight_formats import WEIGHT_FORMATS, WeightFormat
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.families import read_config
from mansard.estimator.language.tensors import expected_shapes, stored_weights

_MAX_JSON_BYTES = 1 << 24  # the largest configs have thousands of names of modules: 1 MB

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
    config = read_json(folder / "config.json")
    draft = read_config(config)
    shapes = expected_shapes(draft.architecture, draft.layout)
    form = plain_format(config)
    weights = stored_weights(shapes, lambda _name, _shape: form)
    return msgspec.structs.replace(draft.architecture, weights=weights)


def read_json(path: Path) -> dict[str, Any]:
    """An object of JSON in a file; raises ModelError or StorageError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_JSON_BYTES + 1)
    except OSError as error:
        raise storage_error(error, path) from error
    if len(data) > _MAX_JSON_BYTES:
        raise ModelError(f"{path.name} is larger than {_MAX_JSON_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ModelError(
            f"{path.name} is no JSON object: {error}", fix="get the file again"
        ) from error


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
        raise ModelError(f"dtype {name!r} is not known", fix=f"use one of {', '.join(_DTYPES)}")
    return WEIGHT_FORMATS[known]
