"""Writes prepared networks: the graph, and in a file beside it weights that the model lacks.

File names are hashes of what the files are made of: they are known before anything is written, and
a file that exists has the right content. Random weights are drawn and written one tensor at a
time; weights that the model holds stay in its file.

Chains of tiny nodes are written here too. Each node handles one element and waits for the one
before it, so the times of two lengths separate the cost of a node from that of a call:
t(n) = call + n · node. Neg and Abs alternate, because no engine here fuses them or drops one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto, helper

from mansard.core.errors import ModelError
from mansard.core.hashing import content_hash
from mansard.core.records import CHAIN_LENGTHS, chain_name
from mansard.core.storage.files import storage_errors, write_atomic
from mansard.core.storage.leftovers import temporary_folder
from mansard.estimator.zoo.weights import (
    MissingWeights,
    drawn_tensors,
    fill,
    placeholder_weights,
    take_out_weights,
)
from mansard.inference.plan import InputSpec
from mansard.inference.preparing.conversion import check_weights, to_bf16, to_fp16
from mansard.inference.preparing.quantising import Int8, quantise
from mansard.inference.preparing.sources import (
    check_free,
    files_of_weights,
    link,
    name_by_content,
    rename,
    without_numbers,
)

_IR_VERSION, _OPSET = 8, 17  # that every version of ONNX Runtime since 1.14 reads


def write_chains(folder: Path) -> tuple[Path, ...]:
    """Write the chains into ``folder``; returns their files, the shorter first. Raises OSError."""
    from onnx import TensorProto, helper, save

    paths = []
    for length in CHAIN_LENGTHS:
        names = ["input", *(f"value{at}" for at in range(1, length)), "output"]
        nodes = [
            helper.make_node("Abs" if at % 2 else "Neg", [names[at]], [names[at + 1]])
            for at in range(length)
        ]
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
            for name in ("input", "output")
        ]
        graph = helper.make_graph(nodes, chain_name(length), ends[:1], ends[1:])
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        paths.append(folder / f"{chain_name(length)}.onnx")
        save(model, paths[-1])
    return tuple(paths)


# Where the weights that are drawn take more than this they lie beside the file: it holds 2 GB at
# most, and those of several batches of one network share their file.
BESIDE_BYTES = 64 << 20
_LEAST_BYTES = 1024  # of a tensor that lies there
_PAGE_BYTES = 4096  # where each begins, so that a runtime can map it


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """The precision that a network of fp32 is converted to; ``int8``: how, where it is int8."""

    precision: str
    int8: Int8 | None = None


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a network's files in the folder of files."""

    file: str
    file_hash: str  # of all that it and the weights beside it are made of
    weights: str  # the file of weights that are drawn or converted; empty: there is none
    made: dict[str, int]  # approximate bytes of the files that are written
    linked: dict[str, Path]  # files that exist already, and where
    source_hash: str  # of the model and its weights, before anything is fixed or converted
    is_drawn: bool  # whether weights are random
    notes: tuple[str, ...]  # what the user should know of them


@dataclass(frozen=True)
class ModelDraft:
    """A model that was read and whose file names are known, but that is not written yet."""

    model: ModelProto  # without placeholders for missing weights
    files: Files
    missing: Mapping[str, MissingWeights]
    conversion: Conversion | None  # with all weights in memory
    specs: Sequence[InputSpec]
    seed: int


def draft(
    model: ModelProto,
    *,
    stem: str,
    seed: int,
    source: Path | None,
    source_hash: str,
    made_for: object,
    conversion: Conversion | None = None,
    specs: Sequence[InputSpec] = (),
) -> ModelDraft:
    """The draft of ``model``, which is changed in place to what will be written.

    ``source``: the file that it was read from, which may have weights in files beside it.
    ``source_hash``: of its content. ``made_for``: what else the graph depends on, as a value that
    can be hashed. ``specs``: of its inputs, where it is converted to int8. Raises ModelError for a
    weight of an impossible size, StorageError.
    """
    beside = {} if source is None else files_of_weights(model.graph, source)
    names = {place: name_by_content(path, stem, "data") for place, path in beside.items()}
    rename(model.graph, names)
    n_bytes = model.ByteSize()
    missing = _missing(model)
    n_drawn = sum(map(_size_bytes, missing.values()))
    source_hash = content_hash([source_hash, sorted(names.values()), seed if missing else None])
    of_weights = content_hash([source_hash, conversion])
    digest = content_hash([of_weights, made_for])
    file, made = f"{stem}-{digest}.onnx", {}
    is_beside = n_drawn > BESIDE_BYTES or (
        conversion is not None and n_bytes + n_drawn > BESIDE_BYTES
    )
    weights = f"{stem}-{of_weights}.weights" if is_beside else ""
    if weights:
        made[weights] = n_drawn
    made[file] = n_bytes if weights else n_bytes + n_drawn
    notes = (f"{len(missing)} weights are random: the file has none",) if missing else ()
    files = Files(
        file=file,
        file_hash=digest,
        weights=weights,
        made=made,
        linked={names[place]: path for place, path in beside.items()},
        source_hash=source_hash,
        is_drawn=bool(missing),
        notes=notes,
    )
    return ModelDraft(model, files, missing, conversion, specs, seed)


