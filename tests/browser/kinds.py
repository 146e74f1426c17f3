"""A page of each kind, as commands write them."""

from __future__ import annotations

from pathlib import Path

from mansard import api
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.reference import write_reference
from mansard.analytics.data.published.store import write_published
from mansard.analytics.pages.report.answer_pages import write_score_page
from mansard.analytics.pages.report.write import write_report
from mansard.core.records import ModelScore
from reproductions.pagoda.__main__ import pagoda_scores
from reproductions.pagoda.page import write_pagoda_page
from tests.analytics.board_runs import write_board
from tests.analytics.factory import (
    TWO_CORES,
    Ceilings,
    fma_trials,
    manifest,
    stream_trials,
    write_run,
    write_two_modes,
)
from tests.analytics.gpu_factory import board
from tests.analytics.score_factory import layer, score, write_scores

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


def write_one(folder: Path) -> Path:
    """One mode of a plain machine; its L2 is slower than its L3, which no measurement can be."""
    levels = Ceilings(levels={"L1": 256e9, "L2": 12e9, "L3": 64e9, "DRAM": 16e9})
    trials = [*fma_trials("r"), *stream_trials("r", levels)]
    write_run(folder / "runs" / "r", manifest("r", 2, len(trials)), trials)
    write_scores(folder / "runs", [score(each.model, each.layers) for each in scores(3)[2::4]])
    return write_report(ingest(folder / "runs"), folder / "report.html")


def write_demo(folder: Path) -> Path:
    return api.demo(folder).path


def write_reference_roofs(folder: Path) -> Path:
    """Published roofs of three Orins, and networks that are modelled under them."""
    write_reference(folder / "runs")
    write_scores(folder / "runs", scores(2)[:4])
    return write_report(ingest(folder / "runs"), folder / "report.html")


def write_pagoda(folder: Path) -> Path:
    write_pagoda_page(pagoda_scores(), folder / "pagoda.html")
    return folder / "pagoda.html"


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
    "one": (write_one, 4),
    "bench": (write_bench, 8),
    "demo": (write_demo, 60),
    "published": (write_reference_roofs, 20),
    "pagoda": (write_pagoda, 1),
    "simulated": (write_simulated, 20),
    "many": (write_many, 60),
    "score": (write_score, 4),
}
