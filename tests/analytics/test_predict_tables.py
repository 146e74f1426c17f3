"""The page's and the terminal's tables of networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.figures.figure import Figure
from mansard.analytics.pages.figures.layers import layer_figures
from mansard.analytics.pages.figures.network_points import roof_points
from mansard.analytics.pages.figures.parameters import Chosen
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.networks import network_table
from mansard.cli.data.summary import summary_tables
from tests.analytics.factory import write_two_modes
from tests.analytics.score_factory import layer, score, write_scores


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs: Path = write_two_modes(tmp_path_factory.mktemp("runs"))
    # 64 GFLOP at 64 and at 128 GFLOP/s; 16 MB at 12.8 and at 16 GB/s of one without its peak
    half = [layer(0, 10**9, 16_000_000, precision="fp16")]
    write_scores(
        runs,
        [
            score("net", [layer(0, 64 * 10**9, 8), layer(1, 10**9, 16_000_000)]),
            score("half", half, precision="fp16"),
        ],
    )
    return compute(ingest(runs))


def cells(rows: object) -> list[list[str]]:
    assert isinstance(rows, list)
    return [[str(cell).replace("\u00a0", " ") for cell in row] for row in rows]


def test_each_network_has_a_row_for_each_mode(results: Results) -> None:
    table = network_table(results)
    # No meter: there is no column of energies.
    assert table.columns[6:] == ["Mode", "Time", "Expected with TensorRT, ms", "Bound"]
    rows = cells(table.rows)
    assert [(row[0], row[6], row[9]) for row in rows] == [
        ("half", "1c", "no fp16 peak is known in this mode"),
        ("half", "2c", "no fp16 peak is known in this mode"),
        ("net", "1c", "compute 100 %"),
        ("net", "2c", "compute 100 %"),
    ]
    assert rows[0][7] == "unknown, at least 1.25 ms"
    assert rows[1][7] == "unknown, at least 1.00 ms"


def test_layers_are_listed_with_what_bounds_them(results: Results) -> None:
    chosen = Chosen(mode="2c", network="net", precision="fp32", batch="1")
    found = layer_figures(roof_points(results), chosen, "net")
    layers, classes = found["layers"], found["classes"]
    assert isinstance(layers, Figure)
    assert isinstance(classes, Figure)
    assert layers.table.title == "Layers of net, batch 1, fp32, 2c: the slowest of 2 fused layers"
    first, second = cells(layers.table.rows)
    # 64 and 1 GFLOP: 98.5 and 1.5 % of the time
    assert (first[0], first[1], first[3], first[4]) == ("0 layer 0", "conv", "98.46", "compute")
    assert (second[3], second[5]) == ("1.538", "1,000")
    assert cells(classes.table.rows) == [["conv", "compute", "2", first_and(first, second), "100"]]


def first_and(first: list[str], second: list[str]) -> str:
    """The sum of both layers' times, as the table writes it."""
    return f"{float(first[2]) + float(second[2]):,.4g}"


def test_without_times_words_stand_for_the_layers(results: Results) -> None:
    chosen = Chosen(mode="2c", network="half", precision="fp16", batch="1")
    layers = layer_figures(roof_points(results), chosen, "net")["layers"]
    assert isinstance(layers, Figure)
    assert layers.table.rows == []
    assert layers.none.startswith("The layers of {network} in {precision} have no times")


def test_the_terminal_says_what_its_times_are_without(results: Results) -> None:
    table = summary_tables(summary(results.dataset, results))[-1]
    assert table.title.split("; ") == [
        "Networks (modelled: each fused layer at the roof)",
        "launch costs are left out: they were not measured in every mode of this device",
    ]
    assert tuple(table.columns[-2:]) == ("modelled time", "bound by")
    assert len(table.rows) == 4
