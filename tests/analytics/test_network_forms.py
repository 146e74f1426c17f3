"""Forms of a network's time and power: the measurements decide which of them holds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.models.scaling.network_fit import estimate, fit_network, fit_terms
from mansard.analytics.models.scaling.network_predict import predict_modes
from mansard.analytics.models.scaling.network_terms import (
    evaluate,
    known_settings,
    setting_values,
    time_forms,
)
from tests.analytics.network_truth import modes, name, observe, some

GPU, MEMORY = (0.3, 0.5, 0.8, 1.3), (0.2, 0.8, 1.6, 3.2)
GRID = modes(GPU, MEMORY)


def test_a_memory_that_does_not_follow_its_clock_is_a_table() -> None:
    # 4 ms of traffic at 1.6 GHz take 4, 5, 9 and 60 ms at 3.2, 1.6, 0.8 and 0.2 GHz: no c / clock.
    table = {3.2: 0.004, 1.6: 0.005, 0.8: 0.009, 0.2: 0.060}
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + table[memory])
    seen = [name(g, m) for g in (0.3, 1.3) for m in MEMORY]
    rows = predict_modes(fit_network(some(found, seen), GRID), GRID)
    left = rows.filter(~pl.col("mode").is_in(seen)).join(
        found.select("mode", true_s="latency_s"), on="mode"
    )
    errors = (left["latency_s"] / left["true_s"] - 1).abs()
    assert left.height == 8
    assert errors.max() < 0.03


def test_an_energy_that_is_the_same_everywhere_stays_so_while_the_time_is_off() -> None:
    # 40 mJ in all modes. One of them is 30 % slower than its clock tells: only its time is off.
    law = {g: 0.010 / g for g in GPU} | {0.8: 0.010 / 0.8 * 1.3}
    line = modes(GPU)
    found = observe(line, lambda gpu, _: law[gpu], lambda gpu, _: 0.040 / law[gpu])
    fit = fit_network(some(found, [name(0.3), name(0.5), name(1.3)]), line)
    row = some(predict_modes(fit, line), [name(0.8)]).row(0, named=True)
    assert row["energy_j"] == pytest.approx(0.040, rel=0.04)
    assert abs(row["latency_s"] / law[0.8] - 1) > 0.15


@settings(max_examples=15)
@given(st.lists(st.floats(0.7, 1.4), min_size=5, max_size=5))
def test_errors_of_a_mode_left_out_are_those_of_a_fit_without_it(scatter: list[float]) -> None:
    # Whichever form is the likeliest of all modes, and without one.
    picked = [name(0.3, 0.8), name(0.5, 3.2), name(0.8, 1.6), name(1.3, 0.8), name(1.3, 3.2)]
    values = setting_values(some(GRID, picked))
    forms = time_forms(values, setting_values(GRID))
    terms = [evaluate(basis, values) for basis, _ in forms]
    seconds = np.array(scatter) * 0.01e9 / values["gpu_hz"]
    fit = fit_terms(forms, terms, seconds, 1.2)
    for at in range(5):
        rest = np.arange(5) != at
        without = fit_terms(forms, [rows[rest] for rows in terms], seconds[rest], 1.2)
        alone = {name: of[[at]] for name, of in values.items()}
        off = float(np.log(estimate(without, alone).value[0] / seconds[at]))
        # Forms of odds below a hundredth are in the errors, and not in the estimate.
        assert fit.left_out[at] == pytest.approx(off, abs=0.03)


def test_every_term_is_one_in_the_boards_highest_mode() -> None:
    seen = setting_values(some(GRID, [name(0.3, 0.8), name(0.5, 0.2)]))
    highest = setting_values(some(GRID, [name(1.3, 3.2)]))
    for basis, odds in time_forms(seen, setting_values(GRID)):
        assert odds > 0
        np.testing.assert_allclose(evaluate(basis, highest), 1.0)
    assert known_settings(seen) == ("gpu_hz", "memory_hz")
