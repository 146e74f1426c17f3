"""The layers that transformers and recurrent networks are made of.

Tensors are ``[batch, sequence, features]`` with the first two axes free; reshapes copy
them (a 0 in ONNX's target shape), so that any batch and any length work.
"""

from __future__ import annotations

from math import prod, sqrt

from tools.zoo.builder import Dimension, Graph, Shape, Tensor, fixed, n_elements
from tools.zoo.layers import add, divide, multiply


def project(g: Graph, x: Tensor, name: str, features: int, *, bias: bool = True) -> Tensor:
    """Fully connected layer over the last axis, written as MatMul and Add."""
    fan_in = fixed(x, -1)
    weight = g.weight(f"{name}.weight", (fan_in, features), 1 / fan_in)
    if not bias:
        return matmul(g, x, weight, name)
    product = matmul(g, x, weight, f"{name}.matmul")
    return add(g, product, g.weight(f"{name}.bias", (features,), 0.0), name)


def matmul(g: Graph, a: Tensor, b: Tensor, name: str) -> Tensor:
    """Matrix product over the last two axes; those of ``b`` before them broadcast to ``a``'s."""
    return g.node("MatMul", name, [a, b], (*a.shape[:-1], b.shape[-1]))


def layer_norm(g: Graph, x: Tensor, name: str, *, epsilon: float) -> Tensor:
    """Layer normalisation over the last axis, with scale and bias."""
    features = fixed(x, -1)
    scale = g.weight(f"{name}.weight", (features,), 1.0)
    bias = g.weight(f"{name}.bias", (features,), 0.0)
    return g.node("LayerNormalization", name, [x, scale, bias], x.shape, axis=-1, epsilon=epsilon)


def embedding(g: Graph, indices: Tensor, name: str, n_rows: int, features: int) -> Tensor:
    """Rows of a table, chosen by ``indices``."""
    return lookup(g, g.weight(f"{name}.weight", (n_rows, features), 1 / features), indices, name)


def lookup(g: Graph, table: Tensor, indices: Tensor, name: str) -> Tensor:
    """Rows of ``table``, chosen by ``indices``."""
    shape = (*indices.shape, *table.shape[1:])
    return g.node("Gather", name, [table, indices], shape, axis=0, element=table.element)


def gelu(g: Graph, x: Tensor, name: str) -> Tensor:
    """x/2 · (1 + erf(x / √2)), in the five nodes that PyTorch's exporter writes."""
    y = divide(g, x, g.number(sqrt(2.0)), f"{name}.div")
    y = g.node("Erf", f"{name}.erf", [y], x.shape)
    y = multiply(g, x, add(g, y, g.number(1.0), f"{name}.add"), f"{name}.mul")
    return multiply(g, y, g.number(0.5), name)


def gelu_tanh(g: Graph, x: Tensor, name: str) -> Tensor:
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), the form that GPT-2 was trained with."""
    cube = g.node("Pow", f"{name}.pow", [x, g.number(3.0)], x.shape)
    y = add(g, x, multiply(g, cube, g.number(0.044715), f"{name}.cube"), f"{name}.sum")
    y = multiply(g, y, g.number(sqrt(2.0 / 3.141592653589793)), f"{name}.scaled")
    y = add(g, g.node("Tanh", f"{name}.tanh", [y], x.shape), g.number(1.0), f"{name}.add")
    half = multiply(g, x, g.number(0.5), f"{name}.half")
    return multiply(g, half, y, name)


def softmax(g: Graph, x: Tensor, name: str, *, axis: int = -1) -> Tensor:
    """Exponentials over their sum along ``axis``."""
    return g.node("Softmax", name, [x], x.shape, axis=axis)


def transpose(g: Graph, x: Tensor, name: str, order: tuple[int, ...]) -> Tensor:
    """The axes of ``x`` in another order."""
    shape = tuple(x.shape[axis] for axis in order)
    return g.node("Transpose", name, [x], shape, perm=order, element=x.element)


def reshape(g: Graph, x: Tensor, name: str, target: tuple[int, ...]) -> Tensor:
    """``x`` in ONNX's target shape: 0 copies an axis, one -1 takes what is left."""
    shape: list[Dimension] = [
        x.shape[axis] if length == 0 else length for axis, length in enumerate(target)
    ]
    if -1 in target:
        copied = [axis for axis, length in enumerate(target) if length == 0]
        left = n_elements(x.shape[axis] for axis in range(len(x.shape)) if axis not in copied)
        taken = prod(length for length in target if length > 0)
        shape[target.index(-1)] = "length" if left is None else left // taken
    return g.node("Reshape", name, [x, g.integers(target)], tuple(shape), element=x.element)


