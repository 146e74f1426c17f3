"""A kernel in a file of its own is planned, measured and drawn, with no line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

import mansard.microbench.cpu.kernels as cpu_folder
import mansard.microbench.cuda.kernels as cuda_folder
from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.roofs.roofline import Roofline, rooflines
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.ceilings import bandwidth_table, peak_table
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Trial
from mansard.device.identity import identify
from mansard.measuring.instruments import Instruments
from mansard.measuring.kind import Opened
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from mansard.microbench.cuda.sampling import OpenGpu, sample_with
from mansard.microbench.cuda.software_gpu import GPU, SoftwareGpu
from mansard.microbench.kernel import TrialSpec
from mansard.microbench.plan import KernelPlan, Probe, make_plan, probe
from mansard.microbench.trial import KERNELS, make_trial

CPU_FILE = '''
"""A copy and chains of a compiler of their own, say."""
from dataclasses import replace
from mansard.microbench.cpu.kernels import fma, streams
COPY = streams.KERNELS[1]
KERNELS = (
    replace(
        COPY,
        name="mirror",
        is_brief=True,
        build=lambda case: streams.build(replace(case, kernel="copy")),
    ),
    replace(fma.FMA, name="square"),
)
'''
CUDA_FILE = '''
"""Reads in another order and another instruction of tensor cores, say."""
from dataclasses import replace
from mansard.microbench.cuda.kernels import streams, tensor
KERNELS = (replace(streams.READ, name="gather"), replace(tensor.TENSOR, name="wgmma"))
'''
NEW = {"mirror", "square", "gather", "wgmma"}


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[None]:
    """Each file in a folder of kernels: the packages' own paths, with one more entry."""
    for package, name, text in (
        (cpu_folder, "made_up_cpu", CPU_FILE),
        (cuda_folder, "made_up_cuda", CUDA_FILE),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(text)
        package.__path__.append(str(tmp_path / name))
    yield
    for package, name in ((cpu_folder, "made_up_cpu"), (cuda_folder, "made_up_cuda")):
        package.__path__.remove(str(tmp_path / name))
        sys.modules.pop(f"{package.__name__}.{name}", None)


def plan_of(found: Probe, kernels: set[str]) -> KernelPlan:
    plan = make_plan(identify(), core_count_mode(1), "brief", found)
    assert {spec.kernel for spec in plan.trials} & NEW == kernels & NEW
    # Short beside a time slice of 3 ms, so that some samples of a busy machine are whole.
    short = msgspec.structs.replace(plan.protocol, time_cap_s=0.5, sample_s=0.0002)
    trials = tuple(spec for spec in plan.trials if spec.kernel in kernels)
    return msgspec.structs.replace(plan, trials=trials, protocol=short)


@contextmanager
def software_gpu(plan: KernelPlan) -> Iterator[Opened[Trial]]:
    def measure(spec: TrialSpec, instruments: Instruments) -> Trial:
        gpu = SoftwareGpu()
        sampling = partial(sample_with, OpenGpu(GPU, gpu, gpu.host.clock))
        return make_trial(spec, plan, plan.run_id, instruments, sampling)

    yield Opened(measure, GPU, "")


def roof_of(plan: KernelPlan, runs: Path, measurer: LocalMeasurer) -> Roofline:
    run_plan(plan, runs, measurer=measurer)
    dataset = ingest(runs)
    tables = [table(compute(dataset)) for table in (bandwidth_table, peak_table)]
    (roof,) = rooflines(dataset)
    assert all(table.rows for table in tables)
    assert set(tables[0].columns) & NEW == {c.kernel for c in roof.bandwidths} & NEW
    return roof


def test_kernels_of_a_cpu(folders: None, tmp_path: Path) -> None:
    plan = plan_of(probe("cpu"), {"mirror", "square"})
    roof = roof_of(plan, tmp_path / "runs", LocalMeasurer())
    assert any(c.kernel == "mirror" and c.value for c in roof.bandwidths)
    assert {peak.kernel for peak in roof.peaks if peak.value} == {"square"}


def test_kernels_of_a_gpu(folders: None, tmp_path: Path) -> None:
    found = Probe(gpu=GPU, versions={"mansard": "0.1.0"})
    plan = plan_of(found, {"gather", "wgmma", "stalled"})
    measurer = LocalMeasurer(kind=replace(KERNELS, open=software_gpu))
    roof = roof_of(plan, tmp_path / "runs", measurer)
    shown = {c.subject for c in roof.bandwidths if c.kernel == "gather" and c.value}
    assert shown == {level.name for level in roof.levels}
    assert {peak.kernel for peak in roof.peaks if peak.value} == {"wgmma"}
    assert {"gather", "wgmma"} <= {one.ceiling.kernel for one in roof.kernel_comparisons}
