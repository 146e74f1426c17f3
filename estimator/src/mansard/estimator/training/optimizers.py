"""What an optimizer does with each learned element, and what it keeps for it.

Everything is counted in the precision of the weights: copies in another precision, as
mixed-precision training keeps them, are not.
"""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import Optimizer
from mansard.estimator.cost import Cost
from mansard.estimator.weights import LayerWeights


class Update(msgspec.Struct, frozen=True):
    """Operations, accesses and kept elements for each learned element."""

    simple: int
    functions: int
    n_reads: int
    n_writes: int
    n_states: int


OPTIMIZERS: MappingProxyType[Optimizer, Update] = MappingProxyType(
    {
        "none": Update(0, 0, 0, 0, 0),
        # w := w - r·g
        "sgd": Update(2, 0, 2, 1, 0),
        # v := μ·v + g, w := w - r·v. Polyak, 1964, as PyTorch's SGD writes it:
        # https://pytorch.org/docs/stable/generated/torch.optim.SGD.html
        "momentum": Update(4, 0, 3, 2, 1),
        # m := a·m + (1 - a)·g (3), v := b·v + (1 - b)·g² (4), w := w - r·m / (√v + ε)
        # (4 and a root), with both bias corrections folded into r and ε once a step:
        # Kingma and Ba, 2015, section 2. https://arxiv.org/abs/1412.6980
        "adam": Update(11, 1, 4, 3, 2),
    }
)


def update_cost(weights: LayerWeights, optimizer: Optimizer, precision: Precision | None) -> Cost:
    """One update of all floating weights of a layer."""
    n, size = _floats(weights, precision)
    rule = OPTIMIZERS[optimizer]
    return Cost(
        simple=rule.simple * n,
        functions=rule.functions * n,
        read_bytes=rule.n_reads * size,
        write_bytes=rule.n_writes * size,
    )


def state_bytes(weights: LayerWeights, optimizer: Optimizer, precision: Precision | None) -> int:
    """What ``optimizer`` keeps for a layer from step to step, beside its weights."""
    return OPTIMIZERS[optimizer].n_states * _floats(weights, precision)[1]


def _floats(weights: LayerWeights, precision: Precision | None) -> tuple[int, int]:
    floats = [weight for weight in weights.learned if weight.dtype.is_float]
    size = sum(weight.dtype.size_bytes(weight.n_elements, precision) for weight in floats)
    return sum(weight.n_elements for weight in floats), size
