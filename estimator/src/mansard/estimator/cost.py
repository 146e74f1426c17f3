"""Work and traffic as values that add up."""

from __future__ import annotations

import msgspec

FLOP_PER_MAC = 2  # one multiplication and one addition
FLOP_PER_FUNCTION = 1  # exp, log, tanh, erf, sqrt, … : counted apart, weighed as one operation


class Cost(msgspec.Struct, frozen=True, gc=False):
    """The cost of one node. Costs are added field by field; ``Cost()`` is zero.

    ``macs``: multiply-adds of convolutions, matrix products, recurrent layers and
    attention; nothing else counts here. ``simple``: single additions,
    multiplications, divisions, comparisons and the like, biases among them.
    ``functions``: evaluations of a function such as exp or sqrt.
    ``read_bytes`` and ``write_bytes``: each distinct tensor once.
    """

    macs: int = 0
    simple: int = 0
    functions: int = 0
    read_bytes: int = 0
    write_bytes: int = 0

    @property
    def multiply_add_flop(self) -> int:
        """Work of the multiply-adds only."""
        return FLOP_PER_MAC * self.macs

    @property
    def work_flop(self) -> int:
        """All work: 2 FLOP a multiply-add, 1 for everything else."""
        return FLOP_PER_MAC * self.macs + self.simple + FLOP_PER_FUNCTION * self.functions

    @property
    def traffic_bytes(self) -> int:
        return self.read_bytes + self.write_bytes

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.macs + other.macs,
            self.simple + other.simple,
            self.functions + other.functions,
            self.read_bytes + other.read_bytes,
            self.write_bytes + other.write_bytes,
        )

    def __mul__(self, times: int) -> Cost:
        """The cost of ``times`` such nodes."""
        return Cost(
            self.macs * times,
            self.simple * times,
            self.functions * times,
            self.read_bytes * times,
            self.write_bytes * times,
        )

    __rmul__ = __mul__


NOTHING = Cost()


class GroupTraffic(msgspec.Struct, frozen=True, gc=False):
    """The traffic of a fused group, at the node that heads it.

    ``group`` is that node's index; the others of a group move nothing themselves.
    """

    group: int
    read_bytes: int = 0
    write_bytes: int = 0


class Forward(msgspec.Struct, frozen=True, gc=False):
    """The cost of one inference pass of a node, shared by all nodes that are alike.

    ``input_bytes`` includes weights.
    """

    cost: Cost
    input_bytes: int
    output_bytes: int


class Counts(msgspec.Struct, frozen=True, gc=False):
    """The counts of a node, separately for ``forward``, ``backward`` and ``update``."""

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
        """The counts of ``runs`` runs of the node; its weights are still updated once."""
        return Counts(
            self.forward * runs,
            self.backward * runs,
            self.update,
            self.input_bytes * runs,
            self.output_bytes * runs,
        )
