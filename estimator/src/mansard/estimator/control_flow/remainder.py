"""The iterations that are known to look alike: how many they are, and what they end with."""

from __future__ import annotations

from collections.abc import Mapping

from mansard.estimator.control_flow.cycles import History, out_of_rounds
from mansard.estimator.control_flow.frames import Ran, enter
from mansard.estimator.control_flow.slices import Part, slice_graph
from mansard.estimator.sequences import same_value
from mansard.estimator.tensors import Pass, Tensor

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
        cycle.frame.course.place(part.nodes, tensors, cycle.frame.course)
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
