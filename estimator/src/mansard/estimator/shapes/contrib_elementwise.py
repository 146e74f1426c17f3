"""ONNX Runtime's operators that work element by element.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import BOOL, ELEMENT_TYPES, INT32
from mansard.estimator.shapes.checks import check_length, check_types
from mansard.estimator.shapes.contrib_parts import MICROSOFT, same_as_first
from mansard.estimator.shapes.elementwise import broadcast, same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

UINT32 = ELEMENT_TYPES["uint32"]

rule(
    *("Gelu", "QuickGelu", "SampleOp", "ScaledSiLU", "Inverse", "QOrderedGelu"),
    *("QLinearLeakyRelu", "QLinearSigmoid"),
    domain=MICROSOFT,
)(same_as_first)


@rule("BiasGelu", "FastGelu", domain=MICROSOFT)
def _with_bias(node: Node) -> Sequence[Spec]:
    check_length(node, 1, node.input(0).shape[-1], "columns")
    return same_as_first(node)


@rule("BiasAdd", domain=MICROSOFT)
def _bias_add(node: Node) -> Sequence[Spec]:
    """[batch, pixels, channels]: a bias for each channel, and a residual of the same shape."""
    data, skip = node.input(0), node.input(2)
    check_length(node, 1, data.shape[-1], "channels")
    if skip.shape != data.shape:
        raise node.error(f"residual {list(skip.shape)} is not of shape {list(data.shape)}")
    return [same(data)]


@rule("BiasSplitGelu", domain=MICROSOFT)
def _bias_split_gelu(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    check_length(node, 1, data.shape[-1], "columns")
    if data.shape[-1] % 2:
        raise node.error(f"{data.shape[-1]} columns do not split into halves")
    return [(data.dtype, (*data.shape[:-1], data.shape[-1] // 2))]


@rule("BiasSoftmax", domain=MICROSOFT)
def _bias_softmax(node: Node) -> Sequence[Spec]:
    data, _ = node.input(0), node.input(1)
    data.axis(node.integer("axis", 1))
    return [same(data)]


@rule("BiasDropout", domain=MICROSOFT)
def _bias_dropout(node: Node) -> Sequence[Spec]:
    data, _ = node.input(0), node.input(1)
    return [same(data), (BOOL, data.shape)]


@rule("BitmaskDropout", "BitmaskBiasDropout", domain=MICROSOFT)
def _bitmask_dropout(node: Node) -> Sequence[Spec]:
    """The mask holds 32 elements in each of its own."""
    data = node.input(0)
    return [same(data), (UINT32, ((data.n_elements + 31) // 32,))]


@rule("GatedAdd", domain=MICROSOFT)
def _gated_add(node: Node) -> Sequence[Spec]:
    data, added, gate = node.input(0), node.input(1), node.input(2)
    if added.shape != data.shape or gate.shape != (*data.shape[:-1], 1):
        raise node.error(
            f"{list(data.shape)}, {list(added.shape)} and gate {list(gate.shape)} do not fit"
        )
    return [same(data)]


@rule("ComplexMul", "ComplexMulConj", domain=MICROSOFT)
def _complex_product(node: Node) -> Sequence[Spec]:
    first, second = node.input(0), node.input(1)
    check_types(node, first, (second,))
    if first.shape[-1] != 2 or second.shape[-1] != 2:
        raise node.error("the last dimension must hold a real and an imaginary part")
    return [(first.dtype, broadcast(node, first.shape, second.shape))]


@rule("MulInteger", domain=MICROSOFT)
def _multiply_integers(node: Node) -> Sequence[Spec]:
    """(A - zero point) * (B - zero point); B stands behind A's zero point."""
    return [(INT32, broadcast(node, node.input(0).shape, node.input(2).shape))]


@rule("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _quantized_pair(node: Node) -> Sequence[Spec]:
    """Each operand is followed by its scale and zero point."""
    first, second = node.input(0), node.input(3)
    check_types(node, first, (second,))
    return [(first.dtype, broadcast(node, first.shape, second.shape))]


@rule("QLinearWhere", domain=MICROSOFT)
def _quantized_where(node: Node) -> Sequence[Spec]:
    condition, yes, no = node.input(0), node.input(1), node.input(4)
    check_types(node, yes, (no,))
    return [(yes.dtype, broadcast(node, condition.shape, yes.shape, no.shape))]


@rule("QLinearSoftmax", domain=MICROSOFT)
def _quantized_softmax(node: Node) -> Sequence[Spec]:
    node.input(0).axis(node.integer("axis", -1))
    return same_as_first(node)


@rule("MurmurHash3", domain=MICROSOFT)
def _hash(node: Node) -> Sequence[Spec]:
    return [(UINT32 if node.integer("positive", 1) else INT32, node.input(0).shape)]


@rule("IsAllFinite", domain=MICROSOFT)
def _is_all_finite(node: Node) -> Sequence[Spec]:
    node.input(0)
    return [(BOOL, ())]
