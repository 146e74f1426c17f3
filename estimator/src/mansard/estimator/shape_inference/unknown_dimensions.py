"""Dimensions that depend on data: the sizes that were given for them, or which are missing."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.errors import UsageError
from mansard.estimator.element_types import ElementType
from mansard.estimator.operators.registry import Spec
from mansard.estimator.shape_inference.binding import check_size
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.tensors import Node, Shape, Tensor

Known = Sequence[tuple[ElementType, Shape]]


def stated_outputs(node: Node, context: InferenceContext) -> Known | None:
    """The outputs with the shapes that were given; they get the type of the first input."""
    shapes = context.given.shapes
    named = [name for name in node.output_names if name]
    if not node.present or not named or not all(name in shapes for name in named):
        return None
    dtype = node.present[0].dtype
    context.used.update(named)
    for name in named:
        for axis, size in enumerate(shapes[name]):
            check_size(f"{name}[{axis}]", size, 0)
    return [(dtype, shapes.get(name, ())) for name in node.output_names]


def filled_dimensions(node: Node, specs: Sequence[Spec], context: InferenceContext) -> Known | str:
    """``specs`` with a number for every dimension, or which ones have to be given."""
    for _, shape in specs:
        if None in shape:
            break
    else:
        return specs  # type: ignore[return-value]
    filled: list[tuple[ElementType, Shape]] = []
    missing: list[str] = []
    for name, (dtype, shape) in zip(node.output_names, specs, strict=False):
        sizes = [
            size if size is not None else _size(name, axis, len(shape), context)
            for axis, size in enumerate(shape)
        ]
        missing += [f"{name}[{axis}]" for axis, size in enumerate(sizes) if size is None]
        filled.append((dtype, tuple(size or 0 for size in sizes)))
    if not missing:
        return filled
    flags = " ".join(f"--dim '{name}=N'" for name in missing)
    names = ", ".join(map(repr, missing))
    is_one = len(missing) == 1
    what = f"dimension {names} of what it writes depends" if is_one else f"{names} depend"
    return f"{node.label}: {what} on data: pass {flags}"


def _size(name: str, axis: int, rank: int, context: InferenceContext) -> int | None:
    if not name:
        return 0  # an output that is left out
    indexed_name = f"{name}[{axis}]"
    given = context.given
    shape = given.shapes.get(name)
    if shape is not None:
        if len(shape) != rank:
            raise UsageError(f"{name!r} has {rank} dimensions, not {len(shape)}")
        context.used.add(name)
        check_size(indexed_name, shape[axis], 0)
        return shape[axis]
    if indexed_name in given.dims:
        context.used.add(indexed_name)
        return given.dims[indexed_name]
    declared = () if context.scope else context.declared.get(name, ())
    if len(declared) != rank:
        return None
    symbol = declared[axis]
    if isinstance(symbol, str):
        return given.dims.get(symbol)
    if symbol is not None:
        context.notes[f"{indexed_name} depends on data; the file says {symbol}"] = None
    return symbol


def check_used(tensors: dict[str, Tensor], context: InferenceContext) -> None:
    """Raise UsageError where a size was given for a dimension that is computed."""
    for given in (*context.given.dims, *context.given.shapes):
        is_shape = given in context.given.shapes
        name, bracket, axis = (given, "", "") if is_shape else given.rpartition("[")
        tensor = tensors.get(name)
        if not is_shape and not (bracket and axis[:-1].isdigit()):
            continue
        if tensor is None or tensor.unknown is not None or given in context.used:
            continue
        if tensor.name not in context.inputs:
            what = f"the shape of {name!r}" if is_shape else f"dimension {given!r}"
            shown = f"it has {list(tensor.shape)}"
            raise UsageError(f"{what} is computed, it cannot be given", fix=shown)
