"""The rooflines of energy and power: heights worked out by hand, and what is drawn of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.energy.fit import Coefficient
from mansard.analytics.models.energy.roof import EnergyRoof, balance
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.analytics.pages.figures.energy_roofline import (
    MOST_ROWS,
    MOST_VERTICES,
    Kind,
    PricedRoof,
    arch_figure,
    arches,
    balance_points,
    main_roofs,
    named_arches,
    priced_roofs,
)
from mansard.analytics.pages.figures.figure import Figure, Missing
from mansard.analytics.pages.figures.network_points import roof_points
from mansard.analytics.pages.figures.parameters import Chosen
from mansard.analytics.pages.results import Results, compute
from tests.analytics.board_runs import MODES, constant_w, volts_squared, write_board
from tests.analytics.factory import write_two_modes
from tests.analytics.gpu_factory import COSTS_J
from tests.analytics.score_factory import layer, score, write_scores


def ceiling(subject: str, value: float, unit: str) -> Ceiling:
    return Ceiling(
        subject=subject,
        family="fma" if unit == "FLOP/s" else "stream",
        kernel="fma",
        backend="cupy",
        unit="FLOP/s" if unit == "FLOP/s" else "B/s",
        value=value,
        low=value * 0.99,
        high=value * 1.01,
        n_blocks=9,
        trial_ids=(),
        sets_bytes=(1, 1),
        n_disturbed=0,
        stable=True,
        source="measured",
    )


def priced(name: str, peak: float, flop_j: float, mode: str = "30W") -> PricedRoof:
    """100 GB/s at 50 pJ a byte and 10 W beside ``peak`` and ``flop_j``."""
    roof = EnergyRoof(
        peak_flop_per_s=peak,
        bandwidth_bytes_per_s=1e11,
        flop_j=flop_j,
        byte_j=50e-12,
        constant_w=10.0,
        cap_w=None,
        unknown={"cap_w": "made up"},
    )
    costs = [
        Coefficient(value=value, low=value * 0.9, high=value * 1.1)
        for value in (flop_j, 50e-12, 10.0)
    ]
    found = balance(ceiling(name, peak, "FLOP/s"), ceiling("DRAM", 1e11, "B/s"), *costs)
    return PricedRoof(mode, name, name, roof, found)


FP32, FP16 = priced("fp32", 1e12, 5e-12), priced("fp16", 4e12, 2e-12)


def test_an_arch_is_work_over_the_sum_of_its_costs() -> None:
    lines = arches([FP32, FP16], 0.1, 1000.0)
    own = lines.filter(pl.col("line") == "fp32").sort("x")
    assert len(own) == MOST_VERTICES
    first, last = own.row(0, named=True), own.row(-1, named=True)
    # at 0.1 FLOP/byte, rate 10 GFLOP/s: 5 + 50 / 0.1 + 10 W / 10 GFLOP/s = 1505 pJ/FLOP
    assert first["efficiency"] == pytest.approx(1 / 1.505, rel=1e-3)
    assert first["power"] == pytest.approx(15.05, rel=1e-3)
    # at 1000 FLOP/byte, rate 1 TFLOP/s: 5 + 0.05 + 10 = 15.05 pJ/FLOP
    assert last["efficiency"] == pytest.approx(1 / 0.01505, rel=1e-3)
    assert last["power"] == pytest.approx(15.05, rel=1e-3)
    assert set(lines.filter("is_main")["line"].to_list()) == {"fp16"}
    # the ridge of fp16: 4 TFLOP/s over 100 GB/s; 2 + 50 / 40 + 10 W / 4 TFLOP/s = 5.75 pJ/FLOP
    (ridge,) = lines.filter(pl.col("line") == "fp16", pl.col("x") == 40.0).rows(named=True)
    assert ridge["efficiency"] == pytest.approx(1 / 0.00575, rel=1e-3)


def test_many_arches_share_the_vertices() -> None:
    many = [priced(f"p{at}", 1e12, 5e-12, mode=f"m{at}") for at in range(100)]
    assert len(arches(many, 0.1, 1000.0)) <= MOST_ROWS


def test_balance_points_lie_on_their_arch() -> None:
    points = {row["kind"]: row for row in balance_points([FP32]).iter_rows(named=True)}
    # 1 TFLOP/s over 100 GB/s; 50 pJ over 5 pJ
    assert points["time balance"]["x"] == pytest.approx(10.0)
    assert points["energy balance"]["x"] == pytest.approx(10.0)
    # left of the ridge: (50 + 100) pJ/byte over (5 + 2 · 10) pJ/FLOP; half of 1 / 15 pJ
    half = points["half the best efficiency"]
    assert half["x"] == pytest.approx(6.0)
    assert half["efficiency"] == pytest.approx(1 / 0.030, rel=1e-3)
    # at the ridge: 10 W + 1 TFLOP/s · 5 pJ + 100 GB/s · 50 pJ = 20 W
    assert points["time balance"]["power"] == pytest.approx(20.0, rel=1e-3)


def test_the_best_precision_of_each_mode_is_its_main_one() -> None:
    other = priced("fp32", 1e12, 1e-12, mode="MAXN")
    found = main_roofs([FP32, FP16, other])
    assert found == {"30W": FP16, "MAXN": other}


def test_each_arch_is_named_the_best_of_its_mode_first() -> None:
    lines = arches([FP32, FP16], 0.1, 1000.0)
    first, second = named_arches([FP32, FP16], lines, "efficiency")
    assert (first.texts, first.is_main) == (["fp16"], True)
    assert (second.texts, second.is_main) == (["fp32"], False)
    assert len(first.path) == MOST_VERTICES + 1  # and the ridge
    # of powers the value at the right end, with the 10 W that are always there
    (main, *_) = named_arches([FP32, FP16], lines, "power")
    assert main.is_alone
    assert main.texts[0].startswith("fp16 ")
    assert main.texts[0].endswith("W")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = write_board(tmp_path_factory.mktemp("runs"))
    layers = [layer(at, 10**9, 10**7, precision="fp16", unit="tensor core") for at in range(3)]
    write_scores(runs, [score("net", layers, precision="fp16")])
    return compute(ingest(runs))


def test_the_roofs_of_a_metered_board_have_the_costs_it_was_made_with(results: Results) -> None:
    found, gaps = priced_roofs(results)
    assert gaps == []
    assert {each.mode for each in found} == set(MODES)
    for each in found:
        gpu_hz, memory_hz = MODES[each.mode]
        cost = COSTS_J[each.name] * volts_squared(gpu_hz)
        assert each.roof.flop_j == pytest.approx(cost, rel=1e-6), each
        assert each.roof.constant_w == pytest.approx(constant_w(gpu_hz, memory_hz), rel=1e-6)


@pytest.mark.parametrize("kind", ["efficiency", "power"])
def test_both_arch_figures_are_made_of_it(results: Results, kind: Kind) -> None:
    found = arch_figure(results, Chosen(mode="30W", batch="1"), roof_points(results), kind)
    assert isinstance(found, Figure)
    assert "NaN" not in found.picture
    assert len(found.table.rows) >= 7  # a line for each precision of the mode
    assert "30W" in found.table.title


def test_without_a_meter_the_figure_says_what_it_takes(tmp_path: Path) -> None:
    plain = compute(ingest(write_two_modes(tmp_path)))
    found = arch_figure(plain, Chosen(), roof_points(plain), "efficiency")
    assert isinstance(found, Missing)
    assert "power meter" in found.reason
    assert "mansard doctor" in found.reason
