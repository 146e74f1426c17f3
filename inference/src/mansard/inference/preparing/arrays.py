"""Values of a network's inputs: the user's arrays, and guesses for inputs without one.

Arrays are checked against the network. Without them floating inputs get random numbers. An integer
that is used unchanged as an index of a table gets a row of that table. The length of a recurrent
layer's sequence gets the whole length. Integers of 8 bits get all values. Other integers, such as
masks, get 1. An input that sets shapes has no default: other shapes than those of the score would
be measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from mansard.core.errors import UsageError
from mansard.core.text import first_of
from mansard.estimator.model import Given, Model, ModelInput, ModelNode, Value, all_nodes
from mansard.estimator.shape_inference.dimensions import InputDimension, find_dimensions
from mansard.estimator.tensors import Tensor
from mansard.inference.inputs import numpy_name
from mansard.inference.npz import Array, StoredArray, check_size, stored_arrays
from mansard.inference.plan import InputSpec

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
_BYTES: Mapping[str, tuple[int, int]] = {"uint8": (0, 256), "int8": (-128, 128)}  # pixels
_INTEGERS = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64"})

# Operators that pass on the numbers of these inputs unchanged.
_SAME = frozenset(
    {"Cast", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice", "Split"}
    | {"Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
_SAME_OF_SEVERAL = {"Concat": range(1_000_000), "Where": range(1, 3)}
# Inputs whose numbers set the shape of the output, or how often a body runs.
_SHAPING: Mapping[str, tuple[int, ...]] = {
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Loop": (0,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
_INDEXING = {  # and the attribute that says along which axis
    **dict.fromkeys(("Gather", "GatherElements", "Scatter", "ScatterElements"), "axis"),
    **dict.fromkeys(("GatherND", "ScatterND"), "batch_dims"),
}
_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
# com.microsoft.EmbedLayerNormalization: which table each of its indices reads.
_EMBED_TABLES = {0: 2, 1: 4, 8: 3}

_NO_ARRAY = "networks are measured whose inputs are numbers; cut this part off"

_Use = tuple[Literal["index", "length", "shape", "number"], int]


# The nodes that read each tensor, and as which of their inputs.
Readers: TypeAlias = Mapping[str, Sequence[tuple[ModelNode, int]]]


class Uses(NamedTuple):
    """How a network uses an input's numbers."""

    limit: int | None  # of the smallest table that the numbers index
    length: int | None  # of the sequences whose lengths the numbers are
    shaping: str | None  # the node that takes a shape from the numbers


def guess(tensor: Tensor, readers: Readers, tensors: Mapping[str, Tensor]) -> InputSpec:
    """The spec of what to feed the input ``tensor``; ``tensors``: all of the network, by name.

    Raises UsageError, which names the input, where no made-up array would be valid.
    """
    name, dtype = tensor.name, tensor.dtype
    if tensor.items is not None:
        raise UsageError(f"input {name!r} is a sequence", fix=_NO_ARRAY)
    if tensor.unknown is not None:
        raise _cannot(name, "is not a tensor of a known shape")
    if dtype.name in _FLOATS:
        return _spec(tensor, "uniform", 0, 1)
    if dtype.name not in _INTEGERS and dtype.name not in _BYTES and dtype.name != "bool":
        raise UsageError(f"input {name!r} is {dtype.name}", fix=_NO_ARRAY)
    uses = uses_of(name, readers, tensors)
    if dtype.name == "bool":
        return _spec(tensor, "ones", 0, 1)
    if uses.limit is not None:
        if uses.limit < 1:
            raise _cannot(name, "holds indices of a table without rows")
        n_value_bits = dtype.n_bits - (not dtype.name.startswith("u"))
        return _spec(tensor, "integers", 0, min(uses.limit, int(2**n_value_bits)))
    if uses.length is not None:
        return _spec(tensor, "integers", uses.length, uses.length + 1)
    if dtype.name in _BYTES:
        return _spec(tensor, "integers", *_BYTES[dtype.name])
    return _spec(tensor, "ones", 0, 1)


def check_guessable(names: Iterable[str], readers: Readers) -> None:
    """Raise UsageError for inputs that determine shapes: shapes are asked for before data."""
    for name in names:
        shaping = uses_of(name, readers, {}).shaping
        if shaping is not None:
            raise _cannot(name, f"sets a shape ({shaping}), so it cannot be guessed")


def _spec(
    tensor: Tensor, fill: Literal["uniform", "integers", "ones"], low: int, high: int
) -> InputSpec:
    return InputSpec(
        name=tensor.name,
        type_name=tensor.dtype.name,
        shape=tensor.shape,
        fill=fill,
        low=float(low),
        high=float(high),
    )


