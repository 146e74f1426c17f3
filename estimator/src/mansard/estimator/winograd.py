"""What convolutions that run as Winograd move besides their tensors: transformed filters.

Winograd's F(2 × 2, 3 × 3) makes 4 outputs of a tile with 16 products, so a filter of 9 numbers
becomes one of 16 (Lavin and Gray, arXiv:1509.09308). cuDNN's kernel reads them for ⌈K / 32⌉ · 32
of K filters of C channels:

    T = 16 · C · ⌈K / 32⌉ · 32 · element bytes

A first kernel makes them in each pass. From a cold cache Q = reads + T + max(0, writes − C'),
with C' bytes of cache (docs/understand/traffic.md: 80 convolutions under Nsight Compute).

Measured in fp32 on CUDA cores, where it was the fastest of cuDNN's algorithms for every such
convolution. Tensor cores (TF32, fp16, int8) run them as matrix products instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mansard.core.records import LayerScore
from mansard.core.text import listed
from mansard.estimator.tensors import Node

_PRODUCTS = 16  # of a tile: (2 + 3 − 1)²
_FILTERS = 32  # that one block of threads makes
_ELEMENT_BYTES = 4
_MAX_SIZES, _MAX_NAMES = 12, 6  # in one note, and of equal layers


def transformed_filter_bytes(node: Node) -> int:
    """T of an fp32 convolution; 0 where Winograd does not apply: 3 × 3, stride 1, one group."""
    weights = node.optional(1)
    if node.op_type != "Conv" or weights is None or weights.unknown:
        return 0
    if weights.shape[2:] != (3, 3) or node.integer("group", 1) != 1:
        return 0
    if any(set(node.integers(name) or (1,)) != {1} for name in ("strides", "dilations")):
        return 0
    n_filters, n_channels = weights.shape[:2]
    return _PRODUCTS * n_channels * -(-n_filters // _FILTERS) * _FILTERS * _ELEMENT_BYTES


def winograd_notes(layers: Iterable[LayerScore], nodes: Iterable[Node]) -> Iterator[str]:
    """One note of how much more cached traffic each such layer would have; none without any.

    ``nodes`` are those of ``layers``, by their index.
    """
    by_index = {node.index: node for node in nodes if node.op_type == "Conv"}
    names: dict[int, list[str]] = {}
    for layer in layers:
        node = by_index.get(layer.index)
        if node is None or layer.precision != "fp32" or layer.unit != "CUDA core":
            continue
        n_bytes = transformed_filter_bytes(node) * layer.runs
        if n_bytes:
            names.setdefault(n_bytes, []).append(layer.name or f"node {layer.index}")
    if not names:
        return
    total = sum(n_bytes * len(found) for n_bytes, found in names.items())
    shown = [_shown(*each) for each in sorted(names.items(), reverse=True)[:_MAX_SIZES]]
    if len(names) > _MAX_SIZES:
        shown.append("less for the others")
    yield (
        f"cached traffic is {total / 1e6:.3g} MB more where a library runs convolutions of 3 × 3 "
        f"as Winograd (fp32 without TF32), for their transformed filters: {'; '.join(shown)}"
    )


def _shown(n_bytes: int, names: Sequence[str]) -> str:
    each = "each of " if len(names) > 1 else ""
    words = [repr(name) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        words.append(f"{len(names) - _MAX_NAMES} more")
    return f"{n_bytes / 1e6:.3g} MB for {each}{listed(words)}"