def take(g: Graph, x: Tensor, name: str, *, axis: int, index: int) -> Tensor:
    """The slice of ``x`` at one index of ``axis``, without that axis."""
    shape: Shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return g.node("Gather", name, [x, g.integer(index)], shape, axis=axis, element=x.element)


def unsqueeze(g: Graph, x: Tensor, name: str, axes: tuple[int, ...]) -> Tensor:
    """``x`` with new axes of length 1 at the given places of the result."""
    shape = list(x.shape)
    for axis in axes:
        shape.insert(axis, 1)
    inputs = (x, g.integers(axes))
    return g.node("Unsqueeze", name, inputs, tuple(shape), element=x.element)


def squeeze(g: Graph, x: Tensor, name: str, axis: int) -> Tensor:
    """``x`` without an axis of length 1."""
    shape: Shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return g.node("Squeeze", name, [x, g.integers((axis,))], shape, element=x.element)


def expand(g: Graph, x: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """``x`` repeated to a shape of fixed lengths."""
    return g.node("Expand", name, [x, g.integers(shape)], shape, element=x.element)


def attention(
    g: Graph,
    qkv: tuple[Tensor, Tensor, Tensor],
    name: str,
    *,
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    """softmax(q kᵀ / √d + mask) v for every head, composed as exporters write it.

    ``mask`` is added to the scores ``[batch, heads, sequence, sequence]``.
    """
    features = fixed(qkv[0], -1)
    depth = features // n_heads
    orders = {"query": (0, 2, 1, 3), "key": (0, 2, 3, 1), "value": (0, 2, 1, 3)}
    query, key, value = (
        transpose(
            g,
            reshape(g, x, f"{name}.{role}.heads", (0, 0, n_heads, depth)),
            f"{name}.{role}.transpose",
            order,
        )
        for x, (role, order) in zip(qkv, orders.items(), strict=True)
    )
    scores = matmul(g, query, key, f"{name}.scores")
    scores = divide(g, scores, g.number(sqrt(depth)), f"{name}.scaled")
    if mask is not None:
        scores = add(g, scores, mask, f"{name}.masked")
    x = matmul(g, softmax(g, scores, f"{name}.softmax"), value, f"{name}.context")
    x = transpose(g, x, f"{name}.transpose", (0, 2, 1, 3))
    return reshape(g, x, f"{name}.merged", (0, 0, features))


def positions(g: Graph, tokens: Tensor, name: str) -> Tensor:
    """0, 1, … up to the length of the sequence, which only the run knows."""
    shape = g.node("Shape", f"{name}.shape", [tokens], (len(tokens.shape),), element="int64")
    length = take(g, shape, f"{name}.length", axis=0, index=1)
    bounds = (g.integer(0), length, g.integer(1))
    return g.node("Range", name, bounds, (tokens.shape[1],), element="int64")


def cell_middles(g: Graph, n_cells: int, name: str) -> Tensor:
    """0.5, 1.5, … of a row of cells: a detector's grid, computed as exports do."""
    bounds = (g.integer(0), g.integer(n_cells), g.integer(1))
    cells = g.node("Range", f"{name}.range", bounds, (n_cells,), element="int64")
    cells = g.node("Cast", f"{name}.cast", [cells], (n_cells,), to=1)
    return add(g, cells, g.number(0.5), f"{name}.middles")
