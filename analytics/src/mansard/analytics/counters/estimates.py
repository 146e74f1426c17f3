"""What is estimated of a network, in the parts that kernels are held against.

A part is a fused group, which a runtime starts as one kernel, or a node where each ran alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mansard.analytics.counters.products import Product, product_of
from mansard.core.records import LayerScore, ModelScore


@dataclass(frozen=True)
class Part:
    """``nodes``: by LayerScore.index. FLOP and bytes are None where a node's are not known.

    ``bytes_alone``: of its nodes if each ran alone; ``cached_bytes``: cache-aware.
    """

    name: str
    nodes: tuple[int, ...]
    op_types: tuple[str, ...]
    work_flop: float | None
    multiply_add_flop: float | None
    read_bytes: float | None
    write_bytes: float | None
    bytes_alone: float | None
    cached_bytes: float | None
    product: Product | None

    @property
    def traffic_bytes(self) -> float | None:
        """Both directions, without any cache."""
        both = (self.read_bytes, self.write_bytes)
        return None if None in both else sum(each for each in both if each is not None)

    def expected_bytes(self, *, warm: bool) -> float | None:
        """What is held against the counters.

        Nsight Compute empties the caches before each kernel, so a part reads all that it reads from
        memory. ``warm``: it did not, and the cache-aware traffic counts where it is known.
        """
        return self.cached_bytes if warm and self.cached_bytes is not None else self.traffic_bytes


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
        work_flop=_sum(layer.work_flop for layer in layers),
        multiply_add_flop=_sum(layer.multiply_add_flop for layer in layers),
        read_bytes=_sum(getattr(layer, read) for layer in layers),
        write_bytes=_sum(getattr(layer, write) for layer in layers),
        bytes_alone=_sum(layer.traffic_bytes for layer in layers),
        cached_bytes=_sum(layer.cached_traffic_bytes for layer in layers) if fused else None,
        product=products[0] if n_with_sums == 1 and products else None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    all_ = list(values)
    known = [each for each in all_ if each is not None]
    return float(sum(known)) if len(known) == len(all_) else None
