"""Random weights in place of the constant ones, to run a network of the zoo for real."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

Weights: TypeAlias = dict[str, npt.NDArray[np.float32]]

_FLOAT = 1  # onnx.TensorProto.FLOAT
_POOL_SIZE = 1_048_573  # a prime, so that no two rows of a matrix come out alike


def with_random_weights(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy of ``model`` whose ``ConstantOfShape`` weights are random initialisers.

    ``separate_weights`` says how they are drawn.
    """
    result, weights = separate_weights(model, seed)
    graph = result.graph
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    for name, values in weights.items():
        # Filled in place: a list of finished tensors would hold every weight twice.
        tensor = graph.initializer.add(name=name, data_type=_FLOAT, dims=values.shape)
        tensor.raw_data = values.astype("<f4", copy=False).tobytes()
    return result


def separate_weights(model: onnx.ModelProto, seed: int) -> tuple[onnx.ModelProto, Weights]:
    """A copy of ``model`` that takes its weights as inputs, and random ones to feed it.

    The same seed gives the same weights. Matrices and filters whose constant is v,
    one over the inputs of an output, get N(0, 2v), which keeps a signal's variance
    through rectified layers (He et al., arXiv:1502.01852); scales and variances get
    0.5 to 1.5 times their constant, and what is zero (biases, means) N(0, 0.0001).
    Numbers repeat after a million elements, so that large networks are filled quickly.
    """
    from onnx import ModelProto, helper

    pool = np.random.default_rng(seed).standard_normal(_POOL_SIZE, dtype=np.float32)
    result = ModelProto()
    result.CopyFrom(model)
    weights: Weights = {}
    n_drawn = 0
    for name, (shape, value) in _take_out_weights(result.graph).items():
        n_elements = prod(shape)
        numbers = _spread(np.roll(pool, -n_drawn)[:n_elements], shape, value)
        weights[name] = np.resize(numbers, shape)
        n_drawn += n_elements
        result.graph.input.append(helper.make_tensor_value_info(name, _FLOAT, shape))
    return result, weights


def _take_out_weights(graph: onnx.GraphProto) -> dict[str, tuple[tuple[int, ...], float]]:
    """Remove the weights' nodes and the shapes that only they read; return what they were."""
    from onnx import numpy_helper

    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights, others = {}, []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in stored:
            shape = tuple(int(length) for length in stored[node.input[0]])
            filling = numpy_helper.to_array(node.attribute[0].t)[0] if node.attribute else 0.0
            weights[node.output[0]] = shape, float(filling)
        else:
            others.append(node)
    read = {name for node in others for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(others)
    graph.initializer.extend(kept)
    return weights


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
