"""What a traced graph says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mansard.estimator.export.request import DynamicAxis

if TYPE_CHECKING:
    import onnx


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators; 0 where the file names none."""
    return max(
        (one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0
    )


def input_shapes(model: onnx.ModelProto) -> dict[str, tuple[int | str, ...]]:
    """The shape of each input that is no weight: sizes, symbols, ``?`` where there is neither."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return {
        one.name: tuple(_size(axis) for axis in one.type.tensor_type.shape.dim)
        for one in model.graph.input
        if one.name not in stored
    }


def _size(axis: onnx.TensorShapeProto.Dimension) -> int | str:
    if axis.HasField("dim_value"):
        return int(axis.dim_value)
    return axis.dim_param or "?"


def fixed_axes(model: onnx.ModelProto, axes: Sequence[DynamicAxis]) -> list[str]:
    """Those of ``axes`` that the exporter made constants, as a person would write them."""
    shapes = input_shapes(model)
    return [
        f"{one.name}:{one.axis}={shapes[one.name][one.axis]}"
        for one in axes
        if one.name in shapes and isinstance(shapes[one.name][one.axis], int)
    ]
