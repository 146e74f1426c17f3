"""Products of matrices: the shape of a layer, and what the tiles of a kernel make of it.

A kernel computes whole tiles: rows, columns and sums are padded to multiples of the tile's sides
and of its step. A convolution counts as the product it is computed by (implicit GEMM).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import ceil, isqrt

from mansard.core.precision import PRECISIONS
from mansard.core.records import LayerScore


@dataclass(frozen=True)
class Product:
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


def product_of(layer: LayerScore) -> Product | None:
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
                return Product(1, outputs // columns, columns, length)
        return None
    if layer.op_type not in {"MatMul", "Gemm", "FusedMatMul", "Einsum"} or not layer.input_bytes:
        return None
    return _without_weights(outputs, length, layer.input_bytes * 8 // width.n_bits)


def _without_weights(outputs: int, length: int, inputs: int) -> Product | None:
    """rows·columns = outputs / batches and rows + columns = inputs / (batches·length)."""
    for batches in range(min(outputs, 4096), 0, -1):
        if outputs % batches or inputs % (batches * length):
            continue
        area, both = outputs // batches, inputs // (batches * length)
        rest = both * both - 4 * area
        if rest < 0 or isqrt(rest) ** 2 != rest or (both + isqrt(rest)) % 2:
            continue
        rows = (both + isqrt(rest)) // 2
        return Product(batches, rows, both - rows, length)
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
        if found := pattern.search(kernel):
            step = found.groupdict().get("k")
            sides = int(found["a"]), int(found["b"]), int(step or _USUAL_STEP)
            return Tile(*sides) if all(sides) else None
    return None


def padded_flop(product: Product, tile: Tile, splits: int = 1) -> float:
    """FLOP of whole tiles, the sums in ``splits`` parts that are padded each.

    cuBLAS counts in columns first: the tile's first side is along them.
    """
    columns = ceil(product.columns / tile.first) * tile.first
    rows = ceil(product.rows / tile.second) * tile.second
    length = ceil(product.length / splits / tile.step) * tile.step * splits
    return 2.0 * product.batches * rows * columns * length


def splits_of(product: Product, tile: Tile, grid: tuple[int, int, int]) -> int | None:
    """In how many parts a grid of blocks splits the sums; None where the grid does not fit.

    Blocks may be in any order: one for each tile and part.
    """
    n_tiles = ceil(product.columns / tile.first) * ceil(product.rows / tile.second)
    splits, left = divmod(grid[0] * grid[1] * grid[2], n_tiles * product.batches)
    return splits if left == 0 and splits >= 1 else None


def nearest_padding(
    product: Product, tile: Tile, grid: tuple[int, int, int] | None, counted: float, most: int
) -> float:
    """FLOP of whole tiles as the grid splits the sums; without one, the nearest to ``counted`` of
    up to ``most`` parts."""
    known = None if grid is None else splits_of(product, tile, grid)
    tried = [known] if known else range(1, most + 1)
    return min(
        (padded_flop(product, tile, splits) for splits in tried), key=lambda f: abs(f - counted)
    )
