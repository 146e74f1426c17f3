"""Modes as points and cells: what is drawn of a network in each mode, and what is left out."""

from __future__ import annotations

import polars as pl
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import MODE_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.decisions.records import Candidate
from mansard.analytics.pages.figures.figure import evenly
from mansard.analytics.pages.figures.modes import (
    LEAST_CELLS,
    MOST_ROWS,
    heat_chart,
    mode_points,
    pareto_chart,
)
from mansard.analytics.pages.figures.parameters import Chosen
from tests.analytics.factory import HOSTILE
from tests.analytics.model_factory import (
    DEVICE,
    GPU_HZ,
    MEMORY_HZ,
    board_modes,
    mode_name,
    network_predictions,
)

MODES, PREDICTIONS = board_modes(), network_predictions()


def candidate(network: str, mode: str, batch: int, precision: str) -> Candidate:
    own = PREDICTIONS.filter(
        (pl.col("network") == network)
        & (pl.col("mode") == mode)
        & (pl.col("batch") == batch)
        & (pl.col("precision") == precision)
    ).row(0, named=True)
    known = {name: own[name] for name in Candidate.__struct_fields__ if name in own}
    return Candidate(**known | {"bound": own["time_bound"]})


def test_each_pair_of_clocks_is_a_cell_of_the_smallest_batch() -> None:
    found = mode_points(PREDICTIONS, MODES, {}).frame
    # 3 networks × 2 precisions × 15 pairs of clocks, all of batch 1
    assert len(found) == 90
    assert set(found["batch"].to_list()) == {1}
    own = found.filter((pl.col("network") == "heavy") & (pl.col("precision") == "fp16"))
    assert sorted(own.select("gpu", "memory").iter_rows()) == sorted(
        (gpu / 1e6, memory / 1e6) for gpu in GPU_HZ for memory in MEMORY_HZ
    )
    assert found["is_cell"].all()
    assert set(found.filter("is_main")["precision"].to_list()) == {"fp16"}  # the faster one


def test_units_are_milliseconds_and_millijoules_of_one_item() -> None:
    pick = candidate("mobile", "MAXN", 16, "fp16")
    found = mode_points(PREDICTIONS, MODES, {(DEVICE, "MAXN"): "the best"}, [pick]).frame
    (row,) = found.filter("is_recommended").iter_rows(named=True)
    assert (row["mode"], row["batch"]) == ("the best", 16)
    assert row["latency"] == pytest.approx(pick.latency_s * 1e3, rel=1e-3)
    assert pick.energy_j is not None
    assert row["energy"] == pytest.approx(pick.energy_j / 16 * 1e3, rel=1e-3)
    # the precision of the recommendation is shown first, and only its network moves to batch 16
    assert set(found.filter(pl.col("network") == "mobile")["batch"].to_list()) == {1, 16}


def test_the_edge_is_cheaper_the_slower_it_is_and_nothing_beats_it() -> None:
    found = mode_points(PREDICTIONS, MODES, {}).frame
    for _, own in found.group_by("network", "precision"):
        edge = own.filter("is_edge").sort("latency")
        energies = edge["energy"].to_list()
        assert energies == sorted(energies, reverse=True)
        assert energies[-1] == own["energy"].min()
        for row in edge.iter_rows(named=True):
            better = (pl.col("latency") < row["latency"]) & (pl.col("energy") < row["energy"])
            assert own.filter(better).is_empty()
        assert own.filter("is_edge").filter(~pl.col("is_front")).is_empty()


def test_of_modes_with_the_same_clocks_the_cheapest_is_the_cell() -> None:
    twin = PREDICTIONS.filter(pl.col("mode") == "MAXN").with_columns(
        mode=pl.lit("MAXN, 4 cores"), energy_j=pl.col("energy_j") * 0.9
    )
    modes = pl.concat(
        [MODES, MODES.filter(pl.col("mode") == "MAXN").with_columns(mode=pl.lit("MAXN, 4 cores"))]
    )
    found = mode_points(pl.concat([PREDICTIONS, twin]), modes, {}).frame
    cells = found.filter((pl.col("gpu") == 1300.5) & (pl.col("memory") == 3199) & pl.col("is_cell"))
    assert set(cells["mode"].to_list()) == {"MAXN, 4 cores"}


