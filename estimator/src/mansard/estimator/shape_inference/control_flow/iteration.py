"""The iterations of a Loop or Scan: each by itself, or many equal ones at once.

``iterate`` infers one iteration after the other, with their real values. As soon as
``prove`` shows that all later ones are like the last one, they become one pass. The proof
infers the graph once more with everything that changes between iterations (its number,
counters) taken for unknown: if no shape needs it, and the tensors handed on are as before,
this holds for all later iterations, by induction. ``run_rest`` then computes only how
many they are, and the values that they end with (``slice_graph``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator.model import ModelNode
from mansard.estimator.shape_inference.context import UndecidedError, UnknownTripsError
from mansard.estimator.shape_inference.control_flow.subgraphs import (
    GraphRun,
    InnerGraph,
    at_least,
)
from mansard.estimator.shape_inference.sequences import same_spec, same_value, without_value
from mansard.estimator.tensors import Body, Node, Origin, Pass, Tensor

Tensors = tuple[Tensor, ...]
Runs = list[tuple[Tensor, int]]  # one output of all iterations, and how often each
Row = Mapping[int, Tensor]  # some of an iteration's outputs, by position
# Nodes that are computed for values alone, where the number of iterations is known without
# them: beyond this the values that counters end with are left unknown.
_MAX_VALUE_NODES = 20_000
_MAX_PROOFS = 3  # each leaves out the values that changed in the one before


class Cycle(msgspec.Struct, frozen=True, eq=False):
    """What a Loop or a Scan does, free of their differences.

    The graph takes ``fresh`` tensors, other ones in each iteration, and the ``state`` that
    the iteration before handed on (the state first if ``is_state_first``); ``anything``
    stands for the fresh tensors of any iteration. It writes the next state, then
    tensors to be collected. ``limit``: iterations at most. With ``has_condition`` the
    state's first tensor decides whether there is another iteration; where it depends on
    data, ``trips`` must be given, and ``trips_error`` is the error if it is not.
    """

    inner: InnerGraph
    state: Tensors
    fresh: Callable[[int], Tensors]
    anything: Tensors
    is_state_first: bool
    limit: int | None
    has_condition: bool = False
    is_limit_open: bool = False
    trips: int | None = None
    trips_error: Callable[[], UnknownTripsError] | None = None

    def inputs(self, fresh: Tensors, state: Tensors) -> Tensors:
        """The graph's inputs in their order."""
        return from_iterations(state + fresh if self.is_state_first else fresh + state)

    def first_state(self) -> Tensors:
        """What the first iteration gets; a state that changes is no weight."""
        graph = self.inner.graph
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
        return from_iterations(
            tensor if i in kept else msgspec.structs.replace(tensor, weights=())
            for i, tensor in enumerate(self.state)
        )


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
        """Whether there is another iteration; raises ModelError where that is unknown."""
        if self.cycle.has_condition:
            condition, inner = self.state[0], self.cycle.inner
            self.origin = max(self.origin, condition.origin)
            if condition.value is None:
                # What a counter of an outer loop decides differs between its iterations.
                if inner.context.is_proof and condition.origin is not Origin.DATA:
                    raise UndecidedError("its condition changes", where=inner.node.label)
                self.is_open = True
            elif not condition.value.first:
                return False
        if self.is_open and self.cycle.trips is None:
            assert self.cycle.trips_error is not None  # noqa: S101
            raise self.cycle.trips_error()
        return self.limit is None or self.done < self.limit

    def add(self, ran: GraphRun, times: int = 1) -> None:
        """Append ``times`` iterations that are like ``ran``."""
        if self.passes and same_nodes(self.passes[-1].nodes, ran.nodes):
            self.passes[-1] = Pass(self.passes[-1].nodes, self.passes[-1].times + times)
        else:
            self.passes.append(Pass(ran.nodes, times))
        n_state = len(self.state)
        self.state = ran.outputs[:n_state]
        outputs = ran.outputs[n_state:]
        self.collected = self.collected or [[] for _ in outputs]
        for runs, output in zip(self.collected, outputs, strict=True):
            runs.append((output, times))
        self.done += times


