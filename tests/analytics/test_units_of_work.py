"""Integers are counted in operations: no FLOP stands beside an int8 number on any page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.quantities import NBSP
from mansard.analytics.decisions.comparing.gathering import sides_of
from mansard.analytics.models.counters.by_kernel import by_kernel, call_sum
from mansard.analytics.models.counters.check import check_network
from mansard.analytics.models.counters.importing import ExportOrigin, counters_of
from mansard.analytics.models.counters.launch import Export
from mansard.analytics.pages.report.answer_pages import write_score_page
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.counters import (
    call_words,
    checked_table,
    checked_words,
    kernel_table,
)
from mansard.core.records import KernelCounters, ModelScore
from tests.analytics.factory import write_run
from tests.analytics.gpu_factory import gpu_manifest, gpu_trial, write_orin
from tests.analytics.gpu_runs import Run, all_runs
from tests.analytics.ncu_exports import floats, launch
from tests.analytics.page_reader import Page, chart_rows, specs
from tests.analytics.score_factory import layer, score, write_scores

WORK = 95_256_576_000


def scores(*precisions: str) -> list[ModelScore]:
    return [
        score(
            f"net-{name}",
            [layer(at, WORK, 10**7, precision=name, unit="tensor core") for at in range(2)],
            precision=name,
        )
        for name in precisions
    ]


def write_board(runs: Path, *precisions: str) -> Path:
    """A simulated AGX Orin with its int8 peak, and a network in each of ``precisions``."""
    write_scores(write_orin(runs), scores(*precisions))
    return runs


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_board(tmp_path_factory.mktemp("runs"), "fp16", "int8")


@pytest.fixture(scope="module")
def page(board: Path) -> str:
    return render(compute(ingest(board))).replace("\u00a0", " ")


def rows_of(page: str) -> list[tuple[list[str], list[str]]]:
    """The titles and the cells of every row of every table of a page."""
    found = []
    for table in re.findall(r"<table.*?</table>", page, flags=re.DOTALL):
        titles, *lines = [_cells(line) for line in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
        found += [(titles, cells) for cells in lines]
    return found


def _cells(line: str) -> list[str]:
    cells = re.findall(r"<t[hd].*?</t[hd]>", line, flags=re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in cells]


def is_int8(cell: object) -> bool:
    return str(cell).startswith(("int8", "net-int8", "work in int8"))


def test_no_row_of_int8_is_in_flop(page: str) -> None:
    rows = [(titles, cells) for titles, cells in rows_of(page) if any(map(is_int8, cells))]
    # A peak, its ridges, its kernel beside the limit, its energy; a network and its layers.
    assert len(rows) >= 6
    for titles, cells in rows:
        assert not [cell for cell in cells if "FLOP" in cell], cells
        assert not [t for t in titles if "FLOP" in t and "int8: " not in t], titles


def test_rows_of_floats_are_in_flop(page: str) -> None:
    rows = [cells for _, cells in rows_of(page) if cells and not any(map(is_int8, cells))]
    # 9.526 TFLOP/s in fp16 on tensor cores: 0.95 · 8 · 2048 · 612 MHz
    assert ["fp16 tensor", "9.526 ± 0.029 TFLOP/s"] in [cells[:2] for cells in rows]
    assert not [cells for cells in rows if any(re.search(r"\d [TGM]OP\b", c) for c in cells)]


def test_peaks_prices_and_ridges_of_int8_are_in_operations(page: str) -> None:
    # 0.95 · 8 · 4096 · 612 MHz
    assert "19.05 ± 0.06 TOP/s" in page
    assert "pJ/OP" in page
    assert "Ridge points in FLOP/byte (int8: OP/byte)" in page


def test_no_mark_of_int8_is_in_flop(page: str) -> None:
    read = Page(page)
    n_marks = 0
    for name in specs(read):
        for row in chart_rows(read, name):
            if any(map(is_int8, row.values())):
                n_marks += 1
                assert not [v for v in row.values() if "FLOP" in str(v)], (name, row)
    assert n_marks > 20


def test_axes_over_both_name_both_units(page: str) -> None:
    roofline = str(specs(Page(page))["roofline"])
    assert "'title': 'TFLOP/s (int8: TOP/s)'" in roofline
    assert "'title': 'Intensity, FLOP/byte (int8: OP/byte)'" in roofline
    assert "'title': 'TFLOP/J (int8: TOP/J)'" in str(specs(Page(page))["energy-roofline"])
    # No chain of the board is of integers.
    assert "'title': 'TFLOP/s'" in str(specs(Page(page))["chains"])


def test_without_int8_no_unit_of_it_is_there(tmp_path: Path) -> None:
    floats = [run for run in all_runs() if run.precision != "int8"]
    trials = [gpu_trial("floats", run) for run in floats]
    write_run(tmp_path / "run", gpu_manifest("floats"), trials)
    write_scores(tmp_path, scores("fp16"))
    page = render(compute(ingest(tmp_path)))
    assert "'title': 'TFLOP/s'" in str(specs(Page(page))["roofline"])
    assert not re.search(r"[^L]OP/(s|byte|J)", page)


def test_networks_of_int8_alone_have_columns_of_operations(tmp_path: Path) -> None:
    page = render(compute(ingest(write_board(tmp_path, "int8"))))
    titles = next(t for t, cells in rows_of(page) if cells[:1] == ["net-int8"] and "MB" in t)
    assert {"GOP", "OP/byte"} <= set(titles)


def test_the_summary_has_the_unit_of_each_peak(board: Path) -> None:
    (mode,) = summary(ingest(board)).modes
    units = {peak.name: peak.unit for peak in mode.peaks}
    assert units["int8 tensor"] == "OP/s"
    assert {unit for name, unit in units.items() if name != "int8 tensor"} == {"FLOP/s"}
    assert {each.unit for each in mode.bandwidths} == {"B/s"}


def test_compared_peaks_and_prices_of_int8_are_in_operations(board: Path) -> None:
    (side,) = sides_of(ingest(board))
    units = {quantity.name: quantity.unit for quantity in side.quantities}
    assert units["int8 tensor peak"] == "OP/s"
    assert units["energy of int8 tensor work"] == "J/OP"
    assert units["fp16 tensor peak"] == "FLOP/s"
    assert units["energy of fp16 tensor work"] == "J/FLOP"


def test_the_page_of_a_score_counts_layers_of_int8_in_operations(tmp_path: Path) -> None:
    # A network that is mostly int8, with a layer in fp32 as a QDQ file has.
    layers = [
        layer(0, 8 * 10**9, 10**7, precision="int8"),
        layer(1, 10**6, 10**5, precision="fp32"),
    ]
    write_score_page([score("net", layers, precision="int8")], tmp_path / "page.html", None)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    # The sum over both is that of operations, which those of floats are too.
    sums = next(titles for titles, cells in rows_of(page) if cells[:1] == ["net"])
    assert "GOP" in sums
    of_layers = next(t for t, _ in rows_of(page) if "Layer" in t and "Precision" in t)
    assert {"MFLOP (int8: MOP)", "FLOP/byte (int8: OP/byte)"} <= set(of_layers)
    texts = [row["text"] for row in chart_rows(Page(page), "spread-0") if "mflop" in row]
    # 8000 MOP and 800 OP for each byte of 10 MB; 1 MFLOP and 10 FLOP for each byte of 0.1 MB
    assert texts == ["8,000 MOP, 10 MB, 800 OP/byte", "1 MFLOP, 0.1 MB, 10 FLOP/byte"]


def test_an_int8_run_above_its_limit_is_reported_in_operations(tmp_path: Path) -> None:
    # The limit: 8 · 4096 · 612 MHz = 20.05 TOP/s
    fast = gpu_trial("r", Run("mma", "tensor", 40e12, "int8", working_set_bytes=768 * 1024))
    write_run(tmp_path / "run", gpu_manifest("r"), [fast])
    (finding,) = [f for f in compute(ingest(tmp_path)).findings if f.subject == "limits"]
    said = finding.what.replace("\u00a0", " ")
    assert "the int8 tensor peak of 40.0 TOP/s is above the 20.1 TOP/s" in said


def _int8_rows() -> Sequence[KernelCounters]:
    # Half of 1000 cycles of 8 SMs with 4096 OP each, and 1000 multiply-adds in fp32.
    cycles = {
        "sm__cycles_elapsed.avg": 1000.0,
        "sm__cycles_active.avg": 1000.0,
        "launch__sm_count": 8.0,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 50.0,
        "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active": 0.0,
        "sm__inst_executed_pipe_tensor_op_imma.avg.pct_of_peak_sustained_active": 25.0,
    }
    no_tensor = {"sm__inst_executed_pipe_tensor.sum": 0.0}
    launches = (
        launch(floats(0) | cycles, "trt_igemm"),
        launch(floats(1000) | no_tensor, "sgemm"),
    )
    origin = ExportOrigin(device="board", network="net", precision="int8")
    return counters_of(Export("raw page", launches), origin, "export")


def test_kernels_counted_on_integers_are_in_operations() -> None:
    rows = _int8_rows()
    table = kernel_table("Kernels", by_kernel(rows))
    works = {
        cells[0]: cells[table.columns.index("Work")].replace(NBSP, " ") for cells in table.rows
    }
    assert works == {"trt_igemm": "16.38 MOP", "sgemm": "2.000 kFLOP"}
    said = call_words(call_sum(rows)).replace(NBSP, " ")
    assert "tensor core int8 16.38 MOP" in said
    assert "CUDA core fp32 2.000 kFLOP" in said


def test_an_estimate_of_an_int8_network_is_checked_in_operations() -> None:
    layers = [layer(0, 16_384_000, 10**6, precision="int8"), layer(1, 2000, 1000)]
    checked = check_network(score("net", layers, precision="int8"), _int8_rows())
    works = [cells[2].replace(NBSP, " ") for cells in checked_table(checked).rows]
    assert works == ["16.38 MOP", "2.000 kFLOP"]
    # 16 386 000 of both, which together are operations
    assert "work 16.39 MOP estimated" in checked_words(checked).replace(NBSP, " ")


def test_roofs_of_one_height_have_the_unit_of_each(tmp_path: Path) -> None:
    # fp16 and int8 tensor cores at the same rate: one line with two names.
    same = [
        Run("mma", "tensor", 9.5e12, precision=name, working_set_bytes=1 << 20)
        for name in ("fp16", "int8")
    ]
    trials = [gpu_trial("r", run) for run in same]
    write_run(tmp_path / "r", gpu_manifest("r", len(trials)), trials)
    page = render(compute(ingest(tmp_path))).replace("\u00a0", " ")
    assert "fp16 tensor 9.500 TFLOP/s, int8 tensor 9.500 TOP/s" in page
