"""Running a graph again and again: each iteration once, or many that are alike at once.

Iterations are placed one by one with their real values, and summed up as they are. As
soon as it is proven that all that follow look like the last one, they become one pass:
the body is placed once more with everything that changes between iterations taken for
unknown (the iteration's number, counters); if no shape needs it and the tensors handed
on look as before, this holds for every iteration to come, by induction.
"""

from __future__ import annotations

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator.control_flow.cycles import Cycle, History, Tensors, run_round
from mansard.estimator.control_flow.frames import Ran
from mansard.estimator.control_flow.likeness import same_nodes, widened
from mansard.estimator.control_flow.remainder import run_rest
from mansard.estimator.sequences import same_spec, same_value

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
    course = msgspec.structs.replace(cycle.frame.course, is_proof=True, notes={}, used=set())
    frame = msgspec.structs.replace(cycle.frame, course=course)
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
