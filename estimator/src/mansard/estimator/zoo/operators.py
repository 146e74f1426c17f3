"""Operators of many shapes, side by side in a few networks: what an engine is timed on.

Each network has branches that share nothing: an elementwise operator on an input of its own, and
behind it the operator that is of interest, which so reads what was just written, as in a network.
One run with a profile times all of them, by the engine that will run other networks. Times of
operators by their shapes predict networks that were never run
(``analytics.models.predict.operator_times``).

Sizes are spread evenly over their logarithms by Halton's sequence (J. H. Halton, On the efficiency
of certain quasi-random sequences of points, 1960), so that few operators cover them. A branch whose
work, weights or activations are beyond those of layers of networks for boards is drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

FAMILY = "operators"
N_NETWORKS = 8
NAMES = tuple(f"zoo_operators{number}" for number in range(1, N_NETWORKS + 1))
# Branches of each kind in one network; attention is two products and a softmax.
_BRANCHES = {
    "convolution": 9,
    "depthwise": 3,
    "product": 6,
    "attention": 2,
    "reduction": 2,
    "pooling": 2,
    "normalization": 1,
    "movement": 2,
}
_LEAST_MACS, _MOST_MACS = 2e5, 1e9
_MOST_WEIGHTS, _MOST_ELEMENTS = 4e6, 4e6  # 16 MB in fp32, as the largest layers of the zoo
_BASES = (2, 3, 5, 7, 11, 13)  # of Halton's sequence; an operator has at most so many sizes
_IR_VERSION, _OPSET, _PRODUCER = 8, 17, "mansard"  # as the files that ship
_ELEMENTWISE = (
    ("Relu", ()),
    ("Add", ("half",)),
    ("Sigmoid", ()),
    ("Mul", ("half",)),
    ("Tanh", ()),
)


class Branch(NamedTuple):
    """What a branch is made of. ``weights``: shapes of those of its last node.

    ``shape``: of its input without the batch. ``nodes``: makes what follows the elementwise node,
    of the branch's name, the tensor that is read and the names of the weights.
    """

    shape: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    macs: int  # at batch 1
    end: tuple[int, ...]  # the shape of its output without the batch
    nodes: Callable[[str, str, Sequence[str]], list[NodeProto]]

    @property
    def fits(self) -> bool:
        """Whether networks have layers of its size."""
        elements = max(prod(self.shape), prod(self.end))
        n_weights = sum(map(prod, self.weights))
        is_small = elements <= _MOST_ELEMENTS and n_weights <= _MOST_WEIGHTS
        return is_small and (self.macs == 0 or _LEAST_MACS <= self.macs <= _MOST_MACS)


def draw(name: str) -> bytes:
    """The ONNX file of the network of operators called ``name``; KeyError for any other name."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    number = dict(zip(NAMES, range(N_NETWORKS), strict=True))[name]
    nodes: list[NodeProto] = []
    stored = [numpy_helper.from_array(np.array(0.5, dtype=np.float32), "half")]
    inputs, outputs = [], []
    for at, branch in enumerate(branches(number)):
        begin, read, end = f"input{at}", f"read{at}", f"operator{at}"
        shape: list[str | int | None] = ["batch", *branch.shape]
        inputs.append(helper.make_tensor_value_info(begin, TensorProto.FLOAT, shape))
        op_type, beside = _ELEMENTWISE[at % len(_ELEMENTWISE)]
        nodes.append(helper.make_node(op_type, [begin, *beside], [read], name=read))
        weights = [f"weight{at}_{place}" for place in range(len(branch.weights))]
        for weight, sizes in zip(weights, branch.weights, strict=True):
            # As in the other files a constant stands for the weights.
            fill = helper.make_tensor("value", TensorProto.FLOAT, [1], [1 / max(sizes)])
            stored.append(
                numpy_helper.from_array(np.array(sizes, dtype=np.int64), f"{weight}_shape")
            )
            nodes.append(
                helper.make_node("ConstantOfShape", [f"{weight}_shape"], [weight], value=fill)
            )
        nodes += branch.nodes(end, read, weights)
        left: list[str | int | None] = ["batch", *branch.end]
        outputs.append(helper.make_tensor_value_info(end, TensorProto.FLOAT, left))
    return model_file(helper.make_graph(nodes, name, inputs, outputs, stored))


