"""A GPU run on the page, in the summary, and under networks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.predict.prediction import NetworkSelection, predict
from mansard.analytics.pages.report.summary import Summary, summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute, networks_of_runs
from mansard.core.caches import dram_low_bytes, gpu_level_windows
from mansard.core.records import LayerScore
from tests.analytics.factory import HOSTILE, KIB, MIB, write_run, write_two_modes
from tests.analytics.gpu_factory import gpu_manifest, gpu_trial, orin, write_orin
from tests.analytics.gpu_runs import Run
from tests.analytics.page_reader import Page, chart_rows
from tests.analytics.score_factory import layer, score, write_scores

LAUNCH_S = 4e-6  # of each layer: gpu_runs.LAUNCHES
WORK = 95_256_576_000  # FLOP: 10 ms at 9.5256576 TFLOP/s


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = write_orin(tmp_path_factory.mktemp("runs"))
    layers = [layer(0, WORK, 10**6, precision="fp16", unit="tensor core")]
    write_scores(runs, [score("net", layers, precision="fp16")])
    return compute(ingest(runs))


@pytest.fixture(scope="module")
def page(results: Results) -> str:
    return render(results).replace("\u00a0", " ")


def seconds(results: Results, *layers: LayerScore) -> float | None:
    value = network(results, *layers)["time_s"]
    assert value is None or isinstance(value, float)
    return value


def network(results: Results, *layers: LayerScore) -> dict[str, object]:
    selection = NetworkSelection(scores=[score("net", layers, precision="fp16")])
    found = predict(results.of_runs.models, [selection], each_run=True)
    return networks_of_runs(found).row(0, named=True)


def test_a_layer_runs_on_the_unit_that_its_score_names(results: Results) -> None:
    tensor = layer(0, WORK, 8, precision="fp16", unit="tensor core")
    cores = layer(0, WORK, 8, precision="fp16", unit="CUDA core")
    assert seconds(results, tensor) == pytest.approx(0.01 + LAUNCH_S)
    # 95.256576 GFLOP at 2.4 TFLOP/s on CUDA cores
    assert seconds(results, cores) == pytest.approx(0.03969024 + LAUNCH_S)
    # fp32 has no roof of tensor cores here: 95.256576 GFLOP at 1.22830848 TFLOP/s
    single = layer(0, WORK, 8, precision="fp32", unit="tensor core")
    assert seconds(results, single) == pytest.approx(0.0775510204 + LAUNCH_S)


def test_tf32_is_fp32_where_no_tensor_core_rounds(results: Results) -> None:
    tensor = layer(0, WORK, 8, precision="tf32", unit="tensor core")
    cores = layer(0, WORK, 8, precision="tf32", unit="CUDA core")
    # 95.256576 GFLOP at 4.7628288 and at 1.22830848 TFLOP/s
    assert seconds(results, tensor) == pytest.approx(0.02 + LAUNCH_S)
    assert seconds(results, cores) == pytest.approx(0.0775510204 + LAUNCH_S)


def test_a_precision_of_tensor_cores_alone_has_no_time_elsewhere(results: Results) -> None:
    integer = layer(0, 10**12, 8, precision="int8", unit="CUDA core")
    row = network(results, integer)
    assert row["time_s"] is None
    assert str(row["reason"]).startswith("no int8 peak is known in this mode")
    matrix = msgspec.structs.replace(integer, unit="tensor core")
    # 1 TFLOP at 19.0513152 TFLOP/s
    assert seconds(results, matrix) == pytest.approx(1 / 19.0513152 + LAUNCH_S)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**13), st.integers(0, 10**10))
def test_tensor_cores_never_make_a_layer_slower(results: Results, work: int, traffic: int) -> None:
    fast = seconds(results, layer(0, work, traffic, precision="fp16", unit="tensor core"))
    slow = seconds(results, layer(0, work, traffic, precision="fp16", unit="CUDA core"))
    assert fast is not None
    assert slow is not None
    assert fast <= slow


def test_the_page_says_what_ran_where_and_how_near_the_limit(page: str) -> None:
    assert "Rooflines of Jetson AGX Orin 64GB GPU (simulated)" in page
    assert "30W (8 SMs at 612 MHz, 8 CPU cores at 1,728 MHz, memory at 3,199 MHz)" in page
    assert "computes at most 1.228 ± 0.002 TFLOP/s in fp32" in page
    assert "9.526 ± 0.029 TFLOP/s in fp16 on tensor cores" in page
    for text in (
        *("Kernels and libraries compared with their limits", "98.0 %", "1.253 TFLOP/s"),
        *("Launch of one kernel or node", "one by one", "in a CUDA graph", "1.25", "4.00"),
        *("Memory latency by working set", "57.19 ± 0.12 ns", "numba-cuda", "read, zero-copy"),
        *("true idle", "Power with chaotic and with constant values", "Compute capability"),
        *("mansard:l4t-r36, dddddddddddd", "read, sliced", "fp32, 64 MiB"),
    ):
        assert text in page, text


def test_the_charts_draw_the_usual_backend_alone(results: Results, page: str) -> None:
    assert page.count('data-spec="latency"') == 1
    rows = chart_rows(Page(page), "staircase")
    # 3 sets of L1 and 5 of each of three kernels; Numba's, in place and constant ones are not
    assert [row["is_disturbed"] for row in rows if "is_disturbed" in row] == [False] * 18


def test_a_run_of_the_cpu_has_no_section_of_gpus(tmp_path: Path) -> None:
    page = render(compute(ingest(write_two_modes(tmp_path))))
    page = page.split("<main>")[1].split("</main>")[0]
    for text in ('id="latency"', 'id="backends"', "sliced", "of a GPU"):
        assert text not in page


def test_the_summary_has_standings_and_survives_json(results: Results) -> None:
    found = summary(results.dataset, results)
    (mode,) = found.modes
    assert (mode.processor, mode.n_sms, mode.clock_hz) == ("gpu", 8, 612e6)
    assert (mode.machine, mode.host) == ("Jetson AGX Orin 64GB GPU", "Jetson AGX Orin 64GB")
    shares = [each.share for each in mode.standings if each.share is not None]
    assert max(shares) == pytest.approx(0.98)
    assert [each.level for each in mode.latencies] == ["L1", "L2", "DRAM"]
    assert msgspec.json.decode(msgspec.json.encode(found), type=Summary) == found


def test_above_its_limit_something_is_miscounted(tmp_path: Path) -> None:
    fast = gpu_trial("r", Run("fma", "fma", 1.3e12, fma_per_element=256))
    write_run(tmp_path / "r", gpu_manifest("r", 1), [fast])
    page = render(compute(ingest(tmp_path))).replace("\u00a0", " ")
    # 1.3 / 1.253376
    assert "103.7 %" in page
    assert "above 102 % of its limit: something is miscounted" in page


def test_hostile_names_of_gpus_and_backends_stay_text(tmp_path: Path) -> None:
    row = msgspec.structs.replace(
        gpu_trial("r", Run("read", "stream", 1e11, working_set_bytes=64 * MIB)),
        backend=HOSTILE,
        kernel="read",
    )
    gpu = msgspec.structs.replace(orin(), name=HOSTILE, driver_cuda=HOSTILE)
    run = msgspec.structs.replace(gpu_manifest("r", 1, gpu=gpu), image=HOSTILE)
    write_run(tmp_path / "r", run, [row])
    assert "<img src=x" not in render(compute(ingest(tmp_path)))


def test_frames_hold_the_gpus_columns(results: Results) -> None:
    (run,) = results.dataset.runs.iter_rows(named=True)
    assert (run["processor"], run["gpu"], run["image"]) == ("gpu", "Orin", "mansard:l4t-r36")
    chosen = results.dataset.trials.filter(pl.col("backend") == "cublas")
    assert chosen["clock_hz"].to_list() == [612e6, 612e6]
    accepted = results.dataset.repetitions.filter("accepted").collect()
    assert accepted["clock_hz"].unique().to_list() == [612e6]


@given(st.integers(16 * KIB, 512 * KIB), st.integers(64 * KIB, 256 * MIB), st.integers(1, 200))
def test_windows_of_a_level_end_before_the_next_begins(l1: int, l2: int, n_sms: int) -> None:
    gpu = msgspec.structs.replace(orin(), l1_bytes=l1, l2_bytes=l2)
    first, second = gpu_level_windows(gpu, n_sms)
    assert first.capacity_bytes == l1 * n_sms
    assert second.low_bytes == 1.5 * l1  # beyond one L1, whatever the number of SMs
    assert second.high_bytes == 0.75 * l2
    assert second.high_bytes < dram_low_bytes(l2) == 8 * l2
