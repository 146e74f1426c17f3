"""What repeats of one network in one mode say together."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.data.statistics import (
    RUN_LATENCY,
    RUN_POWER,
    pool_repeats,
    repetition_deviation,
    single_half,
)

T4, T5, T6 = 2.7764451, 2.5705818, 2.4469119  # two-sided 95 % of Student's t; any table


def rows(
    times: list[float], powers: list[float | None], deviation: float | None = None
) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "mode": "m",
                "latency_s": time,
                "power_w": power,
                "latency_deviation": deviation,
            }
            for time, power in zip(times, powers, strict=True)
        ],
        schema=OBSERVATION_SCHEMA,
    )


def pooled(frame: pl.DataFrame) -> dict[str, Any]:
    (row,) = pool_repeats(frame, ["mode"]).iter_rows(named=True)
    return row


def test_a_single_row_has_the_scatter_of_recorded_runs() -> None:
    found = pooled(rows([0.020], [10.0]))
    assert (found["latency_s"], found["power_w"]) == (0.020, 10.0)
    assert found["latency_half"] == pytest.approx(T4 * 0.012)  # ± 3.3 %
    assert found["power_half"] == pytest.approx(T4 * 0.008)  # ± 2.2 %
    assert single_half(RUN_LATENCY) == pytest.approx(found["latency_half"])
    assert single_half(RUN_POWER) == pytest.approx(found["power_half"])


def test_repeats_that_differ_widen_and_repeats_that_agree_narrow() -> None:
    # ln(22/20) = 0.0953: squares 0.0953² / 2 = 0.004542; (4 · 0.012² + 0.004542) / 5 = 0.0010236
    differ = pooled(rows([0.020, 0.022], [10.0, 10.0]))
    assert differ["latency_s"] == pytest.approx(0.021)
    assert differ["latency_half"] == pytest.approx(T5 * math.sqrt(0.0010236 / 2), rel=1e-4)
    # equal ones: 4 · 0.012² / 5 over 2
    agree = pooled(rows([0.020, 0.020], [10.0, None]))
    assert agree["latency_half"] == pytest.approx(T5 * 0.012 * math.sqrt(4 / 5 / 2))
    assert agree["latency_half"] < single_half(RUN_LATENCY) < differ["latency_half"]
    assert (agree["latency_n"], agree["power_n"]) == (2, 1)


def test_one_wild_row_of_three_moves_the_interval_and_not_the_value() -> None:
    found = pooled(rows([0.020, 0.180, 0.020], [10.0] * 3))
    assert found["latency_s"] == 0.020
    # ln 9 = 2.1972: squares 2/3 · 2.1972² = 3.2186; (0.000576 + 3.2186) / 6 = 0.53653
    half = T6 * math.sqrt(0.53653 * math.pi / 2 / 3)
    assert found["latency_half"] == pytest.approx(half, rel=1e-4)


def test_repetitions_of_a_run_widen_what_runs_scatter_by() -> None:
    found = pooled(rows([0.020], [10.0], deviation=0.016))
    # √(0.012² + 0.016²) = 0.020
    assert found["latency_half"] == pytest.approx(T4 * 0.020)
    assert single_half(RUN_LATENCY, 0.016) == pytest.approx(found["latency_half"])


def test_a_number_that_is_no_measurement_is_none() -> None:
    found = pooled(rows([0.020, math.nan], [0.0, -1.0]))
    assert (found["latency_s"], found["latency_n"]) == (0.020, 1)
    assert (found["power_w"], found["power_half"], found["power_n"]) == (None, None, 0)


def test_the_deviation_of_a_median_is_that_of_blocks() -> None:
    # four values are four blocks: logarithms 0, 1, 0, 1; standard deviation 1/√3, over √4
    assert repetition_deviation([1.0, math.e, 1.0, math.e]) == pytest.approx(1 / math.sqrt(12))
    # 20 values in 10 blocks of two, each with the median 1.5: nothing scatters between blocks
    assert repetition_deviation([1.0, 2.0] * 10) == pytest.approx(0.0)
    # a drift is between blocks: it does not vanish with the number of repetitions
    drift = [1.0] * 500 + [1.1] * 500
    assert repetition_deviation(drift) == pytest.approx(
        math.log(1.1) * math.sqrt(10 / 4 / 9) / math.sqrt(10)
    )
    assert repetition_deviation([1.0]) is None
    assert repetition_deviation([]) is None


TIMES = st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=8)


@given(TIMES, st.floats(0.1, 10.0))
def test_what_is_pooled_does_not_depend_on_the_unit_or_the_order(
    times: list[float], factor: float
) -> None:
    found = pooled(rows(times, [None] * len(times)))
    other = pooled(rows([factor * time for time in reversed(times)], [None] * len(times)))
    assert other["latency_s"] == pytest.approx(factor * found["latency_s"])
    assert other["latency_half"] == pytest.approx(found["latency_half"])
    assert min(times) <= found["latency_s"] <= max(times)
    assert found["latency_half"] > 0
