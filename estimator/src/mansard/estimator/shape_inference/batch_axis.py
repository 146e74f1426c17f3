"""Whether the first axis of the inputs is the batch where no dimension has its name.

The axis is followed from the inputs through the nodes, each of which keeps it, moves it or says
what it is. A convolution has the batch in front of its channels; a recurrent layer has steps and
sequences; whatever adds up, compares or picks along the axis shows that its elements are no
separate items. An axis that reaches the outputs untouched is shared by items that do not meet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator.model import Model
from mansard.estimator.operators.elementwise import PER_ELEMENT
from mansard.estimator.operators.recurrent import GATES
from mansard.estimator.shape_inference.dimensions import is_batch_name
from mansard.estimator.tensors import Node, Origin, Shape, Tensor

Verdict = Literal["batch", "shared", "none", "unknown"]


class BatchEvidence(msgspec.Struct, frozen=True):
    """What the nodes make of the first axis of the inputs.

    ``batch``: an operator or the name of an output says so; with a ``reason``, a later node joins
    its elements, and no output has them. ``shared``: it goes from the inputs to the outputs, and no
    node mixes its elements. ``none``: it is something else, for the ``reason``. ``unknown``: it
    cannot be followed.
    """

    verdict: Verdict
    reason: str = ""
    is_sequence: bool = False  # of steps, of a recurrent layer
    is_mixed: bool = False  # a sum, a comparison or a product over it


_IS_BATCH = BatchEvidence("batch")

# Operators on [batch, channels, spatial…].
_ON_CHANNELS = frozenset(
    {"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "DepthToSpace"}
    | {"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GroupNormalization"}
    | {"InstanceNormalization", "LRN", "LpPool", "MaxPool", "QLinearConv", "SpaceToDepth"}
)
# A matrix of rows goes through this too: only images and signals show where the batch is.
_NORMALISES_CHANNELS = "BatchNormalization"
_ELEMENTWISE = frozenset(
    {*PER_ELEMENT, "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Clip"}
    | {"DequantizeLinear", "Dropout", "Expand", "Gelu", "Identity", "Max", "Mean", "Min"}
    | {"QuantizeLinear", "Sum", "Swish"}
)
# Operators that compute along one axis: the attribute's default, and whether all behind it too.
_ALONG: Mapping[str, tuple[int, bool]] = MappingProxyType(
    {
        "ArgMax": (0, False),
        "ArgMin": (0, False),
        "Hardmax": (-1, False),
        "LayerNormalization": (-1, True),
        "LogSoftmax": (-1, False),
        "LpNormalization": (-1, False),
        "RMSNormalization": (-1, True),
        "Softmax": (-1, False),
        "Split": (0, False),
        "TopK": (-1, False),
    }
)
_FLATTENING = frozenset({"Hardmax", "LogSoftmax", "Softmax"})  # before version 13
_BORDERS = frozenset({"Concat", "Pad", "Resize", "Slice", "Tile", "Upsample"})
_CLASSICAL = "ai.onnx.ml"


def batch_evidence(
    model: Model, nodes: Sequence[Node], tensors: Mapping[str, Tensor], starts: frozenset[str]
) -> BatchEvidence:
    """What the nodes make of the first axis of the inputs ``starts``."""
    axes = {name: 0 for name in starts if tensors[name].rank}
    sizes = {tensors[name].shape[0] for name in axes}
    evidence: BatchEvidence | None = None
    for node in nodes:
        if axes.keys().isdisjoint(tensor.name for tensor in node.present) or _is_unknown(node):
            continue
        try:
            axis = _follow(node, axes)
        except (MansardError, ArithmeticError, LookupError, TypeError, ValueError):
            continue  # the score itself says what is wrong with the node
        if isinstance(axis, BatchEvidence):
            if axis.is_sequence:
                return axis  # steps are no items, whatever runs on each of them
            if evidence == _IS_BATCH and axis.verdict == "none" and _is_whole(node, axes, sizes):
                evidence = BatchEvidence("batch", axis.reason)
            evidence = evidence or axis
            axis = 0 if axis.verdict == "batch" and node.op_type not in GATES else None
        if axis is not None:
            axes.update((output.name, axis) for output in node.outputs if output.rank > axis)
    if evidence is None:
        return _at_the_ends(model, tensors, starts, axes)
    ends = {size for output in model.outputs for size in tensors[output.name].shape[:1]}
    return _IS_BATCH if evidence.verdict == "batch" and sizes & ends else evidence


def _at_the_ends(
    model: Model, tensors: Mapping[str, Tensor], starts: frozenset[str], axes: Mapping[str, int]
) -> BatchEvidence:
    """What the outputs say of an axis that no node says anything of."""
    reached = [output for output in model.outputs if axes.get(output.name) == 0]
    if not reached:
        return _declared(model)
    if any(is_batch_name((output.dimensions or (None,))[0]) for output in reached):
        return _IS_BATCH
    if all(tensors[name].rank == 1 for name in starts):
        return BatchEvidence("none", "it is the only dimension")
    return _other_start(model, starts) or BatchEvidence("shared")


def _is_whole(node: Node, axes: Mapping[str, int], sizes: set[int]) -> bool:
    """Whether the axis comes into ``node`` as it is, and not merged with others."""
    data = next(tensor for tensor in node.present if tensor.name in axes)
    return data.shape[axes[data.name]] in sizes


def _other_start(model: Model, starts: frozenset[str]) -> BatchEvidence | None:
    """Evidence against a batch where another input begins with another dimension of its kind."""
    first = min(starts)
    # Inputs of rank 1, such as the sizes of an image, need not have the batch.
    sizes = {
        source.name: (source.dimensions or (None,))[0]
        for source in model.inputs
        if source.name in starts or len(source.dimensions or ()) > 1
    }
    size = sizes[first]
    for name, other in sizes.items():
        if name in starts or other in (None, 1) or size in (None, 1):
            continue
        if isinstance(other, int) == isinstance(size, int):
            return BatchEvidence("none", f"input {name!r} begins with another dimension")
    return None


def _declared(model: Model) -> BatchEvidence:
    """What the file says of axes that cannot be followed: equal ones are the same."""
    sizes = {
        (source.dimensions or (None,))[0]
        for source in (*model.inputs, *model.outputs)
        if source.dimensions is None or source.dimensions
    }
    is_same = len(sizes) == 1 and None not in sizes and "?" not in sizes
    return BatchEvidence("shared" if is_same else "unknown", "no output begins with it")


def _is_unknown(node: Node) -> bool:
    return any(tensor.unknown or tensor.items for tensor in (*node.present, *node.outputs))


def _follow(node: Node, axes: Mapping[str, int]) -> BatchEvidence | int | None:  # noqa: C901, PLR0911, PLR0912 - one line an operator
    """Where the axis is in the node's outputs; what the node says of it; None where it ends."""
    position = next(i for i, t in enumerate(node.inputs) if t is not None and t.name in axes)
    data = node.input(position)
    axis, op_type = axes[data.name], node.op_type
    if node.domain == _CLASSICAL and data.rank == 2:
        return _defined(node, axis, 0, "a column")
    if node.domain:
        return None
    if op_type in _ON_CHANNELS or (op_type == _NORMALISES_CHANNELS and data.rank > 2):
        return _defined(node, axis, 0, "channels" if axis == 1 else "a place in an image or signal")
    if op_type in GATES and position == 0:
        found = _defined(node, axis, 0 if node.integer("layout", 0) else 1, "steps of a sequence")
        return msgspec.structs.replace(found, is_sequence=found.verdict == "none")
    if op_type in ("MatMul", "Gemm"):
        return _product(node, axes)
    if op_type == "Transpose":
        order = node.integers("perm") or tuple(reversed(range(data.rank)))
        return order.index(axis)
    if op_type in ("Squeeze", "Unsqueeze"):
        return _squeezed(node, data, axis)
    if op_type in ("Reshape", "Flatten"):
        return _regrouped(data.shape, axis, node.output.shape)
    if op_type.startswith("Reduce"):
        return _reduced(node, data, axis)
    if op_type in _ALONG:
        default, is_tail = _ALONG[op_type]
        is_old = op_type in _FLATTENING and node.opset < 13
        along = data.axis(node.integer("axis", 1 if is_old and data.rank > 1 else default))
        if axis == along or (axis > along and (is_tail or is_old)):
            return _mixed(node)
        drops = op_type.startswith("Arg") and not node.integer("keepdims", 1)
        return axis - (drops and along < axis)
    if op_type == "Gather":
        return _gathered(node, position, axis)
    if op_type in _BORDERS:
        is_whole = node.output.rank == data.rank and node.output.shape[axis] == data.shape[axis]
        return axis if is_whole else BatchEvidence("none", f"{node.label} changes its length")
    if op_type in _ELEMENTWISE:
        return _spread(node, data, axis)
    return None


