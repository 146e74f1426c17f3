"""ONNX Runtime's matrix products: transposed, fused, integer, and with packed weights.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Packed
weights (MatMulNBits and kin) are several numbers in a byte with a scale for each block.
Their multiply-adds are those of the unpacked matrix, in the precision of the
activations; unpacking counts once for each weight: a difference and a product. The
scales and zero points are no parameters, but bytes.
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import BY_CODE, FLOAT32, INT32
from mansard.estimator.operators.contrib.parts import (
    QUANTIZE_DYNAMICALLY,
    activation_cost,
    as_standard,
    cost_of,
    microsoft,
    microsoft_shape,
    required,
    standard_cost,
)
from mansard.estimator.operators.costs import DEQUANTIZE, FAST_GELU, QUANTIZE
from mansard.estimator.operators.matmul import gemm_sizes, product_shape
from mansard.estimator.operators.normalization import rms_norm_cost
from mansard.estimator.operators.registry import CountFunction, Specs
from mansard.estimator.operators.shapes import (
    BAKED_IN,
    broadcast,
    check_length,
    check_types,
    element_type,
    known_ints,
    same,
)
from mansard.estimator.tensors import Node, Shape


def _transposed(node: Node, position: int) -> Shape:
    """An operand's shape as a FusedMatMul multiplies it; vectors stay as they are."""
    shape, which = node.input(position).shape, "AB"[position]
    if node.integer(f"transBatch{which}", 0) and len(shape) > 2:
        # The first dimension moves behind the other batch dimensions.
        shape = (*shape[1:-1], shape[0], shape[-1])
    if node.integer(f"trans{which}", 0) and len(shape) > 1:
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def _fused_operands(node: Node) -> tuple[Shape, Shape]:
    """The two shapes that a FusedMatMul multiplies."""
    return _transposed(node, 0), _transposed(node, 1)


def _fused_matmul_shape(node: Node) -> Specs:
    left, right = node.input(0), node.input(1)
    check_types(node, left, (right,))
    return [(left.dtype, product_shape(node, *_fused_operands(node)))]


@microsoft("FusedMatMul", "SparseToDenseMatMul", "TransposeMatMul", shape=_fused_matmul_shape)
def fused_matmul(node: Node) -> Cost:
    """As MatMul, 1 for a factor other than 1; a sparse operand counts as dense."""
    left, _ = _fused_operands(node)
    n = node.output.n_elements
    scaled = n if node.number("alpha", 1.0) != 1.0 else 0
    return Cost(macs=n * left[-1], simple=scaled)


@microsoft("FusedMatMulActivation", shape=_fused_matmul_shape)
def fused_matmul_activation(node: Node) -> Cost:
    """As FusedMatMul, then the activation of each output."""
    return fused_matmul(node) + activation_cost(node) * node.output.n_elements


def _fused_gemm_shape(node: Node) -> Specs:
    m, n, _ = gemm_sizes(node)
    bias = node.optional(2)
    if bias is not None and broadcast(node, (m, n), bias.shape) != (m, n):
        raise node.error(f"bias {list(bias.shape)} does not fit a result of {[m, n]}", BAKED_IN)
    return [(node.input(0).dtype, (m, n))]


@microsoft("FusedGemm", shape=_fused_gemm_shape)
def fused_gemm(node: Node) -> Cost:
    """As Gemm, then the activation of each output."""
    return standard_cost(node, "Gemm") + activation_cost(node) * node.output.n_elements


def _gemm_float8_shape(node: Node) -> Specs:
    m, n, _ = gemm_sizes(node)
    return [(element_type(node, "dtype", FLOAT32), (m, n))]


@microsoft("GemmFloat8", shape=_gemm_float8_shape, not_weights=(3, 4, 5))
def gemm_float8(node: Node) -> Cost:
    """M·N·K multiply-adds; for each output the scales, ``alpha``, ``beta``·C, the activation."""
    m, n, k = gemm_sizes(node)
    simple = int(any(node.has(i) for i in (3, 4, 5))) + (node.number("alpha", 1.0) != 1.0)
    beta = node.number("beta", 0.0)
    if node.has(2) and beta != 0.0:
        simple += 1 + (beta != 1.0)
    return Cost(macs=m * n * k, simple=simple * m * n) + activation_cost(node) * (m * n)


