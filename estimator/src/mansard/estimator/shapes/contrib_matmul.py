"""ONNX Runtime's matrix products: transposed, fused, integer, and with packed weights.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import BY_CODE, FLOAT32, INT32
from mansard.estimator.shapes.checks import BAKED_IN, check_length, check_types, known_ints
from mansard.estimator.shapes.contraction import gemm_sizes, matmul_shape
from mansard.estimator.shapes.contrib_parts import MICROSOFT, as_standard, required
from mansard.estimator.shapes.elementwise import broadcast, same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


def _transposed(node: Node, shape: Shape, which: str) -> Shape:
    """``shape`` as a FusedMatMul multiplies it; vectors stay as they are."""
    if node.integer(f"transBatch{which}", 0) and len(shape) > 2:
        # The first dimension moves behind the other batch dimensions.
        shape = (*shape[1:-1], shape[0], shape[-1])
    if node.integer(f"trans{which}", 0) and len(shape) > 1:
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def fused_operands(node: Node) -> tuple[Shape, Shape]:
    """The two shapes that a FusedMatMul multiplies."""
    return (
        _transposed(node, node.input(0).shape, "A"),
        _transposed(node, node.input(1).shape, "B"),
    )


@rule(
    *("FusedMatMul", "FusedMatMulActivation", "SparseToDenseMatMul", "TransposeMatMul"),
    domain=MICROSOFT,
)
def _fused_matmul(node: Node) -> Sequence[Spec]:
    left, right = node.input(0), node.input(1)
    check_types(node, left, (right,))
    return [(left.dtype, matmul_shape(node, *fused_operands(node)))]


@rule("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: Node) -> Sequence[Spec]:
    m, n, _ = gemm_sizes(node)
    bias = node.optional(2)
    if bias is not None and broadcast(node, (m, n), bias.shape) != (m, n):
        raise node.error(f"bias {list(bias.shape)} does not fit a result of {[m, n]}", BAKED_IN)
    return [(node.input(0).dtype, (m, n))]


@rule("GemmFloat8", domain=MICROSOFT)
def _gemm_float8(node: Node) -> Sequence[Spec]:
    m, n, _ = gemm_sizes(node)
    dtype = BY_CODE.get(node.integer("dtype", FLOAT32.code))
    if dtype is None:
        raise node.error("attribute 'dtype' is no element type")
    return [(dtype, (m, n))]


@rule("GemmFastGelu", domain=MICROSOFT)
def _gemm_gelu(node: Node) -> Sequence[Spec]:
    left, right = node.input(0), node.input(1)
    check_types(node, left, (right,))
    return [(left.dtype, _with_bias(node, matmul_shape(node, left.shape, right.shape), 2))]


def _with_bias(node: Node, shape: Shape, position: int) -> Shape:
    check_length(node, position, shape[-1] if shape else 1, "columns")
    return shape


@rule("MatMulInteger16", domain=MICROSOFT)
def _matmul_16(node: Node) -> Sequence[Spec]:
    left, right = node.input(0), node.input(1)
    dtype = INT32
    if not (left.dtype.name.startswith("int") or right.dtype.name.startswith("int")):
        dtype = BY_CODE[12]  # unsigned products stay unsigned
    return [(dtype, matmul_shape(node, left.shape, right.shape))]


@rule("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_to_float(node: Node) -> Sequence[Spec]:
    shape = matmul_shape(node, node.input(0).shape, node.input(1).shape)
    return [(node.input(2).dtype, _with_bias(node, shape, 6))]


@rule("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_matmul(node: Node) -> Sequence[Spec]:
    left = node.input(0)
    shape = matmul_shape(node, left.shape, node.input(1).shape)
    node.input(2)
    return [(left.dtype, _with_bias(node, shape, 4))]


@rule("QGemm", domain=MICROSOFT)
def _quantized_gemm(node: Node) -> Sequence[Spec]:
    """Quantised where scale and zero point of the output are given, else float32."""
    m, n, _ = quantized_gemm_sizes(node)
    zero = node.optional(8)
    return [(FLOAT32 if zero is None else zero.dtype, (m, n))]


def quantized_gemm_sizes(node: Node) -> tuple[int, int, int]:
    """(M, N, K) of a QGemm."""
    return gemm_sizes(as_standard(node, "Gemm", node.input(0), node.input(3)))


@rule("QOrderedMatMul", domain=MICROSOFT)
def _ordered_matmul(node: Node) -> Sequence[Spec]:
    left, right = node.input(0), node.input(2)
    return [(left.dtype, matmul_shape(node, left.shape, right.shape))]


def check_columns(node: Node, position: int, width: int) -> None:
    """Raise ModelError where the rows of an input are not of ``width`` elements."""
    data = node.input(position)
    if not data.rank or data.shape[-1] != width:
        raise node.error(f"{data.name!r} is {list(data.shape)}: no rows of {width}", BAKED_IN)


@rule("MatMulNBits", domain=MICROSOFT)
def _matmul_bits(node: Node) -> Sequence[Spec]:
    """Rows of K times weights of K x N, which are stored in ``bits`` bits each."""
    data, k, n = node.input(0), required(node, "K"), required(node, "N")
    check_columns(node, 0, k)
    check_packed(node, 1, n, k)
    check_length(node, 5, n, "columns")
    return [(data.dtype, (*data.shape[:-1], n))]


def check_packed(node: Node, position: int, n: int, k: int) -> None:
    """Raise ModelError unless an input holds N rows of whole blocks of K packed numbers."""
    block, bits = required(node, "block_size"), node.integer("bits", 4)
    blocks = -(-k // block)
    packed = node.input(position)
    n_bytes = n * blocks * ((block * bits + 7) // 8)
    if packed.n_elements * packed.dtype.n_bits != 8 * n_bytes:
        raise node.error(
            f"{packed.name!r} is {list(packed.shape)}, which does not hold {n} x {k} numbers "
            f"of {bits} bits in blocks of {block}"
        )


@rule("MatMulBnb4", domain=MICROSOFT)
def _matmul_bnb4(node: Node) -> Sequence[Spec]:
    """Four bits a weight, [N, K] in storage; multiplied transposed unless told otherwise."""
    data, k, n = node.input(0), required(node, "K"), required(node, "N")
    is_transposed = node.integer("transB", 1)
    check_columns(node, 0, k if is_transposed else n)
    if node.input(1).n_elements != (n * k + 1) // 2:
        raise node.error(f"{node.input(1).name!r} does not hold {n} x {k} numbers of 4 bits")
    return [(data.dtype, (*data.shape[:-1], n if is_transposed else k))]


def fpq4_sizes(node: Node) -> tuple[int, int] | None:
    """(K, N) of a MatMulFpQ4; None where they depend on data."""
    shape = known_ints(node, 2)
    if shape is None:
        return None
    if len(shape) != 2:
        raise node.error(f"the shape of the weights {list(shape)} is no matrix's")
    return shape[0], shape[1]


@rule("MatMulFpQ4", domain=MICROSOFT)
def _matmul_fpq4(node: Node) -> Sequence[Spec]:
    data, sizes = node.input(0), fpq4_sizes(node)
    if sizes is None:
        return [(data.dtype, (*data.shape[:-1], None))]
    check_columns(node, 0, sizes[0])
    return [(data.dtype, (*data.shape[:-1], sizes[1]))]


@rule("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", domain=MICROSOFT)
def _matmul_blocks(node: Node) -> Sequence[Spec]:
    """Weights [N, K]; two numbers of 4 bits stand in one byte."""
    data, n, k = node.input(0), *block_sizes(node)
    check_columns(node, 0, k)
    return [(data.dtype, (*data.shape[:-1], n))]


def block_sizes(node: Node) -> tuple[int, int]:
    """(N, K) of the weights of such a product."""
    held = node.input(1)
    if held.rank != 2:
        raise node.error(f"weights {list(held.shape)} are no matrix")
    each = 2 if node.op_type == "MatMulBlockQuantizedFp4Weight" else 1
    return held.shape[0], each * held.shape[1]


@rule("MatMulNBitsMlp", domain=MICROSOFT)
def _gated_bits(node: Node) -> Sequence[Spec]:
    """activation(A·gate) · (A·up), and where it is asked for the sum before normalisation."""
    data, k, n = node.input(0), required(node, "K"), required(node, "N")
    check_columns(node, 0, k)
    for position in (3, 6):
        check_packed(node, position, n, k)
    return [(data.dtype, (*data.shape[:-1], n)), same(data)]


@rule("MatMulNBitsQkv", domain=MICROSOFT)
def _projection_bits(node: Node) -> Sequence[Spec]:
    """The three projections of a normalised input, and the sum before normalisation."""
    data, k = node.input(0), required(node, "K")
    check_columns(node, 0, k)
    widths = (required(node, "Nq"), required(node, "Nkv"), required(node, "Nkv"))
    for position, width in zip((3, 6, 9), widths, strict=True):
        check_packed(node, position, width, k)
    return [*((data.dtype, (*data.shape[:-1], width)) for width in widths), same(data)]
