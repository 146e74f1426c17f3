"""What the rows of one score have in common, worked out once for the whole network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import Optimizer, Phase
from mansard.estimator.cost import Forward
from mansard.estimator.element_types import ElementType
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, NodeInstance
from mansard.estimator.training import (
    checkpoint_bytes,
    differentiable_tensors,
    recomputed_nodes,
    saved_bytes,
    segment_of,
)
from mansard.estimator.weights import LayerWeights, assign_weights
from mansard.estimator.work_precision import quantized_tensors

Formulas = Mapping[tuple[str, str], "Operator | None"]


class Options(msgspec.Struct, frozen=True):
    """How a placed network is counted; see ``scoring.Settings``."""

    precision: Precision | None = None
    phase: Phase = "inference"
    optimizer: Optimizer = "none"
    recompute: bool = False
    cache_bytes: int | None = None
    allow_unknown: bool = False


class Training(msgspec.Struct, frozen=True):
    """What only a training step needs; nothing of it in inference.

    ``again_bytes``: what each node saves when its segment is computed again.
    """

    differentiable: set[str] = msgspec.field(default_factory=set)
    saved_bytes: Mapping[int, int] = msgspec.field(default_factory=dict)
    recomputed: frozenset[int] = frozenset()
    again_bytes: Mapping[int, int] = msgspec.field(default_factory=dict)


class Context(msgspec.Struct, frozen=True):
    """Weights by the node that uses them first, and what is behind quantised tensors."""

    options: Options
    formulas: Formulas
    weights: Mapping[int, LayerWeights]
    behind: dict[str, ElementType]
    training: Training
    # The layers of a network repeat: what nodes that are alike cost, by ``Node.alike``.
    forward: dict[int, Forward] = msgspec.field(default_factory=dict)

    def formula(self, node: Node) -> Operator | None:
        return self.formulas[node.domain, node.op_type]


def find_formulas(nodes: Iterable[Node]) -> Formulas:
    """The formula of every operator of ``nodes``; None where there is none."""
    return {key: REGISTRY.find(*key) for key in {(node.domain, node.op_type) for node in nodes}}


def make_context(placed: Sequence[NodeInstance], formulas: Formulas, options: Options) -> Context:
    """The context of the nodes ``placed``."""
    nodes = [each.node for each in placed]
    training = _training(placed, formulas, options)
    weights = assign_weights(nodes, formulas)
    return Context(options, formulas, weights, quantized_tensors(nodes), training)


def _training(placed: Sequence[NodeInstance], formulas: Formulas, options: Options) -> Training:
    if options.phase != "training":
        return Training()
    main = [each.node for each in placed if each.scope == placed[0].scope]
    differentiable = differentiable_tensors(main, lambda node: formulas[node.domain, node.op_type])
    precision = options.precision
    if not options.recompute:
        return Training(differentiable, saved_bytes(placed, formulas, differentiable, precision))
    segments = segment_of(placed)
    again = saved_bytes(placed, formulas, differentiable, precision, segments)
    kept = checkpoint_bytes(placed, precision)
    return Training(differentiable, kept, recomputed_nodes(placed), again)
