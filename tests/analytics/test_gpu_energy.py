"""Energy of a GPU run: the costs it was made from, clocked idle, and what values cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.energy.fit import energy_points
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.energy import (
    energy_facts,
    energy_table,
    operand_table,
    power_table,
)
from tests.analytics.factory import KIB, MIB, write_run
from tests.analytics.gpu_factory import (
    CONSTANT_W,
    COSTS_J,
    IDLE_W,
    gpu_manifest,
    gpu_trial,
    write_orin,
)
from tests.analytics.gpu_runs import FP32, STALL, Run


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return compute(ingest(write_orin(tmp_path_factory.mktemp("runs"))))


def of(runs: Path, *made: Run) -> Results:
    trials = [gpu_trial("r", run) for run in made]
    write_run(runs / "r", gpu_manifest("r", len(trials)), trials)
    return compute(ingest(runs))


def test_the_costs_that_the_trials_were_made_from_come_back(results: Results) -> None:
    found = results.energies["orin-30w"]
    fitted = {**found.flop_j, **found.byte_j}
    assert set(fitted) == set(COSTS_J)
    for name, cost in COSTS_J.items():
        assert fitted[name].value == pytest.approx(cost, rel=1e-6), name
    assert found.constant_w.value == pytest.approx(CONSTANT_W, rel=1e-6)
    assert found.missing == ()


def test_the_stalled_kernel_is_the_idle_point_and_true_idle_stands_beside(
    results: Results,
) -> None:
    found = results.energies["orin-30w"]
    assert (found.n_idle, found.n_stalled) == (2, 2)  # two windows of the one stalled trial
    rows = {row[1]: row[2:] for row in energy_table(results).rows}
    assert rows["constant power"][0].startswith("9.00")
    assert rows["true idle"][0].replace("\u00a0", " ") == "6.000 W"
    assert IDLE_W == 6.0
    (fact,) = energy_facts(results)
    assert "2 of them with the clocks on and no work" in fact


def test_without_a_stalled_kernel_idle_is_nothing_running(tmp_path: Path) -> None:
    found = of(tmp_path, Run("read", "stream", 1e11, working_set_bytes=64 * MIB))
    (roof,) = found.roofs
    names = [point.name for point in energy_points(found.dataset, roof)]
    assert names == ["idle", "idle", "idle", "read fp32, 64\u00a0MiB"]
    assert "true idle" not in {row[1] for row in energy_table(found).rows}


def test_what_the_fit_leaves_out(tmp_path: Path) -> None:
    size = 64 * MIB
    found = of(
        tmp_path,
        STALL,
        Run("read", "stream", 1e11, working_set_bytes=size),
        Run("read", "stream", 1e11, working_set_bytes=size, operands="constant"),
        Run("read", "stream", 1e11, working_set_bytes=size, memory="zero-copy"),
        Run("latency", "latency", 1e6, working_set_bytes=size),
        Run("gemm", "tensor", 9e12, "fp16", "cublas", working_set_bytes=size),
        Run("copy", "stream", 3e11, working_set_bytes=256 * KIB, scope="sm"),  # stores pass L1
        Run("read", "stream", 3e11, working_set_bytes=256 * KIB),  # in one L1 or in L2
    )
    (roof,) = found.roofs
    names = [point.name for point in energy_points(found.dataset, roof)]
    assert names == ["stalled", "stalled", "read fp32, 64\u00a0MiB"]


def test_matrix_products_in_registers_are_points_without_a_level(tmp_path: Path) -> None:
    found = of(tmp_path, STALL, Run("mma", "tensor", 9e12, "fp16", working_set_bytes=64 * KIB))
    (roof,) = found.roofs
    *_, point = energy_points(found.dataset, roof)
    assert set(point.work_flop) == {"fp16 tensor"}
    assert point.traffic_bytes == {}


def test_values_that_settle_cost_less(tmp_path: Path) -> None:
    chain = Run("fma", "fma", 0.98 * FP32, fma_per_element=256)
    twin = Run("fma", "fma", 0.98 * FP32, fma_per_element=256, operands="constant")
    other = Run("fma", "fma", 0.98 * FP32, fma_per_element=64, operands="constant")  # no twin
    rows = operand_table(of(tmp_path, chain, twin, other)).rows
    # 9 W + 4 pJ × 1.2283 TFLOP/s = 13.913 W, and 0.6 of the latter 11.948 W; and 8 bytes of L2
    # for every 512 FLOP: 25 pJ × 19.19 GB/s = 0.480 W in both
    assert [[cell.replace("\u00a0", " ") for cell in row] for row in rows] == [
        ["30W", "fma fp32, 256 per element", "14.39 W", "12.43 W", "0.863", "1.00"]
    ]


def test_median_power_is_of_real_values(tmp_path: Path) -> None:
    chain = Run("fma", "fma", 0.98 * FP32, fma_per_element=256)
    twin = Run("fma", "fma", 0.98 * FP32, fma_per_element=256, operands="constant")
    rows = power_table(of(tmp_path, chain, twin)).rows
    assert [row[3].replace("\u00a0", " ") for row in rows] == ["14.39 W", "14.39 W"]
    assert [row[4] for row in rows] == ["1", "1"]