def iterate(cycle: Cycle) -> History:
    """All iterations; raises ModelError, also where they are too many and all differ."""
    history = History(cycle)
    next_proof = 1
    while history.goes_on():
        before = history.state
        ran = run_iteration(cycle, cycle.inner, cycle.fresh(history.done), before)
        n_outputs = len(ran.outputs)
        if n_outputs < len(before):
            raise cycle.inner.node.error(f"its graph writes {n_outputs} outputs, too few")
        history.add(ran)
        is_last = history.limit is not None and history.limit - history.done < 2
        if history.done < next_proof or is_last:
            continue
        proof = prove(cycle, before, ran)
        if proof is not None and history.goes_on():
            run_rest(history, ran, proof)
            break
        # Shapes may settle later; a proof costs as much as an iteration.
        next_proof = 2 * history.done + 1
    return history


def prove(cycle: Cycle, before: Tensors, ran: GraphRun) -> GraphRun | None:
    """Any later iteration, values that change left out; None where their shapes differ."""
    after = ran.outputs[: len(before)]
    if not all(map(same_spec, before, after)):
        return None
    inner = cycle.inner.aside(is_proof=True)
    state = _state(cycle, before, after)
    for _ in range(_MAX_PROOFS):
        try:
            proof = run_iteration(cycle, inner, cycle.anything, state)
        except MansardError:
            return None
        if not same_nodes(proof.nodes, ran.nodes):
            return None
        if not all(map(same_spec, ran.outputs, proof.outputs)):
            return None
        wider = _state(cycle, state, proof.outputs[: len(state)])
        if all(map(same_value, state, wider)):
            return proof
        state = wider
    return None


def _state(cycle: Cycle, one: Tensors, other: Tensors) -> Tensors:
    """The state with those values alone in which ``one`` and ``other`` agree."""
    pairs = zip(one, other, strict=True)
    state = [a if same_value(a, b) else without_value(a) for a, b in pairs]
    # An iteration that runs was allowed to: its condition was true.
    return (one[0], *state[1:]) if cycle.has_condition else tuple(state)


def run_iteration(cycle: Cycle, inner: InnerGraph, fresh: Tensors, state: Tensors) -> GraphRun:
    """One iteration, in the cycle's graph or its proof; raises ModelError as its nodes do."""
    ran = inner.run(cycle.inputs(fresh, state))
    return GraphRun(ran.nodes, from_iterations(ran.outputs))


def from_iterations(tensors: Iterable[Tensor]) -> Tensors:
    """Tensors that an iteration gets or hands on: no runtime computes them beforehand."""
    return tuple(at_least(tensor, Origin.ITERATIONS) for tensor in tensors)


def run_rest(history: History, ran: GraphRun, proof: GraphRun) -> None:
    """Add all further iterations, each of which is like ``ran`` by ``proof``.

    Only the condition that ends them, and values that change from one to the next, are
    computed for each. Raises ModelError where they never end or are too many.
    """
    cycle = history.cycle
    pairs = zip(ran.outputs, proof.outputs, strict=True)
    changing = [position for position, pair in enumerate(pairs) if not same_value(*pair)]
    is_counted = not cycle.has_condition or history.is_open or 0 not in changing
    if is_counted and history.limit is None:
        raise cycle.inner.node.error(
            "never ends: its condition stays true and it has no number of iterations",
            "the file is broken; export it again",
        )
    n_rest = None if not is_counted or history.limit is None else history.limit - history.done
    part = slice_graph(cycle, changing) if changing else None
    rows: list[Row] = []
    if part is not None and (
        n_rest is None or n_rest * max(len(part.nodes), 1) <= _MAX_VALUE_NODES
    ):
        rows = _compute(history, part)
        n_rest = len(rows)
    else:
        assert n_rest is not None  # noqa: S101
        history.done += n_rest
    _append(history, proof, rows, n_rest)


