"""The trials of a CPU: chains, and streams over working sets that its caches decide."""

from __future__ import annotations

import math

from mansard.core.caches import capacity_bytes, level_windows
from mansard.core.records import MachineIdentity
from mansard.microbench.kernel import FMA_PER_ELEMENT, Stores, TrialSpec, cpu_kernels

_KIB, _MIB = 1024, 1024**2
# Only for a machine that does not describe its caches: from below any L1 we know of
# (32 KiB and more) to beyond any last cache of an embedded processor.
_UNKNOWN_FIRST_BYTES = 16 * _KIB
_UNKNOWN_LAST_BYTES = 256 * _MIB
# A stream needs its arrays twice at most; more than this share of memory risks swapping.
_MEMORY_SHARE = 0.25
STREAM_PRECISION = "fp32"  # a load moves bytes; the type of its elements does not matter
POINTS_PER_OCTAVE = {"brief": 0, "quick": 1, "full": 4}  # 0: one working set a memory level
BRIEF_FMA = (1, 16, 256)  # bound by memory, near the ridge, bound by compute


def cpu_trials(machine: MachineIdentity, cpus: tuple[int, ...], profile: str) -> list[TrialSpec]:
    """The trials of a profile, chains first."""
    return [*_chain_trials(machine, cpus, profile), *_stream_trials(machine, cpus, profile)]


def _chain_trials(machine: MachineIdentity, cpus: tuple[int, ...], profile: str) -> list[TrialSpec]:
    working_set_bytes = fma_working_set(machine, cpus)
    return [
        TrialSpec(
            kernel=kernel.name,
            backend="numba-cpu",
            precision=precision,
            working_set_bytes=working_set_bytes,
            fma_per_element=n_fma,
            stores=None,
            unknown={"stores": "the fma kernel stores in one way only"},
        )
        for kernel in cpu_kernels()
        if kernel.family == "fma"
        for precision in kernel.precisions
        for n_fma in (BRIEF_FMA if profile == "brief" else FMA_PER_ELEMENT)
    ]


def _stream_trials(
    machine: MachineIdentity, cpus: tuple[int, ...], profile: str
) -> list[TrialSpec]:
    last_level = max((cache.level for cache in machine.caches), default=0)
    last_cache_bytes = cache_capacity_bytes(machine, cpus, last_level)
    trials = []
    for size in stream_working_sets(machine, cpus, POINTS_PER_OCTAVE[profile]):
        for kernel in cpu_kernels():
            if kernel.family != "stream" or (profile == "brief" and not kernel.is_brief):
                continue
            stores = choose_stores(size, last_cache_bytes) if kernel.has_stores else None
            unknown = {"fma_per_element": "a stream has no chain of FMA"}
            if stores is None:
                unknown["stores"] = f"the {kernel.name} kernel has no variants of stores"
            trials.append(
                TrialSpec(
                    kernel=kernel.name,
                    backend="numba-cpu",
                    precision=STREAM_PRECISION,
                    working_set_bytes=size,
                    fma_per_element=None,
                    stores=stores,
                    unknown=unknown,
                )
            )
    return trials


def cache_capacity_bytes(machine: MachineIdentity, cpus: tuple[int, ...], level: int) -> int | None:
    """Capacity of one level over the instances that ``cpus`` use; None if not described."""
    for cache in machine.caches:
        if cache.level == level:
            return capacity_bytes(cache, cpus)
    return None


def stream_working_sets(
    machine: MachineIdentity, cpus: tuple[int, ...], points_per_octave: int
) -> tuple[int, ...]:
    """Working sets over all threads in bytes, from half of L1 to four times the last cache.

    Sizes grow by equal ratios, the last step apart, with one more for a cache level that
    they would step over, and are whole multiples of 4 KiB per thread, so that every array
    of every kernel stays aligned and none is empty. With 0 points an octave there is one
    for each cache level and one for main memory.
    """
    first = cache_capacity_bytes(machine, cpus, 1)
    last = cache_capacity_bytes(machine, cpus, max((c.level for c in machine.caches), default=0))
    start = first / 2 if first else float(_UNKNOWN_FIRST_BYTES * len(cpus))
    end = 4.0 * last if last else float(_UNKNOWN_LAST_BYTES)
    if machine.memory_bytes is not None:
        end = min(end, machine.memory_bytes * _MEMORY_SHARE)
    sizes = []
    size = start
    while points_per_octave and size < end * 0.999:  # the last point must not be in twice
        sizes.append(_round_to_pages(size, len(cpus)))
        size *= 2 ** (1 / points_per_octave)
    # The end is always one of the points: the last power of two may lie at only twice the
    # last cache, where much of the set still is in it.
    sizes.append(_round_to_pages(end, len(cpus)))
    sizes += _level_middles(machine, cpus, sizes)
    return tuple(sorted(set(sizes)))


def _level_middles(machine: MachineIdentity, cpus: tuple[int, ...], sizes: list[int]) -> list[int]:
    """A size in the middle of each cache level that none of ``sizes`` falls into."""
    return [
        # For the first level, whose window starts at 0: half of its capacity.
        _round_to_pages(
            math.sqrt(window.low_bytes * window.high_bytes) or window.capacity_bytes / 2, len(cpus)
        )
        for window in level_windows(machine.caches, cpus)
        if window.low_bytes < window.high_bytes
        and not any(window.low_bytes < size <= window.high_bytes for size in sizes)
    ]


def fma_working_set(machine: MachineIdentity, cpus: tuple[int, ...]) -> int:
    """Half of L1 over all threads, so that the chains' operands never wait for L2."""
    first = cache_capacity_bytes(machine, cpus, 1)
    half = first / 2 if first else float(_UNKNOWN_FIRST_BYTES * len(cpus))
    return _round_to_pages(half, len(cpus))


def _round_to_pages(size: float, n_threads: int) -> int:
    unit = 4 * _KIB * n_threads
    return max(1, round(size / unit)) * unit


def choose_stores(working_set_bytes: int, last_cache_bytes: int | None) -> Stores:
    """The stores with the highest rate on a working set of this size.

    Both sizes are over all threads that share the last cache. What is stored in a
    working set larger than the last cache is evicted before it is read again, so
    storing past the caches saves loading each line first (write-allocate). Within
    the cache a non-temporal store would push the line out to memory. Unknown
    cache sizes give plain stores.
    """
    if last_cache_bytes is None:
        return "plain"
    return "nontemporal" if working_set_bytes > last_cache_bytes else "plain"
