"""Operators that others timed on GPUs, by the shapes of some of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from recorded.timed_operators import convolutions, gpus, neusight, orin_networks
from recorded.unseen_gpu import from_others

from mansard.analytics.models.predict.operator_times import TimedOperator, fit_operator_times


def off_of_sums(said: Sequence[float], rows: Sequence[TimedOperator]) -> float:
    """The median of |said / measured - 1| of 100 sums of 40."""
    random = np.random.default_rng(0)
    measured = np.array([row.measured_s for row in rows], dtype=np.float64)
    picks = [random.choice(len(rows), 40, replace=False) for _ in range(100)]
    seconds = np.asarray(said)
    return float(np.median([abs(seconds[p].sum() / measured[p].sum() - 1) for p in picks]))


def test_a_convolution_by_hand() -> None:
    # The first row: 4 × 64 × 100 × 152, padded by one pixel, so 15,200 positions of 4 images.
    first = convolutions()[0]
    assert first.m == 4 * 100 * 152
    assert first.k % 64 == 0
    assert first.work_flop == 2 * first.m * first.n * first.k
    assert first.work_s == pytest.approx(first.work_flop / 19.492e12)


def test_sums_of_convolutions_of_an_a100_from_others() -> None:
    rows = convolutions()
    fitted, others = rows[:300], rows[300:900]
    process = fit_operator_times(fitted)
    assert process is not None
    said = process.predict(others).seconds
    roofs = [max(row.work_s, row.traffic_s) for row in others]
    assert off_of_sums(list(said), others) < 0.08
    assert off_of_sums(roofs, others) > 0.15
    # Sums of the first 40, the next 40, …: the interval holds in nearly all.
    parts = [others[at : at + 40] for at in range(0, 600, 40)]
    holds = [
        total.total_low_s <= sum(row.measured_s or 0 for row in part) <= total.total_high_s
        for part in parts
        for total in [process.predict(part)]
    ]
    assert sum(holds) >= 13


@pytest.mark.shared_data
def test_a_gpu_that_was_not_seen_by_five_others_and_the_power_of_its_board(
    shared_data: Path,
) -> None:
    known = gpus(shared_data)
    assert len(known) == 6
    rows = {name: neusight(shared_data, "linear", gpu)[:200] for name, gpu in known.items()}
    unseen = "Tesla T4"
    others = {known[name]: some[:100] for name, some in rows.items() if name != unseen}
    measured = np.array([row.measured_s for row in rows[unseen]], dtype=np.float64)

    def off(*, has_limit: bool) -> float:
        said = from_others(others, known[unseen], rows[unseen], has_limit=has_limit)
        return float(np.median(np.abs(said / measured - 1)))

    # It draws 70 W at most, and reaches half of the rate of its data sheet.
    assert off(has_limit=True) < 0.15
    assert off(has_limit=False) > 0.25


@pytest.mark.shared_data
def test_layers_of_an_orin_have_work_and_traffic_but_no_shape(shared_data: Path) -> None:
    settings = list(orin_networks(shared_data))
    assert len(settings) == 4 * 3  # modes and precisions
    rows = [row for networks in settings for some in networks.values() for row in some]
    assert len(rows) == 25_704
    assert {row.kind for row in rows} <= {"conv", "matmul", "pooling", "elementwise"}
    assert all((row.m, row.n, row.k) == (1, 1, 1) for row in rows)
