"""What the outputs of a node look like, worked out once for all nodes that are alike.

The layers of a network repeat: the same operator, with the same attributes, on tensors
of the same types and shapes. What a rule says of the first holds for the others.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from mansard.estimator.element_types import ElementType
from mansard.estimator.model import ModelNode
from mansard.estimator.numbers import Numbers
from mansard.estimator.tensors import Origin, Shape, Tensor

Key = tuple[Hashable, ...]


class Look(msgspec.Struct, frozen=True, eq=False):
    """Types and shapes of the outputs, and the value of each where it is known.

    ``number`` tells nodes that are alike: all that differs is names, and weights' names.
    It is -1 where others like it may still look different.
    """

    specs: tuple[tuple[ElementType, Shape], ...]
    origin: Origin
    values: tuple[Numbers | None, ...]
    number: int = -1


class Signatures:
    """Numbers for what is fixed of a node: operator, attributes, which names it is given."""

    def __init__(self) -> None:
        self._by_node: dict[int, int] = {}
        self._numbers: dict[Key, int] = {}

    def number(self, node: ModelNode) -> int:
        """Equal for nodes that differ in names only."""
        found = self._by_node.get(node.index)
        if found is None:
            signature = _signature(node)
            found = self._numbers.setdefault(signature, len(self._numbers))
            self._by_node[node.index] = found
        return found


class Looks:
    """The looks found so far on one course through a network."""

    def __init__(self, signatures: Signatures, first_number: int = 0) -> None:
        self._signatures = signatures
        self._found: dict[Key, Look] = {}
        self.next_number = first_number

    def key(self, node: ModelNode, inputs: tuple[Tensor | None, ...]) -> Key | None:
        """All that the outputs depend on; None where an input is no tensor with a shape."""
        parts: list[Hashable] = [self._signatures.number(node)]
        for tensor in inputs:
            if tensor is None:
                parts.append(None)
                continue
            if tensor.unknown is not None or tensor.items is not None:
                return None
            value = tensor.value
            held = None if value is None else value.data
            parts += (tensor.dtype, tensor.shape, tensor.origin, held)
        return tuple(parts)

    def find(self, key: Key) -> Look | None:
        """The look of nodes with this key."""
        return self._found.get(key)

    def keep(self, key: Key, look: Look) -> Look:
        """``look`` with a number, for all nodes with this key."""
        kept = Look(look.specs, look.origin, look.values, self.next_number)
        self.next_number += 1
        self._found[key] = kept
        return kept


def _signature(node: ModelNode) -> Key:
    # An input that is given twice is read once, so it matters which names are equal.
    places = {name: place for place, name in reversed([*enumerate(node.inputs)])}
    given = tuple([places[name] if name else None for name in node.inputs])
    written = tuple([bool(name) for name in node.outputs])
    attributes = tuple(
        [(name, type(value), value) for name, value in sorted(node.attributes.items())]
    )
    signature = (node.op_type, node.domain, node.opset, given, written, attributes)
    try:
        hash(signature)
    except TypeError:
        return (node.index,)  # like no other
    return signature
