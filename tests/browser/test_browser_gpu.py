"""The report of a GPU beside its CPU in a real browser: four charts, one choice of mode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.write import write_report
from tests.analytics.factory import TWO_CORES, fma_trials, manifest, stream_trials, write_run
from tests.analytics.gpu_factory import board, write_orin
from tests.analytics.score_factory import layer, score, write_scores
from tests.browser import pages
from tests.browser.overlaps import overlaps
from tests.browser.pages import MARKS, choose, drawing, open_all

pytestmark = MARKS
CHARTS = (
    *("roofline", "roof-shares", "energy-roofline", "power-roof"),
    *("layer-classes", "layers", "layer-energy", "staircase", "latency", "chains"),
)
BARS = {"roof-shares", "layer-classes", "layers", "layer-energy"}
GPU, CPU = "Jetson AGX Orin 64GB GPU, 30W", "Jetson AGX Orin 64GB, 2c"


def choose_mode(chromium: Any, mode: str) -> None:
    """A mode after its device: only the modes of the chosen device can be chosen."""
    choose(chromium, "device", mode.rpartition(", ")[0])
    choose(chromium, "mode", mode)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = write_orin(tmp_path_factory.mktemp("runs"))
    trials = [*fma_trials("cpu", TWO_CORES), *stream_trials("cpu", TWO_CORES)]
    write_run(runs / "cpu", manifest("cpu", 2, len(trials), board()), trials)
    layers = [
        layer(at, 10**8 * (at + 1), 10**6, precision="fp16", unit="tensor core") for at in range(9)
    ]
    write_scores(runs, [score("net", layers, precision="fp16"), score("32", [layer(0, 10**9, 9)])])
    return write_report(ingest(runs), runs / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_without_an_error(chromium: Any, report: Path, scheme: str) -> None:
    pages.load(chromium, report, len(CHARTS), scheme)
    choose_mode(chromium, GPU)
    assert chromium.get_log("browser") == []
    for chart in CHARTS:
        drawn = drawing(chromium, chart)
        assert "NaN" not in drawn
        if chart in BARS:
            continue
        assert drawn.count('aria-roledescription="point"') >= 5, chart


def test_modes_of_cpu_and_gpu_show_their_own_roofs(chromium: Any, report: Path) -> None:
    pages.load(chromium, report, len(CHARTS))
    choose_mode(chromium, GPU)
    assert "fp16 tensor 9.526" in drawing(chromium, "roofline")
    assert "L2 4" in drawing(chromium, "latency")
    choose_mode(chromium, CPU)
    on_cpu = drawing(chromium, "roofline")
    assert "tensor" not in on_cpu
    assert "fp32 128.0" in on_cpu
    assert "L2 4" not in drawing(chromium, "latency")  # no latency was measured there


def test_names_of_peaks_cover_neither_each_other_nor_points(chromium: Any, report: Path) -> None:
    pages.load(chromium, report, len(CHARTS))
    open_all(chromium)
    choose_mode(chromium, GPU)
    drawn = drawing(chromium, "roofline")
    assert len(set(re.findall(r">([^<>]* [\d.]+&nbsp;[GT](?:FL)?OP/s)<", drawn))) >= 5
    assert overlaps(chromium, *CHARTS[:4]) == []
