"""Recommendations on 500 random synthetic boards, checked by brute force over the whole grid.

A board has GPU and memory clocks, laws for its time and power with random coefficients, and a
network. Its truth is computed here mode by mode; the predictions are the truth with an error
inside the interval that they state. Nothing of ``decide`` is used to find the best mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.analytics.decisions.records import OBJECTIVES, Candidate, Recommendation, Wanted
from tests.analytics.answers import recommend
from tests.analytics.decide_factory import frame, row

N_BOARDS = 500
ROUNDING = 1e-9
GPU_GHZ = st.lists(
    st.sampled_from([0.3, 0.4, 0.6, 0.8, 1.0, 1.2, 1.3]), min_size=1, max_size=4, unique=True
)
MEMORY_GHZ = st.lists(st.sampled_from([0.7, 1.3, 2.1, 3.2]), min_size=1, max_size=3, unique=True)


@dataclass(frozen=True)
class Point:
    """One mode at one batch size: true and predicted seconds and joules of the batch."""

    mode: str
    batch: int
    true_s: float
    true_j: float
    predicted_s: float
    predicted_j: float
    spread: float  # the interval is the predicted value times and over this

    def true(self) -> dict[str, float]:
        return _quantities(self.true_s, self.true_j, self.batch)

    def predicted(self) -> dict[str, float]:
        return _quantities(self.predicted_s, self.predicted_j, self.batch)


def _quantities(latency_s: float, energy_j: float, batch: int) -> dict[str, float]:
    item_j = energy_j / batch
    return {
        "latency": latency_s,
        "item": latency_s / batch,
        "energy": item_j,
        "power": energy_j / latency_s,
        "edp": item_j * latency_s,
    }


@st.composite
def boards(draw: st.DrawFn) -> list[Point]:
    """Every mode and batch of a lawful board, with errors of prediction of up to 30 %."""
    work, traffic, launch = (
        draw(st.floats(0.1, 20)),
        draw(st.floats(0.1, 20)),
        draw(st.floats(0, 2)),
    )
    constant_w, per_ghz_w = draw(st.floats(1, 20)), draw(st.floats(0, 15))
    per_work_j, per_traffic_j = draw(st.floats(0.001, 0.5)), draw(st.floats(0.001, 0.5))
    spread = 1 + draw(st.sampled_from([0.0, 0.02, 0.1, 0.3]))
    # Where in its interval a truth lies: often at an end, where it hurts most.
    error = st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-1, 1)
    found = []
    for gpu in draw(GPU_GHZ):
        for memory in draw(MEMORY_GHZ):
            for batch in (1, 4):
                time_s = 1e-3 * (max(batch * work / gpu, (1 + batch) * traffic / memory) + launch)
                power_w = constant_w + per_ghz_w * gpu * gpu * gpu + memory
                energy_j = power_w * time_s + 1e-3 * batch * (
                    per_work_j * work * gpu * gpu + per_traffic_j * traffic
                )
                # One error for both: the power that is predicted then lies in its interval too.
                off = spread ** draw(error)
                found.append(
                    Point(
                        f"gpu{gpu}-emc{memory}",
                        batch,
                        time_s,
                        energy_j,
                        time_s * off,
                        energy_j * off,
                        spread,
                    )
                )
    unique = {(point.mode, point.batch): point for point in found}
    return list(unique.values())


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Point], Wanted]:
    """A board, and limits near what one of its modes takes: some can be kept, some cannot."""
    points = draw(boards())
    limits: dict[str, float] = {}
    for name in draw(st.sets(st.sampled_from(["latency", "power", "energy", "rate"]))):
        near = draw(st.sampled_from(points)).predicted()
        factor = draw(st.sampled_from([0.5, 0.9, 1.0, 1.05, 1.5]))
        limits[name] = factor / near["item"] if name == "rate" else factor * near[name]
    wanted = Wanted(
        minimise=draw(st.sampled_from(OBJECTIVES)),
        probability=draw(st.sampled_from([0.5, 0.9, 0.975])),
        max_latency_s=limits.get("latency"),
        max_power_w=limits.get("power"),
        max_energy_j=limits.get("energy"),
        min_fps=limits.get("rate"),
    )
    return points, wanted


def keeps(values: dict[str, float], wanted: Wanted, factor: float = 1.0) -> bool:
    """Whether these values, all times ``factor``, meet every limit."""
    limits = {
        "latency": wanted.max_latency_s,
        "power": wanted.max_power_w,
        "energy": wanted.max_energy_j,
        "item": None if wanted.min_fps is None else 1 / wanted.min_fps,
    }
    return all(
        limit is None or values[name] * factor <= limit * (1 + ROUNDING)
        for name, limit in limits.items()
    )


def needed(point: Point, wanted: Wanted) -> float:
    """What the values are multiplied with so that they hold as likely as asked."""
    z = {0.5: 0.0, 0.9: 1.2815515655446004, 0.975: 1.959963984540054}[wanted.probability]
    return math.exp(math.log(point.spread) * z / 1.959963984540054)


def ask(points: list[Point], wanted: Wanted) -> Recommendation:
    rows = [
        row(each.mode, each.predicted_s, each.predicted_j, spread=each.spread, batch=each.batch)
        for each in points
    ]
    return recommend(frame(rows), wanted)


def the(points: list[Point], candidate: Candidate | None) -> Point:
    assert candidate is not None
    return next(p for p in points if (p.mode, p.batch) == (candidate.mode, candidate.batch))


@settings(max_examples=N_BOARDS, suppress_health_check=[HealthCheck.too_slow])
@given(questions())
def test_the_whole_grid_has_nothing_better_than_what_is_recommended(
    question: tuple[list[Point], Wanted],
) -> None:
    points, wanted = question
    found = ask(points, wanted)
    check_by_predictions(points, wanted, found)
    check_by_truth(points, wanted, found)


def check_by_predictions(points: list[Point], wanted: Wanted, found: Recommendation) -> None:
    """As far as the predictions know: feasible where any mode is, and the least of them."""
    likely = [p for p in points if keeps(p.predicted(), wanted, needed(p, wanted))]
    possible = [p for p in points if keeps(p.predicted(), wanted, 1 / needed(p, wanted))]
    choice = the(points, found.choice)
    if likely:
        # Feasible, and of all that are, the least.
        assert found.verdict == "feasible"
        assert choice in likely
        best = min(p.predicted()[wanted.minimise] for p in likely)
        assert choice.predicted()[wanted.minimise] <= best * (1 + ROUNDING)
    elif possible:
        # None is missed as likely as asked: it is not known whether it is kept.
        assert found.verdict == "uncertain"
        assert choice in possible
    else:
        assert found.verdict == "infeasible"
        assert (
            total_excess(choice, wanted) <= min(total_excess(p, wanted) for p in points) + ROUNDING
        )


def total_excess(point: Point, wanted: Wanted) -> float:
    """The product of the ratios by which limits are broken."""
    values = point.predicted()
    pairs = (
        (values["latency"], wanted.max_latency_s),
        (values["power"], wanted.max_power_w),
        (values["energy"], wanted.max_energy_j),
        (values["item"], None if wanted.min_fps is None else 1 / wanted.min_fps),
    )
    return math.prod(max(1.0, value / limit) for value, limit in pairs if limit is not None)


def check_by_truth(points: list[Point], wanted: Wanted, found: Recommendation) -> None:
    """The truth lies in the intervals: no mode is better by more than was stated."""
    if not found.is_feasible:
        # Nothing that is certain to meet the limits was overlooked.
        assert not any(keeps(p.predicted(), wanted, p.spread) for p in points)
        return
    choice = the(points, found.choice)
    if found.verdict == "feasible" and wanted.probability == 0.975:
        assert keeps(choice.true(), wanted)  # the truth lies in the interval, all of it is kept
    assert found.most_excess is not None
    for other in points:
        if keeps(other.true(), wanted):
            allowed = other.true()[wanted.minimise] * (1 + found.most_excess)
            assert choice.true()[wanted.minimise] <= allowed * (1 + ROUNDING)
