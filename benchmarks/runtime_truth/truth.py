"""What each node really did: multiply-adds and bytes over all its runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mansard.inference.preparing.labelling import Labelled

from .foreknown import foreknown
from .halves import as_written, half_tensors
from .movement import convention, moved_bytes, tensor_bytes
from .profiling import Feeds, Kernel, real_tensors, run
from .stand_ins import find_stand_ins
from .work import multiply_add_flop


@dataclass(frozen=True)
class NodeTruth:
    """One node over all its runs.

    ``flop``: of its multiply-adds, None where no rule for its operator is written.
    ``moved_bytes``: unfused traffic by our conventions; ``tensor_bytes``: all its tensors,
    by none; ``convention``: which one made the difference.
    """

    op_type: str
    runs: int
    flop: int | None
    moved_bytes: int
    tensor_bytes: int
    convention: str = ""


@dataclass(frozen=True)
class Truth:
    """One run of a network. ``nodes`` by label; ``kernels`` as they ran.

    ``added``: kernels that ONNX Runtime put in itself, by operator; ``n_stand_ins``: nodes
    in whose stead it ran some of them.
    """

    nodes: Mapping[int, NodeTruth]
    kernels: tuple[Kernel, ...]
    added: Mapping[str, int]
    n_stand_ins: int = 0


def find_truth(labelled: Labelled, feeds: Feeds, stated: Collection[str] = ()) -> Truth:
    """Run the network once. ``stated``: inputs whose values the estimator is told.

    Raises whatever ONNX Runtime raises where it cannot run the network.
    """
    done = run(labelled.model, feeds)
    halves = half_tensors(labelled.model)
    free = foreknown(labelled, stated)
    by_label: dict[int, list[Kernel]] = defaultdict(list)
    added: Counter[str] = Counter()
    for kernel in done.kernels:
        if kernel.label is None or kernel.op_type != labelled.nodes[kernel.label].op_type:
            added[kernel.op_type] += 1
        else:
            written = as_written(labelled.nodes[kernel.label], kernel, halves)
            by_label[kernel.label].append(written)
    outside = {**real_tensors(feeds), **done.results}
    stand_ins = find_stand_ins(labelled, done.kernels, outside, by_label)
    for number, kernel in stand_ins.items():
        by_label[number].append(as_written(labelled.nodes[number], kernel, halves))
    nodes = {
        number: _node_truth(labelled, number, runs, number in free)
        for number, runs in by_label.items()
    }
    return Truth(nodes, (*done.kernels, *stand_ins.values()), added, len(stand_ins))


def _node_truth(labelled: Labelled, number: int, runs: list[Kernel], is_free: bool) -> NodeTruth:
    node = labelled.nodes[number]
    whole = sum(tensor_bytes(node, kernel) for kernel in runs)
    if is_free:
        return NodeTruth(node.op_type, len(runs), 0, 0, whole, "known beforehand")
    flops = [multiply_add_flop(node, kernel) for kernel in runs]
    flop = None if None in flops else sum(one for one in flops if one is not None)
    moved = sum(moved_bytes(node, kernel) for kernel in runs)
    return NodeTruth(node.op_type, len(runs), flop, moved, whole, convention(node))
