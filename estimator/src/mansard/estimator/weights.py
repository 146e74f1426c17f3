"""Which stored tensors are weights, and to which layer each belongs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.operators.registry import CountFunction, Operator
from mansard.estimator.reading.graphs import LEARNED, table_at
from mansard.estimator.tensors import Node, Origin, Tensor, Weight

_DATA = Origin.DATA
_QUANTIZED = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2"})


class LayerWeights(msgspec.Struct, frozen=True):
    """The stored tensors that a layer is the first to use.

    ``learned`` are its parameters; ``statistics`` are stored with them but not
    learned (a batch normalisation's running mean and variance). ``n_packed``: how many
    more numbers ``learned`` holds than elements, where one element holds several.
    """

    learned: tuple[Weight, ...] = ()
    statistics: tuple[Weight, ...] = ()
    n_packed: int = 0

    @property
    def parameters(self) -> int:
        if self is NO_WEIGHTS:  # as for most nodes
            return 0
        return sum(weight.n_elements for weight in self.learned) + self.n_packed

    def size_bytes(self, precision: Precision | None) -> int:
        """Stored size of both; ``precision`` replaces the width of floats."""
        if self is NO_WEIGHTS:
            return 0
        return sum(
            weight.dtype.size_bytes(weight.n_elements, precision)
            for weight in (*self.learned, *self.statistics)
        )


NO_WEIGHTS = LayerWeights()


def is_weight(weight: Weight) -> bool:
    """Whether a stored tensor holds numbers that were learned.

    Scalars are constants of operators (a 0.5, an epsilon), and so are single elements
    written into the graph; integers are indices, except narrow matrices, which are
    quantised weights (their zero points are scalars or vectors).
    """
    if weight.dtype.is_float:
        return len(weight.shape) > 0 and not (weight.is_literal and weight.n_elements == 1)
    return weight.dtype.name in _QUANTIZED and len(weight.shape) > 1


def slots(node: Node, operator: Operator | None) -> Iterable[tuple[Tensor, bool]]:
    """The node's constant inputs that hold weights, and whether these are statistics."""
    return ((tensor, is_statistic) for _, tensor, is_statistic in _constant_inputs(node, operator))


def _constant_inputs(node: Node, operator: Operator | None) -> list[tuple[int, Tensor, bool]]:
    inputs: list[tuple[int, Tensor, bool]] = []
    for position, tensor in enumerate(node.inputs):
        if tensor is None or not tensor.weights or tensor.origin is _DATA:
            continue
        if operator is None:
            inputs.append((position, tensor, False))
        elif (table := table_at((node.domain, node.op_type), position)) is not None:
            inputs.append((position, tensor, table not in LEARNED))
        elif position not in operator.not_weights:
            inputs.append((position, tensor, position in operator.statistics))
    return inputs


def weight_inputs(node: Node, operator: Operator | None) -> set[str]:
    """Names of the node's inputs that hold weights, statistics among them."""
    inputs = _constant_inputs(node, operator)
    if not inputs:
        return set()
    packed = _packed(node, operator)
    return {
        tensor.name
        for position, tensor, is_statistic in inputs
        if _holds_weights(node, position, is_statistic, packed)
        or any(map(is_weight, tensor.weights))
    }


def _holds_weights(
    node: Node, position: int, is_statistic: bool, packed: Mapping[int, CountFunction]
) -> bool:
    # Beside packed weights, bytes in a vector are weights and zero points too; so is a table.
    if position in packed or (is_statistic and bool(packed)):
        return True
    return table_at((node.domain, node.op_type), position) is not None


def _packed(node: Node, operator: Operator | None) -> Mapping[int, CountFunction]:
    if operator is None or not operator.packed or any(output.unknown for output in node.outputs):
        return {}
    return operator.packed


def assign_weights(
    nodes: Iterable[Node], operators: Mapping[tuple[str, str], Operator | None]
) -> dict[int, LayerWeights]:
    """The stored weights, each at the first node that uses it, by the node's index.

    A weight that several nodes share is thus counted once in the sum over layers.
    """
    seen: set[str] = set()
    assigned: dict[int, LayerWeights] = {}
    for node in nodes:
        if node.is_constant:
            continue
        operator = operators[node.domain, node.op_type]
        inputs = _constant_inputs(node, operator)
        if not inputs:
            continue
        packed = _packed(node, operator)
        split: tuple[list[Weight], list[Weight]] = ([], [])
        n_packed = 0
        for position, tensor, is_statistic in inputs:
            is_own = _holds_weights(node, position, is_statistic, packed)
            for weight in tensor.weights:
                if weight.name not in seen and (is_own or is_weight(weight)):
                    seen.add(weight.name)
                    split[is_statistic].append(weight)
                    if position in packed:
                        n_packed += packed[position](node) - weight.n_elements
        if any(split):
            assigned[node.index] = LayerWeights(tuple(split[False]), tuple(split[True]), n_packed)
    return assigned
