"""Fused traffic: each group of nodes that runs as one kernel reads and writes once.

Q = Σ over distinct inputs from outside + weights + what leaves the group. The bytes
stand at the group's heaviest node; its other nodes move nothing.
"""

from __future__ import annotations

from mansard.estimator.cost import Moved
from mansard.estimator.fusion import Fusion


def fused_traffic(fusion: Fusion) -> dict[int, Moved]:
    """What each node moves in one inference, by its index; all passes and runs added up.

    A node is missing where its group touches a tensor of unknown size or an operator
    without a formula.
    """
    moved: dict[int, Moved] = {}
    lost: set[int] = set()
    _add(fusion, 1, moved, lost)
    for index in lost:
        moved.pop(index, None)
    return moved


def _add(fusion: Fusion, runs: int, moved: dict[int, Moved], lost: set[int]) -> None:
    for index, head in fusion.idle.items():
        moved.setdefault(index, Moved(head))
    for group in fusion.groups:
        if not group.is_known:
            lost.update(group.indexes)
        head = group.head
        for index in group.indexes:
            if index != head:
                moved.setdefault(index, Moved(head))
        before = moved.get(head)
        if before is None:
            moved[head] = Moved(head, runs * group.read_bytes, runs * group.write_bytes)
        else:
            moved[head] = Moved(
                before.group,
                before.read_bytes + runs * group.read_bytes,
                before.write_bytes + runs * group.write_bytes,
            )
        for body in group.bodies:
            for each in body.passes:
                _add(each.fusion, runs * each.times, moved, lost)
