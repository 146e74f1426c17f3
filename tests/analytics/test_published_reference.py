"""The figures that ship: every one taken again from the recorded files, by the stated rule."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from mansard.analytics.data.published.doubts import doubt_notes
from mansard.analytics.data.published.reference import (
    PAGODA_RUNS,
    RATES,
    RECORDINGS,
    ReferenceTable,
    write_reference,
)
from mansard.analytics.data.published.store import read_published
from mansard.analytics.models.roofs.published_rooflines import find_module
from reproductions.pagoda.table import (
    BATCHES,
    NETWORKS,
    OPERATOR_LAUNCH_S,
    USUAL_FORMATS,
    read_counts,
)

RECORDED = "power_modes/branes-ai+graphs__orin_nano_nx_agx_stream_blas_by_power_mode.csv"
BOARDS = {
    "agx_orin_64_rates": "jetson_orin_agx_gpu",
    "orin_nx_16_rates": "jetson_orin_nx_16gb_gpu",
    "orin_nano_8_rates": "jetson_orin_nano_gpu",
}
MODULES = {
    "agx_orin_64_rates": "agx-orin",
    "orin_nx_16_rates": "orin-nx",
    "orin_nano_8_rates": "orin-nano",
}
SUBGRAPHS = "power_modes/branes-ai+graphs__jetson_orin_per_subgraph_latency_by_power_mode.csv"
LEAST_BATCH = 16
FLOATS = {"fp64", "fp32", "tf32", "fp16", "bf16"}


def recorded(shared: Path, board: str) -> dict[tuple[str, str], float]:
    """The best 2048 product of each mode and format, FLOP/s, and the best STREAM, B/s."""
    best: dict[tuple[str, str], float] = {}
    with (shared / RECORDED).open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["hardware"] != board:
                continue
            mode = row["power_mode"].removeprefix("MODE_")
            key, value = (mode, ""), 0.0
            if row["operation"] in {"stream_add", "stream_copy", "stream_scale", "stream_triad"}:
                key, value = (mode, "DRAM"), float(row["bandwidth_gbps"]) * 1e9
            elif row["operation"] == "blas3_gemm" and row["size"] == "2048":
                key, value = (mode, row["precision"]), float(row["gflops"]) * 1e9
            if value > best.get(key, 0.0) and (key[1] in FLOATS or key[1] == "DRAM"):
                best[key] = value
    return best


def convolutions(shared: Path) -> dict[tuple[str, str], float]:
    """The best convolution at batch 16 or more of each mode and format, FLOP/s; AGX Orin."""
    best: dict[tuple[str, str], float] = {}
    with (shared / SUBGRAPHS).open(newline="") as stream:
        for row in csv.DictReader(stream):
            if int(row["batch"]) < LEAST_BATCH or not row["operation_type"].startswith("conv"):
                continue
            # PyTorch runs convolutions of fp32 tensors in TF32.
            key = (row["power_mode"], row["precision"].replace("fp32", "tf32"))
            rate = float(row["flops"]) / (float(row["latency_mean_ms"]) * 1e-3)
            best[key] = max(best.get(key, 0.0), rate)
    return best


@pytest.mark.shared_data
@pytest.mark.parametrize("table", RATES, ids=lambda table: table.name)
def test_every_rate_is_the_recorded_one(shared_data: Path, table: ReferenceTable) -> None:
    rates = [rate for rate in table.read().rates if rate.quantity != "launch"]
    found = {(rate.mode.name, rate.subject): rate.value for rate in rates}
    wanted = recorded(shared_data, BOARDS[table.name])
    if table.name == "agx_orin_64_rates":
        for key, rate in convolutions(shared_data).items():
            wanted[key] = max(wanted[key], rate)
    assert found == pytest.approx(wanted, rel=5e-5)  # convolutions' rates have five digits


@pytest.mark.shared_data
def test_every_launch_is_the_recorded_median(shared_data: Path) -> None:
    launches = [rate for rate in RATES[0].read().rates if rate.quantity == "launch"]
    assert [rate.mode.name for rate in launches] == ["15W", "30W", "50W", "MAXN"]
    for rate in launches:
        name = f"branes-ai+graphs__agx_orin_{rate.mode.name.lower()}_kernel_dispatch_latency.log"
        text = (shared_data / "power_modes" / name).read_text()
        medians = re.findall(r"p50:\s+([\d.]+) ms", text)  # empty, small_add, small_matmul
        assert rate.value == pytest.approx(float(medians[0]) * 1e-3, rel=1e-9)
        if rate.mode.name == "MAXN":
            assert pytest.approx(float(medians[1]) * 1e-3, rel=1e-9) == OPERATOR_LAUNCH_S


@pytest.mark.shared_data
def test_pagodas_rows_are_the_recorded_ones(shared_data: Path) -> None:
    folder = shared_data / "power_modes"
    with (folder / "dream-lab+pagoda__orin_agx_maxn_observed_time_power.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    runs = PAGODA_RUNS.read().runs
    assert [(run.batch, run.power_w) for run in runs] == [
        (int(float(row["bs"])), float(row["observed_power"])) for row in rows
    ]
    times_s = [float(row["observed_time"]) * 1e-3 for row in rows]
    assert [run.latency_s for run in runs] == pytest.approx(times_s, rel=1e-12)
    assert [(run.network, run.batch) for run in runs if run.remark] == [("resnet50", 32)]
    with (folder / "dream-lab+pagoda__analytical_flops_mem_per_batch.csv").open() as stream:
        counts = list(csv.DictReader(stream))
    assert [
        (count.pagoda_name, str(count.batch), str(count.work_flop), str(count.traffic_bytes))
        for count in read_counts()
    ] == [(row["model"], row["bs"], row["flops"], row["mem_acc"]) for row in counts]


YOLO = "benchmarks/justincdavis+trtutils__benchmark__data__models__{}.json"
NETSPRESSO = "benchmarks/Nota-NetsPresso+netspresso-trainer__tensorrt_latency_by_jetpack.md"
SPELLED = {"MovileViT-s": "MobileViT-s", "SegFormet-b0": "SegFormer-b0"}  # there: here
NOTA = {
    "agx_orin": "Jetson AGX Orin",
    "orin_nano": "Jetson Orin Nano",
    "agx_xavier": "Jetson Xavier",
    "xavier_nx": "Jetson NX",
    "tx2": "Jetson TX2",
    "nano": "Jetson Nano",
}


def times_ms(table: ReferenceTable) -> dict[str, float]:
    """By network; batch 1 in fp16 by TensorRT in a mode that nobody says."""
    runs = table.read().runs
    settings = {(run.mode.name, run.batch, run.precision, run.method) for run in runs}
    assert settings == {("as recorded", 1, "fp16", "TensorRT")}
    return {run.network: 1e3 * run.latency_s for run in runs if run.latency_s is not None}


@pytest.mark.shared_data
@pytest.mark.parametrize("table", RECORDINGS, ids=lambda table: table.name)
def test_every_time_of_a_board_is_the_recorded_one(
    shared_data: Path, table: ReferenceTable
) -> None:
    board = NOTA.get(table.name.removesuffix("_netspresso_runs"))
    wanted: dict[str, float] = {}
    if board is not None:
        text = (shared_data / NETSPRESSO).read_text(encoding="utf-8")
        section = text.partition(f"\n### {board}\n")[2].partition("\n### ")[0]
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) > 5 and cells[3].startswith("("):
                side = cells[3].strip("()").partition(",")[0]
                wanted[f"{SPELLED.get(cells[2], cells[2])}_{side}"] = float(cells[5])
    else:
        path = shared_data / YOLO.format(Path(table.path).stem)
        if not path.is_file():
            pytest.skip(f"{path.name} is not among the recorded data")
        networks = json.loads(path.read_text(encoding="utf-8"))["tensorrt"]
        wanted = {
            f"{name}_{side}": row["median"]
            for name, sides in networks.items()
            for side, row in sides.items()
        }
    assert times_ms(table) == pytest.approx(wanted, rel=5e-6)  # six digits


def test_no_rate_is_above_the_hardware() -> None:
    for table in RATES:
        assert list(doubt_notes(table.read(), find_module(MODULES[table.name]))) == []


def test_every_table_says_whose_it_is() -> None:
    for table in (*RATES, PAGODA_RUNS, *RECORDINGS):
        assert table.licence in {"MIT", "Apache-2.0"}
        assert table.citation.endswith(f"({table.licence})")
        imported = table.read()
        assert all(row.citation == table.citation for row in imported.rows)
        assert imported.ignored in {("source",), ("pagoda_name",)}  # for people to read


def test_the_set_is_whole(tmp_path: Path) -> None:
    write_reference(tmp_path)
    write_reference(tmp_path)
    published = read_published(tmp_path)
    modes = {(rate.device, rate.mode.name) for rate in published.rates}
    assert (len(published.rates), len(modes)) == (63, 12)
    assert {rate.mode.n_sms for rate in published.rates} == {4, 6, 8, 16}
    names = list(dict.fromkeys(count.network for count in read_counts()))
    assert tuple(sorted(names)) == tuple(sorted(NETWORKS)) == tuple(sorted(USUAL_FORMATS))
    assert {count.batch for count in read_counts()} == set(BATCHES)
