"""Sequences and optionals: which tensors they hold.

Specification: https://onnx.ai/onnx/operators/, Sequence* and Optional*. A sequence is a
Tensor with ``items``. An optional that holds something is that something; an empty one
is a Tensor of no type. Where a position depends on data, elements of one shape do not
need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.numbers import (
    BOOL,
    BY_CODE,
    FLOAT32,
    INT64,
    ElementType,
    Numbers,
    cut,
    hold,
    joined,
    may_keep,
)
from mansard.estimator.shape_inference.context import unknown_outputs
from mansard.estimator.tensors import Node, Origin, Shape, Tensor, Weight

MAX_LENGTH = 65_536  # elements of a sequence
UNDEFINED = ElementType("undefined", 0, 0, False, "none")


def absent(name: str) -> Tensor:
    """An optional without a value."""
    return Tensor(name, UNDEFINED, (), Origin.SHAPES, items=())


def is_absent(tensor: Tensor) -> bool:
    """Whether this is an optional that holds nothing."""
    return tensor.dtype == UNDEFINED


def same_spec(one: Tensor, other: Tensor) -> bool:
    """Whether type, shape, origin and elements of two tensors are equal; values may differ."""
    if one is other:
        return True
    if (
        one.shape != other.shape
        or one.origin is not other.origin
        or one.unknown != other.unknown
        or one.dtype != other.dtype
    ):
        return False
    if one.items is None or other.items is None:
        return one.items is other.items
    return len(one.items) == len(other.items) and all(map(same_spec, one.items, other.items))


def same_value(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one spec hold the same known value, or both none."""
    if one is other:
        return True
    if one.items is not None and other.items is not None:
        return all(map(same_value, one.items, other.items))
    if one.value is None or other.value is None:
        return one.value is other.value
    return one.value == other.value


def without_value(tensor: Tensor) -> Tensor:
    """The tensor, its value taken for unknown."""
    if tensor.items is not None:
        items = tuple(map(without_value, tensor.items))
        return msgspec.structs.replace(tensor, items=items)
    return tensor if tensor.value is None else msgspec.structs.replace(tensor, value=None)


def sequence(name: str, dtype: ElementType, items: Sequence[Tensor], *rest: Tensor) -> Tensor:
    """A tensor with ``items``; ``rest`` is what else its length depends on."""
    reason = next((item.unknown for item in items if item.unknown), None)
    if reason is not None:
        return Tensor(name, dtype, (), unknown=reason)
    sources = (*items, *rest)
    origin = max((source.origin for source in sources), default=Origin.FILE)
    return Tensor(name, dtype, (), origin, weights=all_weights(items), items=tuple(items))


def all_weights(tensors: Sequence[Tensor]) -> tuple[Weight, ...]:
    """The stored tensors that these were made of, each once."""
    found = [tensor.weights for tensor in tensors if tensor.weights]
    if len(found) < 2:
        return found[0] if found else ()
    return tuple({weight.name: weight for tensor in tensors for weight in tensor.weights}.values())


def _items(node: Node, position: int = 0) -> tuple[Tensor, ...]:
    items = node.input(position).items
    if items is None or is_absent(node.input(position)):
        raise node.error(f"input {position} must be a sequence")
    return items


def _named(node: Node, tensor: Tensor) -> tuple[Tensor]:
    return (msgspec.structs.replace(tensor, name=node.output_names[0]),)


def _unknown(node: Node, reason: str) -> tuple[Tensor]:
    return (Tensor(node.output_names[0], FLOAT32, (), unknown=f"{node.label}: {reason}"),)


def _empty(node: Node) -> tuple[Tensor]:
    dtype = BY_CODE.get(node.integer("dtype", FLOAT32.code))
    if dtype is None:
        raise node.error("attribute 'dtype' is not an element type")
    return (sequence(node.output_names[0], dtype, ()),)


def _construct(node: Node) -> tuple[Tensor]:
    if not node.present:
        raise node.error("a sequence is made of at least one tensor")
    return (sequence(node.output_names[0], node.input(0).dtype, node.present),)


def _position(node: Node, i: int, length: int, least: int) -> int | None:
    """The position in input ``i``, from the front; None where it depends on data."""
    if node.input(i).value is None:
        return None
    position = node.value_ints(i)[0]
    if not -length <= position < length + least:
        raise node.error(f"position {position} of a sequence of {length}")
    return position + length if position < 0 else position


def _insert(node: Node) -> tuple[Tensor]:
    items, new = _items(node), node.input(1)
    position: int | None = len(items)
    given: tuple[Tensor, ...] = ()
    if node.has(2):
        position, given = _position(node, 2, len(items), 1), (node.input(2),)
    if position is None:
        if not all(same_spec(item, new) for item in items):
            return _unknown(node, "where a tensor of another shape is inserted depends on data")
        position = len(items)
    items = (*items[:position], new, *items[position:])
    return (sequence(node.output_names[0], new.dtype, items, *given, node.input(0)),)


def _erase(node: Node) -> tuple[Tensor]:
    items = _items(node)
    if not items:
        raise node.error("nothing can be erased from an empty sequence")
    position: int | None = len(items) - 1
    given: tuple[Tensor, ...] = ()
    if node.has(1):
        position, given = _position(node, 1, len(items), 0), (node.input(1),)
    if position is None:
        if not all(same_spec(item, items[0]) for item in items):
            return _unknown(node, "which of several shapes is erased depends on data")
        position = 0
    items = (*items[:position], *items[position + 1 :])
    return (sequence(node.output_names[0], node.input(0).dtype, items, *given, node.input(0)),)


