"""What the outputs of a node look like, worked out once for all nodes that are alike.

The layers of a network repeat: the same operator, with the same attributes, on tensors
of the same types and shapes. What a rule says of the first holds for the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import msgspec

from mansard.estimator.element_types import ElementType
from mansard.estimator.model import ModelNode
from mansard.estimator.numbers import Numbers
from mansard.estimator.tensors import Origin, Shape, Tensor

Key = tuple[Hashable, ...]

_MOST = 200_000  # looks that are kept: a model may be scored with any number of sizes


class Look(msgspec.Struct, frozen=True, eq=False):
    """Types and shapes of the outputs, and the value of each where it is known.

    ``number`` tells nodes that are alike: all that differs is names, and weights' names.
    It is -1 where others like it may still look different.
    """

    specs: tuple[tuple[ElementType, Shape], ...]
    origin: Origin
    values: tuple[Numbers | None, ...]
    number: int = -1


class Looks:
    """The looks found so far, and numbers for what is fixed of the nodes they belong to.

    A look depends on nothing but its key, so those of one score serve the next one of the
    same model, with other dimensions.
    """

    def __init__(self) -> None:
        self._signature_of: dict[int, int] = {}  # by the node's index
        self._signatures: dict[Key, int] = {}
        self._found: dict[Key, Look] = {}
        self._numbers = itertools.count()  # which two threads never get the same from

    def key(self, node: ModelNode, inputs: tuple[Tensor | None, ...]) -> Key | None:
        """All that the outputs depend on; None where an input is no tensor with a shape."""
        signature = self._signature_of.get(node.index)
        if signature is None:
            number = self._signatures.setdefault(_signature(node), next(self._numbers))
            signature = self._signature_of[node.index] = number
        parts: list[Hashable] = [signature]
        for tensor in inputs:
            if tensor is None:
                parts.append(None)
                continue
            if tensor.unknown is not None or tensor.items is not None:
                return None
            value = tensor.value
            held = None if value is None else value.data
            parts += (tensor.dtype.code, tensor.shape, tensor.origin, held)
        return tuple(parts)

    def find(self, key: Key) -> Look | None:
        """The look of nodes with this key."""
        return self._found.get(key)

    def keep(self, key: Key, look: Look) -> Look:
        """``look`` with a number, for all nodes with this key."""
        kept = Look(look.specs, look.origin, look.values, next(self._numbers))
        if len(self._found) >= _MOST:
            self._found.clear()
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
