"""Forks that close again: a tensor read in several places whose paths meet in one node.

That is how SiLU, GELU, Mish and HardSwish, softmax and the norms look when they are
written as several operators. No table of their spellings is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from mansard.estimator.fusion.storage import Storage
from mansard.estimator.fusion.wiring import Wiring

MAX_NODES = 32  # of a fork; a rotary embedding takes 8, a spelled-out norm 9, tanh-GELU 8
MAX_READERS = 8  # a tensor that more nodes read is no activation's


def closing_region(
    start: Storage, wiring: Wiring, is_fusible: Callable[[int], bool]
) -> list[int] | None:
    """The places of all nodes between ``start`` and where its paths have met, or None.

    Nodes are followed in the order they run; a fusible one has a single output. Nothing
    of the region but its last result may be read outside it.
    """
    if len(start.readers) > MAX_READERS:
        return None
    heap = sorted(start.readers)
    unread = {start: len(heap)}  # how many readers of each tensor are still to come
    region: list[int] = []
    while heap:
        place = heappop(heap)
        if region and place == region[-1]:
            continue
        if len(region) == MAX_NODES or not is_fusible(place):
            return None
        region.append(place)
        _count_off(unread, {part.storage for part in wiring.reads[place]})
        if not unread:
            return region
        made = wiring.writes[place][0].storage
        if made.is_kept or not made.readers:
            return None
        unread[made] = len(made.readers)
        for reader in made.readers:
            heappush(heap, reader)
    return None


def _count_off(unread: dict[Storage, int], read: set[Storage]) -> None:
    for storage in read & unread.keys():
        unread[storage] -= 1
        if not unread[storage]:
            del unread[storage]
