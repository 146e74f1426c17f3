"""Small decoders in the forms that exporters write, for the tests of stages and caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
HEADS, KV_HEADS, WIDTH = 4, 2, 8  # query heads, key heads, elements of a head
Shape = Sequence[int | str]

_TYPES = {
    name.lower(): getattr(TensorProto, name)
    for name in ("FLOAT", "FLOAT16", "INT64", "INT32", "BOOL")
}


def value(name: str, shape: Shape | None, dtype: str = "float") -> onnx.ValueInfoProto:
    """An input or an output of the network."""
    if shape is None:
        return helper.make_empty_tensor_value_info(name)
    return helper.make_tensor_value_info(name, _TYPES[dtype], list(shape))


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    stored: Mapping[str, Any] | None = None,
    opset: int = 21,
) -> bytes:
    """A model; ``stored`` are its weights and constants."""
    held = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in (stored or {}).items()
    ]
    graph = helper.make_graph(list(nodes), "decoder", list(inputs), list(outputs), held)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=10)
    data: bytes = made.SerializeToString()
    return data


def plain_decoder(
    *,
    past: Sequence[str] = ("past_key_values.0.key", "past_key_values.0.value"),
    present: Sequence[str] = ("present.0.key", "present.0.value"),
    cache: Shape = ("batch", KV_HEADS, "past", WIDTH),
    axis: int = 2,
    tokens: onnx.ValueInfoProto | None = None,
    others: Sequence[onnx.ValueInfoProto] = (),
    mask: onnx.ValueInfoProto | None = None,
) -> bytes:
    """One layer: token rows to queries, keys and values; keys and values by Concat.

    ``axis`` is that of tokens in ``cache``; keys are permuted to [batch, heads, tokens, width].
    A ``mask`` of 2 to 4 axes is added to the scores.
    """
    features = HEADS * WIDTH
    node = helper.make_node
    order = {1: (0, 2, 1, 3), 2: (0, 1, 2, 3), 3: (0, 1, 3, 2)}[axis]  # to [b, h, t, w]
    back = tuple(order.index(at) for at in range(4))
    source = tokens or value("input_ids", ("batch", "seq"), "int64")
    nodes = [
        node("Gather", ["table", source.name], ["x"]),
        node("MatMul", ["x", "wq"], ["q_flat"]),
        node("Reshape", ["q_flat", "q_shape"], ["q4"]),
        node("Transpose", ["q4"], ["q"], perm=[0, 2, 1, 3]),
    ]
    for role, given, made in zip("kv", past, present, strict=True):
        nodes += [
            node("MatMul", ["x", f"w{role}"], [f"{role}_flat"]),
            node("Reshape", [f"{role}_flat", "kv_shape"], [f"{role}4"]),
            # from [batch, tokens, heads, width] to the layout of the cache
            node(
                "Transpose", [f"{role}4"], [f"{role}_new"], perm=[(0, 2, 1, 3)[at] for at in back]
            ),
            node("Concat", [given, f"{role}_new"], [made], axis=axis, name=f"append_{role}"),
            node("Transpose", [made], [f"{role}_all"], perm=list(order)),
            node("Unsqueeze", [f"{role}_all", "two"], [f"{role}5"]),
            node("Expand", [f"{role}5", "repeats"], [f"{role}6"]),
            node("Reshape", [f"{role}6", "heads_shape"], [f"{role}_heads"]),
        ]
    nodes += [
        node("Transpose", ["k_heads"], ["k_turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "k_turned"], ["scores"]),
    ]
    last = "scores"
    if mask is not None:
        nodes.append(node("Cast", [mask.name], ["mask_f"], to=TensorProto.FLOAT))
        rank = len(mask.type.tensor_type.shape.dim)
        axes = {2: "mask_axes", 3: "one"}.get(rank)
        if axes is not None:
            nodes.append(node("Unsqueeze", ["mask_f", axes], ["mask_4"]))
        nodes.append(node("Add", ["scores", "mask_4" if axes else "mask_f"], ["masked"]))
        last = "masked"
    nodes += [
        node("Softmax", [last], ["shares"], axis=-1),
        node("MatMul", ["shares", "v_heads"], ["context"]),
        node("Transpose", ["context"], ["context_t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["context_t", "flat_shape"], ["flat"]),
        node("MatMul", ["flat", "wo"], ["logits"]),
    ]
    inputs = [source, *([mask] if mask is not None else []), *others]
    inputs += [value(name, cache) for name in past]
    outputs = [value("logits", None), *[value(name, None) for name in present]]
    random = np.random.default_rng(1)
    weights = {
        "table": random.standard_normal((16, features)).astype(np.float32),
        "wq": random.standard_normal((features, features)).astype(np.float32),
        "wk": random.standard_normal((features, KV_HEADS * WIDTH)).astype(np.float32),
        "wv": random.standard_normal((features, KV_HEADS * WIDTH)).astype(np.float32),
        "wo": random.standard_normal((features, 16)).astype(np.float32),
    }
    shapes = {
        "q_shape": [0, -1, HEADS, WIDTH],
        "kv_shape": [0, -1, KV_HEADS, WIDTH],
        "repeats": [1, 1, HEADS // KV_HEADS, 1, 1],
        "heads_shape": [0, HEADS, -1, WIDTH],
        "flat_shape": [0, -1, features],
        "two": [2],
        "one": [1],
        "mask_axes": [1, 2],
    }
    stored = {**weights, **{name: np.array(sizes, np.int64) for name, sizes in shapes.items()}}
    return network(nodes, inputs, outputs, stored)