def _at(node: Node) -> tuple[Tensor]:
    items = _items(node)
    position = _position(node, 1, len(items), 0)
    if position is not None:
        return _named(node, items[position])
    if not items:
        raise node.error("an element is read from an empty sequence")
    if not all(same_spec(item, items[0]) for item in items):
        return _unknown(node, "which of several shapes is read depends on data")
    origin = max(items[0].origin, node.input(1).origin)
    weights = () if origin is Origin.DATA else items[0].weights
    held = items[0]
    return (Tensor(node.output_names[0], held.dtype, held.shape, origin, weights=weights),)


def _length(node: Node) -> tuple[Tensor]:
    return (_fact(node, INT64, len(_items(node))),)


def _fact(node: Node, dtype: ElementType, value: int) -> Tensor:
    """A value that follows from what a sequence is, not from what its tensors hold."""
    origin = min(node.input(0).origin, Origin.SHAPES) if node.present else Origin.FILE
    return Tensor(node.output_names[0], dtype, (), origin, hold(dtype, (), (value,)))


def _split(node: Node) -> tuple[Tensor]:
    source = node.input(0)
    axis = source.axis(node.integer("axis", 0))
    whole = source.shape[axis]
    keeps = True
    if whole > MAX_LENGTH:
        raise node.error(f"a sequence of up to {whole} tensors is too long to follow")
    if not node.has(1):
        sizes: tuple[int, ...] = (1,) * whole
        keeps = bool(node.integer("keepdims", 1))
    elif node.input(1).value is None:
        return _unknown(
            node, f"its parts depend on data or on {node.input(1).name!r}, unknown here"
        )
    elif node.input(1).rank == 0:
        (part,) = node.value_ints(1)
        if part < 1:
            raise node.error(f"splits into parts of {part}")
        sizes = tuple(min(part, whole - start) for start in range(0, whole, part))
    else:
        sizes = node.value_ints(1)
    if sum(sizes) != whole or min(sizes, default=0) < 0:
        raise node.error(f"splits {whole} into {list(sizes)}")
    values = None if source.value is None else cut(source.value, sizes, axis)
    items = []
    for i, size in enumerate(sizes):
        shape = (*source.shape[:axis], *((size,) if keeps else ()), *source.shape[axis + 1 :])
        value = None if values is None else Numbers(source.dtype, shape, values[i].data)
        name = f"{node.output_names[0]}[{i}]"
        items.append(Tensor(name, source.dtype, shape, source.origin, value, source.weights))
    return (sequence(node.output_names[0], source.dtype, items, *node.present),)


def _concat(node: Node) -> tuple[Tensor]:
    items = _items(node)
    if not items:
        raise node.error("an empty sequence cannot be concatenated")
    axis, is_new = node.integer("axis", 0), bool(node.integer("new_axis", 0))
    shape = _joined(node, [item.shape for item in items], axis, is_new)
    origin = max(*(item.origin for item in items), node.input(0).origin)
    value = None
    if origin is not Origin.DATA and may_keep(items[0].dtype, math.prod(shape)):
        values = [item.value for item in items]
        if not any(held is None for held in values):
            known = [held for held in values if held is not None]
            value = joined(known, shape, axis % len(shape))
    weights = () if origin is Origin.DATA else all_weights(items)
    return (Tensor(node.output_names[0], items[0].dtype, shape, origin, value, weights),)


def _joined(node: Node, shapes: Sequence[Shape], axis: int, is_new: bool) -> Shape:
    rank = len(shapes[0]) + is_new
    if any(len(shape) != len(shapes[0]) for shape in shapes) or not -rank <= axis < rank:
        raise node.error(f"shapes {[list(shape) for shape in shapes[:4]]} do not go together")
    axis %= rank
    rests = {shape if is_new else (*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rests) > 1:
        raise node.error(f"shapes {[list(shape) for shape in shapes[:4]]} do not go together")
    along = len(shapes) if is_new else sum(shape[axis] for shape in shapes)
    (rest,) = rests
    return (*rest[:axis], along, *rest[axis:])


def _optional(node: Node) -> tuple[Tensor]:
    if not node.has(0):
        return (msgspec.structs.replace(absent(node.output_names[0]), origin=Origin.FILE),)
    return _named(node, node.input(0))


def _element(node: Node) -> tuple[Tensor]:
    if is_absent(node.input(0)):
        raise node.error("reads an optional that holds nothing")
    return _named(node, node.input(0))


def _has_element(node: Node) -> tuple[Tensor]:
    has = node.has(0) and not is_absent(node.input(0))
    return (_fact(node, BOOL, has),)


def identity(node: Node) -> tuple[Tensor, ...]:
    """Identity of a sequence or optional; other operators take neither."""
    if node.op_type != "Identity" or node.domain or len(node.output_names) != 1:
        raise node.error("takes tensors, not sequences or optionals")
    return _named(node, node.input(0))


RULES: MappingProxyType[str, Callable[[Node], tuple[Tensor, ...]]] = MappingProxyType(
    {
        "ConcatFromSequence": _concat,
        "Optional": _optional,
        "OptionalGetElement": _element,
        "OptionalHasElement": _has_element,
        "SequenceAt": _at,
        "SequenceConstruct": _construct,
        "SequenceEmpty": _empty,
        "SequenceErase": _erase,
        "SequenceInsert": _insert,
        "SequenceLength": _length,
        "SplitToSequence": _split,
    }
)


def sequence_outputs(node: Node) -> tuple[Tensor, ...]:
    """The output of an operator on sequences or optionals; raises ModelError."""
    if node.unknown_input is not None:
        return unknown_outputs(node, node.unknown_input)
    if len(node.output_names) != 1:
        raise ModelError(f"writes {len(node.output_names)} outputs, not 1", where=node.label)
    return RULES[node.op_type](node)
