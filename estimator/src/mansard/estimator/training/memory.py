"""The most memory that activations and their gradients take at once in a training step.

Forward, what is saved piles up. Backward, the gradient of a tensor lives from its last
reader back to its maker, while what is saved goes away again. With recomputation only
what crosses a cut piles up, and one segment at a time saves what its gradients need.
Weights, their gradients and the optimizer's states come on top and are counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.core.precision import Precision
from mansard.estimator.tensors import Origin
from mansard.estimator.training.saved import shows_input
from mansard.estimator.training.segments import segment_of
from mansard.estimator.walk import Placed


def training_peak_bytes(
    placed: Sequence[Placed],
    saved: Mapping[int, int],
    differentiable: set[str],
    again: Mapping[int, int],
    precision: Precision | None,
) -> int:
    """Bytes, by ``saved`` bytes of each node and gradients' lives; main graph only.

    ``again``: what each node saves when its segment is computed again, if it is. What a
    loop saves stands at the loop's place.
    """
    main = [each for each in placed if each.scope == ""]
    gradients = _live_gradients(main, differentiable, precision)
    own, own_again = _with_inner(placed, saved), _with_inner(placed, again)
    segments = segment_of(placed) if again else {}
    peak = kept = crossing = in_segment = segment = 0
    for each, gradient in zip(main, gradients, strict=True):
        index = each.node.index
        if segments.get(index, 0) != segment:
            # What a segment gave the next one is freed with that one, and made again.
            segment, kept, crossing, in_segment = segments[index], kept + crossing, 0, 0
        if again:
            crossing += own.get(index, 0)
            in_segment += own_again.get(index, 0)
        else:
            kept += own.get(index, 0)
        peak = max(peak, kept + in_segment + gradient)
    return peak


def _with_inner(placed: Sequence[Placed], saved: Mapping[int, int]) -> dict[int, int]:
    """What each node of the main graph saves, with the nodes inside it, by its index."""
    found: dict[int, int] = {}
    holder, seen = -1, set()
    for each in placed:
        index = each.node.index
        if each.scope == "":
            holder = index
        if index not in seen:
            seen.add(index)
            found[holder] = found.get(holder, 0) + saved.get(index, 0)
    return found


def _live_gradients(
    main: Sequence[Placed], differentiable: set[str], precision: Precision | None
) -> list[int]:
    """Bytes of the gradients that are there while each node's backward pass runs.

    The gradient of a view is that of its source, seen otherwise.
    """
    source: dict[str, str] = {}
    last: dict[str, int] = {}
    for position, each in enumerate(main):
        node = each.node
        if shows_input(node) and not node.is_constant:
            first = node.input(0).name
            source.update((output.name, source.get(first, first)) for output in node.outputs)
        for tensor in node.present:
            last[source.get(tensor.name, tensor.name)] = position
    starts, ends = [0] * len(main), [0] * (len(main) + 1)
    for position, each in enumerate(main):
        for output in each.node.outputs:
            is_own = output.name not in source
            if is_own and output.name in differentiable and output.origin is Origin.DATA:
                size = output.n_bytes(precision)
                starts[position] += size
                # The network's result has no reader; its gradient comes with the loss.
                ends[last.get(output.name, position) + 1] += size
    live, lives = 0, []
    for position in range(len(main)):
        live += starts[position] - ends[position]
        lives.append(live)
    return lives
