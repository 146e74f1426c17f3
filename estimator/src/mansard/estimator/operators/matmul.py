"""Matrix products, Einsum, determinants.

https://onnx.ai/onnx/operators/onnx__MatMul.html, …__Gemm, …__Einsum, …__Det
"""

from __future__ import annotations

import math

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT32
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import BAKED_IN, broadcast
from mansard.estimator.tensors import Node, Shape, Tensor


def _matmul_shape(node: Node) -> Specs:
    left, right = node.input(0), node.input(1)
    if left.dtype != right.dtype:
        raise node.error(f"types contradict: {left.dtype.name} times {right.dtype.name}")
    return [(left.dtype, product_shape(node, left.shape, right.shape))]


@operator("MatMul", shape=_matmul_shape)
def matmul(node: Node) -> Cost:
    """M·N·K multiply-adds."""
    return Cost(macs=node.output.n_elements * node.input(0).shape[-1])


def _matmul_integer_shape(node: Node) -> Specs:
    shape = product_shape(node, node.input(0).shape, node.input(1).shape)
    return [(INT32, shape)]


@operator("MatMulInteger", shape=_matmul_integer_shape, not_weights=(2, 3))
def matmul_integer(node: Node) -> Cost:
    """As MatMul."""
    return matmul(node)


def _qlinear_matmul_shape(node: Node) -> Specs:
    shape = product_shape(node, node.input(0).shape, node.input(3).shape)
    return [(node.input(7).dtype, shape)]


@operator(
    "QLinearMatMul", shape=_qlinear_matmul_shape, not_weights=(1, 2, 4, 5, 6, 7), operands=(0, 3)
)
def qlinear_matmul(node: Node) -> Cost:
    """As MatMul; then scale, round, add the zero point and clamp twice for each output."""
    return matmul(node) + Cost(simple=5 * node.output.n_elements)


def _grouped_matmul_shape(node: Node) -> Specs:
    """[tokens, chosen, columns] of tokens [tokens, depth] and matrices [groups, depth, columns]."""
    tokens, matrices, chosen, bias = *map(node.input, range(3)), node.optional(3)
    if (tokens.rank, matrices.rank, chosen.rank) != (2, 3, 2):
        raise node.error("needs tokens of 2 dimensions, matrices of 3 and indices of 2")
    groups, depth, columns = matrices.shape
    is_wrong_bias = bias is not None and bias.shape != (groups, columns)
    if tokens.shape != (chosen.shape[0], depth) or is_wrong_bias:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in node.present)
        raise node.error(f"shapes {shapes} do not go together", BAKED_IN)
    return [(tokens.dtype, (*chosen.shape, columns))]


