"""What is estimated of a network, in the parts that kernels are held against.

A part is a fused group, which a runtime starts as one kernel, or a node where each ran alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mansard.analytics.models.counters.products import Product, product_of
from mansard.core.records import LayerScore, ModelScore


@dataclass(frozen=True)
class Part:
    """``nodes``: by LayerScore.index. FLOP and bytes are None where a node's are not known.

    ``bytes_alone``: of its nodes if each ran alone; ``between_bytes``: that would not move if all
    of it ran as one kernel.
    """

    name: str
    nodes: tuple[int, ...]
    op_types: tuple[str, ...]
    precisions: tuple[str, ...]  # of its work
    work_flop: float | None
    multiply_add_flop: float | None
    read_bytes: float | None
    write_bytes: float | None
    bytes_alone: float | None
    product: Product | None
    between_bytes: float = 0.0

    @property
    def traffic_bytes(self) -> float | None:
        """Both directions, without any cache: Nsight Compute empties them before each kernel."""
        return _sum((self.read_bytes, self.write_bytes))


def joined(parts: Sequence[Part]) -> Part:
    """Parts that kernels have in common, as one part; what they write for each other counts."""
    if len(parts) == 1:
        return parts[0]
    heavy = max(parts, key=lambda part: part.work_flop or 0)
    products = [part.product for part in parts if part.multiply_add_flop]
    sums = {name: _sum(getattr(part, name) for part in parts) for name in _SUMS}
    return Part(
        name=f"{heavy.name} + {len(parts) - 1} more",
        nodes=tuple(node for part in parts for node in part.nodes),
        op_types=tuple(dict.fromkeys(op_type for part in parts for op_type in part.op_types)),
        precisions=tuple(dict.fromkeys(name for part in parts for name in part.precisions)),
        product=products[0] if len(products) == 1 else None,
        between_bytes=2 * sum(part.write_bytes or 0 for part in parts[:-1]),
        **sums,
    )


_SUMS = ("work_flop", "multiply_add_flop", "read_bytes", "write_bytes", "bytes_alone")


def parts_of(score: ModelScore, *, fused: bool = True) -> tuple[Part, ...]:
    """The parts of ``score`` that work or move, in the network's order."""
    layers = score.layers
    has_groups = all(layer.fused_traffic_bytes is not None for layer in layers)
    fused = fused and has_groups
    groups: dict[int, list[LayerScore]] = {}
    for layer in layers:
        own = layer.fused_group if fused and layer.fused_group is not None else layer.index
        groups.setdefault(own, []).append(layer)
    found = (_part(own, fused=fused) for own in groups.values())
    return tuple(part for part in found if part.work_flop != 0 or part.traffic_bytes != 0)


def _part(layers: Sequence[LayerScore], *, fused: bool) -> Part:
    heavy = max(layers, key=lambda layer: layer.work_flop or 0)
    products = [each for layer in layers if layer.macs and (each := product_of(layer))]
    n_with_sums = sum(bool(layer.macs) for layer in layers)
    read, write = (
        ("fused_read_bytes", "fused_write_bytes") if fused else ("read_bytes", "write_bytes")
    )
    return Part(
        name=heavy.name or f"{heavy.op_type} {heavy.index}",
        nodes=tuple(layer.index for layer in layers),
        op_types=tuple(dict.fromkeys(layer.op_type for layer in layers)),
        precisions=tuple(dict.fromkeys(layer.precision for layer in layers if layer.work_flop)),
        work_flop=_sum(layer.work_flop for layer in layers),
        multiply_add_flop=_sum(layer.multiply_add_flop for layer in layers),
        read_bytes=_sum(getattr(layer, read) for layer in layers),
        write_bytes=_sum(getattr(layer, write) for layer in layers),
        bytes_alone=_sum(layer.traffic_bytes for layer in layers),
        product=products[0] if n_with_sums == 1 and products else None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    all_ = list(values)
    known = [each for each in all_ if each is not None]
    return float(sum(known)) if len(known) == len(all_) else None
