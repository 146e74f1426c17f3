"""What the answer of hierarchical inference calls the best is so in the rows beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mansard.analytics.decisions.offload.records import (
    OBJECTIVES,
    Goal,
    Hierarchical,
    HiPoint,
    HiSettings,
    ModeCosts,
)
from mansard.analytics.decisions.offload.samples import LabelledSamples, make_samples
from tests.analytics.answers import analyse
from tests.analytics.hierarchical_samples import exact

# Grids, so that values tie.
CONFIDENCES = st.sampled_from([0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0])
SECONDS = st.sampled_from([0.001, 0.004, 0.005, 0.02])
JOULES = st.sampled_from([0.01, 0.05, 0.06, 0.3])
PRECISE = 1e-9  # what is summed in another order differs in its last digits


@st.composite
def recorded(draw: st.DrawFn) -> LabelledSamples:
    """Samples with p1, the local answer, and a remote one or none."""
    row = st.tuples(CONFIDENCES, st.booleans(), st.sampled_from([1, 1, 0, -1]))
    rows = draw(st.lists(row, min_size=4, max_size=40))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    arrays: dict[str, Any] = dict(zip(("p1", "local_right", "remote_right"), columns, strict=True))
    return make_samples(arrays | {"local_right": columns[1].astype(int)}, "drawn")


@st.composite
def costs(draw: st.DrawFn) -> list[ModeCosts]:
    """One to three modes; in some an energy is not known."""
    return [_costs(draw, name) for name in draw(st.sampled_from([["15W"], ["15W", "30W", "MAXN"]]))]


def _costs(draw: st.DrawFn, mode: str) -> ModeCosts:
    values = {"local_s": draw(SECONDS), "offload_s": draw(SECONDS), "decision_s": 1e-6}
    if draw(st.sampled_from([True, True, False])):
        values |= {"local_j": draw(JOULES), "offload_j": draw(JOULES), "decision_j": 1e-6}
    return exact(mode, **values)


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    """An objective, and limits near the values that there are."""

    def maybe(*values: float) -> float | None:
        return draw(st.one_of(st.none(), st.none(), st.sampled_from(values)))

    return Goal(
        minimise=draw(st.sampled_from([None, *OBJECTIVES])),
        max_latency_s=maybe(0.002, 0.0051, 0.01),
        max_energy_j=maybe(0.02, 0.08, 0.2),
        min_accuracy=maybe(0.3, 0.6, 0.95),
        offload_cost=draw(st.sampled_from([0.1, 0.4])),
    )


def reached(point: HiPoint, goal: Goal) -> float | None:
    """What the goal minimises, at ``point``."""
    if goal.minimise in (None, "accuracy"):
        return -point.accuracy_least
    if goal.minimise == "cost":
        return point.cost
    found = point.latency if goal.minimise == "latency" else point.energy
    return None if found is None else found.value


def keeps_all(point: HiPoint) -> bool:
    return all(limit.holds == "kept" for limit in point.limits)


def rows_of(found: Hierarchical) -> tuple[HiPoint, ...]:
    """Every row that is printed or drawn of a threshold."""
    ruled = [point for point in found.rules if point.threshold is not None]
    return (*ruled, *found.modes, *found.frontier)


def check_answer(found: Hierarchical, goal: Goal) -> None:
    point = found.chosen
    assert point is not None
    assert point in rows_of(found)
    known = [(reached(row, goal), row) for row in rows_of(found)]
    beside = [value for value, row in known if value is not None and keeps_all(row)]
    best = reached(point, goal)
    assert best is not None
    if keeps_all(point):
        assert best <= min(beside) + PRECISE
    else:
        assert not beside
    assert ("No threshold is known to meet every limit" in found.sentence) != keeps_all(point)
    assert ("better than every threshold" in found.sentence) == (found.better_baseline is not None)
    if found.better_baseline is not None:
        better = reached(found.better_baseline, goal)
        assert better is not None
        # At a limit that neither keeps it may come nearer, and reach less of the rest.
        assert better <= best + PRECISE or not keeps_all(point)
        assert keeps_all(found.better_baseline) or not keeps_all(point)


@settings(max_examples=200)
@given(samples=recorded(), modes=costs(), goal=goals())
def test_the_best_threshold_is_the_best_of_all_rows(
    samples: LabelledSamples, modes: list[ModeCosts], goal: Goal
) -> None:
    found = analyse(samples, modes, goal, HiSettings(held_out=0))  # judged where it was chosen
    event("none" if found.chosen is None else found.verdict)
    event(f"better baseline: {found.better_baseline is not None}")
    if found.chosen is None:
        assert found.sentence.startswith("No threshold can be chosen")
        return
    check_answer(found, goal)
