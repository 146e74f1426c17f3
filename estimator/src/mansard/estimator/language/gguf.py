"""The header of a GGUF file: its metadata, and the table of its tensors. Weights are not read.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Versions 2 and 3, little
endian. A header is hostile until it is read: every count is bounded, and every length is checked
against the file's size before it is used.

A large model may be several files, ``NAME-00001-of-00003.gguf``: the first one has the metadata,
each its tensors.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.core.storage.files import storage_error
from mansard.core.weight_formats import WEIGHT_FORMATS, WeightFormat
from mansard.estimator.language.architecture import StoredWeight
from mansard.estimator.language.fields import check_regular
from mansard.estimator.language.tensors import stored

MAGIC = b"GGUF"
_AGAIN = "get the file again, whole"
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 20
_MAX_ITEMS = 1 << 22  # of all arrays: the largest vocabulary and its merges have a million
_MAX_KEPT_ITEMS = 1 << 12  # longer arrays are those of tokenizers, and are skipped
_MAX_NAME_BYTES = (1 << 16) - 1
_MAX_PARTS = 1 << 12
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL | re.IGNORECASE)

#: Kinds of values by their numbers, as ``struct`` writes them; texts and arrays are read apart.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"} | {
    12: "d"
}
_TEXT, _ARRAY = 8, 9


#: ``ggml_type`` by its number. Tensors of integers are tables, no weights.
TYPES = MappingProxyType(
    {
        number: WEIGHT_FORMATS[name]
        for number, name in (
            *((0, "fp32"), (1, "fp16"), (30, "bf16"), (28, "fp64")),
            *((2, "Q4_0"), (3, "Q4_1"), (6, "Q5_0"), (7, "Q5_1"), (8, "Q8_0"), (9, "Q8_1")),
            *((10, "Q2_K"), (11, "Q3_K"), (12, "Q4_K"), (13, "Q5_K"), (14, "Q6_K")),
            *((15, "Q8_K"), (16, "IQ2_XXS"), (17, "IQ2_XS"), (18, "IQ3_XXS"), (19, "IQ1_S")),
            *((20, "IQ4_NL"), (21, "IQ3_S"), (22, "IQ2_S"), (23, "IQ4_XS"), (29, "IQ1_M")),
            *((34, "TQ1_0"), (35, "TQ2_0"), (39, "MXFP4"), (40, "NVFP4")),
        )
    }
    | {
        number: WeightFormat(
            name=name, block_elements=1, block_bytes=n_bytes, compute=name, unpack_ops=0
        )
        for number, name, n_bytes in (
            *((24, "int8", 1), (25, "int16", 2), (26, "int32", 4), (27, "int64", 8)),
        )
    }
)


class GgufHeader(msgspec.Struct, frozen=True):
    """What a model's files say of it. ``metadata``: without long arrays."""

    metadata: dict[str, Any]
    tensors: dict[str, StoredWeight]


def read_header(path: Path) -> GgufHeader:
    """The header of a model, all its parts included; raises ModelError or StorageError."""
    name = _PART.fullmatch(path.name)
    if name is None:
        header = _read_file(path)
        if header.metadata.get("split.count", 0) not in {0, 1}:
            raise ModelError(
                "it is one part of several, and its name does not say which",
                fix="name the parts as they were published: NAME-00001-of-00003.gguf",
            )
        return header
    return _joined(path.parent, name[1], int(name[3]))


