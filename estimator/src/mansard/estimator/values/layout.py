"""Values seen in another shape or order, joined, cut, repeated and padded."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from mansard.estimator.numbers import Array
from mansard.estimator.operators.movement import pad_widths
from mansard.estimator.tensors import Node, Shape
from mansard.estimator.values.registry import Evaluate, Known, alone


def _split(node: Node, specs: Sequence[Known]) -> list[Array]:
    axis = node.integer("axis", 0)
    sizes = [shape[axis] for _, shape in specs]
    return np.split(node.array(0), np.cumsum(sizes)[:-1], axis)


def _tile(node: Node, shape: Shape) -> Array:
    value = node.array(0)
    if node.opset >= 6:
        return np.tile(value, node.value_ints(1))
    # One axis alone is repeated: the one whose size tells so.
    times = [new // old if old else 1 for new, old in zip(shape, value.shape, strict=True)]
    return np.tile(value, times)


_PAD_MODES = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _pad(node: Node, _shape: Shape) -> Array:
    value, widths = node.array(0), pad_widths(node) or []
    # Negative widths cut off, which NumPy's pad does not.
    kept = tuple(
        slice(max(-before, 0), size - max(-behind, 0))
        for size, (before, behind) in zip(value.shape, widths, strict=True)
    )
    added = [(max(before, 0), max(behind, 0)) for before, behind in widths]
    mode = _PAD_MODES.get(node.text("mode", "constant"))
    if mode is not None:
        return np.asarray(np.pad(value[kept], added, mode=mode))  # type: ignore[call-overload]
    fill = node.array(2).reshape(-1)[0] if node.has(2) else node.number("value", 0.0)
    return np.pad(value[kept], added, constant_values=fill)


def _triangle(node: Node, _shape: Shape) -> Array:
    function = np.triu if node.integer("upper", 1) else np.tril
    offset = int(node.array(1).reshape(-1)[0]) if node.has(1) else 0
    return np.asarray(function(node.array(0), offset))


EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "Pad": alone(_pad),
        "Split": _split,
        "Tile": alone(_tile),
        "Trilu": alone(_triangle),
    }
)