def _cannot(name: str, why: str) -> UsageError:
    return UsageError(f"input {name!r} {why}", fix="give its data with --inputs x.npz")


def find_readers(model: Model) -> Readers:
    """The readers of every tensor of ``model``, those inside graphs of its nodes too."""
    readers: dict[str, list[tuple[ModelNode, int]]] = {}
    for node in all_nodes(model.nodes):
        for position, source in enumerate(node.inputs):
            readers.setdefault(source, []).append((node, position))
    return readers


def uses_of(name: str, readers: Readers, tensors: Mapping[str, Tensor]) -> Uses:
    """How the network uses the input ``name``; ``tensors`` has the tables that it indexes."""
    limits: list[int] = []
    lengths: list[int] = []
    shaping: str | None = None
    seen, waiting = {name}, [name]
    while waiting:
        for node, position in readers.get(waiting.pop(), ()):
            kind, number = _use(node, position, tensors)
            if kind == "index":
                limits.append(number)
            elif kind == "length":
                lengths.append(number)
            elif kind == "shape":
                shaping = shaping or node.label
            for further in _same_numbers(node, position):
                if further not in seen:
                    seen.add(further)
                    waiting.append(further)
    return Uses(min(limits, default=None), min(lengths, default=None), shaping)


def _use(node: ModelNode, position: int, tensors: Mapping[str, Tensor]) -> _Use:
    use: _Use = ("number", 0)
    if node.domain == "com.microsoft" and node.op_type == "EmbedLayerNormalization":
        table = _EMBED_TABLES.get(position)
        use = use if table is None else _index(node, table, 0, tensors)
    elif node.domain:
        pass
    elif node.op_type in _INDEXING and position == 1:
        axis = node.attributes.get(_INDEXING[node.op_type], 0)
        use = _index(node, 0, axis if isinstance(axis, int) else 0, tensors)
    elif node.op_type in _RECURRENT and position == 4:
        use = _length(node, tensors)
    elif position in _SHAPING.get(node.op_type, ()):
        use = "shape", 0
    return use


def _index(node: ModelNode, table: int, axis: int, tensors: Mapping[str, Tensor]) -> _Use:
    """The use as an index into the input ``table`` along ``axis``."""
    shape = _shape(node, table, tensors)
    if shape is None or not -len(shape) <= axis < len(shape):
        return "number", 0
    return "index", shape[axis]


def _length(node: ModelNode, tensors: Mapping[str, Tensor]) -> _Use:
    shape = _shape(node, 0, tensors)
    if shape is None or len(shape) < 2:
        return "number", 0
    return "length", shape[1 if node.attributes.get("layout") else 0]


def _shape(node: ModelNode, position: int, tensors: Mapping[str, Tensor]) -> tuple[int, ...] | None:
    name = node.inputs[position] if position < len(node.inputs) else ""
    tensor = tensors.get(name)
    return None if tensor is None or tensor.unknown is not None else tensor.shape


def _same_numbers(node: ModelNode, position: int) -> Iterator[str]:
    """The tensors that hold the numbers of input ``position`` of ``node`` unchanged."""
    if node.op_type in ("Loop", "Scan"):
        for graph in node.subgraphs:
            if position < len(graph.inputs):
                yield graph.inputs[position].name
    elif not node.domain and (
        position in _SAME_OF_SEVERAL.get(node.op_type, ())
        or (node.op_type in _SAME and position == 0)
    ):
        yield from filter(None, node.outputs)


_SHOWN = 8  # names in a message
_MOST_VALUES = 1 << 16  # of an input that sets shapes: the estimator keeps each as an integer


def given_by_arrays(
    model: Model, readers: Readers, given: Given, path: Path
) -> tuple[dict[str, Array], Given]:
    """The arrays of ``path`` by input, and ``given`` with the dimensions that follow from them.

    The headers are compared before any number is read: a file of 1 MB can hold 1 GiB of zeros.
    Raises UsageError for names, types and sizes that do not fit the network or ``given``, and as
    ``read_arrays``.
    """
    sources = {source.name: source for source in model.inputs}
    with stored_arrays(path) as stored:
        strangers = [name for name in stored if name not in sources]
        if strangers or not stored:
            what = f"the model has no input {strangers[0]!r}" if strangers else "it holds no array"
            raise UsageError(
                what, where=str(path), fix=f"its inputs are {first_of(sorted(sources), _SHOWN)}"
            )
        for name, array in stored.items():
            _check_type(sources[name], array, path)
        shaping = [
            name
            for name, array in stored.items()
            if array.dtype.kind in "iub" and uses_of(name, readers, {}).shaping is not None
        ]
        arrays = {name: _few(stored[name], name, path) for name in shaping}
        given = msgspec.structs.replace(
            given,
            values={name: _value(array) for name, array in arrays.items()},
            shapes={
                name: array.shape
                for name, array in stored.items()
                if sources[name].dimensions is None
            },
        )
        given = msgspec.structs.replace(given, dims=_dims(model, given, stored, path))
        check_size(sum(array.n_bytes for array in stored.values()), path)
        arrays |= {name: stored[name].whole() for name in stored if name not in arrays}
    return arrays, given


