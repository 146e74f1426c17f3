"""Counts made of rates, clocks and durations, and how far they may be off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.importing import ExportOrigin, counters_in
from mansard.analytics.models.counters.launch import half_step
from mansard.analytics.models.counters.metrics import count
from mansard.analytics.models.counters.pagoda import pagoda_flop
from mansard.analytics.models.counters.rates import TIME, complete
from mansard.analytics.models.counters.reading import read_export
from mansard.core.records import KernelCounters
from tests.analytics.ncu_exports import SASS, details_page, floats, launch

RATE = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
# The columns of the roofline sections that Pagoda's ``ncu_post_processing.py`` reads.
ROOFLINE = {
    "ID": "0",
    "Function Name": GEMM,
    "Demangled Name": GEMM,
    "gpu__time_duration.sum [usecond]": "500.00",
    "smsp__cycles_elapsed.avg.per_second [cycle/nsecond]": "1.00",
    "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2 [inst]": "32.00",
    f"{RATE.format('fadd')} [inst/cycle]": "8.00",
    f"{RATE.format('fmul')} [inst/cycle]": "0.50",
    "smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed [inst/cycle]": "2.00",
    "dram__bytes.sum.per_second [Gbyte/s]": "67.00",
    "l1tex__t_bytes.sum.per_second [Gbyte/second]": "100.00",
}


def row_of(cells: Mapping[str, str]) -> KernelCounters:
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in (cells, cells.values()))
    origin = ExportOrigin(device="A100", precision="fp32", compute_capability=80)
    (row,) = counters_in(ToolFile("export.csv", f"{text}\n".encode()), origin).rows
    return row


def test_a_roofline_section_has_flop_and_bytes() -> None:
    # 1.00 GHz × 500 µs are 500,000 cycles: (32 + 8 + 0.5)·500,000 = 20.25 MFLOP, and
    # 2·500,000 HMMA.16816 of 4096: 4096 MFLOP. 67 GB/s × 500 µs are 33.5 MB.
    row = row_of(ROOFLINE)
    assert row.time_s == pytest.approx(500e-6)
    assert {work.unit: work.flop for work in row.work} == pytest.approx(
        {"tensor core": 4.096e9, "CUDA core": 20.25e6}
    )
    assert row.work_flop == pytest.approx(4.11625e9)
    assert row.pagoda_flop == pytest.approx(2.048e9 + 20.25e6)
    memory = row.traffic[-1]
    assert memory.level == "memory"
    assert memory.traffic_bytes == pytest.approx(33.5e6)
    assert row.traffic[0].traffic_bytes == pytest.approx(50e6)


def test_the_error_is_that_of_the_printed_digits() -> None:
    # Half of the last digit: 0.005 / 0.50 of the worst rate, 0.005 / 1.00 of the clock and
    # 0.005 / 500 of the time; of the bytes 0.005 / 67 and that of the time.
    row = row_of(ROOFLINE)
    errors = {work.unit: work.error for work in row.work}
    assert errors["CUDA core"] == pytest.approx(0.01 + 0.005 + 1e-5)
    assert errors["tensor core"] == pytest.approx(0.0025 + 0.005 + 1e-5)
    assert row.traffic[-1].error == pytest.approx(0.005 / 67 + 1e-5)
    assert "per_second × time" in row.traffic[-1].formula
    assert all("smsp__cycles_elapsed.avg.per_second × time" in work.formula for work in row.work)


def test_half_a_step_of_a_number() -> None:
    # 0.5 of "1,250"; 0.005 / 1.25 in both languages; an exponent has all digits.
    assert half_step("1,250", 1250, comma=False) == 0.5 / 1250
    assert half_step("1.25", 1.25, comma=False) == pytest.approx(0.004)
    assert half_step("1.251,25", 1251.25, comma=True) == pytest.approx(0.005 / 1251.25)
    assert half_step("4.59199963629952e-05", 4.59e-5, comma=False) == 0
    assert half_step("0.00", 0.0, comma=False) == 0


def test_counted_cycles_come_before_the_clock() -> None:
    counted = {**ROOFLINE, "sm__cycles_elapsed.avg [cycle]": "400,000"}
    (cuda,) = (work for work in row_of(counted).work if work.unit == "CUDA core")
    assert cuda.flop == pytest.approx(40.5 * 400_000)
    assert cuda.error == pytest.approx(0.01)


def test_what_was_counted_is_not_derived() -> None:
    metrics = floats(100, 30, 4) | {RATE.format("ffma"): 5.0, "sm__cycles_elapsed.avg": 1000.0}
    completed = complete(launch(metrics))
    assert completed.launch.metrics[SASS.format("ffma")] == 100
    assert completed.derived == {}


def test_the_clock_of_the_gpcs_gives_no_cycles() -> None:
    metrics = {
        RATE.format("ffma"): 5.0,
        "gpu__time_duration.sum": 1e-3,
        "gpc__cycles_elapsed.avg.per_second": 1e9,
        "gpc__cycles_elapsed.max": 1e6,
    }
    assert SASS.format("ffma") not in complete(launch(metrics)).launch.metrics


def test_the_throughput_of_a_details_page_gives_bytes() -> None:
    # 300.00 Gbyte/s × 50.00 us are 15 MB; the other throughput is a percentage.
    rows = [
        ("0", "copy", "GPU Speed Of Light Throughput", "Memory Throughput", "%", "91.20"),
        ("0", "copy", "GPU Speed Of Light Throughput", "Duration", "us", "50.00"),
        ("0", "copy", "Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "300.00"),
    ]
    (one,) = read_export(ToolFile("details.csv", details_page(rows).encode())).launches
    memory = count(replace(one, compute_capability=80)).traffic[-1]
    assert memory.traffic_bytes == pytest.approx(15e6)
    assert memory.error == pytest.approx(0.005 / 300 + 0.005 / 50)
    # A Jetson (8.7) has no such counter: 0 is unknown, and what was counted is used.
    assert count(one).traffic[-1].traffic_bytes == pytest.approx(15e6)
    idle = replace(one, metrics={**one.metrics, "dram__bytes.sum.per_second": 0.0})
    assert count(idle).traffic[-1].traffic_bytes is None


def test_means_of_rates_give_no_sum() -> None:
    metrics = {RATE.format("ffma"): 5.0, "sm__cycles_elapsed.avg": 1e6, TIME: 1e-3}
    mean = replace(launch(metrics), n_launches=3)
    assert SASS.format("ffma") not in complete(mean).launch.metrics
    assert complete(launch(metrics)).launch.metrics[SASS.format("ffma")] == 5e6


@pytest.mark.parametrize(
    "name",
    [
        "gpu__time_duration.avg",
        "gpu__time_duration_measured_user.sum",
        "gpu__time_duration_measured_wallclock.sum",
    ],
)
def test_other_names_of_the_duration(name: str) -> None:
    assert count(launch({name: 2e-6})).time_s == 2e-6
    both = {"gpu__time_duration.sum": 1e-6, name: 2e-6}
    assert count(launch(both)).time_s == 1e-6


def test_a_duration_of_cycles_and_clock() -> None:
    # 2000 cycles at 1 GHz are 2 µs.
    metrics = {"smsp__cycles_elapsed.avg": 2000.0, "smsp__cycles_elapsed.avg.per_second": 1e9}
    assert count(launch(metrics)).time_s == pytest.approx(2e-6)
    assert count(launch({**metrics, "smsp__cycles_elapsed.avg.per_second": 0.0})).time_s is None


def test_instructions_of_partitions_are_those_of_the_sms() -> None:
    metrics = {name.replace("sm__", "smsp__"): n for name, n in floats(100, 30, 4).items()}
    metrics["smsp__inst_executed_pipe_tensor.sum"] = 0.0
    assert count(launch(metrics), precision="fp32").work_flop == 234


def test_pagodas_rule() -> None:
    # 2·100 + 30 + 4 + 2048·3 = 6378.
    assert pagoda_flop({**floats(100, 30, 4), "sm__inst_executed_pipe_tensor.sum": 3.0}, None) == (
        6378,
        "",
    )
    # HMMA and IMMA by kind are the pipe's; without either there is no rule.
    assert pagoda_flop(floats(100, 30, 4), 3.0)[0] == 6378
    assert pagoda_flop(floats(100, 30, 4), None)[0] is None
    assert pagoda_flop({}, 3.0)[0] is None


@pytest.mark.shared_data
def test_recorded_cycles_are_clock_times_duration(shared_data: Path) -> None:
    name = "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv"
    export = read_export(ToolFile(name, (shared_data / "ncu" / name).read_bytes()))
    assert len(export.launches) == 46
    n_compared = 0
    for one in export.launches:
        rates = {n: v for n, v in one.metrics.items() if "cycles_elapsed" not in n or "per_" in n}
        derived, counted = (
            [
                work.flop
                for work in count(launch(m), precision="fp32").work
                if work.precision == "fp32"
            ]
            for m in (rates, one.metrics)
        )
        assert derived == pytest.approx(counted, rel=1e-9)
        n_compared += len(counted)
    assert n_compared > 30


@pytest.mark.shared_data
def test_pagodas_rule_counts_half_of_a_recorded_gemm(shared_data: Path) -> None:
    # Its 1,048,576 HMMA.16816 (2·32768·256·256 / 4096), by their recorded share, are 2048 FLOP each
    # there and 4096 here: 2·M·N·K = 4,294,967,296.
    name = "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv"
    origin = ExportOrigin(device="Orin Nano", precision="fp16")
    data = (shared_data / "ncu" / name).read_bytes()
    gemm = counters_in(ToolFile(name, data), origin).rows[21]
    (tensor,) = (work for work in gemm.work if work.unit == "tensor core")
    (cuda,) = (work for work in gemm.work if work.unit == "CUDA core")
    assert gemm.pagoda_flop is not None
    assert tensor.flop == pytest.approx(4_294_967_296, rel=0.005)
    assert gemm.pagoda_flop - cuda.flop == pytest.approx(2_147_483_648, rel=0.005)