def check_space(networks: Iterable[Files], folder: Path) -> None:
    """Raise StorageError where the missing files of ``networks`` do not fit ``folder``."""
    made = {name: n_bytes for network in networks for name, n_bytes in network.made.items()}
    n_bytes = sum(size for name, size in made.items() if not (folder / name).exists())
    check_free(n_bytes, folder, "the files of the networks need")


def write(draft: ModelDraft, folder: Path) -> None:
    """Write the files of ``draft`` that ``folder`` lacks; raises ModelError, StorageError.

    The model of ``draft`` cannot be used afterwards.
    """
    files, model, missing = draft.files, draft.model, draft.missing
    check_space([files], folder)
    for name, path in files.linked.items():
        if not (folder / name).exists():
            link(path, folder, name)
    if (folder / files.file).exists():
        return
    if draft.conversion is not None:
        model, missing = _converted(draft, draft.conversion, folder), {}
    if files.weights:
        stored = list(model.graph.initializer) if draft.conversion is not None else []
        _write_beside(model, stored, missing, draft.seed, folder / files.weights)
    else:
        fill(model.graph, missing, draft.seed)
    try:
        content = model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ModelError(
            "with its nodes named by their index it takes more than 2 GB",
            fix="save it with its weights in a file beside it (onnx.save with external data)",
        ) from error
    write_atomic(folder / files.file, content)


def _converted(draft: ModelDraft, wanted: Conversion, folder: Path) -> ModelProto:
    check_weights(draft.model, wanted.precision)
    fill(draft.model.graph, draft.missing, draft.seed)
    if wanted.int8 is not None:
        return quantise(draft.model, wanted.int8, draft.specs, folder)
    return to_bf16(draft.model) if wanted.precision == "bf16" else to_fp16(draft.model)


def _missing(model: ModelProto) -> dict[str, MissingWeights]:
    """The weights that the file has no numbers for; their placeholder nodes are removed."""
    missing = without_numbers(model.graph)
    return missing | take_out_weights(model.graph) if _has_no_weights(model) else missing


def _has_no_weights(model: ModelProto) -> bool:
    """Whether constants are placeholders for the weights: in the zoo, or where less is stored."""
    if model.producer_name == "mansard":
        return True
    n_stored: int = sum(math.prod(tensor.dims) for tensor in model.graph.initializer)
    return n_stored < sum(
        math.prod(weight.shape) for weight in placeholder_weights(model.graph).values()
    )


def _size_bytes(missing: MissingWeights) -> int:
    width = helper.tensor_dtype_to_np_dtype(missing.data_type).itemsize
    if any(size < 0 for size in missing.shape):
        raise ModelError(f"a weight of shape {list(missing.shape)} cannot be")
    return math.prod(missing.shape) * width


def _write_beside(
    model: ModelProto,
    stored: Iterable[TensorProto],
    missing: Mapping[str, MissingWeights],
    seed: int,
    path: Path,
) -> None:
    """Write the large tensors of ``stored`` and ``missing`` into ``path``, unless it exists.

    Offsets follow from the sizes alone, so graphs of other batches find the same tensors there.
    """
    placed: list[tuple[TensorProto, int, int]] = []
    with temporary_folder(path.parent, path.name) as scratch, storage_errors(path.parent):
        held = scratch / "weights"
        with held.open("wb") as stream:
            writer = _Writer(None if path.exists() else stream)
            for tensor in stored:
                if tensor.HasField("raw_data") and len(tensor.raw_data) >= _LEAST_BYTES:
                    placed.append((tensor, writer.put(tensor.raw_data), len(tensor.raw_data)))
                    tensor.ClearField("raw_data")
            for tensor, values in drawn_tensors(model.graph, missing, seed):
                if len(values) < _LEAST_BYTES:
                    tensor.raw_data = values
                else:
                    placed.append((tensor, writer.put(values), len(values)))
            stream.flush()
            os.fsync(stream.fileno())
        if not path.exists():
            held.replace(path)
    for tensor, offset, length in placed:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", path.name), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))


class _Writer:
    """Appends tensors to a stream, page-aligned; stream None: only computes their offsets."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream, self._at = stream, 0

    def put(self, data: bytes) -> int:
        """Append ``data``; returns its offset."""
        start = self._at + -self._at % _PAGE_BYTES
        if self._stream is not None:
            self._stream.write(bytes(start - self._at))
            self._stream.write(data)
        self._at = start + len(data)
        return start
