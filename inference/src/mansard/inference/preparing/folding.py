"""Batch normalisations folded into the convolutions before them.

    y = γ (conv(x, W) + b - μ) / √(σ² + ε) + β = conv(x, W f) + (b - μ) f + β, f = γ / √(σ² + ε)

Engines do that by themselves, but not across the conversions that int8 puts between the two.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from mansard.inference.preparing.labelling import reads

_EPSILON = 1e-5  # where the node names none (ONNX, BatchNormalization)


def fold_batch_norms(model: ModelProto) -> int:
    """Fold what can be folded in ``model``, in place; returns how many.

    A convolution takes the output and, after its own, the label of what it absorbs. Folded are
    normalisations with stored numbers that are the only reader of a convolution's output.
    """
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    n_readers = Counter(name for node in graph.node for name in reads(node))
    n_readers.update(each.name for each in graph.output)
    writers = {name: node for node in graph.node for name in node.output}
    folded = []
    for node in graph.node:
        if node.op_type != "BatchNormalization" or node.domain or len(list(node.output)) > 1:
            continue
        conv = writers.get(node.input[0])
        if conv is None or conv.op_type != "Conv" or conv.domain or n_readers[node.input[0]] > 1:
            continue
        if all(name in stored for name in (*conv.input[1:], *node.input[1:])):
            _fold(conv, node, stored, model)
            folded.append(node)
    for node in folded:
        graph.node.remove(node)
    used = {name for node in graph.node for name in reads(node)}
    used |= {each.name for each in graph.output}
    folded_away = {name for name in stored if name not in used} if folded else set()
    for values in (graph.initializer, graph.input):  # older files name initialisers as inputs too
        for each in [each for each in values if each.name in folded_away]:
            values.remove(each)
    return len(folded)


def _fold(
    conv: NodeProto, norm: NodeProto, stored: dict[str, TensorProto], model: ModelProto
) -> None:
    gamma, beta, mean, variance = (
        numpy_helper.to_array(stored[name]).astype(np.float64) for name in norm.input[1:5]
    )
    kernel = numpy_helper.to_array(stored[conv.input[1]])
    bias = numpy_helper.to_array(stored[conv.input[2]]) if len(conv.input) > 2 else 0.0
    epsilon = next((each.f for each in norm.attribute if each.name == "epsilon"), _EPSILON)
    factor = gamma / np.sqrt(variance + epsilon)
    wide = factor.reshape(-1, *[1] * (kernel.ndim - 1))
    arrays = {
        f"{norm.output[0]}_kernel": kernel * wide,
        f"{norm.output[0]}_bias": (bias - mean) * factor + beta,
    }
    for name, array in arrays.items():
        tensor = numpy_helper.from_array(array.astype(kernel.dtype), name)
        model.graph.initializer.append(tensor)
        stored[name] = tensor
    del conv.input[1:]
    conv.input.extend(arrays)
    conv.output[0] = norm.output[0]
    conv.name += norm.name
