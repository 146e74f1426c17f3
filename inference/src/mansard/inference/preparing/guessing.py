"""Values for inputs without given data.

Floating inputs get random numbers. An integer that is used unchanged as an index of a table gets a
row of that table. The length of a recurrent layer's sequence gets the whole length. Integers of 8
bits get all values. Other integers, such as masks, get 1. An input that sets shapes has no default:
other shapes than those of the score would be measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from mansard.core.errors import UsageError
from mansard.estimator.model import Model, ModelNode, all_nodes
from mansard.estimator.numbers import ElementType
from mansard.estimator.tensors import Tensor
from mansard.inference.plan import InputSpec

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
_BYTES: Mapping[str, tuple[int, int]] = {"uint8": (0, 256), "int8": (-128, 128)}  # pixels
_INTEGERS = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64"})

# What hands the numbers of these inputs on as they are.
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
    """What becomes of an input's numbers."""

    limit: int | None  # of the smallest table that they index
    length: int | None  # of the sequences whose lengths they are
    shaping: str | None  # the node that takes a shape from them


def guess(tensor: Tensor, readers: Readers, tensors: Mapping[str, Tensor]) -> InputSpec:
    """What to feed the input ``tensor``; ``tensors`` are all of the network, by name.

    Raises UsageError, which names the input, where nothing that can be made would do.
    """
    name, dtype = tensor.name, tensor.dtype
    if tensor.items is not None:
        raise UsageError(f"input {name!r} is a sequence", fix=_NO_ARRAY)
    if tensor.unknown is not None:
        raise _cannot(name, "is no tensor of a known shape")
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
        return _spec(tensor, "integers", 0, min(uses.limit, _largest(dtype) + 1))
    if uses.length is not None:
        return _spec(tensor, "integers", uses.length, uses.length + 1)
    if dtype.name in _BYTES:
        return _spec(tensor, "integers", *_BYTES[dtype.name])
    return _spec(tensor, "ones", 0, 1)


def check_guessable(names: Iterable[str], readers: Readers) -> None:
    """Raise UsageError for an input that shapes follow from: shapes are asked for before data."""
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


def _largest(dtype: ElementType) -> int:
    return int(2 ** (dtype.n_bits - (not dtype.name.startswith("u"))) - 1)


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
    """What becomes of the numbers of the input ``name``; tables are found in ``tensors``."""
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
    """The use as an index along ``axis`` of the input ``table``."""
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
    """The tensors that hold the numbers of this input, as they are."""
    if node.op_type in ("Loop", "Scan"):
        for graph in node.subgraphs:
            if position < len(graph.inputs):
                yield graph.inputs[position].name
    elif not node.domain and (
        position in _SAME_OF_SEVERAL.get(node.op_type, ())
        or (node.op_type in _SAME and position == 0)
    ):
        yield from filter(None, node.outputs)
