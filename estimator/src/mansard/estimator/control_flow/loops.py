"""Loop: as often as its number of iterations and its condition say.

Specification: https://onnx.ai/onnx/operators/onnx__Loop.html (versions 1, 11, 13 and later
differ in types only). The graph takes the iteration's number, the condition and the
tensors handed on; it writes the next condition, these tensors, and what is collected.
The condition it writes counts even where the Loop is given none, as in ONNX Runtime.
"""

from __future__ import annotations

from mansard.core.errors import UsageError
from mansard.estimator.control_flow.course import Course, Outer, UndecidedError, UnknownTripsError
from mansard.estimator.control_flow.cycles import Cycle, History
from mansard.estimator.control_flow.frames import given_out, names_in, names_out, open_graph
from mansard.estimator.control_flow.iteration import iterate
from mansard.estimator.control_flow.slices import data_behind
from mansard.estimator.control_flow.stacking import collected
from mansard.estimator.element_types import BOOL, FLOAT32, INT64
from mansard.estimator.numbers import hold
from mansard.estimator.tensors import Body, Node, Origin, Tensor

_BODY = "body"
_SHOWN = 3  # tensors that a condition depends on, in a message


def place_loop(
    node: Node, outer: Outer, course: Course
) -> tuple[tuple[Tensor, ...], tuple[Body, ...]]:
    """Outputs, and the body with its iterations; ``--trip`` tells what depends on data."""
    frame = open_graph(node, _BODY, outer, course)
    most = node.optional(0)
    condition = node.optional(1)
    if condition is None:
        condition = Tensor("", BOOL, (), Origin.FILE, hold(BOOL, (), (True,)))
    if any(tensor is None for tensor in node.inputs[2:]):
        raise node.error("an initial value is missing")
    carried = node.present[sum(map(node.has, (0, 1))) :]
    limit = _limit(node, most, course)
    cycle = Cycle(
        frame,
        (condition, *carried),
        lambda i: (_number(i),),
        (Tensor("", INT64, (), Origin.SHAPES),),
        is_state_first=False,
        limit=limit,
        has_condition=True,
        is_limit_open=most is not None and limit is None,
        trips=_trips(node, limit, course),
        ask=lambda: _ask(node, most, cycle),
    )
    try:
        history = iterate(cycle)
    except UnknownTripsError as error:
        # Its outputs are unknown; so is the loop itself, with all that is in it.
        reason = f"{error.what}: {error.fix}"
        return tuple(Tensor(name, FLOAT32, (), unknown=reason) for name in node.output_names), ()
    _check_trips(node, history)
    origin = max(history.origin, most.origin if most is not None else Origin.FILE)
    results = (*history.state[1:], *collected(history))
    body = Body(_BODY, names_in(frame), names_out(frame), tuple(history.passes))
    return given_out(node, results, origin), (body,)


def _number(i: int) -> Tensor:
    """The iteration's number, known although it is nowhere in the file."""
    return Tensor("", INT64, (), Origin.SHAPES, hold(INT64, (), (i,)))


def _limit(node: Node, most: Tensor | None, course: Course) -> int | None:
    """Iterations at most; None where there is no such number, or where it is unknown."""
    if most is None:
        return None
    if most.value is None:
        if course.is_proof and most.origin is not Origin.DATA:
            raise UndecidedError("its iterations differ in number", where=node.label)
        return None
    if most.value.n_elements != 1:
        raise node.error(f"its number of iterations has {most.value.n_elements} elements, not 1")
    return max(int(most.value.first), 0)


def _trips(node: Node, limit: int | None, course: Course) -> int | None:
    given = course.given.trips
    trips = next((given[name] for name in (node.name, *node.output_names) if name in given), None)
    if trips is not None and limit is not None and trips > limit:
        raise UsageError(f"loop {node.name!r} runs {limit} times at most, not {trips}")
    return trips


def _check_trips(node: Node, history: History) -> None:
    trips = history.cycle.trips
    if trips is not None and trips != history.done:
        raise UsageError(
            f"loop {node.name!r} runs {history.done} times, as its file says, not {trips}",
            fix=f"leave out --trip for {node.name!r}",
        )


def _ask(node: Node, most: Tensor | None, cycle: Cycle) -> UnknownTripsError:
    if cycle.is_limit_open and most is not None:
        why = f"its number of iterations, {most.name!r}, depends on data"
    else:
        sources = data_behind(cycle, 0)
        why = "its condition depends on data"
        if sources:
            more = " and others" if len(sources) > _SHOWN else ""
            why += f" ({', '.join(repr(name) for name in sources[:_SHOWN])}{more})"
    bound = f", at most {cycle.limit}" if cycle.limit is not None else ""
    what = f"{node.label}: how often it runs is unknown, {why}"
    return UnknownTripsError(what, fix=f"pass --trip '{node.name}=N'{bound}")