def model_file(graph: GraphProto) -> bytes:
    """The ONNX file of ``graph``, checked; of the versions of the files that ship."""
    from onnx import checker, helper

    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name=_PRODUCER,
    )
    checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def branches(number: int) -> Iterator[Branch]:
    """Those of a network, by its number from 0; the same ones whenever it is drawn."""
    for kind, count in _BRANCHES.items():
        drawn = _spread(_MAKERS[kind])
        for at, branch in enumerate(drawn):
            if at >= count * N_NETWORKS:
                break
            if at % N_NETWORKS == number:  # each network has small and large ones
                yield branch


def _spread(make: Callable[[Sequence[float]], Branch]) -> Iterator[Branch]:
    """The branches that fit, along Halton's sequence; without end."""
    at = 0
    while True:
        at += 1
        branch = make([radical_inverse(at, base) for base in _BASES])
        if branch.fits:
            yield branch


def radical_inverse(number: int, base: int) -> float:
    """The digits of ``number`` behind the point, in reverse: evenly spread in [0, 1)."""
    value, scale = 0.0, 1.0
    while number:
        scale /= base
        number, digit = divmod(number, base)
        value += digit * scale
    return value


def _size(share: float, least: int, most: int) -> int:
    """A size between both, evenly spread over its logarithm."""
    size = least * math.exp(share * math.log(most / least))
    return round(size)


def _channels(share: float, least: int, most: int) -> int:
    """As ``_size``; a multiple of 8 where it is large, as networks have them."""
    size = _size(share, least, most)
    return size if size < 16 else round(size / 8) * 8


def _pick(share: float, choices: Sequence[int]) -> int:
    return choices[min(int(share * len(choices)), len(choices) - 1)]


def _convolution(u: Sequence[float]) -> Branch:
    kernel, stride = _pick(u[0], (1, 1, 1, 3, 3, 3, 5, 7)), _pick(u[1], (1, 1, 2))
    side = _size(u[2], 7, 160)
    channels, filters = _channels(u[3], 3, 1024), _channels(u[4], 8, 1024)
    return _convolved(side, channels, filters, kernel, stride, 1)


def _depthwise(u: Sequence[float]) -> Branch:
    channels = _channels(u[3], 16, 1024)
    kernel, stride = _pick(u[0], (3, 3, 5)), _pick(u[1], (1, 1, 2))
    return _convolved(_size(u[2], 7, 112), channels, channels, kernel, stride, channels)


