"""Matrix products, Einsum, attention.

https://onnx.ai/onnx/operators/onnx__MatMul.html, …__Gemm, …__Einsum, …__Attention
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import ELEMENT_TYPES
from mansard.estimator.shapes.elementwise import broadcast
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape, Tensor

_BAKED_IN = (
    "if a batch or dimension was set, the file fixes another one inside the graph: "
    "export the model with that dimension dynamic"
)


@rule("MatMul")
def _matmul(node: Node) -> Sequence[Spec]:
    left, right = node.input(0), node.input(1)
    if left.dtype != right.dtype:
        raise node.error(f"types contradict: {left.dtype.name} times {right.dtype.name}")
    return [(left.dtype, matmul_shape(node, left.shape, right.shape))]


@rule("MatMulInteger")
def _matmul_integer(node: Node) -> Sequence[Spec]:
    shape = matmul_shape(node, node.input(0).shape, node.input(1).shape)
    return [(ELEMENT_TYPES["int32"], shape)]


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
        raise node.error(f"cannot multiply {list(left)} by {list(right)}", _BAKED_IN)
    shape = broadcast(node, a[:-2], b[:-2]) if len(a) > 2 or len(b) > 2 else ()
    return (*shape, *(a[-2:-1] if len(left) > 1 else ()), *(b[-1:] if len(right) > 1 else ()))


def gemm_sizes(node: Node) -> tuple[int, int, int]:
    """(M, N, K) of a Gemm; raises ModelError where the matrices do not fit."""
    left, right = _matrix(node, node.input(0)), _matrix(node, node.input(1))
    m, k = left[::-1] if node.integer("transA", 0) else left
    k2, n = right[::-1] if node.integer("transB", 0) else right
    if k != k2:
        raise node.error(f"cannot multiply {list(left)} by {list(right)}", _BAKED_IN)
    return m, n, k


def _matrix(node: Node, tensor: Tensor) -> Shape:
    if tensor.rank != 2:
        raise node.error(f"needs matrices, {tensor.name!r} is {list(tensor.shape)}", _BAKED_IN)
    return tensor.shape


@rule("Gemm")
def _gemm(node: Node) -> Sequence[Spec]:
    if node.input(0).dtype != node.input(1).dtype:
        raise node.error(
            f"types contradict: {node.input(0).dtype.name} times {node.input(1).dtype.name}"
        )
    m, n, _ = gemm_sizes(node)
    bias = node.optional(2)
    if bias is not None and broadcast(node, (m, n), bias.shape) != (m, n):
        raise node.error(f"bias {list(bias.shape)} does not fit a result of {[m, n]}", _BAKED_IN)
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
                raise node.error(f"equation {equation!r}: sizes of {label!r} differ", _BAKED_IN)
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


def attention_sizes(node: Node) -> tuple[int, int, int, int, int, int, int]:
    """(batch, query heads, key heads, queries, keys with cache, key width, value width)."""
    q, k, v = (node.input(position) for position in range(3))
    if q.rank == 4:
        batch, heads, n_q, width = q.shape
        kv_heads, n_kv, v_width = k.shape[1], k.shape[2], v.shape[3]
    elif q.rank == 3:
        batch, n_q, _ = q.shape
        heads, kv_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
        if heads < 1 or kv_heads < 1:
            raise node.error("q_num_heads and kv_num_heads are needed with 3-dimensional inputs")
        n_kv, width, v_width = k.shape[1], q.shape[2] // heads, v.shape[2] // kv_heads
    else:
        raise node.error(f"the query must have 3 or 4 dimensions, not {list(q.shape)}")
    past = node.optional(4)
    if past is not None:
        n_kv += past.shape[2]
    return batch, heads, kv_heads, n_q, n_kv, width, v_width


@rule("Attention")
def _attention(node: Node) -> Sequence[Spec]:
    batch, heads, kv_heads, n_q, n_kv, width, v_width = attention_sizes(node)
    dtype = node.input(0).dtype
    is_flat = node.input(0).rank == 3
    result = (batch, n_q, heads * v_width) if is_flat else (batch, heads, n_q, v_width)
    return [
        (dtype, result),
        (dtype, (batch, kv_heads, n_kv, width)),
        (dtype, (batch, kv_heads, n_kv, v_width)),
        (dtype, (batch, heads, n_q, n_kv)),
    ]
