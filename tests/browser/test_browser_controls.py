"""Every control of every kind of report is operated in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard import api
from mansard.analytics.data.ingest import ingest
from mansard.analytics.published.importing import import_table
from mansard.analytics.published.origin import PublishedOrigin
from mansard.analytics.published.store import write_published
from mansard.analytics.report.score_page import write_score_page
from mansard.analytics.report.write import write_report
from mansard.core.records import ModelScore
from tests.analytics.board_runs import write_board
from tests.analytics.factory import (
    TWO_CORES,
    fma_trials,
    manifest,
    stream_trials,
    write_run,
    write_two_modes,
)
from tests.analytics.gpu_factory import board
from tests.analytics.score_factory import layer, score, write_scores
from tests.browser import pages
from tests.browser.operating import operate
from tests.browser.pages import MARKS, choose, chosen, drawing

pytestmark = MARKS
# A board of which nothing but times is known; clocks of two modes and a power in one of them.
TIMES = """mode,network,precision,batch,latency_ms,power_w,gpu_mhz,memory_mhz
10W,works,fp16,1,30,8,400,2000
20W,works,fp16,1,20,,800,2000
MAXN,works,fp16,1,12,25,,
10W,only here,fp32,1,90,8,400,2000
"""
OTHER = "Other board (published)"


def scores(names: int) -> list[ModelScore]:
    """Networks in two precisions and two batch sizes; the last without any work that is known."""
    return [
        score(
            "works" if name == 0 else f"network-{name:02}",
            [
                layer(
                    at,
                    None if name == names - 1 and at == 3 else batch * 10**8 * (at + name + 1),
                    10**6 * (batch + 3),
                    precision=precision,
                )
                for at in range(6)
            ],
            batch=batch,
            precision=precision,
        )
        for name in range(names)
        for precision in ("fp16", "fp32")
        for batch in (1, 8)
    ]


def write_bench(folder: Path) -> Path:
    runs = write_two_modes(folder / "runs")
    write_scores(runs, [score(each.model, each.layers) for each in scores(3)[::4]])
    return write_report(ingest(runs), folder / "report.html")


def write_demo(folder: Path) -> Path:
    return api.demo(folder).path


def write_pagoda(folder: Path) -> Path:
    return api.demo_pagoda(folder / "pagoda.html").page


def write_simulated(folder: Path) -> Path:
    runs = write_board(folder / "runs")
    write_scores(runs, scores(3))
    return write_report(ingest(runs), folder / "report.html")


def write_many(folder: Path) -> Path:
    """A board's GPU in four modes, its CPU in one, and another board's times alone."""
    runs = write_board(folder / "runs")
    trials = [*fma_trials("cpu", TWO_CORES), *stream_trials("cpu", TWO_CORES)]
    write_run(runs / "cpu", manifest("cpu", 2, len(trials), board()), trials)
    write_scores(runs, scores(12))
    (folder / "times.csv").write_text(TIMES)
    origin = PublishedOrigin(citation="made up", device="Other board", processor="gpu")
    write_published(runs, import_table(folder / "times.csv", origin))
    return write_report(ingest(runs), folder / "report.html")


def write_score(folder: Path) -> Path:
    runs = write_two_modes(folder / "runs")
    write_score_page(scores(2), folder / "page.html", runs)
    return folder / "page.html"


# The page, and the fewest steps that operate all of it.
PAGES = {
    "bench": (write_bench, 8),
    "demo": (write_demo, 60),
    "pagoda": (write_pagoda, 1),
    "simulated": (write_simulated, 20),
    "many": (write_many, 60),
    "score": (write_score, 4),
}


@pytest.fixture(scope="module")
def page(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(PAGES[request.param][0](tmp_path_factory.mktemp(request.param)))


@pytest.mark.parametrize("page", PAGES, indirect=True)
def test_every_control_leaves_a_page_without_a_fault(
    chromium: Any, page: Path, request: Any
) -> None:
    n_steps, faults = operate(chromium, page, page.read_text().count("data-spec="))
    assert faults == []
    assert n_steps >= PAGES[request.node.callspec.params["page"]][1]


@pytest.mark.parametrize("page", ["many"], indirect=True)
def test_a_device_brings_its_own_modes_and_words_where_it_has_no_roofs(
    chromium: Any, page: Path
) -> None:
    pages.load(chromium, page, page.read_text().count("data-spec="))
    modes = """
        return Array.from(document.querySelectorAll("select[name=mode] option"))
          .filter((option) => !option.hidden).map((option) => option.text)
    """
    assert chromium.execute_script(modes) == ["15W", "30W", "50W", "MAXN"]
    choose(chromium, "device", OTHER)
    assert chromium.execute_script(modes) == ["10W", "20W", "MAXN"]
    assert chosen(chromium, "mode").startswith(OTHER)
    words = chromium.execute_script(
        "return document.querySelector('#roofline .none:not([hidden])').textContent"
    )
    assert words.startswith(f"{chosen(chromium, 'mode')} has no roofs")
    choose(chromium, "network", "works")
    front = drawing(chromium, "pareto")
    assert "Pareto front, works, batch 1, fp16: published" in front
    assert "latency: 12" in front  # told in MAXN's tooltip; 20W has no power and no point
    assert "latency: 20" not in front


@pytest.mark.parametrize("page", ["simulated"], indirect=True)
def test_captions_titles_and_tables_name_what_was_chosen(chromium: Any, page: Path) -> None:
    pages.load(chromium, page, page.read_text().count("data-spec="))
    balances = "return document.querySelector('table[data-live=balances] caption').textContent"
    for mode in ("15W", "50W"):
        choose(chromium, "mode", mode)
        caption = chromium.execute_script(balances)
        assert caption == f"Balance points of {mode} from main memory, FLOP/byte"
    choose(chromium, "network", "network-01")
    # The recommendation is in fp16 with batch 8; in fp32 the smallest batch is drawn.
    assert "Pareto front, network-01, batch 8, fp16: at best" in drawing(chromium, "pareto")
    choose(chromium, "precision", "fp32")
    assert "Pareto front, network-01, batch 1, fp32: at best" in drawing(chromium, "pareto")
    layers = chromium.execute_script(
        "const table = document.querySelector('table[data-live=layers]');"
        "return [table.caption.textContent, table.tBodies[0].rows.length]"
    )
    assert layers == ["Slowest layers of network-01, batch 1, fp32, 50W", 6]
