"""Runs of before the room ``measuring``: their ids are the same, and their folders resume."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.core.power_mode import core_count_mode
from mansard.core.records import Trial
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.measuring.events import Event
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import missing_trials, run_plan
from mansard.microbench.cuda.software_gpu import GPU
from mansard.microbench.kernel import cpu_kernels, cuda_kernels
from mansard.microbench.plan import KernelPlan, Probe, make_plan
from mansard.microbench.trial import kernel_kind
from tests.measuring.test_runner import stub_sampling
from tests.microbench.test_plan import machine

OLD_RUN = Path(__file__).with_name("old_run")  # first written at commit 095e1974d3
CPU_VERSIONS = {"mansard": "0.1.0", **{f"kernel {k.name}": k.source_hash for k in cpu_kernels()}}
GPU_VERSIONS = {
    "mansard": "0.1.0",
    "numba-cuda": "0.30",
    "cublas": "12.9",
    **{f"kernel {k.name} {k.backend}": k.source_hash for k in cuda_kernels() if k.name != "wgmma"},
}
# Profile, CPU: run and plan, GPU: run and plan. They change with the text of a kernel's file, and
# with what is measured.
IDS = [
    ("brief", "a7ff74be810d4481", "a56462b2ba9c67d1", "044c6bfd8d557fe4", "04efd826c3097659"),
    ("quick", "ce10c12e8a4becaa", "d514fb099591350d", "f5aff1f46b301ad2", "27f3d83c7cd499f5"),
    ("full", "30474a29a2f60fbc", "d37ade84f019396f", "35ab28f3dc9d973a", "4f23355dbbcc8e35"),
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: ids[0])
def test_ids_of_runs_are_what_they_were(ids: tuple[str, str, str, str, str]) -> None:
    profile, cpu_run, cpu_plan, gpu_run, gpu_plan = ids
    no_gpu = Probe(gpu=None, versions=CPU_VERSIONS, unknown={"gpu": "none"})
    plan = make_plan(machine(), core_count_mode(2), profile, no_gpu)
    assert (plan.run_id, plan.plan_hash) == (cpu_run, cpu_plan)
    plan = make_plan(machine(), core_count_mode(1), profile, Probe(gpu=GPU, versions=GPU_VERSIONS))
    assert (plan.run_id, plan.plan_hash) == (gpu_run, gpu_plan)


def test_the_folder_of_an_old_run_is_through(tmp_path: Path) -> None:
    plan = read_document(OLD_RUN / "plan.json", KernelPlan)
    runs = shutil.copytree(OLD_RUN, tmp_path / "runs")
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    assert missing_trials(plan, runs) == ()

    def refuse(_: Job) -> Iterator[Event]:
        raise AssertionError("measured again")

    outcome = run_plan(plan, runs, measurer=refuse)
    assert (outcome.n_measured, outcome.n_resumed) == (0, 3)
    assert before == {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}


def test_an_old_run_that_was_interrupted_resumes(tmp_path: Path) -> None:
    plan = read_document(OLD_RUN / "plan.json", KernelPlan)
    runs = shutil.copytree(OLD_RUN, tmp_path / "runs")
    path = runs / plan.run_id / "trials.jsonl"
    before = read_rows(path, Trial).rows
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    outcome = run_plan(plan, runs, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    assert (outcome.n_measured, outcome.n_resumed) == (1, 2)
    after = read_rows(path, Trial).rows
    assert after[:2] == before[:2]
    # Reasons are words for people, which may be others in a newer version.
    assert after[2].unknown.keys() == before[2].unknown.keys()
    # The kernel's file has other words now.
    others = {"started_utc", "duration_s", "conditions", "unknown", "source_hash"}
    for name in set(Trial.__struct_fields__) - others:
        assert getattr(after[2], name) == getattr(before[2], name)
