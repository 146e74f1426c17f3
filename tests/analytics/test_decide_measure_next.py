"""The measurement that is proposed, beside the expected regret by brute force."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mansard.analytics.decisions.choice import expected_gain
from mansard.analytics.decisions.records import Recommendation, Wanted
from tests.analytics.answers import recommend
from tests.analytics.decide_factory import frame, row

Z95 = NormalDist().inv_cdf(0.975)
# Evenly spread quantiles of the standard normal distribution: a mean over them is an expectation.
QUANTILES = np.array([NormalDist().inv_cdf((at + 0.5) / 20_000) for at in range(20_000)])
SOURCES = st.sampled_from(["modelled", "measured"])
MODES = st.lists(
    st.tuples(st.floats(0.05, 0.2), st.floats(1.01, 1.8), SOURCES), min_size=2, max_size=6
)


def next_mode(found: Recommendation) -> str | None:
    return None if found.measure_next is None else found.measure_next.candidate.mode


@given(st.floats(-0.5, 0.5), st.floats(0.01, 0.4))
def test_the_expected_gain_is_the_mean_of_what_is_gained(gain: float, deviation: float) -> None:
    drawn = np.maximum(0.0, gain + deviation * QUANTILES).mean()
    assert expected_gain(np.array([gain]), np.array([deviation]))[0] == pytest.approx(
        drawn, abs=2e-4 * deviation
    )


def regrets(modes: list[tuple[float, float, str]], chosen: int) -> list[float]:
    """By drawing: what knowing each mode exactly would gain, in logarithms of the energy."""
    found = []
    costs = [j * math.exp(math.log(spread) / Z95 / 2) for j, spread, _ in modes]
    for at, (energy_j, spread, source) in enumerate(modes):
        drawn = math.log(energy_j) + math.log(spread) / Z95 * QUANTILES
        if source == "measured":
            found.append(0.0)
        elif at == chosen:
            others = [other for other in range(len(modes)) if other != chosen]
            next_best = min(others, key=lambda other: costs[other])
            found.append(np.maximum(0.0, drawn - math.log(modes[next_best][0])).mean())
        else:
            found.append(np.maximum(0.0, math.log(modes[chosen][0]) - drawn).mean())
    return found


@given(MODES)
def test_the_proposed_measurement_is_that_of_the_greatest_expected_regret(
    modes: list[tuple[float, float, str]],
) -> None:
    rows = [
        row(f"m{at}", 0.02, energy_j, spread=spread, source=source)
        for at, (energy_j, spread, source) in enumerate(modes)
    ]
    found = recommend(frame(rows), Wanted())
    assert found.choice is not None
    chosen = int(found.choice.mode[1:])
    known = regrets(modes, chosen)
    ordered = sorted(known)
    assume(abs(ordered[-1] - 0.005) > 1e-4)
    assume(ordered[-1] - ordered[-2] > 1e-4 or ordered[-1] < 0.005)
    if ordered[-1] > 0.005:
        assert next_mode(found) == f"m{known.index(ordered[-1])}"
    else:  # no regret is above 0.5 %: a modelled choice is measured itself
        is_modelled = modes[chosen][2] == "modelled"
        assert next_mode(found) == (f"m{chosen}" if is_modelled else None)


def test_an_uncertain_neighbour_of_a_certain_modelled_choice_is_measured_next() -> None:
    # σ = ln 1.05 / 1.96 = 0.025 and ln 1.8 / 1.96 = 0.30; both near 100 mJ
    rows = [row("sure", 0.02, 0.100, spread=1.05), row("wide", 0.02, 0.105, spread=1.8)]
    found = recommend(frame(rows), Wanted())
    assert found.choice is not None
    assert (found.choice.mode, next_mode(found)) == ("sure", "wide")


def test_nothing_is_proposed_where_nothing_could_change_the_answer() -> None:
    alone = recommend(frame([row("15W", 0.02, 0.1, spread=1.3)]), Wanted())
    assert alone.measure_next is None
    assert (alone.n_measured, alone.unknown["measure_next"]) == (
        0,
        "no further measurement is expected to change the answer",
    )
    limited = recommend(frame([row("15W", 0.02, 0.1, spread=1.3)]), Wanted(max_latency_s=0.030))
    assert next_mode(limited) == "15W"  # it might break its limit
    # 100 mJ as measured, and 300 mJ ± 5 % as modelled
    measured = row("15W", 0.02, 0.1, spread=1.02, source="measured")
    far = recommend(frame([measured, row("30W", 0.02, 0.3, spread=1.05)]), Wanted())
    assert far.measure_next is None
    assert far.n_measured == 1
    assert "measured in 1 of 2 modes, this one included" in far.why
