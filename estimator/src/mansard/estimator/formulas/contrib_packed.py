"""Matrix products with packed weights: several numbers in a byte, a scale for each block.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (MatMulNBits
and kin). The multiply-adds are those of the unpacked matrix, in the precision of the
activations; unpacking counts once for each weight: a difference and a product. The
scales and zero points are no parameters, but bytes.
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import DEQUANTIZE, activation_cost
from mansard.estimator.formulas.normalization import rms_norm_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_matmul import block_sizes, fpq4_sizes
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node


def _rows(node: Node) -> int:
    data = node.input(0)
    return data.n_elements // max(data.shape[-1], 1)


def _product(n_rows: int, k: int, n: int, has_bias: bool) -> Cost:
    """Unpack K x N weights and multiply; a bias for each output."""
    unpacked = DEQUANTIZE * (k * n)
    return unpacked + Cost(macs=n_rows * k * n, simple=n_rows * n if has_bias else 0)


def _k_by_n(node: Node) -> int:
    return node.integer("K", 0) * node.integer("N", 0)


@register(
    "MatMulNBits",
    domain=MICROSOFT,
    not_weights=(4,),
    statistics=(2, 3),
    operands=(0,),
    packed={1: _k_by_n},
)
def matmul_bits(node: Node) -> Cost:
    """rows·K·N multiply-adds; 2 operations to unpack each of K·N weights; a bias."""
    return _product(_rows(node), node.integer("K", 0), node.integer("N", 0), node.has(5))


@register("MatMulBnb4", domain=MICROSOFT, statistics=(2,), operands=(0,), packed={1: _k_by_n})
def matmul_bnb4(node: Node) -> Cost:
    """rows·K·N multiply-adds; to unpack each of K·N weights a look-up and a product."""
    return _product(_rows(node), node.integer("K", 0), node.integer("N", 0), False)


def _fpq4_elements(node: Node) -> int:
    sizes = fpq4_sizes(node)
    return sizes[0] * sizes[1] if sizes else node.input(1).n_elements


@register(
    "MatMulFpQ4",
    domain=MICROSOFT,
    not_weights=(2,),
    operands=(0,),
    packed={1: _fpq4_elements},
)
def matmul_fpq4(node: Node) -> Cost:
    """As MatMulNBits; scales stand among the weights."""
    k, n = node.input(0).shape[-1], node.output.shape[-1]
    return _product(_rows(node), k, n, False)


def _block_elements(node: Node) -> int:
    n, k = block_sizes(node)
    return n * k


@register(
    "MatMulBlockQuantizedFp4Weight",
    "MatMulBlockQuantizedFp8Weight",
    domain=MICROSOFT,
    not_weights=(4,),
    statistics=(2, 3),
    operands=(0,),
    packed={1: _block_elements},
)
def matmul_blocks(node: Node) -> Cost:
    """rows·K·N multiply-adds; two factors for each of K·N weights; a bias."""
    n, k = block_sizes(node)
    is_four = node.op_type == "MatMulBlockQuantizedFp4Weight"
    return _product(_rows(node), k, n, node.has(5 if is_four else 4))


def _normalized(node: Node) -> Cost:
    """RMS normalisation with a scale where one is given, of a sum where a skip is."""
    n, width = node.input(0).n_elements, node.integer("K", 0)
    sums = Cost(simple=n if node.has(1) else 0)
    return sums + rms_norm_cost(_rows(node), width, 1) if node.has(2) else sums


@register(
    "MatMulNBitsMlp",
    domain=MICROSOFT,
    statistics=(4, 7),
    operands=(0,),
    packed=dict.fromkeys((3, 6), _k_by_n),
)
def gated_bits(node: Node) -> Cost:
    """RMS normalisation, two products as MatMulNBits, activation of one times the other."""
    k, n = node.integer("K", 0), node.integer("N", 0)
    n_rows = _rows(node)
    gate = _product(n_rows, k, n, node.has(5))
    up = _product(n_rows, k, n, node.has(8))
    joined = (activation_cost(node) + Cost(simple=1)) * (n_rows * n)
    return _normalized(node) + gate + up + joined


def _query_elements(node: Node) -> int:
    return node.integer("K", 0) * node.integer("Nq", 0)


def _key_elements(node: Node) -> int:
    return node.integer("K", 0) * node.integer("Nkv", 0)


@register(
    "MatMulNBitsQkv",
    domain=MICROSOFT,
    statistics=(4, 7, 10),
    operands=(0,),
    packed={3: _query_elements, 6: _key_elements, 9: _key_elements},
)
def projection_bits(node: Node) -> Cost:
    """RMS normalisation, then three products as MatMulNBits."""
    k, n_rows = node.integer("K", 0), _rows(node)
    work = _normalized(node)
    for place, width in ((5, "Nq"), (8, "Nkv"), (11, "Nkv")):
        work += _product(n_rows, k, node.integer(width, 0), node.has(place))
    return work
