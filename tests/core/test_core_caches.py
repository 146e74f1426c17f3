"""Which working sets run from which cache."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.caches import level_windows
from mansard.core.records import Cache

KIB, MIB = 1024, 1024**2


def cache(level: int, size_bytes: int, sharers: int = 1, n_instances: int = 1) -> Cache:
    return Cache(
        level=level,
        size_bytes=size_bytes,
        line_bytes=64,
        shared_cpus=tuple(range(sharers)),
        n_instances=n_instances,
    )


def test_wide_levels_keep_clear_of_their_neighbours() -> None:
    first, second = level_windows([cache(1, 32 * KIB), cache(2, 1 * MIB)], (0,))
    assert (first.low_bytes, first.high_bytes) == (0, 24 * KIB)  # 0.75 × 32 KiB
    assert (second.low_bytes, second.high_bytes) == (48 * KIB, 768 * KIB)  # 1.5 × 32, 0.75 × 1024


def test_a_narrow_level_keeps_its_middle() -> None:
    # AGX Orin with all 12 cores: 12 × 256 KiB = 3 MiB of L2, 3 × 2 MiB = 6 MiB of L3.
    caches = [cache(2, 256 * KIB, 1, 12), cache(3, 2 * MIB, 4, 3)]
    _, third = level_windows(caches, tuple(range(12)))
    middle = math.sqrt(18) * MIB
    assert third.low_bytes == pytest.approx(middle / 1.1)
    assert third.high_bytes == pytest.approx(middle * 1.1)


def test_a_level_no_larger_than_those_below_has_no_window() -> None:
    _, second = level_windows([cache(1, 1 * MIB), cache(2, 1 * MIB)], (0,))
    assert second.high_bytes < second.low_bytes


@given(st.lists(st.integers(4 * KIB, 512 * MIB), min_size=1, max_size=4))
def test_windows_never_overlap(sizes: list[int]) -> None:
    caches = [cache(level, size) for level, size in enumerate(sorted(sizes), start=1)]
    windows = level_windows(caches, (0,))
    valid = [window for window in windows if window.low_bytes < window.high_bytes]
    for near, far in pairwise(valid):
        assert near.high_bytes <= far.low_bytes * (1 + 1e-9)
    for window in valid:
        assert window.high_bytes <= window.capacity_bytes * (1 + 1e-9)
