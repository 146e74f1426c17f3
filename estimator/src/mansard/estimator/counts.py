"""What one node counts, as values that add up over its runs."""

from __future__ import annotations

import msgspec

from mansard.estimator.cost import NOTHING, Cost


class Moved(msgspec.Struct, frozen=True, gc=False):
    """The traffic of a fused group, at the node that heads it.

    ``group`` is that node's index; the others of a group move nothing themselves.
    """

    group: int
    read_bytes: int = 0
    write_bytes: int = 0


class Forward(msgspec.Struct, frozen=True, gc=False):
    """What an inference pass costs every node that is alike; ``input_bytes`` with weights."""

    cost: Cost
    input_bytes: int
    output_bytes: int


class Counts(msgspec.Struct, frozen=True, gc=False):
    """The counts of a node: ``forward``, ``backward`` and ``update`` apart."""

    forward: Cost = NOTHING
    backward: Cost = NOTHING
    update: Cost = NOTHING
    input_bytes: int = 0
    output_bytes: int = 0

    @property
    def total(self) -> Cost:
        if self.backward is NOTHING and self.update is NOTHING:
            return self.forward
        return self.forward + self.backward + self.update

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.forward + other.forward,
            self.backward + other.backward,
            self.update + other.update,
            self.input_bytes + other.input_bytes,
            self.output_bytes + other.output_bytes,
        )

    def times(self, runs: int) -> Counts:
        """The same node ``runs`` times over; its weights are still updated once."""
        return Counts(
            self.forward * runs,
            self.backward * runs,
            self.update,
            self.input_bytes * runs,
            self.output_bytes * runs,
        )