def _compute(history: History, part: GraphSlice) -> list[Row]:
    """The outputs of ``part`` in each further iteration."""
    cycle = history.cycle
    rows: list[Row] = []
    names = [output.name for output in cycle.inner.graph.outputs]
    while history.goes_on():
        inputs = cycle.inputs(cycle.fresh(history.done), history.state)
        tensors = cycle.inner.enter(inputs, len(part.nodes))
        cycle.inner.context.infer_nodes(part.nodes, tensors, cycle.inner.context)
        found = from_iterations(tensors[names[position]] for position in part.outputs)
        row = dict(zip(part.outputs, found, strict=True))
        rows.append(row)
        history.state = tuple(row.get(i, tensor) for i, tensor in enumerate(history.state))
        history.done += 1
    return rows


def _append(history: History, proof: GraphRun, rows: list[Row], n_rest: int) -> None:
    """Note what ``n_rest`` iterations did, which are counted as done already."""
    last = history.passes[-1]
    history.passes[-1] = Pass(last.nodes, last.times + n_rest)
    computed = rows[-1] if rows else {}
    n_state = len(history.state)
    history.state = tuple(computed.get(i, proof.outputs[i]) for i in range(n_state))
    for i, runs in enumerate(history.collected, n_state):
        if i in computed:
            runs.extend((row[i], 1) for row in rows)
        else:
            runs.append((proof.outputs[i], n_rest))


class GraphSlice(msgspec.Struct, frozen=True):
    """The part of a loop's graph that some of its outputs follow from.

    ``outputs`` are the positions of the outputs that ``nodes`` compute; ``leaves`` are the
    tensors that come from outside.
    """

    nodes: tuple[ModelNode, ...]
    outputs: frozenset[int]
    leaves: tuple[Tensor, ...]


def slice_graph(cycle: Cycle, wanted: Iterable[int]) -> GraphSlice:
    """What the outputs at ``wanted`` need, and what that needs of the iterations before."""
    graph = cycle.inner.graph
    writers = {name: node for node in graph.nodes for name in node.outputs if name}
    first = 0 if cycle.is_state_first else len(cycle.anything)
    own = graph.inputs[first : first + len(cycle.state)]
    state = {source.name: position for position, source in enumerate(own)}
    outputs = set(wanted)
    needed: dict[int, ModelNode] = {}
    leaves: dict[str, Tensor] = {}
    seen: set[str] = set()
    waiting = [graph.outputs[position].name for position in outputs]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in writers:
            node = writers[name]
            needed[node.index] = node
            waiting.extend(node.reads)
        elif name in state:
            position = state[name]
            outputs.add(position)
            leaves[name] = cycle.state[position]
            waiting.append(graph.outputs[position].name)
        elif name in cycle.inner.base:
            leaves[name] = cycle.inner.base[name]
    nodes = tuple(node for node in graph.nodes if node.index in needed)
    return GraphSlice(nodes, frozenset(outputs), tuple(leaves.values()))


def data_behind(cycle: Cycle, position: int) -> list[str]:
    """The tensors from outside that carry data into the output at ``position``."""
    leaves = slice_graph(cycle, [position]).leaves
    return sorted({tensor.name for tensor in leaves if tensor.origin is Origin.DATA})


def same_nodes(one: Sequence[Node], other: Sequence[Node]) -> bool:
    """Whether two runs of a graph did the same work; values may differ."""
    return one is other or (len(one) == len(other) and all(map(_same_node, one, other)))


def _same_node(one: Node, other: Node) -> bool:
    return (
        len(one.outputs) == len(other.outputs)
        and all(map(same_spec, one.outputs, other.outputs))
        and all(map(same_spec, one.present, other.present))
        and _same_bodies(one, other)
    )


def _same_bodies(one: Node, other: Node) -> bool:
    if not one.bodies and not other.bodies:
        return True
    # What is not executed is shown once, whatever it would be in another iteration.
    ours = [body for body in one.bodies if body.is_taken]
    theirs = [body for body in other.bodies if body.is_taken]
    return len(ours) == len(theirs) and all(map(_same_body, ours, theirs))


def _same_body(one: Body, other: Body) -> bool:
    if one.name != other.name:
        return False
    return len(one.passes) == len(other.passes) and all(
        each.times == its.times and same_nodes(each.nodes, its.nodes)
        for each, its in zip(one.passes, other.passes, strict=True)
    )
