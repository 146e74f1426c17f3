"""Which working sets a sweep of a GPU visits: some for every level of its memory.

The levels' windows are core/caches.py's, which the analysis goes by too.
"""

from __future__ import annotations

from dataclasses import dataclass

from mansard.core.caches import (
    UPPER_MARGIN,
    LevelWindow,
    dram_low_bytes,
    gpu_level_windows,
    scope_of,
)
from mansard.core.precision import parse_precision
from mansard.core.records import Gpu, Scope

_KIB, _MIB = 1 << 10, 1 << 20
# Of the L2: half of it is the middle of what runs from it; 16 times it leaves a margin of two
# to where main memory begins, and a sweep lasts long against what its ends cost.
_DRAM_SETS = 16
_DRAM_LEAST_BYTES = 64 * _MIB
_UNKNOWN_L2_BYTES = 64 * _MIB  # more than any card has but the largest
_MEMORY_SHARE = 0.25  # of the card's: all arrays of a trial together
# What one round of an SM's threads sweeps (shaping.py): scope gpu 1024, 512 or 256 threads with
# four vectors of 16 bytes in each, scope sm 512. Sets are whole rounds, as large ones as fit.
_ROUNDS = {"gpu": (64 * _KIB, 32 * _KIB, 16 * _KIB), "sm": (32 * _KIB,)}
# One thread steps through lines of 128 bytes; some ten thousand take no room on any host.
_LATENCY_LEAST_BYTES = 16 * _KIB
_LATENCY_DRAM_SETS = 9  # of L2: just beyond where main memory begins, for the host makes the order
_LINE_BYTES = 128
# A product lasts about so long at its limit: long against a launch, short enough for many
# samples; the sides are whole tiles of any of cuBLAS's kernels.
_GEMM_S = 0.003
_GEMM_STEP, _GEMM_MOST = 256, 8192
_GUESSED_HZ = 1e9


@dataclass(frozen=True)
class Sized:
    """A working set and what sweeps it."""

    scope: Scope
    n_bytes: int


def chain_set(gpu: Gpu) -> Sized:
    """What chains of FMA run on: one round of every thread, which L2 holds."""
    wanted = _ROUNDS["gpu"][0] * gpu.n_sms
    if gpu.l2_bytes is not None:
        wanted = min(wanted, int(UPPER_MARGIN * gpu.l2_bytes))
    return Sized("gpu", _whole(wanted, "gpu", gpu.n_sms))


def level_sets(gpu: Gpu) -> tuple[Sized, ...]:
    """One for every cache level that is known and that whole rounds fit into."""
    sets = []
    for window in gpu_level_windows(gpu.l1_bytes, gpu.l2_bytes, gpu.n_sms):
        scope = scope_of(window.level)
        one = Sized(scope, _whole(_inside(window), scope, gpu.n_sms))
        if window.low_bytes < one.n_bytes <= window.high_bytes:
            sets.append(one)
    return tuple(sets)


def memory_set(gpu: Gpu) -> Sized | None:
    """A working set of main memory; None where the memory is too small for one."""
    l2_bytes = gpu.l2_bytes or _UNKNOWN_L2_BYTES
    size = max(_DRAM_SETS * l2_bytes, _DRAM_LEAST_BYTES)
    if gpu.memory_bytes is not None:
        size = min(size, int(gpu.memory_bytes * _MEMORY_SHARE))
    one = Sized("gpu", _whole(size, "gpu", gpu.n_sms))
    return one if one.n_bytes > dram_low_bytes(l2_bytes) else None


def stream_sets(gpu: Gpu, points_per_octave: int) -> tuple[Sized, ...]:
    """Working sets of the streams: the levels' own, and with points between, a sweep.

    With 0 points an octave there is one for each level.
    """
    sets = list(level_sets(gpu))
    largest = memory_set(gpu)
    if largest is not None:
        sets.append(largest)
    for window in gpu_level_windows(gpu.l1_bytes, gpu.l2_bytes, gpu.n_sms):
        scope = scope_of(window.level)
        end = window.high_bytes
        if window.level > 1 and largest is not None:
            end = largest.n_bytes * 0.75  # the largest is there already
        for size in _ladder(_ROUNDS[scope][-1] * gpu.n_sms, end, points_per_octave):
            sets.append(Sized(scope, _whole(size, scope, gpu.n_sms)))
    return _in_order(sets)


def latency_sets(gpu: Gpu, points_per_octave: int) -> tuple[Sized, ...]:
    """Working sets of one thread: L1 of its SM, L2, main memory, and with points between."""
    sets = [
        Sized(scope_of(window.level), _whole_lines(_inside(window)))
        for window in gpu_level_windows(gpu.l1_bytes, gpu.l2_bytes, 1)
        if window.low_bytes < window.high_bytes
    ]
    beyond = _LATENCY_DRAM_SETS * (gpu.l2_bytes or _UNKNOWN_L2_BYTES)
    if gpu.memory_bytes is None or beyond <= gpu.memory_bytes * _MEMORY_SHARE:
        sets.append(Sized("gpu", _whole_lines(beyond)))
    for size in _ladder(_LATENCY_LEAST_BYTES, beyond * 0.75, points_per_octave):
        sets.append(Sized("gpu", _whole_lines(size)))
    return _in_order(sets)


def gemm_set(gpu: Gpu, precision: str, flop_per_cycle: int | None) -> Sized | None:
    """Three square matrices whose product lasts about 3 ms; None: too large for memory.

    Where the limit is not known, that of an SM of 64 multiply-adds a cycle stands in.
    """
    rate = gpu.n_sms * (flop_per_cycle or 128) * (gpu.gpu_hz or _GUESSED_HZ)
    side = (rate * _GEMM_S / 2) ** (1 / 3)  # 2·n³ FLOP
    n = int(min(max(side // _GEMM_STEP, 1) * _GEMM_STEP, _GEMM_MOST))
    n_bytes = gemm_bytes(precision, n)
    if gpu.memory_bytes is not None and n_bytes > gpu.memory_bytes * _MEMORY_SHARE:
        return None
    return Sized("gpu", n_bytes)


def gemm_bytes(precision: str, n: int) -> int:
    """Two operands and a result of n × n; products of int8 are summed in 32 bits."""
    operand = parse_precision(precision).n_bits // 8
    result = 4 if precision == "int8" else operand
    return n * n * (2 * operand + result)


def _inside(window: LevelWindow) -> float:
    """Half of a level's capacity; the geometric middle where that lies below its window."""
    half = window.capacity_bytes / 2
    return half if half > window.low_bytes else (window.low_bytes * window.high_bytes) ** 0.5


def _ladder(first: float, end: float, points_per_octave: int) -> list[float]:
    """Sizes by equal ratios; none with 0 points an octave."""
    sizes = []
    size = float(first)
    while points_per_octave and size <= end:
        sizes.append(size)
        size *= 2 ** (1 / points_per_octave)
    return sizes


def _in_order(sets: list[Sized]) -> tuple[Sized, ...]:
    return tuple(sorted(set(sets), key=lambda one: (one.scope != "sm", one.n_bytes)))


def _whole(size: float, scope: Scope, n_sms: int) -> int:
    """Rounded down to whole rounds, of as many threads as there are bytes for; at least one."""
    units = [n_bytes * n_sms for n_bytes in _ROUNDS[scope]]
    unit = next((unit for unit in units if unit <= size), units[-1])
    return max(1, int(size // unit)) * unit


def _whole_lines(size: float) -> int:
    return int(size // _LINE_BYTES) * _LINE_BYTES
