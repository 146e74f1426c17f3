"""The runner with the real kernels on short plans, and with a stub where time would go by."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import DeviceError, SchemaError, StorageError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Manifest, PowerSample, Trial
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.device.meters.meter import Meters
from mansard.device.totals import Total
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.measuring.sampling import Samples
from mansard.microbench.kernel import HOST, TrialSpec, find_kernel
from mansard.microbench.plan import KernelPlan, make_plan
from mansard.microbench.trial import kernel_kind
from tests.measuring.metered_windows import windows_read


def short_plan(n_trials: int = 4) -> KernelPlan:
    plan = make_plan(identify(), core_count_mode(1), "quick")
    # A meter that dies is waited for until the cap.
    few = msgspec.structs.replace(
        plan.protocol, time_cap_s=0.2, idle_s=1.0, settle_cap_s=0.5, energy_window_cap_s=1.5
    )
    return msgspec.structs.replace(plan, trials=plan.trials[:n_trials], protocol=few)


def stub_sampling(spec: TrialSpec, plan: KernelPlan, metering: EnergyMetering | None) -> Samples:
    return Samples(
        seconds_s=(0.25, 0.5),
        block=(0, 1),
        rejected_s=(1.0,),
        rejected_reason=("2 involuntary context switches",),
        repetitions_per_sample=8,
        stability="unstable",
        stability_interval=None,
        stability_reason="2 blocks are too few for an interval",
        interrupted=False,
    )


def test_real_kernels_give_trials_that_add_up(tmp_path: Path) -> None:
    plan = short_plan(6)
    outcome = run_plan(plan, tmp_path)
    assert (outcome.n_measured, outcome.n_resumed) == (6, 0)
    trials = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    assert [trial.trial_id for trial in trials] == [spec.trial_id for spec in plan.trials]
    for trial, spec in zip(trials, plan.trials, strict=True):
        n_bytes = {"fp32": 4, "fp64": 8}[trial.precision]
        n_arrays = {"fma": 1, "read": 1, "copy": 2, "scale": 2, "triad": 3}[trial.kernel]
        accesses = {"fma": 2, "read": 1, "copy": 2, "scale": 2, "triad": 3}[trial.kernel]
        n_elements = find_kernel(trial.kernel).launch(spec.case(), HOST).n_elements
        # Arrays are rounded down to whole blocks of at most a few kilobytes.
        assert 0 <= spec.working_set_bytes // (n_arrays * n_bytes) - n_elements < 1024
        assert trial.traffic_bytes == n_elements * accesses * n_bytes
        flop = {"fma": 2 * (spec.fma_per_element or 0), "scale": 1, "triad": 2}
        assert trial.work_flop == n_elements * flop.get(trial.kernel, 0)
        assert len(trial.seconds_s) == len(trial.block)
        assert len(trial.rejected_s) == len(trial.rejected_reason)
        assert all(seconds > 0 for seconds in trial.seconds_s)
    manifest = read_document(outcome.folder / "manifest.json", Manifest)
    assert manifest.finished_utc is not None
    assert manifest.mode_read_back == plan.mode
    assert manifest.run_id == outcome.folder.name == plan.run_id


def test_a_second_run_measures_nothing(tmp_path: Path) -> None:
    plan = short_plan()
    run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def refuse(spec: TrialSpec, plan: KernelPlan, metering: EnergyMetering | None) -> Samples:
        raise AssertionError("measured again")

    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(refuse)))
    assert (outcome.n_measured, outcome.n_resumed) == (0, 4)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_an_interrupted_run_resumes_where_it_was(tmp_path: Path) -> None:
    plan = short_plan()

    def interrupted(spec: TrialSpec, plan_: KernelPlan, metering: EnergyMetering | None) -> Samples:
        if spec == plan.trials[2]:
            raise KeyboardInterrupt
        return stub_sampling(spec, plan_, metering)

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(interrupted)))
    path = tmp_path / plan.run_id
    assert read_document(path / "manifest.json", Manifest).finished_utc is None
    states: list[SweepState] = []
    outcome = run_plan(
        plan,
        tmp_path,
        measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)),
        on_progress=states.append,
    )
    assert (outcome.n_measured, outcome.n_resumed) == (2, 2)
    assert [state.n_done for state in states] == [2, 3, 4]
    assert states[-1].n_done == states[-1].n_total
    assert len(read_rows(path / "trials.jsonl", Trial).rows) == 4
    manifest = read_document(path / "manifest.json", Manifest)
    assert manifest.finished_utc is not None
    assert "resumed" in manifest.unknown["finished_monotonic_s"]


def test_a_torn_row_is_kept_aside_and_measured_again(tmp_path: Path) -> None:
    plan = short_plan()
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    path = outcome.folder / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    assert (outcome.n_measured, outcome.n_resumed) == (1, 3)
    assert outcome.torn_path == outcome.folder / "trials.jsonl.torn-1"


def test_what_is_not_known_says_why(tmp_path: Path) -> None:
    plan = short_plan(1)
    gone = Meters(found=(), missing={"RAPL": "gone"}, total=None, why_no_total="no meter")
    outcome = run_plan(
        plan, tmp_path, measurer=LocalMeasurer(gone, kind=kernel_kind(stub_sampling))
    )
    (trial,) = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    assert trial.energy is None
    assert trial.unknown["energy"] == "no meter; 'mansard doctor' says what is missing"
    assert trial.unknown["stability_interval"] == "2 blocks are too few for an interval"
    manifest = read_document(outcome.folder / "manifest.json", Manifest)
    assert manifest.meters_missing == {"RAPL": "gone"}


class SteadyMeter:
    """A meter's lowest edge: a counter that grows by 5 J every second of the real clock."""

    name = "steady"
    rails = ("package-0",)
    total_rule = "the package"
    boundary = "CPU package"
    period_s = 0.01
    pace_s = 0.0

    def step_w(self, rail: str) -> float | None:
        return None

    def step_note(self, rail: str) -> str:
        return "counts without steps"

    def sensor(self, rail: str) -> str:
        return rail

    def read(self) -> tuple[PowerSample, ...]:
        now_s = time.monotonic()
        return (
            PowerSample(
                rail="package-0",
                monotonic_s=now_s,
                power_w=None,
                energy_j=5 * now_s,
                unknown={"power_w": "counts energy"},
            ),
        )


