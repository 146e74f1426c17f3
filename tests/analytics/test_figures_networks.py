"""Batch sizes, predicted beside measured, and the slowest layers: what is drawn of a network."""

from __future__ import annotations

import polars as pl
import pytest
import vl_convert

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.pages.figures.accuracy import (
    MOST_POINTS,
    accuracy_chart,
    accuracy_points,
    band,
)
from mansard.analytics.pages.figures.batches import batch_chart, batch_points
from mansard.analytics.pages.figures.layers import bar_chart, class_chart
from mansard.analytics.pages.figures.network_points import (
    MOST_CLASSES,
    OTHERS,
    layer_classes,
    layer_points,
    under_roofs,
)
from mansard.analytics.pages.figures.parameters import Chosen
from mansard.analytics.pages.figures.tables import bound_text
from tests.analytics.model_factory import (
    DEVICE,
    board_modes,
    network_observations,
    network_predictions,
)

PREDICTIONS = network_predictions()
LABELS = {(DEVICE, mode): mode for mode in board_modes()["mode"].to_list()}


def test_throughput_and_energy_are_of_an_item() -> None:
    found = batch_points(PREDICTIONS, LABELS, ["MAXN"]).frame
    # 3 networks × 2 precisions × 3 batches in one mode
    assert len(found) == 18
    row = found.filter(
        (pl.col("network") == "heavy") & (pl.col("precision") == "fp16") & (pl.col("batch") == 16)
    ).row(0, named=True)
    predicted = PREDICTIONS.filter(
        (pl.col("network") == "heavy")
        & (pl.col("precision") == "fp16")
        & (pl.col("batch") == 16)
        & (pl.col("mode") == "MAXN")
    ).row(0, named=True)
    assert row["rate"] == pytest.approx(16 / predicted["latency_s"], rel=1e-3)
    assert row["energy"] == pytest.approx(predicted["energy_j"] / 16 * 1e3, rel=1e-3)


def test_one_batch_is_no_curve_and_a_fit_is_on_none_of_the_model() -> None:
    single = PREDICTIONS.filter(pl.col("batch") == 4)
    assert batch_points(single, LABELS, ["MAXN"]).frame.is_empty()
    mixed = PREDICTIONS.with_columns(is_calibrated=pl.col("batch") == 4)
    found = batch_points(mixed, LABELS, ["MAXN"]).frame
    assert set(found["batch"].to_list()) == {1, 16}


def test_predictions_without_a_latency_are_counted() -> None:
    broken = PREDICTIONS.with_columns(
        latency_s=pl.when(pl.col("batch") == 16).then(0.0).otherwise("latency_s")
    )
    found = batch_points(broken, LABELS, ["MAXN"])
    assert found.n_dropped == 6  # 3 networks × 2 precisions
    assert set(found.frame["batch"].to_list()) == {1, 4}


def test_errors_are_shares_of_what_was_measured() -> None:
    found = accuracy_points(network_observations(1.25), PREDICTIONS, LABELS)
    assert found.n_matched == len(PREDICTIONS) == 270
    assert found.n_unmatched == 0
    # predicted is 1 / 1.25 of measured: 20 % too short
    assert found.median_error == pytest.approx(0.2)
    assert found.worst_error == pytest.approx(0.2)
    assert set(found.frame["error"].to_list()) == {-20.0}
    assert found.median_power_error == pytest.approx(0.0)


def test_what_cannot_be_paired_is_counted_and_nothing_is_a_zero() -> None:
    strange = network_observations().with_columns(
        mode=pl.when(pl.col("network") == "small")
        .then(pl.format("elsewhere, {}", "mode"))
        .otherwise("mode"),
        latency_s=pl.when(pl.col("network") == "heavy").then(None).otherwise("latency_s"),
        power_w=pl.lit(None, pl.Float64),
    )
    found = accuracy_points(strange, PREDICTIONS, LABELS)
    assert set(found.frame["network"].to_list()) == {"mobile"}
    assert found.n_unmatched == 180
    assert found.median_power_error is None
    assert found.frame["measured_w"].null_count() == len(found.frame)


def test_nothing_observed_has_no_error() -> None:
    found = accuracy_points(pl.DataFrame(schema=OBSERVATION_SCHEMA), PREDICTIONS, LABELS)
    assert found.frame.is_empty()
    assert (found.median_error, found.worst_error, found.n_matched) == (None, None, 0)
    none = accuracy_points(network_observations(), pl.DataFrame(schema=PREDICTION_SCHEMA), LABELS)
    assert none.frame.is_empty()


def test_many_observations_are_thinned_and_the_error_is_of_all() -> None:
    many, predicted = (
        pl.concat([frame.with_columns(pl.col("batch") + 1000 * copy) for copy in range(10)])
        for frame in (network_observations(1.25), PREDICTIONS)
    )
    found = accuracy_points(many, predicted, LABELS)
    assert (len(found.frame), found.n_matched) == (MOST_POINTS, 2700)


def test_the_band_is_a_fifth_to_either_side() -> None:
    found = accuracy_points(network_observations(), PREDICTIONS, LABELS).frame
    ground = band(found, "measured", "predicted")
    for row in ground.iter_rows(named=True):
        assert row["low"] == pytest.approx(0.8 * row["x"])
        assert row["high"] == pytest.approx(1.2 * row["x"])
    assert ground["x"][0] < min(found["predicted"].to_list())


