"""What a runtime's fuser sees in an operator: how its output follows from its inputs.

After the layer fusion catalogue of TensorRT's performance documentation and the graph
optimisations of ONNX Runtime; docs/understand/traffic.md has the rules as a table.
"""

from __future__ import annotations

from enum import IntEnum

from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, Origin


class Role(IntEnum):
    """How an operator may be fused."""

    POINTWISE = 0  # each output element from the elements at its position
    MOVE = 1  # each output element is one input element
    ROW = 2  # rows are reduced, and perhaps written again: softmax, norms, reductions
    PRODUCT = 3  # convolutions and matrix products
    VIEW = 4  # the memory of the first input, seen otherwise
    FREE = 5  # hands tensors around: control flow and sequences
    SCATTER = 6  # writes updates into its first input
    JOIN = 7  # Concat: its inputs may be written where the output stands
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
    """Whether the output is a part of the input, or all of it, as a kernel can read it there."""
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
    """Whether a row can be held between the pass that reduces it and the next one."""
    if not node.op_type.startswith("Reduce"):
        return True
    given, kept = node.input(0).n_elements, node.output.n_elements
    return given <= MAX_ROW * max(kept, 1)