def _defined(node: Node, axis: int, batch: int, other: str) -> BatchEvidence:
    if axis == batch:
        return _IS_BATCH
    return BatchEvidence("none", f"{node.label} takes it as {other}")


def _mixed(node: Node) -> BatchEvidence:
    return BatchEvidence("none", f"{node.label} computes along it", is_mixed=True)


def _product(node: Node, axes: Mapping[str, int]) -> BatchEvidence | int | None:
    left, right = node.input(0), node.input(1)
    rank = node.output.rank
    of_left, of_right = axes.get(left.name), axes.get(right.name)
    if node.op_type == "Gemm":
        rows, inner = (1, 0) if node.integer("transA", 0) else (0, 1)
        columns = 0 if node.integer("transB", 0) else 1
    else:
        rows, inner, columns = left.rank - 2, left.rank - 1, right.rank - 1
    if of_left == inner or (
        of_right is not None and of_right not in (columns, *range(right.rank - 2))
    ):
        return _mixed(node)
    places = set()
    if of_left is not None:
        places.add(rank - 2 if of_left == rows else of_left + rank - left.rank)
    if of_right is not None:
        places.add(rank - 1 if of_right == columns else of_right + rank - right.rank)
    return places.pop() if len(places) == 1 else _mixed(node)


def _spread(node: Node, data: Tensor, axis: int) -> BatchEvidence | int:
    """As NumPy aligns shapes, from the back; a constant for each element is for no items."""
    after = axis - data.rank
    for tensor in node.present:
        is_long = tensor.rank >= -after and tensor.shape[after] == data.shape[axis] > 1
        if is_long and tensor.origin is Origin.FILE:
            return BatchEvidence("none", f"{node.label} has a constant for each element of it")
    return node.output.rank + after


