"""Bands of roofs: from min(peak_low, bandwidth_low · x) to min(peak_high, bandwidth_high · x)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.figure import Figure
from mansard.analytics.pages.figures.network_points import roof_points
from mansard.analytics.pages.figures.parameters import first_choice
from mansard.analytics.pages.figures.plane import Window
from mansard.analytics.pages.figures.roofline import WIDTH_PX, roof_bands, roofline_figure
from mansard.analytics.pages.paper.caption import caption
from mansard.analytics.pages.paper.roofline import roofline_content
from mansard.analytics.pages.paper.selection import Wish
from mansard.analytics.pages.results import Results, compute
from mansard.cli.__main__ import run
from tests.analytics.board_runs import write_board

SEEN = Window(0.1, 100.0, 1.0, 1000.0, 400)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = tmp_path_factory.mktemp("board") / "runs"
    return compute(ingest(write_board(runs, {"30W": (612e6, 3199e6)})))


def wide(board: Results) -> Roofline:
    """A peak of 200 (100 to 400) GFLOP/s; L2 has 40 (20 to 50) GB/s, DRAM 20 (7.1 to 40)."""
    roof = board.roofs[0]
    known = {ceiling.subject: ceiling for ceiling in roof.bandwidths if ceiling.value}

    def between(ceiling: Ceiling, value: float, low: float, high: float) -> Ceiling:
        ends = {"value": value * 1e9, "low": low * 1e9, "high": high * 1e9}
        return msgspec.structs.replace(ceiling, **ends)

    return msgspec.structs.replace(
        roof,
        levels=tuple(level for level in roof.levels if level.name in {"L2", "DRAM"}),
        peaks=(between(roof.peak("fp32"), 200, 100, 400),),
        bandwidths=(
            between(known["L2"], 40, 20, 50),
            between(known["DRAM"], 20, 7.1, 40),
        ),
    )


def test_edges_are_parallel_to_their_roofs_and_bend_at_their_own_corners(board: Results) -> None:
    bands = roof_bands([wide(board)], SEEN)
    edges = {
        name: bands.filter(line=name).select("x", "low", "high").rows()
        for name in ("L2", "DRAM", "fp32 peak")
    }
    # DRAM ends where 20 GB/s meets 200 GFLOP/s, at 10 FLOP/byte: 7.1 · 10 = 71 and 40 · 10 = 400.
    # It begins at the lower edge of the chart, 1 GFLOP/s: 1 / 20 = 0.05, cut at 0.1 FLOP/byte.
    assert edges["DRAM"] == [
        pytest.approx((0.1, 0.71, 4.0)),
        pytest.approx((10.0, 71.0, 400.0)),
    ]
    # L2 ends at 200 / 40 = 5; low: min(100, 20 · 5) = 100; high: min(400, 50 · 5) = 250
    assert edges["L2"] == [pytest.approx((0.1, 2.0, 5.0)), pytest.approx((5.0, 100.0, 250.0))]
    # The peak begins there; its upper edge is 400 from 400 / 50 = 8 FLOP/byte on.
    assert edges["fp32 peak"] == [
        pytest.approx((5.0, 100.0, 250.0)),
        pytest.approx((8.0, 100.0, 400.0)),
        pytest.approx((100.0, 100.0, 400.0)),
    ]


def test_a_ceiling_without_an_interval_has_no_band(board: Results) -> None:
    roof = wide(board)
    unknown = {"low": "too few blocks", "high": "too few blocks"}
    bare = [
        msgspec.structs.replace(one, low=None, high=None, unknown=unknown)
        for one in (*roof.peaks, *roof.bandwidths)
    ]
    plain = msgspec.structs.replace(roof, peaks=(bare[0],), bandwidths=tuple(bare[1:]))
    assert roof_bands([plain], SEEN).is_empty()


@pytest.mark.parametrize("precision", ["", "fp32", "tf32", "fp64"])
def test_memory_roofs_end_at_the_highest_peak_that_is_shown(board: Results, precision: str) -> None:
    chosen = dataclasses.replace(first_choice(board), precision=precision)
    figure = roofline_figure(board, chosen, roof_points(board))
    assert isinstance(figure, Figure)
    paths = re.findall(r"<path d='M([^'Z]+)Z?'([^>]*)>", unquote(figure.picture))
    ends = [
        ([tuple(map(float, spot.split(","))) for spot in path.split("L")], look)
        for path, look in paths
        if "h" not in path
    ]
    lines = [spots for spots, look in ends if "stroke=" in look]
    (area,) = [spots for spots, look in ends if "fill-opacity" in look]
    # Down is positive: the highest peak shown is the level line of least y.
    levels = [spots[0][1] for spots in lines if spots[-1][0] == WIDTH_PX]
    slopes = [spots for spots in lines if spots[-1][0] < WIDTH_PX]
    assert len(levels) == (7 if precision == "" else 1)
    assert len(slopes) == 3  # L1, L2 and DRAM
    assert {min(y for _, y in spots) for spots in (*slopes, area)} == {min(levels)}


def test_a_caption_names_bands_only_where_there_are_any(board: Results) -> None:
    content = roofline_content(board, Wish())
    assert "bands their 95 % intervals" in content.sentences[0]
    bands = content.frame.filter(part="band")
    assert bands["rate_gflop_per_s"].null_count() == len(bands) > 0
    assert (bands["low_rate_gflop_per_s"] <= bands["high_rate_gflop_per_s"]).all()


def test_published_ceilings_have_no_bands_and_say_where_they_are_published(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("mode,precision,gflops,dram_gbs\nMAXN,fp32,1000,100\n", "utf-8")
    words = ["data", "import", str(table), "--citation", "A. Author 2020", "--device", "Orin X"]
    assert run([*words, "--runs", str(tmp_path / "runs")]) == 0
    results = compute(ingest(tmp_path / "runs"))
    content = roofline_content(results, Wish())
    text = caption(content, results)
    assert "bands" not in text
    assert "Published in: A. Author 2020." in text
    assert "Measured" not in text
