"""The most memory that activations and their gradients take at once in a training step.

Forward, what is saved piles up. Backward, the gradient of a tensor lives from its last
reader back to its maker, while what is saved goes away again. With recomputation only
what crosses a cut piles up, and one segment at a time holds all that it computes.
Weights, their gradients and the optimizer's states come on top and are counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.core.precision import Precision
from mansard.estimator.tensors import Origin
from mansard.estimator.training.segments import segment_of
from mansard.estimator.walk import Placed


def training_peak_bytes(
    placed: Sequence[Placed],
    saved: Mapping[int, int],
    differentiable: set[str],
    is_recomputed: bool,
    precision: Precision | None,
) -> int:
    """Bytes, by ``saved`` bytes of each node and gradients' lives; main graph only.

    What a loop saves stands at the loop's place.
    """
    main = [each for each in placed if each.scope == ""]
    gradients = _live_gradients(main, differentiable, precision)
    made = _made(main, precision) if is_recomputed else {}
    segments = segment_of(placed)
    inner = _inner_savings(placed, saved)
    peak = kept = in_segment = 0
    segment = -1
    for each, gradient in zip(main, gradients, strict=True):
        index = each.node.index
        if segments[index] != segment:
            segment, in_segment = segments[index], 0
        kept += saved.get(index, 0) + inner.get(index, 0)
        in_segment += made.get(index, 0)
        peak = max(peak, kept + in_segment + gradient)
    return peak


def _inner_savings(placed: Sequence[Placed], saved: Mapping[int, int]) -> dict[int, int]:
    """What the nodes inside a node save, by that node's index."""
    inner: dict[int, int] = {}
    holder, seen = -1, set()
    for each in placed:
        if each.scope == "":
            holder = each.node.index
        elif each.node.index not in seen:
            seen.add(each.node.index)
            inner[holder] = inner.get(holder, 0) + saved.get(each.node.index, 0)
    return inner


def _made(main: Sequence[Placed], precision: Precision | None) -> dict[int, int]:
    return {
        each.node.index: sum(o.n_bytes(precision) for o in each.node.outputs if o.name)
        for each in main
        if not each.node.is_constant
    }


def _live_gradients(
    main: Sequence[Placed], differentiable: set[str], precision: Precision | None
) -> list[int]:
    """Bytes of the gradients that are there while each node's backward pass runs."""
    last: dict[str, int] = {}
    for position, each in enumerate(main):
        last.update((tensor.name, position) for tensor in each.node.present)
    starts, ends = [0] * len(main), [0] * (len(main) + 1)
    for position, each in enumerate(main):
        for output in each.node.outputs:
            if output.name in differentiable and output.origin is Origin.DATA:
                size = output.n_bytes(precision)
                starts[position] += size
                # The network's result has no reader; its gradient comes with the loss.
                ends[last.get(output.name, position) + 1] += size
    live, lives = 0, []
    for position in range(len(main)):
        live += starts[position] - ends[position]
        lives.append(live)
    return lives