def metered(*meters: SteadyMeter) -> Meters:
    total = Total(rails=("package-0",), rule="the package", boundary="CPU package")
    return Meters(found=meters, missing={}, total=total, why_no_total="")


def test_energy_is_that_of_windows_in_which_the_kernel_runs_on(tmp_path: Path) -> None:
    plan = short_plan(2)
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(meters=metered(SteadyMeter())))
    trials = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    assert all(trial.energy is not None for trial in trials)
    read = windows_read(window for trial in trials for window in trial.energy or ())
    for trial, window in [(t, w) for t in trials for w in t.energy or () if w in read]:
        (rail,) = window.rails
        assert plan.protocol.energy_window_s <= window.window_s < trial.duration_s
        assert rail.n_changed >= plan.protocol.n_changed_min
        assert rail.energy_j == pytest.approx(5 * window.window_s, rel=1e-6)  # 5 W all the time
        assert window.total_j == rail.energy_j
        # Whole samples of the kernel, all of them in the window.
        assert window.repetitions > 0
        assert trial.repetitions_per_sample is not None
        assert window.repetitions % trial.repetitions_per_sample == 0
    manifest = read_document(outcome.folder / "manifest.json", Manifest)
    assert manifest.idle is not None
    assert len(manifest.idle) == 3  # before, half way, after
    for idle in windows_read(manifest.idle):
        assert idle.repetitions == 0
        assert idle.total_j == pytest.approx(5 * idle.window_s, rel=1e-6)
    assert manifest.total_rails == ("package-0",)
    assert (manifest.total_rule, manifest.boundary) == ("the package", "CPU package")
    assert len(read_rows(outcome.folder / "samples.jsonl", PowerSample).rows) >= 20


class DyingMeter(SteadyMeter):
    """Answers so many times, then no more."""

    def __init__(self, n_answers: int) -> None:
        self._left = n_answers

    def read(self) -> tuple[PowerSample, ...]:
        self._left -= 1
        if self._left < 0:
            raise DeviceError("the energy counter stopped answering", where="package-0")
        return super().read()


def test_a_meter_that_dies_leaves_energy_unknown_and_the_times_whole(tmp_path: Path) -> None:
    plan = short_plan(2)
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(meters=metered(DyingMeter(5))))
    for trial in read_rows(outcome.folder / "trials.jsonl", Trial).rows:
        assert trial.energy is not None
        for window in trial.energy:
            assert window.total_j is None
            assert [rail.energy_j for rail in window.rails] == [None]
            assert "stopped answering" in window.rails[0].unknown["energy_j"]
        assert trial.seconds_s or trial.rejected_s


def test_rows_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    plan = short_plan()
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    path = outcome.folder / "trials.jsonl"
    path.write_bytes(path.read_bytes().replace(plan.run_id.encode(), b"0" * 16))
    with pytest.raises(SchemaError, match="does not belong into this run"):
        run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))


def test_a_run_folder_of_another_version(tmp_path: Path) -> None:
    plan = short_plan()
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    path = outcome.folder / "trials.jsonl"
    now = b'"version":%d' % Trial.schema.version
    path.write_bytes(path.read_bytes().replace(now, b'"version":1', 1))
    with pytest.raises(SchemaError, match=r"trials\.jsonl: .*version 1"):
        run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))


def test_cpus_that_are_not_ours(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(short_plan(), cpus=(4095,))
    with pytest.raises(DeviceError, match=r"CPUs \[4095\], which this process may not run on"):
        run_plan(plan, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_runs_folder_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    path.write_text("")
    with pytest.raises(StorageError, match="folder is needed"):
        run_plan(short_plan(), path)


@pytest.mark.root
def test_a_full_disk_in_the_middle_of_a_sweep(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        plan = short_plan(60)
        with pytest.raises(StorageError, match=r"trials\.jsonl: No space left"):
            run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
        path = tmp_path / plan.run_id / "trials.jsonl"
        rows = read_rows(path, Trial)
        assert 5 < len(rows.rows) < 60
        assert rows.torn is None
        # With more room the same command goes on.
        remount = ["mount", "-o", "remount,size=1m", str(tmp_path)]
        subprocess.run(remount, check=True)
        outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
        assert outcome.n_resumed == len(rows.rows)
        assert len(read_rows(path, Trial).rows) == 60
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_plan_file_of_another_kind(tmp_path: Path) -> None:
    write_document(tmp_path / "plan.json", identify())
    with pytest.raises(SchemaError, match="is 'machine' version 2, this Mansard reads 'plan'"):
        read_document(tmp_path / "plan.json", KernelPlan)