def _regrouped(before: Shape, axis: int, after: Shape) -> int | None:
    """The axis in ``after`` that begins with the one in ``before``, whole or merged with others."""
    if not before[axis]:
        return None
    ahead = math.prod(before[:axis])
    for place, size in enumerate(after):
        if math.prod(after[:place]) == ahead and size and size % before[axis] == 0:
            # Axes of one element stand anywhere: the one of the same size is meant.
            same = [i for i in range(place, len(after)) if math.prod(after[place:i]) == 1]
            return next((i for i in same if after[i] == before[axis]), place)
    return None


def _squeezed(node: Node, data: Tensor, axis: int) -> int | None:
    wider = max(data.rank, node.output.rank)
    given = node.integers("axes")
    if given is None:
        given = node.value_ints(1) if node.has(1) else _ones(data.shape)
    removed = {each % wider for each in given}
    if node.op_type == "Unsqueeze":
        return [place for place in range(wider) if place not in removed][axis]
    return None if axis in removed else axis - sum(each < axis for each in removed)


def _ones(shape: Shape) -> tuple[int, ...]:
    return tuple(axis for axis, size in enumerate(shape) if size == 1)


def _reduced(node: Node, data: Tensor, axis: int) -> BatchEvidence | int | None:
    given = node.integers("axes")
    if given is None and node.has(1):
        given = node.value_ints(1)
    along = {data.axis(each) for each in given or ()}
    if not along:
        return None  # of everything: a scale for all of the data
    if axis in along:
        return _mixed(node)
    keeps = node.integer("keepdims", 1)
    return axis if keeps else axis - sum(each < axis for each in along)


def _gathered(node: Node, position: int, axis: int) -> BatchEvidence | int:
    along = node.input(0).axis(node.integer("axis", 0))
    if position == 1:
        return along + axis
    if axis == along:
        return BatchEvidence("none", f"{node.label} picks elements along it")
    return axis if axis < along else axis + node.input(1).rank - 1
