"""Times of operators by their shapes: the process, its floor, spreads, and shapes from counts."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.models.predict.gaussian_process import Prior, fit_process
from mansard.analytics.models.predict.groups import group_frame
from mansard.analytics.models.predict.operator_shapes import group_shapes
from mansard.analytics.models.predict.operator_times import (
    TimedOperator,
    at_roofs,
    family_of,
    fit_operator_times,
)
from mansard.estimator import zoo
from mansard.estimator.scoring import score

FLOP_PER_S, BYTES_PER_S, LAUNCH_S = 1e12, 1e11, 4e-6


def product(m: float, n: float, k: float, **changes: object) -> TimedOperator:
    """A product that reaches a third of the roof, more where K is long."""
    work_flop, traffic_bytes = 2 * m * n * k, 4 * (m * n + n * k + m * k)
    use = 0.33 * (k / 512) ** 0.2
    roof_s = max(work_flop / FLOP_PER_S, traffic_bytes / BYTES_PER_S)
    values: dict[str, object] = {
        "kind": "matmul",
        "m": m,
        "n": n,
        "k": k,
        "precision": "fp32",
        "work_flop": work_flop,
        "traffic_bytes": traffic_bytes,
        "work_s": work_flop / FLOP_PER_S,
        "traffic_s": traffic_bytes / BYTES_PER_S,
        "measured_s": roof_s / use + LAUNCH_S,
    }
    return TimedOperator(**values | changes)  # type: ignore[arg-type]


def products(n: int, seed: int) -> list[TimedOperator]:
    random = np.random.default_rng(seed)
    return [product(*np.exp(random.uniform(np.log(16), np.log(2048), 3))) for _ in range(n)]


def test_products_that_were_left_out_are_within_a_few_percent() -> None:
    fitted, others = products(120, 0), products(60, 1)
    process = fit_operator_times(fitted)
    assert process is not None
    said = process.predict(others)
    measured = np.array([row.measured_s for row in others], dtype=np.float64)
    error = np.abs(said.seconds / measured - 1)
    assert np.median(error) < 0.05
    assert abs(said.total_s / measured.sum() - 1) < 0.05
    inside = (said.low_s <= measured) & (measured <= said.high_s)
    assert inside.mean() > 0.85
    assert said.total_low_s <= measured.sum() <= said.total_high_s
    # The roofs alone are three times too fast.
    roof = np.array([max(row.work_s, row.traffic_s) for row in others])
    assert np.median(np.abs(roof / measured - 1)) > 0.5


def test_where_nothing_was_timed_the_interval_is_wider() -> None:
    process = fit_operator_times(products(60, 0))
    assert process is not None
    far = product(2.0, 2.0, 60_000.0)
    near = product(200.0, 200.0, 200.0)
    deviation = process.predict([near, far]).deviation
    assert deviation[1] > 2 * deviation[0]


def test_too_few_operators_give_nothing() -> None:
    assert fit_operator_times(products(7, 0)) is None
    assert fit_operator_times(products(8, 0)) is not None


def test_nothing_is_faster_than_the_roof_unless_something_timed_was() -> None:
    process = fit_operator_times(products(60, 0))
    assert process is not None
    # Its launch alone is in what was timed: a hundred times the largest is beyond all of them.
    large = product(50_000.0, 50_000.0, 50_000.0)
    assert process.predict([large]).seconds[0] >= large.work_s


def test_factors_give_what_is_predicted_without_the_launch() -> None:
    process = fit_operator_times(products(60, 0))
    assert process is not None
    others = products(20, 1)
    works, moves = process.factors(others)
    parts = np.array([(row.work_s, row.traffic_s) for row in others])
    said = works * parts[:, 0] + moves * parts[:, 1]
    seconds = process.predict(others).seconds
    assert (said <= seconds * (1 + 1e-9)).all()
    assert np.median(said / seconds) > 0.9
    assert (said >= parts.max(axis=1) * (1 - 1e-9)).all()


def test_a_kind_that_was_not_timed_has_work_and_traffic_of_all() -> None:
    process = fit_operator_times(products(60, 0))
    assert process is not None
    (softmax,) = at_roofs(
        [
            TimedOperator(
                kind="normalization",
                precision="fp32",
                work_flop=5e6,
                traffic_bytes=8e6,
                work_s=0.0,
                traffic_s=0.0,
                measured_s=None,
                unknown={"measured_s": "it is predicted"},
            )
        ],
        FLOP_PER_S,
        BYTES_PER_S,
    )
    # 5e6 FLOP at 1e12 / s, 8e6 B at 1e11 / s
    assert (softmax.work_s, softmax.traffic_s) == (5e-6, 8e-5)
    said = process.predict([softmax])
    assert 8e-5 <= said.seconds[0] < 1e-3
    assert said.low_s[0] < said.seconds[0] < said.high_s[0]


def test_families() -> None:
    assert family_of(product(2, 3, 4)) == "matmul"
    assert family_of(product(2, 3, 4, n_products=12)) == "batched"
    assert family_of(product(2, 3, 4, kind="recurrent")) == "matmul"
    assert family_of(product(2, 3, 4, kind="depthwise")) == "depthwise"
    assert family_of(product(1, 1, 1, kind="conv")) == "other"  # of unknown shape
    assert family_of(product(1, 1, 1, kind="pooling")) == "other"


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 100))
def test_seconds_scale_with_the_clock(slower: float) -> None:
    """All times times one factor, roofs too: so is what is predicted."""
    fitted, others = products(30, 0), products(5, 1)
    process = fit_operator_times(fitted)
    scaled = fit_operator_times([_slower(row, slower) for row in fitted])
    assert process is not None
    assert scaled is not None
    expected = process.predict(others).seconds * slower
    assert scaled.predict([_slower(row, slower) for row in others]).seconds == pytest.approx(
        expected, rel=1e-3
    )


def _slower(row: TimedOperator, factor: float) -> TimedOperator:
    assert row.measured_s is not None
    return product(
        row.m,
        row.n,
        row.k,
        work_s=row.work_s * factor,
        traffic_s=row.traffic_s * factor,
        measured_s=row.measured_s * factor,
    )


def test_a_process_returns_to_zero_far_from_its_values() -> None:
    features = np.linspace(0, 1, 12)[:, None]
    process = fit_process(features, np.full(12, 0.5), Prior(length=1.0))
    assert process.mean(np.array([[0.5]]))[0] == pytest.approx(0.5, abs=0.02)
    assert abs(process.mean(np.array([[1e6]]))[0]) < 1e-6
    # Far from all values nothing is known beside the prior: s², the covariance with itself.
    scale = math.exp(process.parameters[-2])
    assert process.variance(np.array([[1e6]]))[0] == pytest.approx(scale**2)


def test_what_is_left_out_is_what_a_process_of_the_others_says() -> None:
    random = np.random.default_rng(0)
    features = random.uniform(0, 3, (15, 2))
    values = np.sin(features).sum(1) + random.normal(0, 0.1, 15)
    process = fit_process(features, values)
    rest = type(process)(features[1:], values[1:], process.parameters)
    off, expected = process.left_out
    assert values[0] - rest.mean(features[:1])[0] == pytest.approx(off[0])
    assert math.sqrt(rest.variance(features[:1])[0] + process.noise**2) == pytest.approx(
        expected[0]
    )


def shapes(name: str, *, batch: int = 1) -> pl.DataFrame:
    layers = layer_frame([score(zoo.read(name), name=name, batch=batch)])
    groups = group_frame(layers)
    return group_shapes(layers, groups).join(groups, on=["score_id", "group"])


def test_the_shape_of_a_convolution_follows_from_its_counts() -> None:
    # 64 filters of 3 × 3 over 64 channels of 112 × 56, 6,272 positions: K = 64 · 9.
    (row,) = shapes("conv64_112x56_k3").filter(op_class="conv").to_dicts()
    assert row["m"] == pytest.approx(6272, rel=0.01)
    assert row["n"] == pytest.approx(64, rel=0.01)
    assert row["k"] == 576
    assert row["window"] == pytest.approx(9, rel=0.01)


def test_shapes_of_mobilenet() -> None:
    rows = shapes("mobilenet_v2", batch=2)
    first = rows.filter(op_class="conv").row(0, named=True)
    # 32 filters of 3 × 3 × 3 with a stride of 2, two images of 112 × 112 positions.
    assert first["m"] == pytest.approx(2 * 112 * 112, rel=0.01)
    assert (first["k"], round(first["n"])) == (27, 32)
    assert first["window"] == pytest.approx(9 / 4, rel=0.01)
    depthwise = rows.filter(op_class="depthwise").row(0, named=True)
    assert (depthwise["k"], round(depthwise["n"])) == (9, 32)
    assert depthwise["window"] == pytest.approx(9, rel=0.01)


def test_shapes_of_attention() -> None:
    rows = shapes("vit_b_16").filter(pl.col("n_products") > 1.01)
    # 12 heads: 197 places by 197, each a sum over 64 channels.
    first = rows.sort("group").row(0, named=True)
    assert (first["k"], first["n_products"]) == (64, pytest.approx(12))
    assert (first["m"], first["n"]) == (pytest.approx(197), pytest.approx(197))
