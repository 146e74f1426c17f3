"""The headers of safetensors files: names, types and shapes of tensors. Weights are not read.

The format: 8 bytes with the header's length, the header as JSON, the weights
(https://github.com/huggingface/safetensors#format). Large models are several files, which
``model.safetensors.index.json`` lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.core.storage.files import storage_error
from mansard.estimator.language.fields import check_regular

_MAX_JSON_BYTES = 1 << 24  # the longest configurations list thousands of modules: 1 MB
_MAX_TENSORS = 1 << 18  # of a file: large models have a thousand in each of hundreds of files
_MAX_HEADER_BYTES = 100_000_000  # the limit of the format's own reader
_AGAIN = "get the file again, whole"
_INDEX = "model.safetensors.index.json"
_ONE = "model.safetensors"

#: Bits of a number by the name of its type.
TYPE_BITS: Mapping[str, int] = {
    **dict.fromkeys(("F64", "I64", "U64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}


class TensorEntry(msgspec.Struct, frozen=True):
    """One tensor of a file. ``data_offsets``: its first byte, and the one behind its last."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    data_offsets: tuple[int, int] = (0, 0)

    @property
    def n_bytes(self) -> int:
        return self.data_offsets[1] - self.data_offsets[0]

    @property
    def n_numbers(self) -> int:
        return math.prod(self.shape)


_decoder = msgspec.json.Decoder(dict[str, TensorEntry])


def read_json(path: Path) -> dict[str, Any]:
    """An object of JSON in a file; raises ModelError or StorageError."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            data = file.read(_MAX_JSON_BYTES + 1)
    except OSError as error:
        raise storage_error(error, path) from error
    if len(data) > _MAX_JSON_BYTES:
        raise ModelError(f"{path.name} is larger than {_MAX_JSON_BYTES >> 20} MiB", fix=_AGAIN)
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a JSON object: {error}", fix=_AGAIN) from error


def read_tensors(folder: Path) -> dict[str, TensorEntry]:
    """Every tensor of the safetensors files in a folder; none where there are no such files.

    Raises ModelError where a file is missing, cut or broken, StorageError where it cannot be read.
    """
    tensors: dict[str, TensorEntry] = {}
    for path in _files(folder):
        entries = read_header(path)
        twice = tensors.keys() & entries.keys()
        if twice:
            raise ModelError(f"two files hold the tensor {min(twice)!r}, one is {path.name}")
        tensors |= entries
    return tensors


def _files(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.exists():
        files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
        if len(files) < 2:
            return files
        if folder / _ONE in files:  # others are adapters, or the same weights with other names
            return [folder / _ONE]
        raise ModelError(
            f"it has {len(files)} safetensors files, and no {_INDEX}", fix=f"get the {_INDEX} too"
        )
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ModelError(f"{_INDEX} has no weight_map of file names", fix=_AGAIN)
    files = [folder / name for name in sorted(set(names.values()))]
    outside = [path for path in files if path.parent != folder or path.name == ".."]
    if outside:
        raise ModelError(f"{_INDEX} names a file elsewhere: {outside[0]}", fix=_AGAIN)
    missing = [path.name for path in files if not path.is_file()]
    if len(missing) == len(files):
        return []  # only the small files were fetched
    if missing:
        raise ModelError(
            f"{len(missing)} of its {len(files)} safetensors files are missing, first {missing[0]}",
            fix="get all of them",
        )
    return files


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors of one file; raises ModelError or StorageError."""
    try:
        check_regular(path)
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            n_bytes = int.from_bytes(start, "little")
            if len(start) < 8 or n_bytes > size - 8:
                raise ModelError(f"{path.name} is cut: it ends within its header", fix=_AGAIN)
            if n_bytes > _MAX_HEADER_BYTES:
                raise ModelError(f"{path.name} has a header of {n_bytes} bytes", fix=_AGAIN)
            data = file.read(n_bytes)
        if data.count(b"{") > _MAX_TENSORS:
            raise ModelError(f"{path.name} has more than {_MAX_TENSORS} tensors", fix=_AGAIN)
    except OSError as error:
        raise storage_error(error, path) from error
    try:
        entries = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"the header of {path.name} is broken: {error}", fix=_AGAIN) from error
    entries.pop("__metadata__", None)
    for name, entry in entries.items():
        _check(path.name, name, entry)
    end = max((entry.data_offsets[1] for entry in entries.values()), default=0)
    if 8 + n_bytes + end > size:
        raise ModelError(
            f"{path.name} is cut: it has {size} bytes, and its tensors end at byte "
            f"{8 + n_bytes + end}",
            fix=_AGAIN,
        )
    return entries


def _check(file: str, name: str, entry: TensorEntry) -> None:
    bits = TYPE_BITS.get(entry.dtype)
    if bits is None:
        raise ModelError(f"{file}: the tensor {name!r} has the unknown type {entry.dtype!r}")
    start = entry.data_offsets[0]
    is_sound = start >= 0 and all(0 <= size < 1 << 48 for size in entry.shape[:8])
    if not is_sound or len(entry.shape) > 8 or entry.n_bytes != -(-entry.n_numbers * bits // 8):
        raise ModelError(
            f"{file}: the tensor {name!r} is not as many bytes as its shape says", fix=_AGAIN
        )
