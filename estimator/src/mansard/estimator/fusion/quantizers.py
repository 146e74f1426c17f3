"""Which quantisers TensorRT moves, and what makes an int8 convolution one of an image.

MaxPool and Concat pick elements, so quantising behind or in front of them gives the same
integers. TensorRT moves QuantizeLinear in front of them ("Explicit Quantization" in its
documentation; recorded engines of ResNet-18 with quantised residuals; the clones in the log of
NVIDIA/TensorRT#2627).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from mansard.estimator.fusion.roles import Role
from mansard.estimator.fusion.storage import Part
from mansard.estimator.tensors import Node, Origin, Tensor

IMAGE_CHANNELS = 4  # an image has no more; TensorRT stores these as NC/4HW4, others as NC/32HW32


class Quantizers(msgspec.Struct, frozen=True):
    """``early``: by the index of a MaxPool or Concat, the quantiser that runs in front of it.

    ``raw``: tensors that nothing but quantisers reads.
    """

    early: Mapping[int, Node]
    raw: Collection[str]


def find_quantizers(
    nodes: Sequence[Node],
    roles: Mapping[tuple[str, str], Role],
    read_elsewhere: Iterable[str],
) -> Quantizers:
    """The quantisers of one graph. ``read_elsewhere``: outputs, and what inner graphs read."""
    if not any(map(_is_live_quantizer, nodes)):
        return Quantizers({}, ())
    readers = _readers(nodes, read_elsewhere)
    common: dict[str, Node] = {}  # the quantiser that all readers of a tensor are equal to
    early: dict[int, Node] = {}
    for node in reversed(nodes):
        for output in node.outputs:
            found = _common_quantizer(output.name, readers, common, early)
            if found is None:
                continue
            if len(node.outputs) > 1:
                continue
            is_of_data = all(tensor.origin is Origin.DATA for tensor in node.present)
            if node.op_type in ("Concat", "MaxPool") and is_of_data:
                early[node.index] = found
            elif roles[node.domain, node.op_type] is Role.VIEW:
                common[output.name] = found
    raw = {
        name
        for name, found in readers.items()
        if all(each is not None and _is_live_quantizer(each) for each in found)
    }
    return Quantizers(early, raw)


def _readers(nodes: Iterable[Node], read_elsewhere: Iterable[str]) -> dict[str, list[Node | None]]:
    """The readers of each tensor of data; None stands for a reader outside this graph."""
    readers: dict[str, list[Node | None]] = {name: [None] for name in read_elsewhere}
    for node in nodes:
        for tensor in node.distinct:
            if tensor.origin is Origin.DATA:
                readers.setdefault(tensor.name, []).append(node)
    return readers


def _common_quantizer(
    name: str,
    readers: Mapping[str, list[Node | None]],
    common: Mapping[str, Node],
    early: Mapping[int, Node],
) -> Node | None:
    """The quantiser that all readers of ``name`` begin with; None where they differ."""
    chosen: Node | None = None
    for reader in readers.get(name, ()):
        if reader is None or not reader.outputs:
            return None
        if _is_live_quantizer(reader):
            # One scale, known before any data: an axis may mean another one elsewhere.
            scale = reader.optional(1)
            is_one = scale is not None and scale.origin is not Origin.DATA and scale.n_elements == 1
            is_returned = None in readers.get(reader.output.name, ())
            found = reader if is_one and not is_returned else None
        else:
            found = early.get(reader.index) or common.get(reader.output.name)
        if found is None or (chosen is not None and parameters(found) != parameters(chosen)):
            return None
        chosen = chosen or found
    return chosen


def _is_live_quantizer(node: Node) -> bool:
    """Whether ``node`` quantises data."""
    return node.op_type == "QuantizeLinear" and not node.is_constant


def parameters(node: Node) -> tuple[object, ...]:
    """Two quantisers of one tensor with equal parameters make the same integers."""
    return node.outputs[0].dtype.name, *map(_number, node.inputs[1:])


def _number(tensor: Tensor | None) -> object:
    """A scale or zero point by its value where that is known, else by its name."""
    if tensor is None or tensor.value is None:
        return None if tensor is None else tensor.name
    return tensor.value.data


def reads_image(node: Node, reads: Sequence[Part]) -> bool:
    """Whether ``node`` is an int8 convolution of an image: of a few dequantised channels."""
    weights = node.optional(1)
    return (
        node.op_type == "Conv"
        and bool(reads)
        and reads[0].n_bits == 8
        and weights is not None
        and weights.rank > 2
        and weights.shape[1] <= IMAGE_CHANNELS
        and node.integer("group", 1) == 1
    )
