"""What many shape rules need: common shapes, checks, and the values that they ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mansard.estimator.numbers import BY_CODE, BY_PROTO_NAME, ElementType
from mansard.estimator.operators.registry import ShapeRule, Spec, Specs
from mansard.estimator.tensors import MAX_RANK, Node, Shape, Tensor

# Why shapes contradict where the file itself is right.
BAKED_IN = (
    "if a batch or dimension was set, the file fixes another one inside the graph: export the "
    "model with that dimension dynamic, or score it as it is"
)


def same(tensor: Tensor) -> Spec:
    """Type and shape of ``tensor``."""
    return tensor.dtype, tensor.shape


def same_as_first(node: Node) -> Specs:
    """One output of the first input's type and shape."""
    data = node.input(0)
    return [(data.dtype, data.shape)]


def as_large_as_first(dtype: ElementType) -> ShapeRule:
    """The rule of one output of ``dtype`` and of the first input's shape."""

    def rule(node: Node) -> Specs:
        return [(dtype, node.input(0).shape)]

    return rule


def broadcast(node: Node, *shapes: Shape) -> Shape:
    """The common shape by ONNX's (NumPy's) rule; raises ModelError where there is none."""
    rank = max(len(shape) for shape in shapes)
    result = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, start=rank - len(shape)):
            if result[position] == 1:
                result[position] = size
            elif size not in (1, result[position]):
                listed = ", ".join(str(list(shape)) for shape in shapes)
                raise node.error(f"shapes {listed} do not go together", BAKED_IN)
    return tuple(result)


def element_type(node: Node, attribute: str, default: ElementType | None = None) -> ElementType:
    """The element type an attribute names by ONNX's code, before version 6 by its name."""
    value = node.attributes.get(attribute)
    if value is None and default is not None:
        return default
    dtype = BY_CODE.get(value) if isinstance(value, int) else None
    if isinstance(value, str):
        dtype = BY_PROTO_NAME.get(value.upper())
    if dtype is None:
        raise node.error(f"attribute {attribute!r} names no element type")
    return dtype


def known_ints(node: Node, position: int) -> Shape | None:
    """The integers that an input holds; None where it is left out or depends on data."""
    tensor = node.optional(position)
    if tensor is None or tensor.value is None:
        return None
    return node.value_ints(position)


def known_int(node: Node, position: int) -> int | None:
    """The one integer that an input holds, written as a float too; None as above."""
    tensor = node.optional(position)
    if tensor is None or tensor.value is None:
        return None
    if tensor.value.n_elements != 1:
        raise node.error(f"input {tensor.name!r} must hold one number")
    return int(tensor.value.first)


def open_shape(node: Node, rank: int) -> tuple[None, ...]:
    """A shape of so many dimensions, all of which depend on data."""
    if rank > MAX_RANK:
        raise node.error(f"its output would have {rank} dimensions")
    return (None,) * max(rank, 0)


def check_types(node: Node, first: Tensor, others: Iterable[Tensor]) -> None:
    """Raise ModelError where one of ``others`` is not of the type of ``first``."""
    expected = first.dtype
    for tensor in others:
        if tensor.dtype is not expected and tensor.dtype != expected:
            raise node.error(
                f"types contradict: {first.name!r} is {expected.name}, "
                f"{tensor.name!r} is {tensor.dtype.name}",
                "the file is broken; export it again",
            )


def check_length(node: Node, position: int, size: int, per: str) -> None:
    """Raise ModelError where an input that is given does not hold ``size`` numbers."""
    tensor = node.optional(position)
    if tensor is not None and tensor.n_elements != size:
        raise node.error(f"{tensor.name!r} has {tensor.n_elements} values for {size} {per}")


def check_rank(node: Node, position: int, *ranks: int) -> Tensor:
    """An input; raises ModelError where it has another number of dimensions than ``ranks``."""
    tensor = node.input(position)
    if tensor.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise node.error(f"{tensor.name!r} must have {wanted} dimensions, not {list(tensor.shape)}")
    return tensor


def chosen(node: Node, name: str, default: str, choices: Collection[str]) -> str:
    """A text attribute; raises ModelError where it is none of ``choices``."""
    value = node.text(name, default)
    if value not in choices:
        raise node.error(f"attribute {name!r} = {value!r} does not exist")
    return value


def distinct_axes(node: Node, tensor: Tensor, axes: Iterable[int]) -> list[int]:
    """``axes`` counted from the front, in their order; raises ModelError where one repeats."""
    found = [tensor.axis(axis) for axis in axes]
    if len(set(found)) < len(found):
        raise node.error(f"axes {list(axes)} of {list(tensor.shape)} repeat")
    return found
