"""Predictions from what is unknown or cannot be: null with a reason, never a number."""

import polars as pl
import pytest

from mansard.analytics.models.predict.engine import predict_scores
from tests.analytics.predict_factory import (
    BYTE_J,
    CONSTANT_W,
    FP32,
    FP32_J,
    LAUNCH,
    ROUND,
    coefficient_rows,
    group,
    groups_of,
    mode_frame,
    predicted,
    scores_of,
)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_an_efficiency_that_cannot_be_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="the time of conv cannot be multiplied with"):
        predicted(group(cuda=1e9), efficiency={"conv": factor})


def test_a_limit_is_not_seen_where_no_energy_is_known() -> None:
    found = predicted(group(cuda=100e9), values={FP32: 1e12}, limit_w=1.0)
    assert found["latency_s"] == pytest.approx(0.1)
    assert found["reason"] == "no energy was measured in this mode: that needs a power meter"
    assert "the power limit of the mode is not in it: that takes the energy" in str(found["notes"])


def test_no_launch_cost_is_said_and_not_invented() -> None:
    values = {key: value for key, value in ROUND.items() if key != LAUNCH}
    found = predicted(group(cuda=20e9), values=values)
    assert found["latency_s"] == pytest.approx(0.02)
    said = "launch costs are left out: they were not measured in every mode of this device"
    assert found["notes"] == said


def test_what_a_score_says_of_itself_is_in_the_notes() -> None:
    scores = scores_of("s").with_columns(note=pl.lit("its traffic is unfused"))
    found = predict_scores(
        groups_of(group(cuda=1e9)), scores, coefficient_rows({FP32: 1e12}), mode_frame()
    )
    (notes,) = found.collect()["notes"]
    assert notes.split("; ") == [
        "its traffic is unfused",
        "launch costs are left out: they were not measured in every mode of this device",
    ]


@pytest.mark.parametrize("value", [0.0, -1e12, 1e-300, float("nan"), float("inf")])
def test_a_peak_that_cannot_be_is_unknown(value: float) -> None:
    found = predicted(group(cuda=1e9), values={**ROUND, FP32: value})
    assert [found[name] for name in ("latency_s", "latency_low_s", "energy_j", "power_w")] == [
        None
    ] * 4
    assert found["time_bound"] is None
    assert "no fp32 peak" in str(found["reason"])


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (FP32_J, "energy of fp32 work"),
        (BYTE_J, "energy of DRAM traffic"),
        (CONSTANT_W, "constant power"),
    ],
)
@pytest.mark.parametrize(("value", "shown"), [(0.0, "0.0"), (-1.0, "-1.0"), (float("nan"), "NaN")])
def test_a_cost_that_cannot_be_leaves_the_time(
    key: tuple[str, str, str], name: str, value: float, shown: str
) -> None:
    found = predicted(group(cuda=1e9, traffic=1e9), values={**ROUND, key: value})
    assert found["latency_s"] == pytest.approx(0.011)
    assert found["energy_j"] is None
    assert found["power_high_w"] is None
    assert found["energy_bound"] is None
    assert found["reason"] == f"no {name}: a value of {shown} cannot be"


def test_unknown_work_or_traffic_is_the_networks() -> None:
    lost = group(1, cuda=None, reason="the work of Sprocket is unknown")
    found = predicted(group(0, cuda=1e9), lost)
    assert found["latency_s"] is None
    assert found["reason"] == "the work of Sprocket is unknown"
    for traffic in (-5.0, float("nan"), float("inf")):
        odd = predicted(group(0, traffic=traffic))
        assert odd["reason"] == "the work or traffic of a group is unknown"
    nameless = predicted(group(0, cuda=1e9, precision=None))
    assert nameless["latency_s"] is None


def test_a_network_of_nothing_takes_nothing() -> None:
    found = predicted(group(n_launches=0))
    assert found["latency_s"] == 0.0
    assert found["energy_j"] == 0.0
    assert found["power_w"] is None
    assert found["time_bound"] is None