def test_many_modes_are_thinned_and_the_recommended_one_stays() -> None:
    gpu = [300e6 + 5e6 * at for at in range(200)]
    modes = board_modes(gpu, MEMORY_HZ)
    predictions = network_predictions(modes, batches=(1,))
    middle = mode_name(gpu[77], MEMORY_HZ[1])
    row = predictions.filter(
        (pl.col("mode") == middle)
        & (pl.col("network") == "heavy")
        & (pl.col("precision") == "fp16")
    ).row(0, named=True)
    known = {name: row[name] for name in Candidate.__struct_fields__ if name in row}
    pick = Candidate(**known | {"bound": None, "unknown": {"bound": "made up"}})
    found = mode_points(predictions, modes, {}, [pick]).frame
    assert len(predictions) == 3600  # 3 networks × 2 precisions × 600 modes
    assert len(found) <= 2 * MOST_ROWS  # cells, and the edge
    assert found.filter("is_recommended")["mode"].to_list() == [middle]
    per_set = found.filter("is_cell").group_by("network", "precision").len()["len"]
    assert min(per_set.to_list()) >= LEAST_CELLS


def test_unknown_and_absurd_latencies_are_counted_and_not_drawn() -> None:
    broken = PREDICTIONS.with_columns(
        latency_s=pl.when(pl.col("network") == "heavy")
        .then(None)
        .when(pl.col("network") == "small")
        .then(float("inf"))
        .otherwise(pl.col("latency_s"))
    )
    found = mode_points(broken, MODES, {})
    assert set(found.frame["network"].to_list()) == {"mobile"}
    assert found.n_dropped == 60  # two networks × two precisions × 15 modes


def test_without_energies_there_are_cells_and_no_edge() -> None:
    names = [name for name in PREDICTION_SCHEMA if name.startswith(("energy", "power"))]
    plain = PREDICTIONS.with_columns(
        pl.lit(None, PREDICTION_SCHEMA[name]).alias(name) for name in names
    )
    found = mode_points(plain, MODES, {}).frame
    assert found["energy"].null_count() == len(found) == 90
    assert not found["is_edge"].any()
    heat = heat_chart(found, Chosen(network="heavy", precision="fp16")).to_dict()
    assert len(heat["vconcat"]) == 1  # latency alone


def test_modes_without_clocks_are_cells_of_their_own() -> None:
    plain = MODES.with_columns(gpu_hz=pl.lit(None, pl.Float64), memory_hz=pl.lit(None, pl.Float64))
    found = mode_points(PREDICTIONS, plain, {}).frame
    assert len(found) == 90
    assert found["gpu"].null_count() == 90


def test_nothing_predicted_is_an_empty_frame() -> None:
    empty = pl.DataFrame(schema=PREDICTION_SCHEMA)
    found = mode_points(empty, pl.DataFrame(schema=MODE_SCHEMA), {})
    assert found.frame.is_empty()
    assert found.n_dropped == 0


@pytest.mark.parametrize("network", ["heavy", HOSTILE, 'it\'s "quoted" \\ and \u2028'])
def test_both_charts_can_be_drawn_whatever_the_network_is_called(network: str) -> None:
    named = PREDICTIONS.with_columns(
        network=pl.when(pl.col("network") == "heavy").then(pl.lit(network)).otherwise("network")
    )
    found = mode_points(named, MODES, {}).frame
    chosen = Chosen(network=network, precision="fp16")
    for chart in (pareto_chart(found, chosen), heat_chart(found, chosen)):
        svg = vl_convert.vegalite_to_svg(chart.to_dict())
        assert "NaN" not in svg
        assert svg.count("<path") > 15


@settings(max_examples=60)
@given(st.integers(0, 200), st.integers(2, 50))
def test_an_even_choice_keeps_both_ends_and_the_order(n_values: int, n_most: int) -> None:
    values = list(range(n_values))
    found = evenly(values, n_most)
    assert len(found) == min(n_values, n_most)
    assert found == sorted(set(found))
    if values:
        assert (found[0], found[-1]) == (values[0], values[-1])
