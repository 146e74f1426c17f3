"""Which networks a roofline draws, and how near its roof each of them comes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.opening import open_runs
from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES, write_reference
from mansard.analytics.pages.figures.network_points import (
    MOST_HOLLOW,
    Points,
    roof_points,
    spread,
)
from mansard.analytics.pages.figures.parameters import EVERY
from mansard.analytics.pages.figures.roof_shares import share_bars
from mansard.analytics.pages.results import compute
from tests.analytics.score_factory import layer, score, write_scores

COLUMNS = ("mode", "batch", "network", "precision")


def networks(*rows: tuple[str, float, float]) -> pl.DataFrame:
    """Modelled networks by name, FLOP/byte and GFLOP/s, under a roof of 400 GFLOP/s."""
    same = {"mode": "2c", "batch": "1", "precision": "fp32", "limit": "compute"}
    texts = dict.fromkeys(("time", "energy", "bound"), "–")
    return pl.DataFrame(
        [
            {
                **same,
                **texts,
                "network": name,
                "intensity": intensity,
                "rate": rate,
                "efficiency": None,
                "power": None,
                "roof": 400.0,
                "share": rate / 4,
                "is_drawn": True,
                "is_disturbed": False,
            }
            for name, intensity, rate in rows
        ],
        schema_overrides={"efficiency": pl.Float64, "power": pl.Float64},
    )


def drawn(modelled: pl.DataFrame, measured: pl.DataFrame) -> list[str]:
    return sorted(spread(modelled, measured).filter("is_drawn")["network"].to_list())


def test_of_many_networks_those_that_stand_farthest_apart_are_drawn() -> None:
    many = networks(*((f"n{at:02}", 1.0 + at, 100.0) for at in range(40)))
    found = drawn(many, many.clear())
    assert len(found) == MOST_HOLLOW
    assert {"n00", "n39"} < set(found)  # 1 and 40 FLOP/byte
    # In decades 1 and 2 FLOP/byte are 0.3 apart, 39 and 40 only 0.01.
    assert "n01" in found
    assert "n38" not in found


def test_two_at_one_place_are_one_mark_and_measured_ones_are_none_of_them() -> None:
    some = networks(("a", 10.0, 100.0), ("b", 10.1, 100.0), ("c", 10.0, 200.0), ("d", 50.0, 200.0))
    assert drawn(some, some.clear()) == ["a", "c", "d"]
    assert drawn(some, some.filter(pl.col("network") == "a")) == ["b", "c", "d"]


def test_bars_are_the_measured_first_each_from_the_best_with_what_the_model_allows() -> None:
    modelled = networks(("a", 10.0, 380.0), ("b", 20.0, 390.0), ("c", 30.0, 200.0))
    ran = networks(("a", 10.0, 100.0), ("b", 20.0, 300.0)).with_columns(engine=pl.lit("ort"))
    empty = pl.DataFrame()
    points = Points(spread(modelled, ran), empty, empty, ran, ["a", "b", "c"], 0)
    bars = share_bars(points)
    # 300, 100 and 200 of 400 GFLOP/s; the model allows b 390 and a 380
    assert bars.select("label", "share", "best", "place").rows() == [
        ("● b", 75.0, 97.5, 1),
        ("● a", 25.0, 95.0, 2),
        ("○ c", 50.0, None, 3),
    ]
    every = points.counts().filter(precision=EVERY)
    counts = every.select("n_measured", "n_drawn", "n_modelled").rows()
    assert counts == [(2, 1, 1)]


def test_a_published_time_is_drawn_at_what_it_reached(tmp_path: Path) -> None:
    (orin,) = (table for table in RATES if table.name == "agx_orin_64_rates")
    write_reference(tmp_path, (orin, PAGODA_RUNS))
    write_scores(tmp_path, [score("resnet50", [layer(0, 8 * 10**9, 2 * 10**8)], batch=1)])
    found = compute(open_runs([tmp_path]))
    points = roof_points(found)
    (published,) = points.measured.filter(pl.col("mode").str.ends_with("MAXN")).to_dicts()
    assert (published["network"], published["source"]) == ("resnet50", "published")
    # 8 GFLOP in the 15.37 ms of the table
    assert published["rate"] == pytest.approx(8 / 15.366e-3, rel=1e-3)
    assert published["intensity"] == pytest.approx(40)
