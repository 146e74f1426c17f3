"""Every trial of a brief plan on the software GPU, as rows, and what a benchmark says of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from gpu_card.figures import Figure, card_figures, energy_figure

from mansard.core.records import Trial
from mansard.device.conditions import find_sources
from mansard.device.meters.meter import NO_METERS
from mansard.measuring.instruments import Instruments
from mansard.microbench.catalog import cuda_kernels
from mansard.microbench.cuda.sampling import OpenGpu, sample_with
from mansard.microbench.cuda.software_gpu import GPU, RATES, Physics, SoftwareGpu
from mansard.microbench.trial import make_trial
from tests.microbench.test_gpu_metering import gpu_plan

PEAK_BYTES_PER_S = 204.7e9


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, ...]:
    """All trials of the plan on a GPU whose tensor cores are slow with int8: 3000 of 4096."""
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
        gpu = SoftwareGpu(Physics(flop_per_cycle={**RATES, ("tensor", "int8"): 3000.0}))
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


def test_figures_are_those_of_the_stated_physics(rows: tuple[Trial, ...]) -> None:
    figures = {one.name: one for one in card_figures(rows, GPU, PEAK_BYTES_PER_S)}
    fp32 = figures["fp32 FMA, share of the limit"]
    assert fp32.value == pytest.approx(1.0, abs=0.005)  # but for 4 µs of launch in 2 ms
    assert fp32.holds
    memory = figures["read from memory, share of the limit"]
    assert memory.value == pytest.approx(190 / 204.7, abs=0.003)
    assert memory.holds
    tensor = figures["tensor cores fp16, share of the limit"]
    assert tensor.value == pytest.approx(1.0, abs=0.01)
    slow = figures["tensor cores int8, share of the limit"]
    assert slow.value == pytest.approx(3000 / 4096, abs=0.005)
    assert slow.verdict == "DOES NOT HOLD"
    for name, one in figures.items():
        if name.startswith("Numba"):
            assert one.value == pytest.approx(0.0, abs=0.01)


def test_figures_that_cannot_be_had_say_so() -> None:
    figures = card_figures((), GPU, None)
    assert [one.verdict for one in figures] == ["not measured", "not measured"]
    assert energy_figure((), "no meter").note == "no meter"


def test_energy_varies_by_its_standard_deviation_over_its_mean() -> None:
    # 9, 10 and 11: standard deviation 1, mean 10.
    found = energy_figure((9.0, 10.0, 11.0), "")
    assert found == Figure(
        "energy of repeated windows, coefficient of variation", 0.1, "≤ 0.02", False, "3 windows"
    )
    assert energy_figure((10.0, 10.1, 9.9), "").holds
