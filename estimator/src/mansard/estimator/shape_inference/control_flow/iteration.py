"""Running a graph again and again: each iteration once, or many that are alike at once.

Iterations are placed one by one with their real values, and summed up as they are. As
soon as it is proven that all that follow look like the last one, they become one pass:
the body is placed once more with everything that changes between iterations taken for
unknown (the iteration's number, counters); if no shape needs it and the tensors handed
on look as before, this holds for every iteration to come, by induction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator.model import ModelNode
from mansard.estimator.shape_inference.context import UndecidedError, UnknownTripsError
from mansard.estimator.shape_inference.control_flow.subgraphs import (
    Frame,
    Ran,
    at_least,
    enter,
    run_graph,
)
from mansard.estimator.shape_inference.sequences import same_spec, same_value, without_value
from mansard.estimator.tensors import Body, Node, Origin, Pass, Tensor

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
        if self.cycle.frame.context.is_proof and condition.origin is not Origin.DATA:
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


def widened(one: Tensor, other: Tensor) -> Tensor:
    """Two tensors of one look as one; its value is known only if they agree in it."""
    return one if same_value(one, other) else without_value(one)


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


class Part(msgspec.Struct, frozen=True):
    """``outputs`` are the positions of the outputs that ``nodes`` compute, those asked for
    among them; ``leaves`` are the tensors that come from outside."""

    nodes: tuple[ModelNode, ...]
    outputs: frozenset[int]
    leaves: tuple[Tensor, ...]


def slice_graph(cycle: Cycle, wanted: Iterable[int]) -> Part:
    """What the outputs at ``wanted`` need, and what that needs of the iterations before."""
    graph = cycle.frame.graph
    writers = {name: node for node in graph.nodes for name in node.outputs if name}
    first = 0 if cycle.is_state_first else len(cycle.anything)
    own = graph.inputs[first : first + len(cycle.state)]
    state = {source.name: position for position, source in enumerate(own)}
    outputs: set[int] = set()
    needed: dict[int, ModelNode] = {}
    leaves: dict[str, Tensor] = {}
    seen: set[str] = set()
    waiting = [graph.outputs[position].name for position in wanted]
    outputs.update(wanted)
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
        elif name in cycle.frame.base:
            leaves[name] = cycle.frame.base[name]
    nodes = tuple(node for node in graph.nodes if node.index in needed)
    return Part(nodes, frozenset(outputs), tuple(leaves.values()))


def data_behind(cycle: Cycle, position: int) -> list[str]:
    """The tensors from outside that carry data into the output at ``position``."""
    leaves = slice_graph(cycle, [position]).leaves
    return sorted({tensor.name for tensor in leaves if tensor.origin is Origin.DATA})


# Nodes that are computed for values alone, where the number of iterations is known without
# them: beyond this the values that counters end with are left unknown.
_MAX_FOR_VALUES = 20_000

Row = Mapping[int, Tensor]  # some of an iteration's outputs, by position


def run_rest(history: History, ran: Ran, proof: Ran) -> None:
    """Add all further iterations, each of which looks like ``ran`` by ``proof``.

    Only what tells how many they are, and values that change from one to the next, is
    computed for each. Raises ModelError where they never end or are too many.
    """
    cycle = history.cycle
    pairs = zip(ran.outputs, proof.outputs, strict=True)
    changing = [position for position, pair in enumerate(pairs) if not same_value(*pair)]
    is_counted = not cycle.has_condition or history.is_open or 0 not in changing
    if is_counted and history.limit is None:
        raise cycle.frame.node.error(
            "never ends: its condition stays true and it has no number of iterations",
            "the file is broken; export it again",
        )
    n_rest = None if not is_counted or history.limit is None else history.limit - history.done
    part = slice_graph(cycle, changing) if changing else None
    rows: list[Row] = []
    if part is not None and (n_rest is None or _is_cheap(part, n_rest)):
        rows = _compute(history, part)
        n_rest = len(rows)
    else:
        assert n_rest is not None  # noqa: S101
        history.done += n_rest
    _append(history, proof, rows, n_rest)


def _is_cheap(part: Part, n_rest: int) -> bool:
    return n_rest * max(len(part.nodes), 1) <= _MAX_FOR_VALUES


def _compute(history: History, part: Part) -> list[Row]:
    """The outputs of ``part`` in each further iteration."""
    cycle = history.cycle
    rows: list[Row] = []
    names = [output.name for output in cycle.frame.graph.outputs]
    while history.goes_on():
        inputs = cycle.inputs(cycle.fresh(history.done), history.state)
        tensors = enter(cycle.frame, inputs, len(part.nodes))
        cycle.frame.context.infer_nodes(part.nodes, tensors, cycle.frame.context)
        found = out_of_rounds(tensors[names[position]] for position in part.outputs)
        row = dict(zip(part.outputs, found, strict=True))
        rows.append(row)
        history.state = tuple(row.get(i, tensor) for i, tensor in enumerate(history.state))
        history.done += 1
    return rows


def _append(history: History, proof: Ran, rows: list[Row], n_rest: int) -> None:
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


_ROUNDS = 3  # of leaving out more values until a proof holds


def iterate(cycle: Cycle) -> History:
    """All iterations; raises ModelError, also where they are too many and all differ."""
    history = History(cycle)
    next_proof = 1
    while history.goes_on():
        before = history.state
        ran = run_round(cycle, cycle.frame, cycle.fresh(history.done), before)
        n_outputs = len(ran.outputs)
        if n_outputs < len(before):
            raise cycle.frame.node.error(f"its graph writes {n_outputs} outputs, too few")
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


def prove(cycle: Cycle, before: Tensors, ran: Ran) -> Ran | None:
    """Any later iteration, values that change left out; None where they do not look alike."""
    after = ran.outputs[: len(before)]
    if not all(map(same_spec, before, after)):
        return None
    context = msgspec.structs.replace(cycle.frame.context, is_proof=True, notes={}, used=set())
    frame = msgspec.structs.replace(cycle.frame, context=context)
    state = _state(cycle, before, after)
    for _ in range(_ROUNDS):
        try:
            proof = run_round(cycle, frame, cycle.anything, state)
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
    state = tuple(map(widened, one, other))
    # An iteration that runs was allowed to: its condition was true.
    return (one[0], *state[1:]) if cycle.has_condition else state
