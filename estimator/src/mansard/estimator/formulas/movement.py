"""Operators that move, pick, place or make elements: no arithmetic, but traffic.

Views (is_view) do not even move: the output is the input's memory.
"""

from __future__ import annotations

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node

VIEWS = ("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")

PICKING = ("Compress", "Gather", "GatherElements", "GatherND", "Slice")

MOVING = (
    *("Bernoulli", "BitCast", "Cast", "CastLike", "CenterCropPad", "Concat", "Constant"),
    *(
        "ConstantOfShape",
        "DepthToSpace",
        "Expand",
        "EyeLike",
        "MaxUnpool",
        "NonZero",
        "OneHot",
        "Pad",
    ),
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range"),
    *("ReverseSequence", "Shape", "Size", "SpaceToDepth", "Split", "TensorScatter", "Tile"),
    *("Transpose", "Trilu", "Unique"),
)


@register(*VIEWS, is_view=True, not_weights=(1, 2))
def view(node: Node) -> Cost:  # noqa: ARG001
    """No work and no traffic."""
    return NOTHING


@register(*PICKING)
def pick(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads only what it picks."""
    return NOTHING


@register(*MOVING)
def move(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its inputs and writes its outputs."""
    return NOTHING


@register("Col2Im", not_weights=(1, 2))
def col2im(node: Node) -> Cost:
    """Each element of the columns is added into the image."""
    return Cost(simple=node.input(0).n_elements)


@register("Scatter", "ScatterElements", "ScatterND", not_weights=(1,))
def scatter(node: Node) -> Cost:
    """An operation for each update where one is asked for, else none."""
    is_plain = node.text("reduction", "none") == "none"
    return NOTHING if is_plain else Cost(simple=node.input(2).n_elements)


@register("Resize", "Upsample", not_weights=(1, 2, 3))
def resize(node: Node) -> Cost:
    """Nearest: none. Linear: 2 neighbours, cubic: 4, along each axis that changes.

    Each neighbour is a multiplication and an addition, one addition less in all.
    """
    neighbours = {"linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4}
    taps = neighbours.get(node.text("mode", "nearest"), 1)
    data, result = node.input(0).shape, node.output.shape
    changed = sum(a != b for a, b in zip(data, result, strict=True))
    window = taps**changed
    return Cost(simple=(2 * window - 1) * node.output.n_elements if window > 1 else 0)


@register("GridSample")
def grid_sample(node: Node) -> Cost:
    """As Resize over all spatial axes, and 4 operations to place each sample's coordinate."""
    taps = {"linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(
        node.text("mode", "linear"), 1
    )
    window = taps ** (node.input(0).rank - 2)
    work = (2 * window - 1) * node.output.n_elements if window > 1 else 0
    return Cost(simple=work + 4 * node.input(1).n_elements)