def _grouped_read_bytes(node: Node, precision: Precision | None) -> int:
    """Only the matrices and biases that can be chosen."""
    n_groups, n_chosen = node.input(1).shape[0], node.input(2).n_elements
    used = min(n_groups, n_chosen)
    return sum(
        tensor.dtype.size_bytes(tensor.n_elements // max(n_groups, 1) * used, precision)
        if tensor.name in {grouped.name for grouped in (node.input(1), node.optional(3)) if grouped}
        else tensor.n_bytes(precision)
        for tensor in node.distinct
    )


@operator("GroupedMatMul", shape=_grouped_matmul_shape, not_weights=(2,), reads=_grouped_read_bytes)
def grouped_matmul(node: Node) -> Cost:
    """As MatMul, 1 for a bias."""
    n = node.output.n_elements
    return Cost(macs=n * node.input(0).shape[-1], simple=n if node.has(3) else 0)


def product_shape(node: Node, left: Shape, right: Shape) -> Shape:
    """NumPy's matmul: vectors are padded, leading dimensions broadcast."""
    if not left or not right:
        raise node.error("cannot multiply a scalar as a matrix")
    a = left if len(left) > 1 else (1, *left)
    b = right if len(right) > 1 else (*right, 1)
    if a[-1] != b[-2]:
        raise node.error(f"cannot multiply {list(left)} by {list(right)}", BAKED_IN)
    shape = a[:-2]
    if shape != b[:-2] and len(b) > 2:
        shape = broadcast(node, shape, b[:-2])
    return (*shape, *(a[-2:-1] if len(left) > 1 else ()), *(b[-1:] if len(right) > 1 else ()))


def gemm_sizes(node: Node) -> tuple[int, int, int]:
    """(M, N, K) of a Gemm; raises ModelError where the matrices do not fit."""
    left, right = _matrix(node, node.input(0)), _matrix(node, node.input(1))
    m, k = left[::-1] if node.integer("transA", 0) else left
    k2, n = right[::-1] if node.integer("transB", 0) else right
    if k != k2:
        raise node.error(f"cannot multiply {list(left)} by {list(right)}", BAKED_IN)
    return m, n, k


def _matrix(node: Node, tensor: Tensor) -> Shape:
    if tensor.rank != 2:
        raise node.error(f"needs matrices, {tensor.name!r} is {list(tensor.shape)}", BAKED_IN)
    return tensor.shape


def _gemm_shape(node: Node) -> Specs:
    """The bias broadcasts to the result, before version 7 only where that is said."""
    if node.input(0).dtype != node.input(1).dtype:
        raise node.error(
            f"types contradict: {node.input(0).dtype.name} times {node.input(1).dtype.name}"
        )
    m, n, _ = gemm_sizes(node)
    bias = node.optional(2)
    is_laid_on = node.opset >= 7 or node.integer("broadcast", 0)
    if bias is not None and (broadcast(node, (m, n), bias.shape) if is_laid_on else bias.shape) != (
        m,
        n,
    ):
        raise node.error(f"bias {list(bias.shape)} does not fit a result of {[m, n]}", BAKED_IN)
    return [(node.input(0).dtype, (m, n))]


@operator("Gemm", shape=_gemm_shape)
def gemm(node: Node) -> Cost:
    """M·N·K multiply-adds, M·N for the bias, 1 an element for alpha or beta other than 1."""
    m, n, k = gemm_sizes(node)
    simple = 0
    if node.number("alpha", 1.0) != 1.0:
        simple += m * n
    bias = node.optional(2)
    if bias is not None and node.number("beta", 1.0) != 0.0:
        simple += m * n
        if node.number("beta", 1.0) != 1.0:
            simple += bias.n_elements
    return Cost(macs=m * n * k, simple=simple)


def _einsum_sizes(node: Node) -> tuple[dict[str, int], list[str], str]:
    """Sizes by label, the inputs' labels, the output's labels; ellipses spelled out.

    An ellipsis is written as digits counted from the right, as broadcasting does.
    """
    equation = node.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(node.present):
        raise node.error(f"equation {equation!r} does not fit {len(node.present)} inputs")
    sizes: dict[str, int] = {}
    spelled, longest = [], ""
    for term, tensor in zip(terms, node.present, strict=True):
        labels = _spell(node, term, tensor.rank)
        longest = max(longest, "".join(c for c in labels if c > "\x7f"), key=len)
        for label, size in zip(labels, tensor.shape, strict=True):
            if sizes.setdefault(label, size) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                raise node.error(f"equation {equation!r}: sizes of {label!r} differ", BAKED_IN)
        spelled.append(labels)
    if not arrow:
        once = sorted(c for c in sizes if "".join(spelled).count(c) == 1 and c not in longest)
        return sizes, spelled, longest + "".join(once)
    output = right.replace("...", longest)
    if not set(output) <= sizes.keys():
        raise node.error(f"equation {equation!r}: an output label stands in no input")
    if len(set(output)) < len(output):
        raise node.error(f"equation {equation!r}: an output label stands there twice")
    return sizes, spelled, output


def _spell(node: Node, term: str, rank: int) -> str:
    named = term.replace("...", "")
    missing = rank - len(named)
    if missing < 0 or (missing and "..." not in term) or term.count("...") > 1:
        raise node.error(f"term {term!r} does not fit an input of {rank} dimensions")
    # Labels behind ASCII stand for the dimensions of the ellipsis.
    return term.replace("...", "".join(chr(0x100 + i) for i in range(missing, 0, -1)))


def _einsum_shape(node: Node) -> Specs:
    sizes, _, output = _einsum_sizes(node)
    return [(node.input(0).dtype, tuple(sizes[label] for label in output))]


@operator("Einsum", shape=_einsum_shape)
def einsum(node: Node) -> Cost:
    """1 multiply-add for each combination of labels and operand after the first.

    Multiplications alone without a summed label, additions alone with one operand.
    """
    sizes, terms, output = _einsum_sizes(node)
    points = math.prod(sizes.values())
    is_summed = len(output) < len(sizes)
    if len(terms) == 1:
        return Cost(simple=points - node.output.n_elements if is_summed else 0)
    if not is_summed:
        return Cost(simple=points * (len(terms) - 1))
    return Cost(macs=points * (len(terms) - 1))


def _det_shape(node: Node) -> Specs:
    data = node.input(0)
    if data.rank < 2 or data.shape[-1] != data.shape[-2]:
        raise node.error(f"needs square matrices, the input is {list(data.shape)}")
    return [(data.dtype, data.shape[:-2])]


@operator("Det", shape=_det_shape)
def det(node: Node) -> Cost:
    """Elimination: n(n - 1)/2 quotients, (n - 1)·n·(2·n - 1)/6 products and as many differences.

    Then n - 1 products (G. Golub, C. Van Loan, Matrix Computations, 3.2).
    """
    n, n_matrices = node.input(0).shape[-1], node.output.n_elements
    quotients, updates = n * (n - 1) // 2, (n - 1) * n * (2 * n - 1) // 6
    return Cost(simple=n_matrices * max(quotients + 2 * updates + n - 1, 0))
