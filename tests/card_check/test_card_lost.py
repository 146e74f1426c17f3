"""A kernel that takes the GPU along: the other trials run in a new process, on a new context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mansard.core.errors import MeasurementError
from mansard.microbench.cuda.runtime import Start
from mansard.microbench.cuda.software_gpu import Mark, SoftwareMemory
from mansard.microbench.kernel import Case, Kernel, Launch
from tests.card_check.conftest import LONG_S
from tools.card_check.judging import judge
from tools.card_check.software import MeteredGpu, card_with, physics, software_card
from tools.card_check.steps.kernels import measure_kernels, measure_rest, plan_kernels
from tools.card_check.workfolder import WorkFolder

ILLEGAL = "an illegal memory access was encountered"


class BrokenGpu(MeteredGpu):
    """Chains in fp64 access memory that is not theirs; CUDA then answers every call with that."""

    is_lost = False

    def load(
        self,
        kernel: Kernel,
        case: Case,
        launch: Launch,
        arrays: Sequence[SoftwareMemory],
        clock: SoftwareMemory,
    ) -> Start:
        if kernel.name == "fma" and case.precision == "fp64":
            self.is_lost = True
        self._check()
        return super().load(kernel, case, launch, arrays, clock)

    def record(self, *, spin: bool = False) -> Mark:
        self._check()
        return super().record(spin=spin)

    def _check(self) -> None:
        if self.is_lost:
            raise MeasurementError(ILLEGAL, where="CUDA")


def test_the_rest_runs_without_the_trial_that_lost_the_gpu(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    work.runs.mkdir()
    card = card_with(BrokenGpu(physics("h100")))
    kernels = measure_kernels(card, work, LONG_S, lambda _text: None)
    work.write("kernels", kernels)
    assert "fma" in kernels["ended_in"]
    assert "fp64" in kernels["ended_in"]
    n_before = len(work.kernel_rows())
    # In the new process the same kernel may do so again, in its other precisions too.
    work.write("rest", measure_rest(software_card("h100"), work, LONG_S, lambda _text: None))
    rows = work.kernel_rows()
    planned = {one.trial_id: one for one in plan_kernels(card).trials}
    missing = [planned[trial_id] for trial_id in planned.keys() - {row.trial_id for row in rows}]
    assert n_before < len(rows)
    assert {(one.kernel, one.backend) for one in missing} == {("fma", "cupy")}
    line = next(one for one in judge(work) if one.name == "trials")
    assert line.verdict == "FAIL"
    assert ILLEGAL in line.note


def test_out_of_time_keeps_what_is_done(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    work.runs.mkdir()
    kernels = measure_kernels(software_card("h100"), work, -1.0, lambda _text: None)
    assert "ended_in" not in kernels
    assert "out of time" in kernels["problems"][0]
