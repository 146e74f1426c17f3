"""Every trial of a brief plan on the software GPU, as rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mansard.core.records import Trial
from mansard.device.conditions import find_sources
from mansard.device.meters.meter import NO_METERS
from mansard.measuring.instruments import Instruments
from mansard.microbench.cuda.sampling import OpenGpu, sample_with
from mansard.microbench.cuda.software_gpu import GPU, SoftwareGpu
from mansard.microbench.kernel import cuda_kernels
from mansard.microbench.trial import make_trial
from tests.microbench.test_gpu_metering import gpu_plan


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, ...]:
    """All trials of the plan."""
    plan = gpu_plan()
    root: Path = tmp_path_factory.mktemp("machine")
    instruments = Instruments(
        root=root,
        mode=plan.mode,
        sources=find_sources(root, plan.cpus),
        meters=NO_METERS,
        keep=lambda _sample: None,
        gpu=GPU,
    )
    made = []
    for spec in plan.trials:
        gpu = SoftwareGpu()
        sampling = partial(sample_with, OpenGpu(GPU, gpu, gpu.host.clock))
        made.append(make_trial(spec, plan, "a run", instruments, sampling))
    return tuple(made)


def test_every_kernel_has_rows_and_every_row_its_clock(rows: tuple[Trial, ...]) -> None:
    assert {(row.kernel, row.backend) for row in rows} == {
        (kernel.name, kernel.backend)
        for kernel in cuda_kernels()
        if kernel.name not in {"copy", "wgmma"}  # not brief; not of this architecture
    }
    for row in rows:
        assert row.processor == "gpu"
        assert row.n_sms == 16
        assert row.stability == "stable", (row.kernel, row.unknown)
        assert row.clock_hz is not None
        assert len(row.clock_hz) == len(row.seconds_s)
        assert row.disturbances == ()
