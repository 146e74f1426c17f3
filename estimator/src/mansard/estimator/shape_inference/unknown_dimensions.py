"""Dimensions that depend on data: the sizes that were given for them, or which are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.core.errors import UsageError
from mansard.estimator.element_types import ElementType
from mansard.estimator.model import Dimension
from mansard.estimator.operators.registry import Spec
from mansard.estimator.shape_inference.binding import check_size, matches
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.tensors import MAX_RANK, Node, Shape, Tensor

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
    missing: list[str] = []
    bounds = upper_bounds(node)
    for i, (name, (dtype, shape)) in enumerate(zip(node.output_names, specs, strict=False)):
        sizes: list[int | None] = []
        for axis, size in enumerate(shape):
            bound = bounds[i][axis] if i < len(bounds) else None
            sizes.append(
                size
                if size is not None
                else given_size(node, name, axis, len(shape), bound, context)
            )
            if sizes[-1] is None:
                missing.append(f"{name}[{axis}]")
        filled.append((dtype, tuple(size or 0 for size in sizes)))
    if not missing:
        return filled
    known = {
        f"{name}[{axis}]": size
        for name, sizes in zip(node.output_names, bounds, strict=False)
        for axis, size in enumerate(sizes)
    }
    return missing_dimensions(node, missing, known)


def missing_dimensions(
    node: Node, missing: Sequence[str], bounds: Mapping[str, int | None] | None = None
) -> str:
    """Why a shape with the dimensions ``missing`` is unknown, and what to pass."""
    flags = " ".join(f"--dim '{name}=N'" for name in missing)
    names = ", ".join(map(repr, missing))
    is_one = len(missing) == 1
    what = f"dimension {names} of what it writes depends" if is_one else f"{names} depend"
    found = [(bounds or {}).get(name) for name in missing]
    shown = ", ".join(f"{size}" for size in found)
    upper = f", or --upper to count at most {shown}" if None not in found else ""
    return f"{node.label}: {what} on data: pass {flags}{upper}"


def given_size(
    node: Node, name: str, axis: int, rank: int, bound: int | None, context: InferenceContext
) -> int | None:
    """The size to count an open dimension with; None where it is missing.

    What was given by name wins over a pattern, both over the ``bound`` (with ``--upper``),
    all over what the file states for an output of the network.
    """
    if not name:
        return 0  # an output that is left out
    indexed_name = f"{name}[{axis}]"
    declared = () if context.scope else context.declared.get(name, ())
    symbol = declared[axis] if len(declared) == rank else None
    size = _given_size(node, name, axis, rank, symbol, context)
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
    if indexed_name in given.dims:
        context.used.add(indexed_name)
        return given.dims[indexed_name]
    if isinstance(symbol, str) and symbol in given.dims:
        context.used.add(symbol)
        return given.dims[symbol]
    return _size_by_pattern(f"{node.op_type}:{indexed_name}", context)


def _size_by_pattern(full_name: str, context: InferenceContext) -> int | None:
    found = [name for name in context.patterns if matches(name, full_name)]
    sizes = {context.given.dims[name] for name in found}
    if len(sizes) > 1:
        listed = " and ".join(map(repr, found))
        raise UsageError(
            f"--dim {listed} both match {full_name!r} and give it other sizes",
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
    unused = [name for name in context.patterns if name not in context.used]
    # What is unknown may turn out to have such a dimension.
    waiting = [
        f"{node.op_type}:{tensor.name}[{axis}]"
        for node in (nodes if unused else ())
        for tensor in node.outputs
        for axis in range(MAX_RANK)
        if tensor.unknown and tensor.name
    ]
    for pattern in unused:
        if not any(matches(pattern, name) for name in waiting):
            raise UsageError(
                f"--dim {pattern!r} matches no dimension that depends on data",
                fix="leave it out: the sizes that it matches follow from those of the inputs",
            )