def _gemm_gelu_shape(node: Node) -> Specs:
    left, right = node.input(0), node.input(1)
    check_types(node, left, (right,))
    return [(left.dtype, _with_bias(node, product_shape(node, left.shape, right.shape), 2))]


@microsoft("GemmFastGelu", shape=_gemm_gelu_shape)
def gemm_gelu(node: Node) -> Cost:
    """As MatMul, 1 for a bias, then Gelu: 8 and a function."""
    n = node.output.n_elements
    product = standard_cost(node, "MatMul", node.input(0), node.input(1))
    return product + (FAST_GELU + Cost(simple=int(node.has(2)))) * n


def _with_bias(node: Node, shape: Shape, position: int) -> Shape:
    check_length(node, position, shape[-1] if shape else 1, "columns")
    return shape


@microsoft_shape("MatMulInteger16", cost=cost_of("MatMul", "As MatMul."))
def _matmul_16_shape(node: Node) -> Specs:
    left, right = node.input(0), node.input(1)
    dtype = INT32
    if not (left.dtype.name.startswith("int") or right.dtype.name.startswith("int")):
        dtype = BY_CODE[12]  # unsigned products stay unsigned
    return [(dtype, product_shape(node, left.shape, right.shape))]


def _matmul_to_float_shape(node: Node) -> Specs:
    shape = product_shape(node, node.input(0).shape, node.input(1).shape)
    return [(node.input(2).dtype, _with_bias(node, shape, 6))]


@microsoft("MatMulIntegerToFloat", shape=_matmul_to_float_shape, not_weights=(2, 3, 4, 5))
def matmul_to_float(node: Node) -> Cost:
    """As MatMul, 1 for the scale, 1 for a bias."""
    return standard_cost(node, "MatMul") + Cost(simple=(1 + node.has(6)) * node.output.n_elements)


def _dynamic_matmul_shape(node: Node) -> Specs:
    left = node.input(0)
    shape = product_shape(node, left.shape, node.input(1).shape)
    node.input(2)
    return [(left.dtype, _with_bias(node, shape, 4))]


@microsoft("DynamicQuantizeMatMul", shape=_dynamic_matmul_shape, not_weights=(2, 3), operands=(1,))
def dynamic_matmul(node: Node) -> Cost:
    """As DynamicQuantizeLinear of A and MatMulIntegerToFloat."""
    quantized = QUANTIZE_DYNAMICALLY * node.input(0).n_elements + QUANTIZE_DYNAMICALLY
    scaled = Cost(simple=(1 + node.has(4)) * node.output.n_elements)
    return quantized + standard_cost(node, "MatMul") + scaled


def _quantized_gemm_shape(node: Node) -> Specs:
    """Quantised where scale and zero point of the output are given, else float32."""
    m, n, _ = _quantized_gemm_sizes(node)
    zero = node.optional(8)
    return [(FLOAT32 if zero is None else zero.dtype, (m, n))]


@microsoft("QGemm", shape=_quantized_gemm_shape, not_weights=(1, 2, 4, 5, 7, 8), operands=(0, 3))
def quantized_gemm(node: Node) -> Cost:
    """M·N·K multiply-adds, a bias, quantisation 5 (float output 1)."""
    m, n, k = _quantized_gemm_sizes(node)
    each = QUANTIZE if node.has(7) or node.has(8) else Cost(simple=1)
    return Cost(macs=m * n * k) + (each + Cost(simple=int(node.has(6)))) * (m * n)


def _quantized_gemm_sizes(node: Node) -> tuple[int, int, int]:
    """(M, N, K) of a QGemm."""
    return gemm_sizes(as_standard(node, "Gemm", node.input(0), node.input(3)))


def _ordered_matmul_shape(node: Node) -> Specs:
    left, right = node.input(0), node.input(2)
    return [(left.dtype, product_shape(node, left.shape, right.shape))]


