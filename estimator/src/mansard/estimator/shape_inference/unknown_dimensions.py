"""Dimensions that depend on data: the sizes that were given for them, or which are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.core.errors import UsageError
from mansard.estimator.model import Dimension
from mansard.estimator.numbers import ElementType
from mansard.estimator.operators.registry import Spec
from mansard.estimator.shape_inference.binding import check_size, matches, matches_any
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.tensors import Node, Shape, Tensor

Known = Sequence[tuple[ElementType, Shape]]


def filled_dimensions(node: Node, specs: Sequence[Spec], context: InferenceContext) -> Known | str:
    """``specs`` with a number for every dimension, or which ones have to be given."""
    for _, shape in specs:
        if None in shape:
            break
    else:
        return specs  # type: ignore[return-value]
    # Only a network with open dimensions needs the rules for their bounds.
    from mansard.estimator.operators.upper_bounds import upper_bounds

    filled: list[tuple[ElementType, Shape]] = []
    missing: dict[str, int | None] = {}
    bounds = upper_bounds(node)
    for i, (name, (dtype, shape)) in enumerate(zip(node.output_names, specs, strict=False)):
        most = bounds[i] if i < len(bounds) else (None,) * len(shape)
        sizes = [
            given_size(node, name, axis, len(shape), most[axis], context) if size is None else size
            for axis, size in enumerate(shape)
        ]
        open_axes = [axis for axis, size in enumerate(sizes) if size is None]
        missing.update({f"{name}[{axis}]": most[axis] for axis in open_axes})
        filled.append((dtype, tuple(size or 0 for size in sizes)))
    if not missing:
        return filled
    # A size that follows from another one that is not known need not be asked for.
    behind = (context.behind.get(t.name) for t in node.present if t.value is None)
    return next(filter(None, behind), None) or missing_dimensions(node, missing, context)


def missing_dimensions(
    node: Node, missing: Mapping[str, int | None], context: InferenceContext
) -> str:
    """Why a shape is unknown, and what to pass. ``missing``: its open dimensions, and bounds."""
    context.missing.update({name: (node.op_type, most) for name, most in missing.items()})
    flags = " ".join(f"--dim '{name}=N'" for name in missing)
    names = ", ".join(map(repr, missing))
    is_one = len(missing) == 1
    what = f"dimension {names} of what it writes depends" if is_one else f"{names} depend"
    most = ", ".join(map(str, missing.values()))
    upper = "" if None in missing.values() else f", or --upper-bounds to count at most {most}"
    return f"{node.label}: {what} on data: pass {flags}{upper}"


def given_size(
    node: Node, name: str, axis: int, rank: int, bound: int | None, context: InferenceContext
) -> int | None:
    """The size to count an open dimension with; None where it is missing.

    What was given by name wins over a pattern, both over the ``bound`` (with ``--upper-bounds``),
    all over what the file states for an output of the network.
    """
    if not name:
        return 0  # an output that is left out
    indexed_name = f"{name}[{axis}]"
    declared = () if context.scope else context.declared.get(name, ())
    symbol = declared[axis] if len(declared) == rank else None
    noted = context.stated.get(name, (None, None))[1] or ()
    called = noted[axis] if symbol is None and len(noted) == rank else symbol
    size = _given_size(node, name, axis, rank, called, context)
    if size is None and context.given.upper and bound is not None:
        size = bound
        context.bounds[indexed_name] = max(bound, context.bounds.get(indexed_name, 0))
        context.bounded.add(name)
    elif size is None and isinstance(symbol, int):
        size = symbol
        context.notes[f"{indexed_name} depends on data; the file says {symbol}"] = None
    return size


def _given_size(
    node: Node, name: str, axis: int, rank: int, symbol: Dimension, context: InferenceContext
) -> int | None:
    """What the caller states of a dimension, which the file calls ``symbol``."""
    given, indexed_name = context.given, f"{name}[{axis}]"
    shape = given.shapes.get(name)
    if shape is not None:
        if len(shape) != rank:
            raise UsageError(f"{name!r} has {rank} dimensions, not {len(shape)}")
        context.used.add(name)
        check_size(indexed_name, shape[axis], 0)
        return shape[axis]
    for known in (indexed_name, symbol):
        if isinstance(known, str) and known in given.dims:
            context.used.add(known)
            return given.dims[known]
    full_name = f"{node.op_type}:{indexed_name}"
    found = [name for name in context.patterns if matches(name, full_name)]
    sizes = {given.dims[name] for name in found}
    if len(sizes) > 1:
        listed = " and ".join(map(repr, found))
        raise UsageError(
            f"--dim {listed} both match {full_name!r} and give it different sizes",
            fix="make one of the patterns narrower",
        )
    context.used.update(found)
    return sizes.pop() if sizes else None


def check_used(
    nodes: Sequence[Node], tensors: dict[str, Tensor], context: InferenceContext
) -> None:
    """Raise UsageError where a size was given for a dimension that is computed, or for none."""
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
    # What is unknown may turn out to have such a dimension.
    for pattern in context.patterns:
        waiting = (
            (node.op_type, tensor.name)
            for node in nodes
            for tensor in node.outputs
            if tensor.unknown and tensor.name
        )
        if pattern not in context.used and not matches_any(pattern, waiting):
            raise UsageError(
                f"--dim {pattern!r} matches no dimension that depends on data",
                fix="leave it out: the sizes that it matches follow from those of the inputs",
            )
