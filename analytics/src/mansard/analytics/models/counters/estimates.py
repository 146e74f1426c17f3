"""The estimates of a network, in the parts that kernels are compared with.

A part is a fused group, which a runtime starts as one kernel, or a node where each ran alone.

A layer is a product of matrices, of which a kernel computes whole tiles: rows, columns and sums are
padded to multiples of the tile's sides and of its step. A convolution counts as the product it is
computed by (implicit GEMM).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, isqrt

from mansard.core.precision import PRECISIONS
from mansard.core.records import LayerScore, ModelScore


@dataclass(frozen=True)
class CountedProduct:
    """``batches`` products of rows × length by length × columns."""

    batches: int
    rows: int
    columns: int
    length: int

    @property
    def flop(self) -> float:
        """A multiply-add is two."""
        return 2.0 * self.batches * self.rows * self.columns * self.length

    @property
    def outputs(self) -> int:
        """Elements of the result."""
        return self.batches * self.rows * self.columns


def product_of(layer: LayerScore) -> CountedProduct | None:
    """The product that a layer computes; None where it is none, or its sides are not known.

    Outputs = batches·rows·columns and multiply-adds = outputs·length. With weights columns·length
    is their number, with or without a bias of ``columns``; without weights the sides follow from
    the elements that are read.
    """
    width = PRECISIONS.get(layer.precision)
    if not layer.macs or not layer.output_bytes or width is None or layer.runs != 1:
        return None
    outputs = layer.output_bytes * 8 // width.n_bits
    length, left = divmod(layer.macs, outputs)
    if left or not length:
        return None
    if layer.parameters:
        for per_column in (length, length + 1):
            columns, left = divmod(layer.parameters, per_column)
            if not left and columns and outputs % columns == 0:
                return CountedProduct(1, outputs // columns, columns, length)
        return None
    if layer.op_type not in {"MatMul", "Gemm", "FusedMatMul", "Einsum"} or not layer.input_bytes:
        return None
    return _without_weights(outputs, length, layer.input_bytes * 8 // width.n_bits)


def _without_weights(outputs: int, length: int, inputs: int) -> CountedProduct | None:
    """rows·columns = outputs / batches and rows + columns = inputs / (batches·length)."""
    for batches in range(min(outputs, 4096), 0, -1):
        if outputs % batches or inputs % (batches * length):
            continue
        area, both = outputs // batches, inputs // (batches * length)
        rest = both * both - 4 * area
        if rest < 0 or isqrt(rest) ** 2 != rest or (both + isqrt(rest)) % 2:
            continue
        rows = (both + isqrt(rest)) // 2
        return CountedProduct(batches, rows, both - rows, length)
    return None


@dataclass(frozen=True)
class Tile:
    """What one block of a kernel computes, and the step in which it goes along the sums."""

    first: int
    second: int
    step: int


_TILES = (
    re.compile(r"tilesize(?P<a>\d{1,3})x(?P<b>\d{1,3})x(?P<k>\d{1,3})"),
    re.compile(
        r"gemm(?:_[a-z]\w*?)?_(?P<a>\d{1,3})x(?P<b>\d{1,3})(?:_\w+?_stages_(?P<k>\d{1,3})x\d)"
    ),
    re.compile(r"gemm(?:_[a-z]\w*?)?_(?P<a>\d{1,3})x(?P<b>\d{1,3})_(?P<k>\d{1,3})x\d"),
    re.compile(r"gemm(?:_[a-z]\w*?)?_(?P<a>\d{1,3})x(?P<b>\d{1,3})"),
)
_USUAL_STEP = 8  # of sgemm kernels: recorded ones of 6 and of 20 sums did 8 and 24


@cache
def tile_of(kernel: str) -> Tile | None:
    """The tile that a name of cuBLAS, CUTLASS or cuDNN says."""
    for pattern in _TILES:
        if match := pattern.search(kernel):
            step = match.groupdict().get("k")
            sides = int(match["a"]), int(match["b"]), int(step or _USUAL_STEP)
            return Tile(*sides) if all(sides) else None
    return None


def padded_flop(product: CountedProduct, tile: Tile, splits: int = 1) -> float:
    """FLOP of whole tiles, the sums in ``splits`` parts that are padded each.

    cuBLAS counts in columns first: the tile's first side is along them.
    """
    columns = ceil(product.columns / tile.first) * tile.first
    rows = ceil(product.rows / tile.second) * tile.second
    length = ceil(product.length / splits / tile.step) * tile.step * splits
    return 2.0 * product.batches * rows * columns * length


def splits_of(product: CountedProduct, tile: Tile, grid: tuple[int, int, int]) -> int | None:
    """In how many parts a grid of blocks splits the sums; None where the grid does not fit.

    Blocks may be in any order: one for each tile and part.
    """
    n_tiles = ceil(product.columns / tile.first) * ceil(product.rows / tile.second)
    splits, left = divmod(grid[0] * grid[1] * grid[2], n_tiles * product.batches)
    return splits if left == 0 and splits >= 1 else None


def nearest_padding(
    product: CountedProduct,
    tile: Tile,
    grid: tuple[int, int, int] | None,
    counted: float,
    most: int,
) -> float:
    """FLOP of whole tiles as the grid splits the sums; without one, the nearest to ``counted`` of
    up to ``most`` parts."""
    known = None if grid is None else splits_of(product, tile, grid)
    tried = [known] if known else range(1, most + 1)
    return min(
        (padded_flop(product, tile, splits) for splits in tried), key=lambda f: abs(f - counted)
    )


@dataclass(frozen=True)
class EstimatePart:
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
    product: CountedProduct | None
    between_bytes: float = 0.0

    @property
    def traffic_bytes(self) -> float | None:
        """Both directions, without any cache: Nsight Compute empties them before each kernel."""
        return _sum((self.read_bytes, self.write_bytes))


def joined(parts: Sequence[EstimatePart]) -> EstimatePart:
    """Parts that share kernels, as one part; the traffic between them counts."""
    if len(parts) == 1:
        return parts[0]
    heavy = max(parts, key=lambda part: part.work_flop or 0)
    products = [part.product for part in parts if part.multiply_add_flop]
    sums = {name: _sum(getattr(part, name) for part in parts) for name in _SUMS}
    return EstimatePart(
        name=f"{heavy.name} + {len(parts) - 1} more",
        nodes=tuple(node for part in parts for node in part.nodes),
        op_types=tuple(dict.fromkeys(op_type for part in parts for op_type in part.op_types)),
        precisions=tuple(dict.fromkeys(name for part in parts for name in part.precisions)),
        product=products[0] if len(products) == 1 else None,
        between_bytes=2 * sum(part.write_bytes or 0 for part in parts[:-1]),
        **sums,
    )


_SUMS = ("work_flop", "multiply_add_flop", "read_bytes", "write_bytes", "bytes_alone")


def parts_of(score: ModelScore, *, fused: bool = True) -> tuple[EstimatePart, ...]:
    """The parts of ``score`` that work or move, in the network's order."""
    layers = score.layers
    has_groups = all(layer.fused_traffic_bytes is not None for layer in layers)
    fused = fused and has_groups
    groups: dict[int, list[LayerScore]] = {}
    for layer in layers:
        group = layer.fused_group if fused and layer.fused_group is not None else layer.index
        groups.setdefault(group, []).append(layer)
    parts = (_part(group, fused=fused) for group in groups.values())
    return tuple(part for part in parts if part.work_flop != 0 or part.traffic_bytes != 0)


def _part(layers: Sequence[LayerScore], *, fused: bool) -> EstimatePart:
    heavy = max(layers, key=lambda layer: layer.work_flop or 0)
    products = [product for layer in layers if layer.macs and (product := product_of(layer))]
    n_with_sums = sum(bool(layer.macs) for layer in layers)
    read, write = (
        ("fused_read_bytes", "fused_write_bytes") if fused else ("read_bytes", "write_bytes")
    )
    return EstimatePart(
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
    known = [value for value in all_ if value is not None]
    return float(sum(known)) if len(known) == len(all_) else None