@microsoft(
    "QOrderedMatMul", shape=_ordered_matmul_shape, not_weights=(1, 3, 4, 6, 7), operands=(0, 2)
)
def ordered_matmul(node: Node) -> Cost:
    """As MatMul; a bias 1, a scaled summand 2, quantise 5."""
    each = QUANTIZE + Cost(simple=node.has(5) + 2 * node.has(6))
    product = standard_cost(node, "MatMul", node.input(0), node.input(2))
    return product + each * node.output.n_elements


def _check_columns(node: Node, width: int) -> None:
    """Raise ModelError where the rows of the first input are not of ``width`` elements."""
    data = node.input(0)
    if not data.rank or data.shape[-1] != width:
        raise node.error(f"{data.name!r} is {list(data.shape)}: no rows of {width}", BAKED_IN)


def _check_packed(node: Node, position: int, n: int, k: int) -> None:
    """Raise ModelError unless an input holds N rows of whole blocks of K packed numbers."""
    block, bits = required(node, "block_size"), node.integer("bits", 4)
    packed = node.input(position)
    n_bytes = n * -(-k // block) * ((block * bits + 7) // 8)
    if packed.n_elements * packed.dtype.n_bits != 8 * n_bytes:
        raise node.error(
            f"{packed.name!r} is {list(packed.shape)}, which does not hold {n} x {k} numbers "
            f"of {bits} bits in blocks of {block}"
        )


def _rows(node: Node) -> int:
    data = node.input(0)
    return data.n_elements // max(data.shape[-1], 1)


def _product(node: Node, k: int, n: int, bias: int | None = None) -> Cost:
    """Unpack K x N weights and multiply; a bias for each output where that input is given."""
    n_rows = _rows(node)
    simple = n_rows * n if bias is not None and node.has(bias) else 0
    return DEQUANTIZE * (k * n) + Cost(macs=n_rows * k * n, simple=simple)


def _elements(width: str) -> CountFunction:
    """The weights of a matrix of K rows and as many columns as an attribute says."""
    return lambda node: node.integer("K", 0) * node.integer(width, 0)


def _matmul_bits_shape(node: Node) -> Specs:
    """Rows of K times weights of K x N, which are stored in ``bits`` bits each."""
    data, k, n = node.input(0), required(node, "K"), required(node, "N")
    _check_columns(node, k)
    _check_packed(node, 1, n, k)
    check_length(node, 5, n, "columns")
    return [(data.dtype, (*data.shape[:-1], n))]


@microsoft(
    "MatMulNBits",
    shape=_matmul_bits_shape,
    not_weights=(4,),
    statistics=(2, 3),
    operands=(0,),
    packed={1: _elements("N")},
)
def matmul_bits(node: Node) -> Cost:
    """rows·K·N multiply-adds, 2 operations for each weight, a bias."""
    return _product(node, node.integer("K", 0), node.integer("N", 0), 5)


def _matmul_bnb4_shape(node: Node) -> Specs:
    """Four bits a weight, [N, K] in storage; multiplied transposed unless told otherwise."""
    data, k, n = node.input(0), required(node, "K"), required(node, "N")
    is_transposed = node.integer("transB", 1)
    _check_columns(node, k if is_transposed else n)
    if node.input(1).n_elements != (n * k + 1) // 2:
        raise node.error(f"{node.input(1).name!r} does not hold {n} x {k} numbers of 4 bits")
    return [(data.dtype, (*data.shape[:-1], n if is_transposed else k))]


@microsoft(
    "MatMulBnb4",
    shape=_matmul_bnb4_shape,
    statistics=(2,),
    operands=(0,),
    packed={1: _elements("N")},
)
def matmul_bnb4(node: Node) -> Cost:
    """rows·K·N multiply-adds, 2 operations for each weight."""
    return _product(node, node.integer("K", 0), node.integer("N", 0))


def _fpq4_sizes(node: Node) -> tuple[int, int] | None:
    """(K, N) of a MatMulFpQ4; None where they depend on data."""
    shape = known_ints(node, 2)
    if shape is None:
        return None
    if len(shape) != 2:
        raise node.error(f"the shape of the weights {list(shape)} is not a matrix's")
    return shape[0], shape[1]


def _matmul_fpq4_shape(node: Node) -> Specs:
    data, sizes = node.input(0), _fpq4_sizes(node)
    if sizes is None:
        return [(data.dtype, (*data.shape[:-1], None))]
    _check_columns(node, sizes[0])
    return [(data.dtype, (*data.shape[:-1], sizes[1]))]


def _fpq4_elements(node: Node) -> int:
    sizes = _fpq4_sizes(node)
    return sizes[0] * sizes[1] if sizes else node.input(1).n_elements


@microsoft(
    "MatMulFpQ4",
    shape=_matmul_fpq4_shape,
    not_weights=(2,),
    operands=(0,),
    packed={1: _fpq4_elements},
)
def matmul_fpq4(node: Node) -> Cost:
    """As MatMulNBits; scales stand among the weights."""
    return _product(node, node.input(0).shape[-1], node.output.shape[-1])


def _block_sizes(node: Node) -> tuple[int, int]:
    """(K, N) of weights [N, K] in blocks; two numbers of 4 bits stand in one byte."""
    held = node.input(1)
    if held.rank != 2:
        raise node.error(f"weights {list(held.shape)} are no matrix")
    each = 2 if node.op_type == "MatMulBlockQuantizedFp4Weight" else 1
    return each * held.shape[1], held.shape[0]


def _matmul_blocks_shape(node: Node) -> Specs:
    data, k, n = node.input(0), *_block_sizes(node)
    _check_columns(node, k)
    return [(data.dtype, (*data.shape[:-1], n))]


@microsoft(
    *("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"),
    shape=_matmul_blocks_shape,
    not_weights=(4,),
    statistics=(2, 3),
    operands=(0,),
    packed={1: lambda node: math.prod(_block_sizes(node))},
)
def matmul_blocks(node: Node) -> Cost:
    """rows·K·N multiply-adds, 2 operations for each weight, a bias."""
    bias = 5 if node.op_type == "MatMulBlockQuantizedFp4Weight" else 4
    return _product(node, *_block_sizes(node), bias)


def _gated_bits_shape(node: Node) -> Specs:
    """activation(A·gate) · (A·up), and where it is asked for the sum before normalisation."""
    data, k, n = node.input(0), required(node, "K"), required(node, "N")
    _check_columns(node, k)
    for position in (3, 6):
        _check_packed(node, position, n, k)
    return [(data.dtype, (*data.shape[:-1], n)), same(data)]


def _normalized(node: Node) -> Cost:
    """RMS normalisation with a scale where one is given, of a sum where a skip is."""
    n, width = node.input(0).n_elements, node.integer("K", 0)
    sums = Cost(simple=n if node.has(1) else 0)
    return sums + rms_norm_cost(n, width, 1) if node.has(2) else sums


@microsoft(
    "MatMulNBitsMlp",
    shape=_gated_bits_shape,
    statistics=(4, 7),
    operands=(0,),
    packed=dict.fromkeys((3, 6), _elements("N")),
)
def gated_bits(node: Node) -> Cost:
    """RMSNormalization, two MatMulNBits, activation of one times the other."""
    k, n = node.integer("K", 0), node.integer("N", 0)
    joined = (activation_cost(node) + Cost(simple=1)) * (_rows(node) * n)
    return _normalized(node) + _product(node, k, n, 5) + _product(node, k, n, 8) + joined


def _projection_bits_shape(node: Node) -> Specs:
    """The three projections of a normalised input, and the sum before normalisation."""
    data, k = node.input(0), required(node, "K")
    _check_columns(node, k)
    widths = (required(node, "Nq"), required(node, "Nkv"), required(node, "Nkv"))
    for position, width in zip((3, 6, 9), widths, strict=True):
        _check_packed(node, position, width, k)
    return [*((data.dtype, (*data.shape[:-1], width)) for width in widths), same(data)]


@microsoft(
    "MatMulNBitsQkv",
    shape=_projection_bits_shape,
    statistics=(4, 7, 10),
    operands=(0,),
    packed={3: _elements("Nq"), 6: _elements("Nkv"), 9: _elements("Nkv")},
)
def projection_bits(node: Node) -> Cost:
    """RMS normalisation, then three products as MatMulNBits."""
    work = _normalized(node)
    for bias, width in ((5, "Nq"), (8, "Nkv"), (11, "Nkv")):
        work += _product(node, node.integer("K", 0), node.integer(width, 0), bias)
    return work
