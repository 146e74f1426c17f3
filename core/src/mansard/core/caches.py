"""How much of each cache a set of pinned threads can use."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.core.records import Cache


def instances_used(cache: Cache, cpus: Sequence[int]) -> int:
    """How many instances of ``cache`` threads pinned to ``cpus`` use.

    The record names the CPUs of one instance; others are taken to hold as many of
    our CPUs as that one does.
    """
    n_in_first = sum(cpu in cache.shared_cpus for cpu in cpus)
    return min(cache.n_instances, math.ceil(len(cpus) / max(1, n_in_first)))


def capacity_bytes(cache: Cache, cpus: Sequence[int]) -> int:
    """Capacity of ``cache`` over the instances that ``cpus`` use, in bytes."""
    return cache.size_bytes * instances_used(cache, cpus)
