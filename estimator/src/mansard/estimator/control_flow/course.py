"""What is shared on one course through a network: options, the budget, and what is noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.given import Given
from mansard.estimator.looks import Looks
from mansard.estimator.model import Dimension, ModelNode
from mansard.estimator.tensors import Node, Tensor

# Nodes of graphs inside others that may be placed: bounds time (seconds) and memory
# (some hundred megabytes) where the shapes of a loop change from iteration to iteration.
MAX_PLACEMENTS = 150_000
_OVERHEAD = 4  # entering a graph takes as long as placing so many nodes

CostOf = Callable[[Sequence[Node]], tuple[int, int]]
Outer = Mapping[str, Tensor]


class Budget:
    """How many more nodes inside loops may be placed."""

    def __init__(self, left: int) -> None:
        self.left = left

    def enter(self, n_nodes: int, node: Node) -> None:
        """Pay for placing a graph of ``n_nodes``; see ``spend``."""
        self.spend(n_nodes + _OVERHEAD, node)

    def spend(self, n_nodes: int, node: Node) -> None:
        """Raises ModelError, which names the loop, where too little is left."""
        self.left -= n_nodes
        if self.left < 0:
            raise node.error(
                "runs too often to follow it iteration by iteration, and has to be followed "
                "because shapes, or what ends it, change from one to the next",
                "score its body as a network of its own, or fewer iterations",
            )


class Course(msgspec.Struct, frozen=True, eq=False):
    """One course through a network, or through a graph inside it.

    ``place`` gives shapes to the nodes of a graph and adds their outputs to the tensors.
    ``cost_of`` tells FLOP and bytes of a branch. ``declared`` are the dimensions that
    the file states for the network's outputs. ``notes`` are what a reader of the result
    should know, ``used`` the data-dependent dimensions that were filled in, ``looks``
    what nodes of one kind look like. ``scope`` is put before the names of stored tensors
    inside; ``loop`` is the innermost one. ``is_proof``: values that change from iteration
    to iteration are left out, and whatever would depend on them is a ModelError.
    """

    place: Callable[[Sequence[ModelNode], dict[str, Tensor], Course], tuple[Node, ...]]
    cost_of: CostOf
    given: Given
    declared: Mapping[str, tuple[Dimension, ...]]
    budget: Budget
    inputs: frozenset[str]  # of the network
    notes: dict[str, None]
    used: set[str]
    looks: Looks
    scope: str = ""
    loop: Node | None = None
    is_proof: bool = False


class UndecidedError(ModelError):
    """A proof needs a value that it left out."""


class UnknownTripsError(ModelError):
    """Nobody says how often a loop runs."""
