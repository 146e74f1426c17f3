"""Kernels that a GPU cannot run: one row each with its reason; a lost GPU ends the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import DeviceError
from mansard.core.records import ABOVE_LIMIT, Trial
from mansard.core.storage.jsonl import read_rows
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import RunOutcome, missing_trials, run_plan
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.software_gpu import GPU, MIB, Physics, SoftwareGpu
from mansard.microbench.kernel import Case, Kernel
from mansard.microbench.plan import KernelPlan
from mansard.microbench.trial import kernel_kind
from tests.microbench.test_gpu_metering import gpu_plan

NO_ROW_STACK = "Numba, compiling read: module 'numpy' has no attribute 'row_stack'"
UNSUPPORTED = "cuBLAS in int8 failed: CUBLAS_STATUS_NOT_SUPPORTED"
_OF_INT8 = ("cublas", "int8")


def words_of(kernel: Kernel, case: Case) -> str:
    """A numba-cuda without its NumPy, and a cuBLAS without int8."""
    if kernel.backend == "numba-cuda":
        return NO_ROW_STACK
    return UNSUPPORTED if (kernel.backend, case.precision) == _OF_INT8 else ""


@pytest.fixture(scope="module")
def plan() -> KernelPlan:
    """Some trials of each backend: 11 of a brief plan."""
    whole = gpu_plan()
    taken = [
        *[spec for spec in whole.trials if spec.backend == "numba-cuda"],
        *[spec for spec in whole.trials if (spec.backend, spec.precision) == _OF_INT8],
        *[spec for spec in whole.trials if spec.backend == "cupy"][:5],
    ]
    versions = whole.versions | {"mansard": "0.1.0"}
    return msgspec.structs.replace(whole, trials=tuple(taken), versions=versions)


def measure(plan: KernelPlan, runs: Path, gpu: SoftwareGpu) -> RunOutcome:
    kind = kernel_kind(gpu=OpenGpu(gpu.physics.gpu, gpu, gpu.host.clock))
    return run_plan(plan, runs, measurer=LocalMeasurer(kind=kind))


def rows_of(plan: KernelPlan, runs: Path) -> tuple[Trial, ...]:
    return tuple(read_rows(runs / plan.run_id / "trials.jsonl", Trial, runs).rows)


def test_kernels_that_are_refused_are_rows_and_the_rest_is_measured(
    plan: KernelPlan, tmp_path: Path
) -> None:
    measure(plan, tmp_path, SoftwareGpu(Physics(refuses=words_of)))
    rows = {row.trial_id: row for row in rows_of(plan, tmp_path)}
    assert len(rows) == len(plan.trials)
    for spec in plan.trials:
        row = rows[spec.trial_id]
        words = NO_ROW_STACK if spec.backend == "numba-cuda" else UNSUPPORTED
        if spec.backend == "numba-cuda" or (spec.backend, spec.precision) == _OF_INT8:
            assert row.failure == words
            assert (row.seconds_s, row.block, row.rejected_s, row.clock_hz) == ((), (), (), None)
            assert row.repetitions_per_sample is None
            assert row.unknown["energy"] == f"it could not be measured: {words}"
        else:
            assert row.failure is None
            assert row.unknown["failure"] == "it ran"
            assert row.seconds_s


def test_the_next_run_of_the_plan_tries_what_failed_again(plan: KernelPlan, tmp_path: Path) -> None:
    measure(plan, tmp_path, SoftwareGpu(Physics(refuses=words_of)))
    before = {row.trial_id: row for row in rows_of(plan, tmp_path)}
    failed = {row.trial_id for row in before.values() if row.failure is not None}
    assert {spec.trial_id for spec in missing_trials(plan, tmp_path)} == failed
    outcome = measure(plan, tmp_path, SoftwareGpu())
    assert (outcome.n_measured, outcome.n_resumed) == (len(failed), len(plan.trials) - len(failed))
    after = {row.trial_id: row for row in rows_of(plan, tmp_path)}
    assert not [row for row in after.values() if row.failure is not None]
    assert all(after[key] == row for key, row in before.items() if key not in failed)
    assert missing_trials(plan, tmp_path) == ()


def test_arrays_that_do_not_fit_fail_alone(plan: KernelPlan, tmp_path: Path) -> None:
    measure(plan, tmp_path, SoftwareGpu(Physics(free_bytes=24 * MIB)))
    rows = rows_of(plan, tmp_path)
    large = [row for row in rows if row.working_set_bytes > 24 * MIB]
    assert large
    for row in rows:
        is_large = row.working_set_bytes > 24 * MIB
        assert (row.failure is not None) == is_large
        assert not is_large or "not enough memory on the GPU" in str(row.failure)


def test_a_result_above_its_limit_is_kept_apart(plan: KernelPlan, tmp_path: Path) -> None:
    # CUDA says 16 SMs, 18 work: chains reach 1.125 of their limit.
    measure(plan, tmp_path, SoftwareGpu(Physics(n_sms=18)))
    rows = rows_of(plan, tmp_path)
    above = [row for row in rows if row.failure is not None]
    assert above
    assert len(above) < len(rows)
    for row in above:
        assert row.failure is not None
        assert row.failure.startswith(f"{ABOVE_LIMIT}: {row.kernel} {row.precision} reached 1.1")
        assert row.seconds_s == ()
        assert row.repetitions_per_sample
        assert set(row.rejected_reason) == {ABOVE_LIMIT}
        assert len(row.rejected_s) == len(row.rejected_reason) > 0


def first_launch_of(plan: KernelPlan, runs: Path, at: int) -> int:
    """How many launches there are before the trial at ``at``."""
    counted = SoftwareGpu()
    measure(msgspec.structs.replace(plan, trials=plan.trials[:at]), runs, counted)
    return counted.n_launches


def test_a_lost_gpu_ends_the_run_and_what_was_measured_stays(
    plan: KernelPlan, tmp_path: Path
) -> None:
    lost = SoftwareGpu(breaks_at=1 + first_launch_of(plan, tmp_path / "counted", 3))
    with pytest.raises(DeviceError, match="does not answer any more, since this: CUDA: an illegal"):
        measure(plan, tmp_path, lost)
    rows = rows_of(plan, tmp_path)
    assert [row.trial_id for row in rows] == [spec.trial_id for spec in plan.trials[:3]]
    assert {row.failure for row in rows} == {None}
    # The same command in a process whose GPU works does the rest.
    outcome = measure(plan, tmp_path, SoftwareGpu())
    assert (outcome.n_measured, outcome.n_resumed) == (len(plan.trials) - 3, 3)


@pytest.mark.parametrize(
    "refuses", [lambda kernel, _case: kernel.name, lambda _kernel, _case: UNSUPPORTED]
)
def test_a_run_of_failures_alone_is_a_run(
    plan: KernelPlan, tmp_path: Path, refuses: Callable[[Kernel, Case], str]
) -> None:
    outcome = measure(plan, tmp_path, SoftwareGpu(Physics(refuses=refuses)))
    assert outcome.n_measured == len(plan.trials)
    assert all(row.failure for row in rows_of(plan, tmp_path))


def test_the_gpu_of_a_refused_kernel_gives_its_memory_back(
    plan: KernelPlan, tmp_path: Path
) -> None:
    gpu = SoftwareGpu(Physics(refuses=words_of))
    measure(plan, tmp_path, gpu)
    assert gpu.used_bytes == 0
    assert gpu.physics.gpu == GPU
