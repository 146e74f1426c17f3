"""Shapes of tensors that no rule gives a shape: from the caller, or from the file.

The caller gives shapes and types with ``--shape``. A file's ``value_info`` holds for the dimensions
of one export. It is used where nothing else gives a shape, and only where it agrees with the shapes
of the node's inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mansard.core.errors import UsageError
from mansard.estimator.model import Dimension, Model, StatedType
from mansard.estimator.numbers import ELEMENT_TYPES, FLOAT32
from mansard.estimator.shape_inference.binding import Binding, check_size
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.shape_inference.expressions import parse_expression
from mansard.estimator.shape_inference.unknown_dimensions import given_size, missing_dimensions
from mansard.estimator.tensors import Node, Origin, Shape, Tensor, is_sane

_MOST_EXPRESSIONS = 1000  # different ones of a network: reading one takes 0.1 ms


def stated_outputs(node: Node, reason: str, context: InferenceContext) -> tuple[Tensor, ...]:
    """The outputs of a node whose shapes no rule gives, for ``reason``.

    Each is as the caller or the file states it, else unknown.
    """
    is_trusted = _fits_file(node, context)
    return tuple(
        [
            _given_output(node, name, context)
            or (_file_output(node, name, context) if is_trusted else None)
            or Tensor(name, FLOAT32, (), unknown=reason)
            for name in node.output_names
        ]
    )


def _given_output(node: Node, name: str, context: InferenceContext) -> Tensor | None:
    shape = context.given.shapes.get(name) if name else None
    if shape is None:
        return None
    context.used.add(name)
    for axis, size in enumerate(shape):
        check_size(f"{name}[{axis}]", size, 0)
    if not is_sane(shape):
        raise UsageError(f"the shape given for {name!r} is absurd", fix="check its sizes")
    named = context.given.types.get(name)
    dtype = ELEMENT_TYPES[named] if named else context.stated.get(name, (None, None))[0]
    if dtype is None:
        dtype = next((each.dtype for each in node.present if not each.unknown), FLOAT32)
    return Tensor(name, dtype, shape)


def _file_output(node: Node, name: str, context: InferenceContext) -> Tensor | None:
    dtype, dimensions = context.stated.get(name, (None, None))
    if dtype is None or dimensions is None or not name:
        return None
    rank = len(dimensions)
    sizes = [
        given_size(node, name, axis, rank, None, context) if size is None else size
        for axis, size in enumerate([_computed(size, context) for size in dimensions])
    ]
    missing = {f"{name}[{axis}]": None for axis, size in enumerate(sizes) if size is None}
    if missing and (node.unknown_input is not None or missing.keys() & context.missing.keys()):
        return None  # what leaves it open has been said
    if missing:
        return Tensor(name, dtype, (), unknown=missing_dimensions(node, missing, context))
    if node.unknown_input is not None:
        context.behind[name] = node.unknown_input
    shape = tuple(size or 0 for size in sizes)
    return Tensor(name, dtype, shape) if is_sane(shape) else None


def _computed(size: Dimension, context: InferenceContext) -> int | None:
    """A number for a name that is known, or that is a sum or product of such."""
    if not isinstance(size, str):
        return size
    known, computed = context.sizes, context.computed
    if size not in known and size not in computed and len(computed) < _MOST_EXPRESSIONS:
        tree = parse_expression(size)
        is_known = tree is not None and tree.names <= known.keys()
        computed[size] = tree.evaluate(known) if tree is not None and is_known else None
    return known.get(size, computed.get(size))


def _fits_file(node: Node, context: InferenceContext) -> bool:
    """Whether the file states the shapes of the inputs as they are."""
    return not context.is_resized and all(
        tensor.unknown is not None or _agrees(tensor, context.stated[tensor.name], context.sizes)
        for tensor in node.present
        if tensor.name in context.stated
    )


def _agrees(tensor: Tensor, stated: StatedType, known: Mapping[str, int]) -> bool:
    dtype, sizes = stated
    if (dtype is not None and dtype != tensor.dtype) or tensor.items is not None:
        return False
    if sizes is None:
        return True
    if len(sizes) != len(tensor.shape):
        return False
    for size, own in zip(sizes, tensor.shape, strict=True):
        stands_for = known.get(size) if isinstance(size, str) else size
        if stands_for is not None and stands_for != own:
            return False
    return True


def shape_flags(names: Iterable[str]) -> str:
    """The options that give the shapes of tensors."""
    return " ".join(f"--shape '{name}=AxB'" for name in names if name)


def is_resized(model: Model, binding: Binding) -> bool:
    """Whether an input has another size than in the file: other shapes there are wrong, too."""
    for source in model.inputs:
        tensor = binding.tensors[source.name]
        if source.dimensions is None or tensor.unknown or tensor.items is not None:
            continue
        for size, own in zip(source.dimensions, tensor.shape, strict=True):
            if isinstance(size, int) and size != own:
                return True
    return False


def contradiction_note(
    stated: Mapping[str, StatedType], tensors: Mapping[str, Tensor], known: Mapping[str, int]
) -> str | None:
    """A note where the file states other types or shapes than follow; None where it does not."""
    wrong = [
        tensor
        for name, said in stated.items()
        if said[1] is not None
        and (tensor := tensors.get(name)) is not None
        and (said[1] != tensor.shape or said[0] is not tensor.dtype)  # most are equal: this is fast
        and tensor.unknown is None
        and tensor.items is None
        and tensor.origin is Origin.DATA  # what is stored has its own shape, and costs nothing
        and not _agrees(tensor, said, known)
    ]
    if not wrong:
        return None
    first = wrong[0]
    dtype, sizes = stated[first.name]
    there = f"{dtype.name if dtype else ''}{_list(sizes) if sizes is not None else ''}"
    more = f" and of {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return (
        f"the file notes another type or shape of {first.name!r}{more} than its operators give: "
        f"{there}, counted is {first.dtype.name}{_list(first.shape)}"
    )


def _list(sizes: Sequence[Dimension] | Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"
