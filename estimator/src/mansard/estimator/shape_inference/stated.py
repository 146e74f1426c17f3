"""What is stated of tensors that no rule gives a shape: by the caller, or by the file.

A person states shapes and types with ``--shape``. A file's ``value_info`` states them for the
dimensions of one export: it serves where nothing else does, and only where it fits what the
rules give for the tensors before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mansard.core.errors import UsageError
from mansard.estimator.element_types import FLOAT32, ElementType
from mansard.estimator.model import Dimension, Model, StatedType
from mansard.estimator.shape_inference.binding import Binding, check_size, given_type
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.shape_inference.expressions import parse_expression
from mansard.estimator.shape_inference.unknown_dimensions import given_size, missing_dimensions
from mansard.estimator.tensors import Node, Shape, Tensor, is_sane

_MOST_EXPRESSIONS = 1000  # different ones of a network: reading one takes 0.1 ms


def stated_outputs(node: Node, reason: str, context: InferenceContext) -> tuple[Tensor, ...]:
    """The outputs of a node whose shapes no rule gives, for ``reason``.

    Each is as the caller or the file states it, else unknown.
    """
    is_trusted = _fits_file(node, context)
    return tuple(
        [
            _given_output(node, name, context)
            or _file_output(node, name, context if is_trusted else None)
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
    return Tensor(name, given_type(name, named) if named else _type(node, name, context), shape)


def _type(node: Node, name: str, context: InferenceContext) -> ElementType:
    """The type in the file, else that of the first input whose type is known."""
    stated = context.stated.get(name)
    if stated is not None and stated[0] is not None:
        return stated[0]
    return next((tensor.dtype for tensor in node.present if not tensor.unknown), FLOAT32)


def _file_output(node: Node, name: str, context: InferenceContext | None) -> Tensor | None:
    stated = context.stated.get(name) if context is not None and name else None
    if context is None or stated is None or stated[0] is None or stated[1] is None:
        return None
    rank = len(stated[1])
    sizes = [_computed(size, context) for size in stated[1]]
    sizes = [
        size if size is not None else given_size(node, name, axis, rank, None, context)
        for axis, size in enumerate(sizes)
    ]
    missing = [f"{name}[{axis}]" for axis, size in enumerate(sizes) if size is None]
    if missing:
        return Tensor(name, stated[0], (), unknown=missing_dimensions(node, missing))
    shape = tuple(size or 0 for size in sizes)
    return Tensor(name, stated[0], shape) if is_sane(shape) else None


def _numbers(sizes: Sequence[Dimension], known: Mapping[str, int]) -> list[int | None]:
    """``sizes`` with numbers for names that are ``known``."""
    return [known.get(size) if isinstance(size, str) else size for size in sizes]


def _computed(size: Dimension, context: InferenceContext) -> int | None:
    """A number for a name that is known, or that is a sum or product of such."""
    if not isinstance(size, str) or size in context.sizes:
        return _numbers((size,), context.sizes)[0]
    computed = context.computed
    if size not in computed and len(computed) < _MOST_EXPRESSIONS:
        tree = parse_expression(size)
        is_known = tree is not None and tree.names <= context.sizes.keys()
        computed[size] = tree.evaluate(context.sizes) if tree is not None and is_known else None
    return computed.get(size)


def _fits_file(node: Node, context: InferenceContext) -> bool:
    """Whether what the file states holds here: for the inputs that are known it does."""
    return not context.is_resized and all(
        tensor.unknown is not None or _fits(tensor, context.stated[tensor.name], context.sizes)
        for tensor in node.present
        if tensor.name in context.stated
    )


def _fits(tensor: Tensor, stated: StatedType, known: Mapping[str, int]) -> bool:
    dtype, sizes = stated
    return _agrees(tensor, dtype, None if sizes is None else _numbers(sizes, known))


def _agrees(tensor: Tensor, dtype: ElementType | None, sizes: Sequence[int | None] | None) -> bool:
    if (dtype is not None and dtype != tensor.dtype) or tensor.items is not None:
        return False
    if sizes is None:
        return True
    if len(sizes) != len(tensor.shape):
        return False
    for size, own in zip(sizes, tensor.shape, strict=True):
        if size is not None and size != own:
            return False
    return True


def shape_flags(names: Iterable[str]) -> str:
    """The options that give the shapes of tensors."""
    return " ".join(f"--shape '{name}=AxB'" for name in names if name)


def is_resized(model: Model, binding: Binding) -> bool:
    """Whether an input has another size than the file fixes: what it states is for that one."""
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
    wrong: list[Tensor] = []
    # Tensors of one type share it, so that names of dimensions are replaced once.
    resolved: dict[int, tuple[int | None, ...]] = {}
    for name, (dtype, sizes) in stated.items():
        tensor = tensors.get(name)
        if tensor is None or sizes is None:
            continue
        shape = resolved.get(id(sizes))
        if shape is None:
            shape = resolved[id(sizes)] = tuple(_numbers(sizes, known))
        if shape == tensor.shape and dtype is tensor.dtype:
            continue
        is_plain = tensor.unknown is None and tensor.items is None
        if is_plain and not _agrees(tensor, dtype, shape):
            wrong.append(tensor)
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
