"""Matrix products, Einsum, determinants.

https://onnx.ai/onnx/operators/onnx__MatMul.html, …__Gemm, …__Einsum, …__Det
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT32
from mansard.estimator.shapes.checks import BAKED_IN
from mansard.estimator.shapes.elementwise import broadcast
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape, Tensor


@rule("MatMul")
def _matmul(node: Node) -> Sequence[Spec]:
    left, right = node.input(0), node.input(1)
    if left.dtype != right.dtype:
        raise node.error(f"types contradict: {left.dtype.name} times {right.dtype.name}")
    return [(left.dtype, matmul_shape(node, left.shape, right.shape))]


@rule("MatMulInteger")
def _matmul_integer(node: Node) -> Sequence[Spec]:
    shape = matmul_shape(node, node.input(0).shape, node.input(1).shape)
    return [(INT32, shape)]


@rule("QLinearMatMul")
def _qlinear_matmul(node: Node) -> Sequence[Spec]:
    shape = matmul_shape(node, node.input(0).shape, node.input(3).shape)
    return [(node.input(7).dtype, shape)]


def matmul_shape(node: Node, left: Shape, right: Shape) -> Shape:
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


@rule("Gemm")
def _gemm(node: Node) -> Sequence[Spec]:
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


def einsum_sizes(node: Node) -> tuple[dict[str, int], list[str], str]:
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


@rule("Einsum")
def _einsum(node: Node) -> Sequence[Spec]:
    sizes, _, output = einsum_sizes(node)
    return [(node.input(0).dtype, tuple(sizes[label] for label in output))]


@rule("Det")
def _det(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if data.rank < 2 or data.shape[-1] != data.shape[-2]:
        raise node.error(f"needs square matrices, the input is {list(data.shape)}")
    return [(data.dtype, data.shape[:-2])]
