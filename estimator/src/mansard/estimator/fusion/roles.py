"""What a runtime's fuser sees in an operator: how its output follows from its inputs.

After the layer fusion catalogue of TensorRT's performance documentation and the graph
optimisations of ONNX Runtime; docs/understand/traffic.md has the rules as a table.

TensorRT moves quantisers: MaxPool and Concat pick elements, so quantising behind or in front of
them gives the same integers, and QuantizeLinear goes in front of them ("Explicit Quantization" in
its documentation; recorded engines of ResNet-18 with quantised residuals; the clones in the log of
NVIDIA/TensorRT#2627).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec

from mansard.estimator.fusion.storage import Part
from mansard.estimator.operators.registry import Operator
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
            quantizer = _common_quantizer(output.name, readers, common, early)
            if quantizer is None:
                continue
            if len(node.outputs) > 1:
                continue
            is_of_data = all(tensor.origin is Origin.DATA for tensor in node.present)
            if node.op_type in ("Concat", "MaxPool") and is_of_data:
                early[node.index] = quantizer
            elif roles[node.domain, node.op_type] is Role.VIEW:
                common[output.name] = quantizer
    raw = {
        name
        for name, quantizer in readers.items()
        if all(reader is not None and _is_live_quantizer(reader) for reader in quantizer)
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
            quantizer = reader if is_one and not is_returned else None
        else:
            quantizer = early.get(reader.index) or common.get(reader.output.name)
        if quantizer is None or (
            chosen is not None and parameters(quantizer) != parameters(chosen)
        ):
            return None
        chosen = chosen or quantizer
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


class Role(IntEnum):
    """How an operator can be fused."""

    POINTWISE = 0  # each output element from the elements at its position
    MOVE = 1  # each output element is one input element
    ROW = 2  # rows are reduced, and perhaps written again: softmax, norms, reductions
    PRODUCT = 3  # convolutions and matrix products
    VIEW = 4  # a view of the first input
    FREE = 5  # hands tensors around: control flow and sequences
    SCATTER = 6  # writes updates into its first input
    JOIN = 7  # Concat: its inputs may be written into its output directly
    SOLID = 8  # a kernel of its own: pooling, recurrence, sorting, …


_MICROSOFT = "com.microsoft"
_FREE = ("Sequence", "Optional")
_CONTROL = ("If", "Loop", "Scan", "SequenceMap")
MAX_ROW = 1 << 16  # elements of a row that a kernel holds on chip between two uses

_POINTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BatchNormalization BitShift BitwiseAnd "
    "BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div "
    "Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow "
    "QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign "
    "Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Trilu Where Xor"
)
_MOVE = (
    "CenterCropPad DepthToSpace Expand Gather GatherElements GatherND Pad ReverseSequence Slice "
    "SpaceToDepth Tile Transpose"
)
_ROW = (
    "GroupNormalization Hardmax InstanceNormalization LayerNormalization LogSoftmax "
    "LpNormalization MeanVarianceNormalization RMSNormalization ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare "
    "Softmax"
)
_PRODUCT = (
    "Conv ConvInteger ConvTranspose Einsum Gemm MatMul MatMulInteger QLinearConv QLinearMatMul"
)

_POINTWISE_MICROSOFT = (
    "BiasAdd BiasGelu DequantizeLinear FastGelu Gelu QLinearAdd QLinearLeakyRelu QLinearMul "
    "QLinearSigmoid QuantizeLinear QuickGelu"
)
_ROW_MICROSOFT = (
    "BiasSoftmax EmbedLayerNormalization GroupNorm LayerNormalization QLinearSoftmax "
    "SimplifiedLayerNormalization SkipGroupNorm SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization"
)
_PRODUCT_MICROSOFT = (
    "ConvTransposeWithDynamicPads DynamicQuantizeMatMul FusedConv FusedGemm FusedMatMul "
    "FusedMatMulActivation GemmFastGelu GemmFloat8 MatMulBnb4 MatMulIntegerToFloat MatMulNBits "
    "NhwcConv NhwcFusedConv QGemm QLinearConv TransposeMatMul"
)

_ROLES: dict[tuple[str, str], Role] = {
    ("", "Concat"): Role.JOIN,
    ("", "Split"): Role.VIEW,
    **{("", name): Role.SCATTER for name in ("Scatter", "ScatterElements", "ScatterND")},
    **{("", name): Role.POINTWISE for name in _POINTWISE.split()},
    **{("", name): Role.MOVE for name in _MOVE.split()},
    **{("", name): Role.ROW for name in _ROW.split()},
    **{("", name): Role.PRODUCT for name in _PRODUCT.split()},
    ("com.microsoft.nchwc", "Conv"): Role.PRODUCT,
    ("mansard", "MatMulStored"): Role.PRODUCT,
    ("mansard", "GatherStored"): Role.MOVE,
    # ONNX Runtime registers these two in ONNX's own domain as well.
    ("", "SimplifiedLayerNormalization"): Role.ROW,
    ("", "SkipSimplifiedLayerNormalization"): Role.ROW,
    **{(_MICROSOFT, name): Role.POINTWISE for name in _POINTWISE_MICROSOFT.split()},
    **{(_MICROSOFT, name): Role.ROW for name in _ROW_MICROSOFT.split()},
    **{(_MICROSOFT, name): Role.PRODUCT for name in _PRODUCT_MICROSOFT.split()},
}


def usual_role(domain: str, op_type: str, operator: Operator | None) -> Role:
    """The role of an operator, whatever its attributes."""
    if operator is not None and operator.is_view:
        return Role.FREE if op_type in _CONTROL or op_type.startswith(_FREE) else Role.VIEW
    if op_type == "DequantizeLinear":
        return Role.VIEW  # its readers take the integers and scale them
    return _ROLES.get((domain, op_type), Role.SOLID)


def actual_role(node: Node, usual: Role) -> Role:
    """The role of ``node``, as its attributes and shapes have it."""
    if usual is Role.MOVE:
        # Of a node without shapes no rule has checked the attributes.
        is_known = node.unknown_input is None and node.output.unknown is None
        return Role.VIEW if is_known and _is_part(node) else usual
    if usual is Role.ROW:
        return usual if _fits_on_chip(node) else Role.SOLID
    return usual


def _is_part(node: Node) -> bool:
    """Whether the output is the input or a part of it, which a kernel can read in place."""
    if node.op_type in ("Expand", "Pad", "Tile"):
        return node.input(0).shape == node.output.shape
    if node.op_type == "Slice":
        steps = node.optional(4)
        if steps is None:
            return True
        return steps.value is not None and set(steps.value.flat) <= {1}
    if node.op_type == "Gather":
        index = node.optional(1)
        return index is not None and index.origin is not Origin.DATA and index.n_elements == 1
    if node.op_type == "Transpose":
        return _keeps_order(node)
    return False


def _keeps_order(node: Node) -> bool:
    """Whether a permutation moves axes of one element only, so that nothing moves in memory."""
    shape = node.input(0).shape
    order = node.integers("perm") or tuple(reversed(range(len(shape))))
    longer = [axis for axis in order if axis < len(shape) and shape[axis] != 1]
    return longer == sorted(longer)


def _fits_on_chip(node: Node) -> bool:
    """Whether a row fits on the chip between the pass that reduces it and the next one."""
    if not node.op_type.startswith("Reduce"):
        return True
    n_read, n_written = node.input(0).n_elements, node.output.n_elements
    return n_read <= MAX_ROW * max(n_written, 1)