def _convolved(
    side: int, channels: int, filters: int, kernel: int, stride: int, group: int
) -> Branch:
    from onnx import helper

    left = (side + 2 * (kernel // 2) - kernel) // stride + 1
    weight = (filters, channels // group, kernel, kernel)

    def nodes(name: str, read: str, weights: Sequence[str]) -> list[NodeProto]:
        return [
            helper.make_node(
                "Conv",
                [read, *weights],
                [name],
                name=name,
                kernel_shape=[kernel] * 2,
                strides=[stride] * 2,
                pads=[kernel // 2] * 4,
                group=group,
            )
        ]

    end = (filters, left, left)
    macs = prod(end) * prod(weight[1:])
    return Branch((channels, side, side), (weight, (filters,)), macs, end, nodes)


def _product(u: Sequence[float]) -> Branch:
    """Rows of a sequence, one where it is a classifier's, times weights."""
    from onnx import helper

    rows = 1 if u[0] < 0.25 else _size(u[1], 2, 512)
    inner, columns = _channels(u[2], 32, 4096), _channels(u[3], 10, 4096)

    def nodes(name: str, read: str, weights: Sequence[str]) -> list[NodeProto]:
        return [helper.make_node("MatMul", [read, *weights], [name], name=name)]

    weights = ((inner, columns),)
    return Branch((rows, inner), weights, rows * inner * columns, (rows, columns), nodes)


def _attention(u: Sequence[float]) -> Branch:
    """Queries are keys and values too: [batch, heads, places, width]."""
    from onnx import helper

    heads, places, width = _size(u[0], 1, 16), _size(u[1], 16, 512), _size(u[2], 16, 128)

    def nodes(name: str, read: str, _: Sequence[str]) -> list[NodeProto]:
        turned, scores, shares = (f"{name}_{part}" for part in ("turned", "scores", "shares"))
        return [
            helper.make_node("Transpose", [read], [turned], name=turned, perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", [read, turned], [scores], name=scores),
            helper.make_node("Softmax", [scores], [shares], name=shares, axis=-1),
            helper.make_node("MatMul", [shares, read], [name], name=name),
        ]

    shape = (heads, places, width)
    return Branch(shape, (), 2 * heads * places**2 * width, shape, nodes)


def _one(op_type: str, **attributes: Any) -> Callable[..., list[NodeProto]]:
    """One node of the branch's tensor and its weights."""
    from onnx import helper

    def nodes(name: str, read: str, weights: Sequence[str]) -> list[NodeProto]:
        return [helper.make_node(op_type, [read, *weights], [name], name=name, **attributes)]

    return nodes


def _image(u: Sequence[float]) -> tuple[int, int, int]:
    side = _size(u[1], 4, 160)
    return (_channels(u[2], 8, 1024), side, side)


def _reduction(u: Sequence[float]) -> Branch:
    shape = _image(u)
    if u[0] < 0.5:
        nodes = _one("GlobalAveragePool") if u[0] < 0.25 else _one("ReduceMean", axes=[2, 3])
        return Branch(shape, (), 0, (shape[0], 1, 1), nodes)
    return Branch(shape, (), 0, (*shape[:2], 1), _one("ReduceMax", axes=[-1]))


def _pooling(u: Sequence[float]) -> Branch:
    shape = _image(u)
    kernel, stride = _pick(u[3], (2, 3, 3)), _pick(u[4], (1, 2, 2))
    op_type = "MaxPool" if u[0] < 0.7 else "AveragePool"
    nodes = _one(op_type, kernel_shape=[kernel] * 2, strides=[stride] * 2)
    left = (shape[1] - kernel) // stride + 1
    return Branch(shape, (), 0, (shape[0], left, left), nodes)


def _normalization(u: Sequence[float]) -> Branch:
    rows, width = _size(u[0], 1, 512), _channels(u[1], 64, 4096)
    weights = ((width,), (width,))
    shape = (rows, width)
    return Branch(shape, weights, 0, shape, _one("LayerNormalization", axis=-1))


def _movement(u: Sequence[float]) -> Branch:
    shape = _image(u)
    if u[0] < 0.5:
        turned = (*shape[1:], shape[0])
        return Branch(shape, (), 0, turned, _one("Transpose", perm=[0, 2, 3, 1]))
    from onnx import helper

    def nodes(name: str, read: str, _: Sequence[str]) -> list[NodeProto]:
        return [helper.make_node("Concat", [read, read], [name], name=name, axis=1)]

    return Branch(shape, (), 0, (2 * shape[0], *shape[1:]), nodes)


_MAKERS: dict[str, Callable[[Sequence[float]], Branch]] = {
    "convolution": _convolution,
    "depthwise": _depthwise,
    "product": _product,
    "attention": _attention,
    "reduction": _reduction,
    "pooling": _pooling,
    "normalization": _normalization,
    "movement": _movement,
}
