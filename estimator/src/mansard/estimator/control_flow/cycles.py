"""What a Loop or Scan does, and what it has done so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mansard.estimator.control_flow.course import UndecidedError, UnknownTripsError
from mansard.estimator.control_flow.frames import Frame, Ran, at_least, run_graph
from mansard.estimator.control_flow.likeness import same_nodes
from mansard.estimator.tensors import Origin, Pass, Tensor

Tensors = tuple[Tensor, ...]
Runs = list[tuple[Tensor, int]]  # tensors in a row, and how often each


class Cycle(msgspec.Struct, frozen=True, eq=False):
    """What a Loop or a Scan does, free of their differences.

    The graph takes ``fresh`` tensors, other ones in each iteration, and the ``state`` that
    the iteration before handed on (the state first if ``is_state_first``); ``anything``
    stands for the fresh tensors of any iteration. It writes the next state, then
    tensors to be collected. ``limit``: iterations at most. With ``has_condition`` the
    state's first tensor tells whether there is another iteration; where it depends on
    data, ``trips`` must be given, and ``ask`` is the error if it is not.
    """

    frame: Frame
    state: Tensors
    fresh: Callable[[int], Tensors]
    anything: Tensors
    is_state_first: bool
    limit: int | None
    has_condition: bool = False
    is_limit_open: bool = False
    trips: int | None = None
    ask: Callable[[], UnknownTripsError] | None = None

    def inputs(self, fresh: Tensors, state: Tensors) -> Tensors:
        """The graph's inputs in their order."""
        return out_of_rounds(state + fresh if self.is_state_first else fresh + state)

    def first_state(self) -> Tensors:
        """What the first iteration gets; a state that changes is no weight."""
        graph = self.frame.graph
        first = 0 if self.is_state_first else len(self.anything)
        own = [source.name for source in graph.inputs[first:]]
        copied = {name: name for name in own}
        for node in graph.nodes:
            if node.op_type == "Identity" and node.inputs and node.inputs[0] in copied:
                copied.update(dict.fromkeys(node.outputs, copied[node.inputs[0]]))
        kept = {
            position
            for position, (name, output) in enumerate(zip(own, graph.outputs, strict=False))
            if copied.get(output.name) == name
        }
        return out_of_rounds(
            tensor if i in kept else msgspec.structs.replace(tensor, weights=())
            for i, tensor in enumerate(self.state)
        )


def run_round(cycle: Cycle, frame: Frame, fresh: Tensors, state: Tensors) -> Ran:
    """One iteration, in the cycle's frame or one like it; raises ModelError as its nodes do."""
    ran = run_graph(frame, cycle.inputs(fresh, state))
    return Ran(ran.nodes, out_of_rounds(ran.outputs))


def out_of_rounds(tensors: Iterable[Tensor]) -> Tensors:
    """What an iteration gets or hands on: known or not, nobody computes it beforehand."""
    return tuple(at_least(tensor, Origin.ROUNDS) for tensor in tensors)


class History:
    """What has run so far: passes, the state, and what was collected, by output."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.done = 0
        self.state = cycle.first_state()
        self.passes: list[Pass] = []
        self.collected: list[Runs] = []
        self.is_open = cycle.is_limit_open  # whether data decides how often it runs
        self.origin = Origin.DATA if cycle.is_limit_open else Origin.FILE

    @property
    def limit(self) -> int | None:
        return self.cycle.trips if self.is_open else self.cycle.limit

    def goes_on(self) -> bool:
        """Whether there is another iteration; raises ModelError where nobody can tell."""
        if self.cycle.has_condition:
            condition = self.state[0]
            self.origin = max(self.origin, condition.origin)
            if condition.value is None:
                self._check_open(condition)
                self.is_open = True
            elif not condition.value.first:
                return False
        if self.is_open and self.cycle.trips is None:
            assert self.cycle.ask is not None  # noqa: S101
            raise self.cycle.ask()
        return self.limit is None or self.done < self.limit

    def _check_open(self, condition: Tensor) -> None:
        # What a counter of an outer loop decides differs between its iterations.
        node = self.cycle.frame.node
        if self.cycle.frame.course.is_proof and condition.origin is not Origin.DATA:
            raise UndecidedError("its condition changes", where=node.label)

    def add(self, ran: Ran, times: int = 1) -> None:
        """Append ``times`` iterations that look like ``ran``."""
        if self.passes and same_nodes(self.passes[-1].nodes, ran.nodes):
            self.passes[-1] = Pass(self.passes[-1].nodes, self.passes[-1].times + times)
        else:
            self.passes.append(Pass(ran.nodes, times))
        n_state = len(self.state)
        self.state = ran.outputs[:n_state]
        self.collect(ran.outputs[n_state:], times)
        self.done += times

    def collect(self, outputs: Tensors, times: int) -> None:
        """Append to what is collected."""
        if not self.collected:
            self.collected = [[] for _ in outputs]
        for runs, output in zip(self.collected, outputs, strict=True):
            runs.append((output, times))
