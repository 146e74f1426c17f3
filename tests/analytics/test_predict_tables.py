"""The page's and the terminal's tables of networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.report.networks import network_details, network_table
from mansard.analytics.report.summary import summary
from mansard.analytics.results import Results, compute
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
    assert table.columns[6:] == ["Mode", "Time", "Bound"]
    rows = cells(table.rows)
    assert [(row[0], row[6], row[8]) for row in rows] == [
        ("half", "1c", "no fp16 peak is known in this mode"),
        ("half", "2c", "no fp16 peak is known in this mode"),
        ("net", "1c", "compute 100 %"),
        ("net", "2c", "compute 100 %"),
    ]
    assert rows[0][7] == "unknown, at least 1.25 ms"
    assert rows[1][7] == "unknown, at least 1.00 ms"


def test_layers_are_listed_with_what_bounds_them(results: Results) -> None:
    (half, net) = network_details(results)
    assert net.note == "All 2 fused layers."
    first, second = cells(net.table.rows)
    # 64 and 1 GFLOP: 98.5 and 1.5 % of the time
    assert (first[0], first[1], first[6], first[7]) == ("layer 0", "conv", "98 %", "compute")
    assert second[6] == "2 %"
    (only,) = cells(half.table.rows)
    assert only[5:8] == ["unknown", "", "no fp16 peak is known in this mode"]


def test_the_terminal_says_what_its_times_are_without(results: Results) -> None:
    title, columns, rows = summary_tables(summary(results.dataset, results))[-1]
    assert title.split("; ") == [
        "Networks (modelled: each fused layer at the roof)",
        "launch costs are left out: they are not known of every mode and device here",
    ]
    assert tuple(columns[-2:]) == ("modelled time", "bound by")
    assert len(rows) == 4