def _joined(folder: Path, stem: str, n_parts: int) -> GgufHeader:
    if not 0 < n_parts <= _MAX_PARTS:
        raise ModelError(f"its name says that it is one of {n_parts} parts", fix="rename it")
    paths = [folder / f"{stem}-{part:05d}-of-{n_parts:05d}.gguf" for part in range(1, n_parts + 1)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ModelError(
            f"{len(missing)} of its {n_parts} parts are not beside it, first {missing[0]}",
            fix="get all parts into one folder",
        )
    headers = [_read_file(path) for path in paths]
    tensors: dict[str, StoredWeight] = {}
    for path, header in zip(paths, headers, strict=True):
        twice = tensors.keys() & header.tensors.keys()
        if twice:
            raise ModelError(f"two parts hold the tensor {min(twice)!r}, one is {path.name}")
        tensors |= header.tensors
    expected = headers[0].metadata.get("split.tensors.count", len(tensors))
    if expected != len(tensors):
        raise ModelError(
            f"its parts hold {len(tensors)} tensors, the first one says {expected}", fix=_AGAIN
        )
    return GgufHeader(headers[0].metadata, tensors)


def _read_file(path: Path) -> GgufHeader:
    try:
        check_regular(path)
        with path.open("rb") as file:
            if not file.read(1):
                raise ModelError("the file is empty", fix=_AGAIN)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _HeaderReader(data).header()
    except OSError as error:
        raise storage_error(error, path) from error


class _HeaderReader:
    """Reads one file from its start to the end of its table of tensors."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._size = len(data)
        self._position = 0
        self._n_items = 0

    def header(self) -> GgufHeader:
        self._check_version()
        n_tensors, n_keys = self._number("Q"), self._number("Q")
        _check_count(n_tensors, _MAX_TENSORS, "tensors")
        _check_count(n_keys, _MAX_KEYS, "keys")
        metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = self._text(_MAX_NAME_BYTES)
            with _of(f"key {key!r}"):
                value = self._value(self._number("I"))
            if value is not None:
                metadata[key] = value
        tensors: dict[str, StoredWeight] = {}
        end = 0
        for _ in range(n_tensors):
            name = self._text(_MAX_NAME_BYTES)
            if name in tensors:
                raise ModelError(f"two tensors are called {name!r}", fix=_AGAIN)
            with _of(f"tensor {name!r}"):
                tensors[name] = self._tensor()
                end = max(end, self._number("Q") + tensors[name].n_bytes)
        self._check_end(end, metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
        return GgufHeader(metadata, tensors)

    def _check_version(self) -> None:
        if self._bytes(4) != MAGIC:
            raise ModelError("it is not a GGUF file: it does not start with 'GGUF'", fix=_AGAIN)
        version = self._number("I")
        if version in {2, 3}:
            return
        if version & 0xFFFF == 0:
            raise ModelError(
                "it is a big-endian GGUF file, which boards do not run",
                fix="get the little-endian file of the same model",
            )
        raise ModelError(
            f"it is a GGUF file of version {version}; versions 2 and 3 are known",
            fix="convert the model again with a current convert_hf_to_gguf.py",
        )

    def _check_end(self, end: int, alignment: object) -> None:
        if type(alignment) is not int or not 0 < alignment <= 1 << 20:
            raise ModelError("general.alignment is not a positive integer", fix=_AGAIN)
        start = -(-self._position // alignment) * alignment if end else self._position
        if start + end > self._size:
            raise ModelError(
                f"the file is cut: it has {self._size} bytes, and its tensors end at byte "
                f"{start + end}",
                fix=_AGAIN,
            )

    def _advance(self, n_bytes: int) -> int:
        """The position before ``n_bytes`` that follow."""
        start = self._position
        if n_bytes > self._size - start:
            raise ModelError(
                f"the file is cut: its header goes on beyond its end at byte {self._size}",
                fix=_AGAIN,
            )
        self._position = start + n_bytes
        return start

    def _bytes(self, n_bytes: int) -> bytes:
        start = self._advance(n_bytes)
        return self._data[start : start + n_bytes]

    def _number(self, kind: str) -> Any:
        layout = f"<{kind}"
        return struct.unpack_from(layout, self._data, self._advance(struct.calcsize(layout)))[0]

    def _text(self, most: int) -> str:
        n_bytes = self._number("Q")
        if n_bytes > most:
            raise ModelError(f"a name has {n_bytes} bytes", fix=_AGAIN)
        try:
            return self._bytes(n_bytes).decode()
        except UnicodeDecodeError as error:
            raise ModelError("a name is not UTF-8", fix=_AGAIN) from error

    def _value(self, kind: int) -> Any:
        """A value; None for a long one, which is skipped."""
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _TEXT:
            n_bytes = self._number("Q")
            if n_bytes > _MAX_NAME_BYTES:
                self._advance(n_bytes)
                return None
            return self._bytes(n_bytes).decode("utf-8", "replace")
        if kind == _ARRAY:
            return self._array(self._number("I"), self._number("Q"))
        raise ModelError(f"values of kind {kind} are unknown", fix=_AGAIN)

    def _array(self, kind: int, n_items: int) -> list[Any] | None:
        self._n_items += n_items
        _check_count(self._n_items, _MAX_ITEMS, "items in arrays")
        if kind == _TEXT:
            self._skip_texts(n_items)
            return None
        if kind not in _SCALARS:
            raise ModelError(f"arrays of kind {kind} are unknown", fix=_AGAIN)
        layout = f"<{n_items}{_SCALARS[kind]}"
        start = self._advance(struct.calcsize(layout))
        if n_items > _MAX_KEPT_ITEMS:
            return None
        return list(struct.unpack_from(layout, self._data, start))

    def _skip_texts(self, n_items: int) -> None:
        """Only lengths are read: a tokenizer has hundreds of thousands of texts."""
        length_at = struct.Struct("<Q").unpack_from
        data, position, last = self._data, self._position, self._size - 8
        for _ in range(n_items):
            if position > last:
                break
            position += 8 + length_at(data, position)[0]
        else:
            self._advance(position - self._position)
            return
        self._advance(self._size)  # beyond the end: the file is cut

    def _tensor(self) -> StoredWeight:
        n_dimensions = self._number("I")
        if not 0 < n_dimensions <= _MAX_DIMENSIONS:
            raise ModelError(f"it has {n_dimensions} dimensions", fix=_AGAIN)
        shape = tuple(self._number("Q") for _ in range(n_dimensions))[::-1]
        kind = self._number("I")
        form = TYPES.get(kind)
        if form is None:
            raise ModelError(
                f"its type {kind} is unknown", fix="convert the model again with a current tool"
            )
        if 0 in shape or shape[-1] % form.block_elements:
            raise ModelError(
                f"its shape {list(shape)} is not whole blocks of {form.block_elements}", fix=_AGAIN
            )
        if math.prod(shape) >= 1 << 63:
            raise ModelError(f"its shape {list(shape)} is beyond any memory", fix=_AGAIN)
        return stored(shape, form)


@contextmanager
def _of(part: str) -> Iterator[None]:
    """Prefix errors of a part of the header with its name."""
    try:
        yield
    except ModelError as error:
        what = error.what if "the file is cut" in error.what else f"{part}: {error.what}"
        raise ModelError(what, fix=error.fix) from error


def _check_count(count: int, most: int, what: str) -> None:
    if count > most:
        raise ModelError(f"it says that it has {count} {what}; at most {most} are read", fix=_AGAIN)