def _few(array: StoredArray, name: str, path: Path) -> Array:
    """All numbers of an array that sets shapes; raises UsageError where there are too many."""
    if prod(array.shape) > _MOST_VALUES:
        raise UsageError(
            f"the array for {name!r} is {list(array.shape)}, and its values set shapes: "
            f"at most {_MOST_VALUES:,} of them are read",
            where=str(path),
        )
    return array.whole()


def _dims(
    model: Model, given: Given, stored: Mapping[str, StoredArray], path: Path
) -> dict[str, int]:
    """The sizes of ``given``, and those that follow from the arrays."""
    dims = dict(given.dims)
    dimensions = find_dimensions(model, given)
    for name, array in stored.items():
        input_dims = dimensions.by_input.get(name, ())
        if len(input_dims) != len(array.shape):
            raise UsageError(
                f"the array for {name!r} has {len(array.shape)} dimensions, "
                f"the input {len(input_dims)}",
                where=str(path),
            )
        pairs = tuple(zip(input_dims, array.shape, strict=True))
        if any(dim.fixed not in {None, size} for dim, size in pairs):
            sizes = (dim.symbol if dim.fixed is None else str(dim.fixed) for dim in input_dims)
            raise _other_shape(name, array.shape, f"[{', '.join(sizes)}]", path)
        for dim, size in pairs:
            if dim.fixed is None:
                is_batch = dim.symbol in dimensions.batch_symbols
                stated = given.batch if is_batch and dim.symbol not in dims else None
                _note(dim, size, dims, stated, path)
    return dims


def _other_shape(name: str, shape: tuple[int, ...], wanted: str, path: Path) -> UsageError:
    return UsageError(
        f"the array for {name!r} is {list(shape)}, the input {wanted}",
        where=str(path),
        fix="give an array of this shape, or another --batch or --dim",
    )


def _note(
    dim: InputDimension, size: int, dims: dict[str, int], batch: int | None, path: Path
) -> None:
    noted = dims.setdefault(dim.symbol, size if batch is None else batch)
    if dims.get(dim.indexed_name, noted) != size:
        raise UsageError(
            f"dimension {dim.axis} of the array for {dim.tensor!r} is {size}, "
            f"but {dim.symbol!r} is {noted}",
            where=str(path),
            fix="give arrays of one size, or leave the dimension out"
            if batch is None
            else f"say --batch {size}",
        )


def _value(array: Array) -> Value:
    flat = array.reshape(-1).tolist()
    return tuple(flat) if array.ndim else flat[0]


def _check_type(source: ModelInput, array: StoredArray, path: Path) -> None:
    if source.dtype is None or source.kind != "tensor":
        raise UsageError(f"input {source.name!r} is not a tensor", where=str(path))
    wanted = numpy_name(source.dtype.name)
    if array.dtype.name != wanted:
        bits = " (the bits of bfloat16)" if wanted != source.dtype.name else ""
        raise UsageError(
            f"the array for {source.name!r} is {array.dtype.name}, the input {source.dtype.name}",
            where=str(path),
            fix=f"save it as {wanted}{bits}",
        )


def spec_of_array(
    tensor: Tensor, array: Array, readers: Readers, tensors: Mapping[str, Tensor], path: Path
) -> InputSpec:
    """The spec of an input that is read from the file; raises UsageError where it does not fit."""
    name = tensor.name
    if tensor.unknown is not None or array.shape != tensor.shape:
        raise _other_shape(name, array.shape, str(list(tensor.shape)), path)
    if array.dtype.kind in "iu" and array.size:
        limit = uses_of(name, readers, tensors).limit
        low, high = int(array.min()), int(array.max())
        if limit is not None and not (-limit <= low and high < limit):
            raise UsageError(
                f"the array for {name!r} holds {high if high >= limit else low}, "
                f"and indexes a table of {limit} rows",
                where=str(path),
            )
    return InputSpec(name=name, type_name=tensor.dtype.name, shape=array.shape, fill="file")


def notes_on(arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """Notes for the user on arrays that are fed unchanged."""
    notes = []
    for name, array in arrays.items():
        n_odd = int(np.size(array) - np.isfinite(array).sum()) if array.dtype.kind == "f" else 0
        if n_odd:
            notes.append(f"{n_odd} of {array.size} numbers for input {name!r} are not finite")
    return tuple(notes)
