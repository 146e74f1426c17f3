"""Runs as the frames of modes and coefficients: one set of rows for each mode of a device."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA, QUANTITIES
from mansard.analytics.data.names import device_labels, run_labels, short_devices
from mansard.analytics.models.scaling.board import scale
from mansard.analytics.models.scaling.coefficients import (
    measured_coefficients,
    measured_modes,
    newest_runs,
    roof_coefficients,
    run_notes,
)
from mansard.analytics.pages.results import Results, compute
from tests.analytics.factory import HOSTILE, machine, manifest, write_two_modes
from tests.analytics.gpu_factory import CONSTANT_W, COSTS_J, gpu_manifest, orin, write_orin
from tests.analytics.gpu_runs import HZ, N_SMS


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return compute(ingest(write_orin(tmp_path_factory.mktemp("runs"))))


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return compute(ingest(write_two_modes(tmp_path_factory.mktemp("runs"))))


def frames(results: Results) -> tuple[pl.DataFrame, pl.DataFrame]:
    manifests = results.dataset.manifests
    labels = device_labels(manifests)
    return (
        measured_modes(manifests, results.roofs, labels),
        measured_coefficients(manifests, results.roofs, results.energies, labels),
    )


def test_a_gpu_has_its_sms_clocks_ceilings_and_costs(board: Results) -> None:
    modes, coefficients = frames(board)
    assert modes.schema == pl.Schema(MODE_SCHEMA)
    assert modes.rows(named=True) == [
        {
            "device": "Jetson AGX Orin 64GB GPU",
            "mode": "30W",
            "gpu_hz": HZ,
            "memory_hz": 3199e6,
            "cpu_hz": 1728e6,
            "n_sms": N_SMS,
            "n_cpus": 8,
            "power_limit_w": None,
        }
    ]
    assert coefficients.schema == pl.Schema(COEFFICIENT_SCHEMA)
    assert set(coefficients["quantity"]) == set(QUANTITIES)
    assert set(coefficients["source"]) == {"simulated"}
    by_key = {
        (row["quantity"], row["subject"], row["unit"]): row["value"]
        for row in coefficients.iter_rows(named=True)
    }
    roof = board.roofs[0]
    assert by_key["peak", "fp16", "tensor core"] == roof.peak("fp16", "tensor").value
    assert by_key["peak", "fp16", "CUDA core"] == roof.peak("fp16").value
    assert by_key["bandwidth", "L2", ""] == roof.bandwidth("L2").value
    assert by_key["flop_energy", "fp16", "tensor core"] == pytest.approx(COSTS_J["fp16 tensor"])
    assert by_key["flop_energy", "fp16", "CUDA core"] == pytest.approx(COSTS_J["fp16"])
    assert by_key["byte_energy", "DRAM", ""] == pytest.approx(COSTS_J["DRAM"])
    assert by_key["constant_power", "", ""] == pytest.approx(CONSTANT_W)
    assert by_key["launch", "", ""] == pytest.approx(4e-6)  # one by one, not in a graph


def test_a_cpu_has_no_clock_of_a_gpu_and_no_costs_without_a_meter(cores: Results) -> None:
    modes, coefficients = frames(cores)
    assert modes["gpu_hz"].to_list() == [None, None]
    assert modes["n_sms"].to_list() == [None, None]
    assert sorted(modes["n_cpus"]) == [1, 2]
    assert set(coefficients["quantity"]) == {"peak", "bandwidth"}
    assert set(coefficients["unit"]) == {"CUDA core", ""}
    nulls = coefficients.filter(pl.any_horizontal(pl.col("value", "low", "high").is_null()))
    assert nulls["reason"].is_not_null().all()


def test_the_cpu_of_a_board_has_no_clock_of_the_gpu_beside_it(board: Results) -> None:
    run = board.dataset.manifests[0]
    cpu = replace(run, run_id="cpu", gpu=None, unknown={**run.unknown, "gpu": "ran on the CPU"})
    roof = replace(board.roofs[0], run_id="cpu")
    row = measured_modes([cpu], [roof], {"cpu": "CPU"}).row(0, named=True)
    assert (row["gpu_hz"], row["n_sms"], row["cpu_hz"]) == (None, None, 1728e6)


def test_measured_frames_scale_to_core_counts_that_nobody_ran(cores: Results) -> None:
    modes, coefficients = frames(cores)
    wanted = modes.head(1).with_columns(mode=pl.lit("4c"), n_cpus=pl.lit(4, pl.Int64))
    found = scale(modes, coefficients, wanted)
    # 64 GFLOP/s with one core, 128 with two.
    peak = found.filter((pl.col("quantity") == "peak") & (pl.col("subject") == "fp32"))
    assert peak["value"].to_list() == pytest.approx([256e9], rel=0.01)
    assert peak["is_extrapolated"].to_list() == [True]


def test_of_several_runs_in_a_mode_the_finished_one_of_most_trials_counts() -> None:
    broken = replace(
        manifest("broken", n_trials=900),
        finished_utc=None,
        finished_monotonic_s=None,
        unknown={
            **manifest("broken").unknown,
            "finished_utc": "the run was interrupted",
            "finished_monotonic_s": "the run was interrupted",
        },
    )
    small, large = manifest("small", n_trials=10), manifest("large", n_trials=100)
    later = replace(manifest("later", n_trials=100), started_utc="2026-02-02T03:04:05Z")
    other = manifest("other", n_cpus=1)
    found = newest_runs([broken, large, later, small, other])
    assert [run.run_id for run in found] == ["later", "other"]
    assert [run.run_id for run in newest_runs([broken])] == ["broken"]
    runs = [broken, large, later, small, other]
    assert run_notes(runs, device_labels(runs)) == (
        "Example: 4 runs in mode 2c; what is modelled rests on that of 2026-02-02 03:04",
    )
    assert run_notes([large, other], device_labels(runs)) == ()


def test_devices_are_told_apart() -> None:
    gpu, same = gpu_manifest("gpu"), gpu_manifest("again", gpu=orin())
    assert set(device_labels([gpu, same]).values()) == {"Jetson AGX Orin 64GB GPU"}
    cpu = replace(gpu, run_id="cpu", gpu=None, unknown={**gpu.unknown, "gpu": "ran on the CPU"})
    assert device_labels([gpu, cpu])["cpu"] == "Jetson AGX Orin 64GB"
    twins = [manifest("a", on=machine()), manifest("b", on=machine(machine_hash="b" * 16))]
    first, second = device_labels(twins).values()
    assert first != second
    assert first.startswith("Example (")
    hostile = device_labels([manifest("x", on=machine(HOSTILE + "\n" * 200))])["x"]
    assert "\n" not in hostile
    assert hostile.startswith("</script>")


def test_a_run_without_a_roof_is_left_out(board: Results) -> None:
    run = board.dataset.manifests[0]
    assert len(measured_modes([run], (), {})) == 0
    assert len(measured_coefficients([run], (), {}, {})) == 0


def test_one_roof_goes_under_any_name(board: Results) -> None:
    roof = board.roofs[0]
    found = roof_coefficients(roof, None, device="", mode=roof.run_id)
    assert set(found["mode"]) == {roof.run_id}
    assert set(found["quantity"]) == {"peak", "bandwidth", "launch"}


def test_boards_of_a_fleet_are_called_by_their_hosts() -> None:
    """The name of the host comes first: long names are cut at their end."""
    name = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super (simulated) of ours"
    boards = [
        replace(manifest(key, on=machine(name, machine_hash=key * 16)), host=host)
        for key, host in (("a", "orin-1"), ("b", "orin-2"), ("c", ""))
    ]
    labels = device_labels(boards)
    assert labels["a"].startswith("orin-1: Jetson Orin Nano ")
    assert labels["b"].startswith("orin-2: Jetson Orin Nano ")
    assert labels["c"].startswith("Jetson Orin Nano ")
    short = short_devices(labels.values())
    assert [short[labels[key]] for key in "ab"] == ["orin-1", "orin-2"]
    assert run_labels(boards)["b"] == "orin-2, 2c"
    # One machine alone has no need of it, nor has a run that another measured there later.
    assert device_labels(boards[:1])["a"].startswith("Jetson")
    again = replace(boards[0], run_id="again", host="")
    assert device_labels([*boards, again])["again"] == labels["a"]
    # Two boards that were measured under one name are told apart by their ids.
    swapped = device_labels([boards[0], replace(boards[1], host="orin-1")])
    assert swapped["a"] != swapped["b"]
    assert all(len(label) <= 80 for label in swapped.values())
