"""Energy of a kernel on the software GPU, on its virtual clock, and a planned trial as a whole."""

from __future__ import annotations

import msgspec
import pytest

from mansard.core.power_mode import core_count_mode
from mansard.core.records import PowerSample
from mansard.measuring.metering import EnergyMetering
from mansard.microbench.cuda.sampling import OpenGpu, sample_with
from mansard.microbench.cuda.software_gpu import GPU, SoftwareGpu
from mansard.microbench.kernel import find_kernel
from mansard.microbench.plan import KernelPlan, Probe, make_plan
from tests.microbench.gpu_meter import IDLE_W, KERNEL_W, software_meters
from tests.microbench.test_plan import machine

# Windows as short as the meter's pace allows: 20 values at 5 ms.
QUICKLY = {
    "n_accepted_min": 8,
    "n_blocks_min": 6,
    "time_cap_s": 0.5,
    "energy_window_s": 0.15,
    "energy_window_cap_s": 1.0,
    "settle_s": 0.05,
    "settle_cap_s": 0.1,
}


def gpu_plan() -> KernelPlan:
    versions = {"numba-cuda": "0.30", "cublas": "12.9"}
    mode = core_count_mode(1)
    plan = make_plan(machine(), mode, "brief", Probe(gpu=GPU, versions=versions))
    protocol = msgspec.structs.replace(plan.protocol, **QUICKLY)
    return msgspec.structs.replace(plan, protocol=protocol)


def test_a_plan_for_the_gpu_has_its_trials_in_random_but_equal_order() -> None:
    plan, again = gpu_plan(), gpu_plan()
    assert plan.processor == "gpu"
    assert [spec.trial_id for spec in plan.trials] == [spec.trial_id for spec in again.trials]
    families = [spec.kernel for spec in plan.trials]
    assert families != sorted(families)
    assert {"fma", "read", "triad", "latency", "stalled", "mma", "gemm"} <= set(families)


def test_a_planned_trial_is_sampled_and_metered() -> None:
    plan = gpu_plan()
    spec = next(one for one in plan.trials if one.kernel == "fma" and one.fma_per_element == 256)
    gpu = SoftwareGpu()
    kept: list[PowerSample] = []
    # At its own period, which is else longer where a reading takes long on the real clock.
    metering = EnergyMetering(software_meters(gpu), plan.protocol, kept.append, 0.005)
    samples = sample_with(OpenGpu(GPU, gpu, gpu.host.clock), spec, plan, metering)
    assert find_kernel(spec.kernel, spec.backend).family == "fma"
    assert samples.clock_hz is not None
    assert len(samples.clock_hz) == len(samples.seconds_s)
    (window,) = samples.energy.windows or ()
    assert window.repetitions > 0
    assert window.total_j is not None
    # 25 W while the kernel runs: between the chunks of a window it pauses for microseconds.
    assert window.total_j / window.window_s == pytest.approx(IDLE_W + KERNEL_W, rel=1e-3)
    assert kept
    assert kept[-1].monotonic_s >= window.start_s + window.window_s


def test_a_planned_trial_without_a_meter_says_so() -> None:
    plan = gpu_plan()
    spec = next(one for one in plan.trials if one.kernel == "stalled")
    gpu = SoftwareGpu()
    samples = sample_with(OpenGpu(GPU, gpu, gpu.host.clock), spec, plan, None)
    # 100 µs each, by sources/stalled.cu.
    assert samples.seconds_s == pytest.approx([100e-6] * len(samples.seconds_s), rel=0.01)
    assert samples.energy.reason == "no meter; 'mansard doctor' says what is missing"