def test_both_charts_can_be_drawn() -> None:
    curves = batch_points(PREDICTIONS, LABELS, ["MAXN"]).frame
    accuracy = accuracy_points(network_observations(), PREDICTIONS, LABELS).frame
    ground = band(accuracy, "measured", "predicted")
    for chart in (
        batch_chart(curves, Chosen(mode="MAXN", network="heavy"), curves.clear()),
        accuracy_chart(accuracy, [("measured", "predicted", "ms", ground)], Chosen()),
    ):
        svg = vl_convert.vegalite_to_svg(chart.to_dict())
        assert "NaN" not in svg
        assert svg.count("<path") >= 6


def test_the_axis_of_batches_ends_with_the_first_and_the_last() -> None:
    curves = batch_points(PREDICTIONS, LABELS, ["MAXN"]).frame  # batches 1, 4 and 16
    drawn = batch_chart(curves, Chosen(mode="MAXN", network="heavy"), curves.clear()).to_json()
    assert '"domain":[1,16]' in "".join(drawn.split())


def groups() -> pl.DataFrame:
    """Three groups in one mode: 6, 3 and 1 ms; the last does nothing but move."""
    rows = [
        {
            "score_id": "s",
            "label": "MAXN",
            "model": "m",
            "model_hash": "h",
            "batch": 1,
            "precision": "fp16",
            "group": at,
            "name": f"layer {at}",
            "op_class": "conv",
            "time_s": time_s,
            "work_flop": work,
            "traffic_bytes": 2 * 10**6,
            "intensity": intensity,
            "energy_j": energy_j,
            "bound": "compute",
            "energy_bound": "constant",
        }
        for at, (time_s, work, intensity, energy_j) in enumerate(
            [(3e-3, 3e9, 10.0, 0.06), (6e-3, 12e9, 100.0, 0.15), (1e-3, 0.0, 0.0, None)]
        )
    ]
    return pl.DataFrame(rows)


def test_layers_are_ranked_by_time_with_their_place_under_the_roofs() -> None:
    found = layer_points(groups(), {"h|m": "net"}, 30).frame
    assert found.select("rank", "layer", "share").rows() == [
        (1, "1 layer 1", 60.0),
        (2, "0 layer 0", 30.0),
        (3, "2 layer 2", 10.0),
    ]
    first = found.row(0, named=True)
    # 12 GFLOP in 6 ms and for 0.15 J
    assert (first["rate"], first["efficiency"], first["power"]) == (2000.0, 80.0, 25.0)
    assert found["is_main"].all()
    # what only moves is a bar and stands under no roof
    assert len(under_roofs(found, "rate")) == 2
    assert len(under_roofs(found, "efficiency")) == 2
    assert found.row(2, named=True)["energy_mj"] is None
    assert (first["mflop"], first["mbytes"], first["n_layers"]) == (12_000.0, 2.0, 3)


CHOSEN = Chosen(mode="MAXN", network="net", precision="fp16")


def test_bars_of_time_and_of_energy_have_what_binds_each_beside_them() -> None:
    found = layer_points(groups(), {"h|m": "net"}, 30).frame
    time = vl_convert.vegalite_to_svg(bar_chart(found, CHOSEN).to_dict())
    assert "60 %, compute" in time
    energy = vl_convert.vegalite_to_svg(bar_chart(found, CHOSEN, "energy").to_dict())
    # of the third layer it is not known: no bar, and not a zero
    assert energy.count("constant</text>") == 2
    assert energy.count("unknown</text>") == 1


def test_time_by_class_is_of_all_layers_and_cut_by_what_binds_them() -> None:
    mixed = groups().with_columns(
        op_class=pl.Series(["conv", "conv", "movement"]),
        bound=pl.Series(["memory", "compute", "launch"]),
    )
    found = layer_classes(mixed, {"h|m": "net"})
    # 6 and 3 of 10 ms are convolutions, 1 ms moves
    assert found.select("operator", "bound", "time_ms", "share", "class_share").rows() == [
        ("conv", "compute", 6.0, 60.0, 90.0),
        ("conv", "memory", 3.0, 30.0, 90.0),
        ("movement", "launch", 1.0, 10.0, 10.0),
    ]
    assert found["is_first"].to_list() == [True, False, True]
    assert found["said"].to_list() == ["compute", "compute", "launch"]
    drawn = vl_convert.vegalite_to_svg(class_chart(found, CHOSEN).to_dict())
    assert "90 %, compute" in drawn


def test_classes_that_take_least_are_one() -> None:
    many = pl.concat([groups().head(1)] * 10).with_columns(
        op_class=pl.Series([f"class {at}" for at in range(10)]),
        time_s=pl.Series([1e-3 * (10 - at) for at in range(10)]),
    )
    found = layer_classes(many, {"h|m": "net"})
    # 2 + 1 ms are in the ninth and tenth
    assert found.filter(pl.col("operator") == OTHERS)["time_ms"].to_list() == [3.0]
    assert found["operator"].n_unique() == MOST_CLASSES + 1


def test_only_the_slowest_layers_are_kept() -> None:
    assert layer_points(groups(), {"h|m": "net"}, 1).frame["layer"].to_list() == ["1 layer 1"]


def test_a_limit_of_about_half_of_the_time_is_mixed() -> None:
    assert bound_text("memory", 0.84) == "memory\u00a084\u00a0%"
    assert bound_text("memory", 0.51) == "mixed, memory\u00a051\u00a0%"
    assert bound_text("power", None) == "power"
