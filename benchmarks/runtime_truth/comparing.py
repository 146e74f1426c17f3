"""The estimator's rows beside what ONNX Runtime did, node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mansard.core.formats.onnx import label_of
from mansard.core.records import LayerScore
from mansard.inference.preparing.labelling import Labelled

from .asking import Given, score_as_asked
from .truth import NodeTruth, Truth

_NEVER_RAN = NodeTruth("", 0, 0, 0, 0)


@dataclass(frozen=True)
class Figures:
    """What one node or a whole network did; ``runs`` of nodes, with those of loops."""

    runs: int = 0
    flop: int = 0
    moved_bytes: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.runs + other.runs,
            self.flop + other.flop,
            self.moved_bytes + other.moved_bytes,
        )


@dataclass(frozen=True)
class Difference:
    """One node whose work or bytes differ."""

    label: int
    op_type: str
    ours: Figures
    real: Figures


@dataclass(frozen=True)
class Comparison:
    """A whole network, and the nodes that differ.

    ``flop`` is that of the multiply-adds of operators for which the truth has a rule;
    ``unchecked`` are others to which the estimator gives multiply-adds. ``tensor_bytes``:
    all real tensors of all nodes; ``free_bytes``: of them, what does not count, by the
    convention that says so. ``told``: what the estimator asked
    for because it depends on data.
    """

    ours: Figures
    real: Figures
    tensor_bytes: int
    differences: tuple[Difference, ...] = ()
    unchecked: tuple[str, ...] = ()
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    told: Mapping[str, int] = field(default_factory=dict)


def compare(labelled: Labelled, truth: Truth, given: Given) -> Comparison:
    """Score ``labelled`` and lay its rows beside ``truth``.

    Raises MansardError where the estimator refuses the network.
    """
    scored, told = score_as_asked(labelled, truth, given)
    rows = {label_of(row.name): row for row in scored.layers}
    ours_all = real_all = Figures()
    differences, unchecked = [], set()
    for number, node in enumerate(labelled.nodes):
        seen = truth.nodes.get(number, _NEVER_RAN)
        ours, real = _ours(rows.get(number)), _real(seen)
        if seen.flop is None and ours.flop:
            unchecked.add(node.op_type)
            ours = Figures(ours.runs, 0, ours.moved_bytes)
        if (ours.flop, ours.moved_bytes) != (real.flop, real.moved_bytes):
            differences.append(Difference(number, node.op_type, ours, real))
        ours_all, real_all = ours_all + ours, real_all + real
    whole = sum(node.tensor_bytes for node in truth.nodes.values())
    free: Counter[str] = Counter()
    for one in truth.nodes.values():
        free[one.convention] += one.tensor_bytes - one.moved_bytes
    return Comparison(
        ours_all,
        real_all,
        whole,
        tuple(differences),
        tuple(sorted(unchecked)),
        {name: n_bytes for name, n_bytes in free.items() if n_bytes},
        told,
    )


def _ours(row: LayerScore | None) -> Figures:
    if row is None:
        return Figures()
    if row.multiply_add_flop is None or row.traffic_bytes is None:
        raise ValueError(f"a row without figures: {row.unknown}")  # allow_unknown is off
    return Figures(row.runs, row.multiply_add_flop, row.traffic_bytes)


def _real(node: NodeTruth) -> Figures:
    return Figures(node.runs, node.flop or 0, node.moved_bytes)
