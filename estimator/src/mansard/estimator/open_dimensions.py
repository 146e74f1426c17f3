"""Dimensions that depend on data: what a person said about them, or what has to be said."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.errors import UsageError
from mansard.estimator.control_flow.course import Course
from mansard.estimator.dimensions import check_size
from mansard.estimator.element_types import ElementType
from mansard.estimator.operators.registry import Spec
from mansard.estimator.tensors import Node, Shape, Tensor, ValueNeededError

Known = Sequence[tuple[ElementType, Shape]]


def without_rule(node: Node) -> str:
    """Why nothing is known of the outputs of an operator that nobody wrote a rule for."""
    return f"{node.label}: there is no shape rule for this operator"


def without_value(node: Node, error: ValueNeededError) -> str:
    """Why nothing is known of outputs whose shape a value decides."""
    name = node.output_names[0]
    return f"{node.label}: {error.what}: pass --shape '{name}=AxB' with the shape of {name!r}"


def stated(node: Node, course: Course) -> Known | None:
    """The outputs as a person stated their shapes; they get the type of the first input."""
    shapes = course.given.shapes
    named = [name for name in node.output_names if name]
    if not node.present or not named or not all(name in shapes for name in named):
        return None
    dtype = node.present[0].dtype
    course.used.update(named)
    for name in named:
        for axis, size in enumerate(shapes[name]):
            check_size(f"{name}[{axis}]", size, 0)
    return [(dtype, shapes.get(name, ())) for name in node.output_names]


def fill(node: Node, specs: Sequence[Spec], course: Course) -> Known | str:
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
            size if size is not None else _size(name, axis, len(shape), course)
            for axis, size in enumerate(shape)
        ]
        missing += [f"{name}[{axis}]" for axis, size in enumerate(sizes) if size is None]
        filled.append((dtype, tuple(size or 0 for size in sizes)))
    if not missing:
        return filled
    flags = " ".join(f"--dim '{place}=N'" for place in missing)
    places = ", ".join(repr(place) for place in missing)
    is_one = len(missing) == 1
    what = f"dimension {places} of what it writes depends" if is_one else f"{places} depend"
    return f"{node.label}: {what} on data: pass {flags}"


def _size(name: str, axis: int, rank: int, course: Course) -> int | None:
    if not name:
        return 0  # an output that is left out
    place = f"{name}[{axis}]"
    given = course.given
    shape = given.shapes.get(name)
    if shape is not None:
        if len(shape) != rank:
            raise UsageError(f"{name!r} has {rank} dimensions, not {len(shape)}")
        course.used.add(name)
        check_size(place, shape[axis], 0)
        return shape[axis]
    if place in given.dims:
        course.used.add(place)
        return given.dims[place]
    declared = () if course.scope else course.declared.get(name, ())
    if len(declared) != rank:
        return None
    symbol = declared[axis]
    if isinstance(symbol, str):
        return given.dims.get(symbol)
    if symbol is not None:
        course.notes[f"{place} depends on data; the file says {symbol}"] = None
    return symbol


def check_used(tensors: dict[str, Tensor], course: Course) -> None:
    """Raise UsageError where a size was given for a dimension that is computed."""
    given = course.given
    for place in given.dims:
        name, bracket, axis = place.rpartition("[")
        tensor = tensors.get(name)
        if bracket and axis[:-1].isdigit() and _is_computed(tensor, place, course):
            assert tensor is not None  # noqa: S101
            shown = f"it has {list(tensor.shape)}"
            raise UsageError(f"dimension {place!r} is computed, it cannot be given", fix=shown)
    for name in given.shapes:
        tensor = tensors.get(name)
        if _is_computed(tensor, name, course):
            assert tensor is not None  # noqa: S101
            shown = f"it has {list(tensor.shape)}"
            raise UsageError(f"the shape of {name!r} is computed, it cannot be given", fix=shown)


def _is_computed(tensor: Tensor | None, used: str, course: Course) -> bool:
    if tensor is None or tensor.unknown is not None or used in course.used:
        return False
    return tensor.name not in course.inputs
