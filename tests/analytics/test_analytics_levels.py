from __future__ import annotations

from itertools import pairwise

import msgspec

from mansard.analytics.models.roofs.ceilings import memory_levels
from mansard.core.caches import instances_used
from mansard.core.records import Cache
from tests.analytics.factory import KIB, MIB, machine


def test_capacities_count_the_instances_in_use() -> None:
    one = {level.name: level.capacity_bytes for level in memory_levels(machine(), (0,))}
    two = {level.name: level.capacity_bytes for level in memory_levels(machine(), (0, 1))}
    assert one == {"L1": 32 * KIB, "L2": MIB, "L3": 32 * MIB, "DRAM": None}
    # two private L1 and L2, one shared L3
    assert two == {"L1": 64 * KIB, "L2": 2 * MIB, "L3": 32 * MIB, "DRAM": None}


def test_windows_keep_clear_of_their_neighbours() -> None:
    levels = memory_levels(machine(), (0, 1))
    # L1: 0 to 0.75 × 64 KiB; L2: 1.5 × 64 KiB to 0.75 × 2 MiB; DRAM: from 3 × 32 MiB
    assert (levels[0].low_bytes, levels[0].high_bytes) == (0, 48 * KIB)
    assert (levels[1].low_bytes, levels[1].high_bytes) == (96 * KIB, 1.5 * MIB)
    assert (levels[3].low_bytes, levels[3].high_bytes) == (96 * MIB, None)


def test_windows_do_not_overlap() -> None:
    levels = memory_levels(machine(), (0, 1))
    for near, far in pairwise(levels):
        assert near.high_bytes is not None
        assert near.high_bytes < far.low_bytes


def test_instances_with_hyperthreads_and_clusters() -> None:
    private = Cache(level=1, size_bytes=1, line_bytes=64, shared_cpus=(0, 64), n_instances=64)
    assert instances_used(private, (0, 1)) == 2  # CPUs 0 and 1 have a cache each
    assert instances_used(private, tuple(range(128))) == 64  # two hyperthreads share each
    cluster = Cache(
        level=3, size_bytes=1, line_bytes=64, shared_cpus=tuple(range(8)), n_instances=2
    )
    assert instances_used(cluster, tuple(range(8))) == 1
    assert instances_used(cluster, tuple(range(12))) == 2  # 12 CPUs, 8 in each cluster
    assert instances_used(cluster, (8, 9)) == 2  # not in the first: counted from above


def test_no_caches_no_levels() -> None:
    bare = msgspec.structs.replace(machine(), caches=())
    assert memory_levels(bare, (0, 1)) == ()
