"""Random weights in place of constant ones, so that a network without weights can run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

Array: TypeAlias = npt.NDArray[Any]

FLOATING = frozenset({1, 10, 11, 16})  # FLOAT, FLOAT16, DOUBLE, BFLOAT16 of onnx.TensorProto
_POOL_SIZE = 1_048_573  # a prime, so that no two rows of a matrix come out alike


class MissingWeights(NamedTuple):
    """A weight that a file has no numbers for, and how to draw them.

    ``value`` is the constant in its place; ``data_type`` as in onnx.TensorProto.
    """

    shape: tuple[int, ...]
    value: float
    data_type: int


def fill(graph: onnx.GraphProto, missing: Mapping[str, MissingWeights], seed: int) -> None:
    """Write random numbers into the tensors of ``graph`` for the weights ``missing``."""
    for tensor, data in drawn_tensors(graph, missing, seed):
        tensor.raw_data = data


def drawn_tensors(
    graph: onnx.GraphProto, missing: Mapping[str, MissingWeights], seed: int
) -> Iterator[tuple[onnx.TensorProto, bytes]]:
    """The tensors of ``graph`` for the weights ``missing``, each with its bytes.

    Tensors that ``graph`` lacks are added.
    """
    stored = {tensor.name: tensor for tensor in graph.initializer}
    for name, values in draw(missing, seed):
        tensor = stored.get(name)
        if tensor is None:
            data_type = missing[name].data_type
            tensor = graph.initializer.add(name=name, data_type=data_type, dims=values.shape)
        yield tensor, values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def draw(missing: Mapping[str, MissingWeights], seed: int) -> Iterator[tuple[str, Array]]:
    """Random numbers for each weight, one at a time; the same seed gives the same.

    Matrices and filters whose constant is v,
    one over the inputs of an output, get N(0, 2v), which keeps a signal's variance
    through rectified layers (He et al., arXiv:1502.01852); scales and variances get
    0.5 to 1.5 times their constant, and what is zero (biases, means) N(0, 0.0001).
    Numbers repeat after a million elements, so that large networks are filled quickly.
    """
    from onnx import helper

    pool = np.random.default_rng(seed).standard_normal(_POOL_SIZE, dtype=np.float32)
    n_drawn = 0
    for name, (shape, value, data_type) in missing.items():
        n_elements = prod(shape)
        numbers = _spread(np.roll(pool, -n_drawn)[:n_elements], shape, value)
        # Narrowed before it is repeated, so that no weight is held in two widths.
        narrow = numbers.astype(helper.tensor_dtype_to_np_dtype(data_type), copy=False)
        yield name, np.resize(narrow, shape)
        n_drawn += n_elements


def placeholder_weights(graph: onnx.GraphProto) -> dict[str, MissingWeights]:
    """The weights that constant nodes are placeholders for, by the tensor that each writes."""
    from onnx import numpy_helper

    # Numbers that lie in another file (data_location EXTERNAL) are not read here.
    stored = {tensor.name: tensor for tensor in graph.initializer if not tensor.data_location}
    weights = {}
    for node in graph.node:
        if _is_weight(node, stored):
            shape = tuple(int(length) for length in numpy_helper.to_array(stored[node.input[0]]))
            fill = node.attribute[0].t if node.attribute else None
            value = 0.0 if fill is None else float(numpy_helper.to_array(fill).reshape(-1)[0])
            weights[node.output[0]] = MissingWeights(
                shape, value, 1 if fill is None else fill.data_type
            )
    return weights


def take_out_weights(graph: onnx.GraphProto) -> dict[str, MissingWeights]:
    """Remove the weights' nodes and the shapes that only they read; return what they were.

    Before version 4 of ONNX's IR the inputs name what is stored too, so the shapes go there also.
    """
    weights = placeholder_weights(graph)
    if weights:
        others = [node for node in graph.node if not weights.keys() & set(node.output)]
        read = set(_read(graph, others))
        gone = {tensor.name for tensor in graph.initializer if tensor.name not in read}
        for field in (graph.initializer, graph.input):
            remaining = [element for element in field if element.name not in gone]
            del field[:]
            field.extend(remaining)
        del graph.node[:]
        graph.node.extend(others)
    return weights


def _is_weight(node: onnx.NodeProto, stored: Collection[str]) -> bool:
    """Whether ``node`` stands for a weight: a floating constant of a shape that is stored."""
    if node.op_type != "ConstantOfShape" or node.domain or node.input[0] not in stored:
        return False
    return not node.attribute or node.attribute[0].t.data_type in FLOATING


def _read(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The tensors that ``nodes`` need, inside their graphs too, and the outputs of ``graph``."""
    yield from (output.name for output in graph.output)
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            for body in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _read(body, body.node)


def _spread(
    normal: npt.NDArray[np.float32], shape: tuple[int, ...], value: float
) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32]
    if value == 0:
        scaled = normal * np.float32(0.01)
    elif len(shape) > 1:
        scaled = normal * np.float32(np.sqrt(2 * value))
    else:
        scaled = np.float32(value) * (1 + np.float32(0.5) * np.tanh(normal))
    return scaled
