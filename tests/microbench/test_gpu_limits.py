"""Limits, clock drift, and whole trials on the software GPU with physics that go wrong."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MeasurementError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Board, Gpu
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.raw_samples import RawSample
from mansard.measuring.sampling import Samples
from mansard.microbench.cuda.sampling import (
    GpuLimits,
    OpenGpu,
    limits_of,
    sample_cuda_case,
    share_of_limit,
)
from mansard.microbench.cuda.software_gpu import GPU, MIB, Physics, SoftwareGpu, launch_of
from mansard.microbench.cuda.timing import (
    clock_tolerance,
    describe_change,
    describe_drift,
    judge_clocks,
)
from mansard.microbench.cuda.trial_specs import latency_sets
from mansard.microbench.kernel import Case, find_kernel, gpu_case
from tests.microbench.test_plan import machine

QUICK = PROTOCOLS["quick"]
FMA = find_kernel("fma", "cupy")
READ = find_kernel("read", "cupy")
GEMM = find_kernel("gemm", "cublas")
CHAIN = gpu_case("fma", "fp32", MIB, fma_per_element=256)
FROM_MEMORY = gpu_case("read", "fp32", 64 * MIB)
PEAK_BYTES_PER_S = 204.7e9
CARD = msgspec.structs.replace(GPU, is_integrated=False)


def measure(
    case: Case,
    physics: Physics,
    limits: GpuLimits | None = None,
    step_hz: float | None = None,
) -> Samples:
    gpu = SoftwareGpu(physics)
    kernel = find_kernel(case.kernel, "cublas" if case.kernel == "gemm" else "cupy")
    opened = OpenGpu(physics.gpu, gpu, gpu.host.clock, listed_step_hz=step_hz)
    return sample_cuda_case(kernel, case, opened, QUICK, limits or GpuLimits(physics.gpu, None))


def test_a_trial_within_its_limit_passes() -> None:
    samples = measure(CHAIN, Physics())
    assert samples.stability == "stable"
    assert samples.disturbances == ()
    launch = launch_of(FMA, CHAIN)
    share = share_of_limit(
        FMA, CHAIN, launch, GpuLimits(GPU, None), samples.seconds_s, samples.clock_hz
    )
    assert share == pytest.approx(0.998, abs=0.002)  # 4 µs of launch in 2 ms


def test_sms_that_cuda_does_not_report_are_found_out() -> None:
    # CUDA says 16 SMs, 18 work: 1.125 of the limit.
    with pytest.raises(MeasurementError, match=r"fma fp32 reached 1\.12\d of what 16 SMs"):
        measure(CHAIN, Physics(n_sms=18))


def test_a_kernel_that_does_less_than_it_counts_is_found_out() -> None:
    with pytest.raises(MeasurementError, match="miscounted"):
        measure(CHAIN, Physics(factor=lambda _: 0.9))


def test_memory_faster_than_its_bus_is_found_out() -> None:
    limits = GpuLimits(GPU, PEAK_BYTES_PER_S)
    measure(FROM_MEMORY, Physics(memory_bytes_per_s=200e9), limits)
    with pytest.raises(MeasurementError, match="read fp32"):
        measure(FROM_MEMORY, Physics(memory_bytes_per_s=220e9), limits)


def test_what_is_not_known_checks_nothing() -> None:
    # No table row for compute capability 99, and no clock counted.
    strange = msgspec.structs.replace(GPU, sm=99)
    assert measure(CHAIN, Physics(gpu=strange, factor=lambda _: 0.1)).stability == "stable"
    blind = measure(CHAIN, Physics(counts_clock=False, factor=lambda _: 0.1))
    assert blind.clock_hz is None


def test_limits_of_cards_and_boards() -> None:
    # 3199 MHz × 2 × 256 bit / 8 = 204.7 GB/s.
    assert limits_of(CARD, None, None).memory_bytes_per_s == pytest.approx(204.736e9)
    sliced = msgspec.structs.replace(CARD, mig="1g.12gb", unknown={})
    assert limits_of(sliced, None, None).memory_bytes_per_s is None
    # An integrated GPU's own clock of the memory is not to be trusted, and no module is known.
    assert limits_of(GPU, None, None).memory_bytes_per_s is None


def test_the_limit_of_a_board_is_that_of_its_module_at_the_modes_clock() -> None:
    board = Board(
        module="Jetson AGX Orin 64GB",
        part_number="p3701-0005",
        soc="tegra234",
        l4t="36.4.7",
        jetpack="6.2.1",
    )
    unknown = {name: why for name, why in machine().unknown.items() if name != "board"}
    orin = msgspec.structs.replace(machine(), board=board, unknown=unknown)
    # Without a cap 3199 MHz × 2 × 256 bit / 8; at 2133 MHz 136.5 GB/s.
    open_mode = core_count_mode(4)
    assert limits_of(GPU, orin, open_mode).memory_bytes_per_s == pytest.approx(204.7e9, rel=1e-3)
    unknown = {name: why for name, why in open_mode.unknown.items() if name != "memory_hz"}
    capped = msgspec.structs.replace(open_mode, memory_hz=2133e6, unknown=unknown)
    assert limits_of(GPU, orin, capped).memory_bytes_per_s == pytest.approx(136.5e9, rel=1e-3)
    assert limits_of(GPU, machine(), capped).memory_bytes_per_s is None


def test_products_on_cuda_cores_have_their_limit() -> None:
    case = gpu_case("gemm", "fp32", 3 * 4 * 1024**2)
    launch = launch_of(GEMM, case)
    # 2·1024³ FLOP in a million cycles on 16 SMs: 134.2 a cycle and SM, of 256: 0.5243.
    share = share_of_limit(GEMM, case, launch, GpuLimits(GPU, None), [1e-3], [1e9])
    assert share == pytest.approx(0.5243, abs=1e-4)


def at_clocks(*clocks_mhz: float | None) -> list[RawSample]:
    return [RawSample(0.002, 0.0, clock_hz=c and c * 1e6) for c in clocks_mhz]


def test_samples_off_the_median_clock_do_not_count() -> None:
    # The median of five is 1300: 1288 and 1312 are 0.92 % off and stay, 1286 is 1.08 % off.
    reasons = judge_clocks(at_clocks(1300, 1288, 1312, 1286, 1300))
    assert reasons[:3] == [None, None, None]
    assert reasons[3] == "SM clock 1286 MHz is -1.1% off the trial's median 1300 MHz"
    assert reasons[4] is None
    assert judge_clocks(at_clocks(None, None)) == [None, None]
    assert judge_clocks(at_clocks(None, 1300, 1000, 1300)) == [
        "the kernel left no clock",
        None,
        "SM clock 1000 MHz is -23.1% off the trial's median 1300 MHz",
        None,
    ]


@given(st.lists(st.floats(1e8, 3e9), min_size=1, max_size=40))
def test_the_median_clock_itself_always_counts(clocks_hz: list[float]) -> None:
    middle_hz = sorted(clocks_hz)[(len(clocks_hz) - 1) // 2]
    reasons = judge_clocks([RawSample(0.002, 0.0, clock_hz=hz) for hz in clocks_hz])
    assert len(reasons) == len(clocks_hz)
    assert reasons[clocks_hz.index(middle_hz)] is None
    for hz, reason in zip(clocks_hz, reasons, strict=True):
        if abs(hz - middle_hz) > 0.011 * middle_hz:
            assert reason is not None


@pytest.mark.parametrize(
    ("accepted", "rejected", "disturbed"), [(50, 50, False), (49, 51, True), (0, 0, False)]
)
def test_half_of_the_samples_may_drift(accepted: int, rejected: int, disturbed: bool) -> None:
    assert (describe_drift(accepted, ["off"] * rejected) is not None) is disturbed
    assert describe_drift(accepted, ["the kernel left no clock"] * rejected) is None


def stepping(*clocks_hz: float) -> Callable[[float], float]:
    """Another clock every 50 ms of the GPU's time, over and over."""
    return lambda now_s: clocks_hz[int(now_s / 0.05) % len(clocks_hz)]


def test_samples_at_another_clock_are_rejected_and_the_rest_is_clean() -> None:
    samples = measure(CHAIN, Physics(clock_hz=stepping(1.3e9, 1.3e9, 0.9e9)))
    assert samples.rejected_s
    assert "off the trial's median 1300 MHz" in samples.rejected_reason[0]
    assert samples.clock_hz == pytest.approx([1.3e9] * len(samples.seconds_s), rel=1e-4)
    assert samples.disturbances == ()


def test_a_clock_that_never_rests_disturbs_the_trial() -> None:
    samples = measure(CHAIN, Physics(clock_hz=stepping(1.3e9, 1.2e9, 1.1e9, 1.0e9, 0.9e9)))
    assert len(samples.disturbances) == 1
    assert samples.disturbances[0].startswith("the SM clock drifted:")


def mhz_of(*clocks: int) -> Callable[[float], float]:
    return stepping(*[mhz * 1e6 for mhz in clocks])


STEPS_OF_A_CARD = mhz_of(1695, 1725, 1710, 1740, 1755, 1725, 1740, 1710, 1755, 1695)


def test_a_card_that_moves_by_its_own_steps_at_its_power_limit_is_not_disturbed() -> None:
    # The median is 1725 MHz; 1695 and 1755 are 1.7 % off it and two steps of 15 MHz. Within 1 %
    # lie 1710 to 1740 alone, and six of ten samples.
    samples = measure(CHAIN, Physics(gpu=CARD, clock_hz=STEPS_OF_A_CARD))
    assert samples.disturbances == ()
    assert samples.rejected_s == ()
    assert samples.stability == "stable"
    assert samples.clock_hz is not None
    assert {round(hz / 15e6) * 15 for hz in samples.clock_hz} == {1695, 1710, 1725, 1740, 1755}
    share = share_of_limit(
        FMA,
        CHAIN,
        launch_of(FMA, CHAIN),
        GpuLimits(CARD, None),
        samples.seconds_s,
        samples.clock_hz,
    )
    assert share == pytest.approx(0.998, abs=0.002)  # at each sample's own clock


def test_a_card_that_jumps_by_several_steps_is_judged_from_its_median() -> None:
    # 1695, 1725 and 1755 MHz: two steps on either side. 1695 and 1755 alone are four steps apart:
    # the samples at the median clock count, the others do not, and neither disturbs the trial.
    samples = measure(CHAIN, Physics(gpu=CARD, clock_hz=mhz_of(1695, 1725, 1755)))
    assert (samples.disturbances, samples.rejected_s) == ((), ())
    samples = measure(CHAIN, Physics(gpu=CARD, clock_hz=mhz_of(1695, 1755)))
    assert samples.disturbances == ()
    assert samples.rejected_s
    assert samples.clock_hz is not None
    assert max(samples.clock_hz) - min(samples.clock_hz) < 15e6


@pytest.mark.parametrize("gpu", [CARD, GPU])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_clock_that_drops_in_the_middle_disturbs_the_trial(gpu: Gpu, share: float) -> None:
    whole = measure(CHAIN, Physics(gpu=gpu, clock_hz=lambda _: 1980e6))
    n_samples = len(whole.seconds_s)
    # At 1980 MHz up to a share of the samples of 2 ms, which begin at some 100 s, then at 1410.
    samples = measure(CHAIN, Physics(gpu=gpu, clock_hz=dropping(1980e6, 1410e6, share * n_samples)))
    assert samples.disturbances == (
        "the SM clock fell from 1980 MHz to 1410 MHz in the middle of the trial",
    )
    assert samples.clock_hz is not None
    assert max(samples.clock_hz) - min(samples.clock_hz) < 15e6  # those at one clock count alone
    assert samples.rejected_s


def dropping(before_hz: float, after_hz: float, n_samples: float) -> Callable[[float], float]:
    """One clock for so many samples after calibration and warm-up, then another for good."""
    n_launches = [0]

    def clock_hz(now_s: float) -> float:
        n_launches[0] += now_s > 0
        return before_hz if n_launches[0] < 30 + 1.1 * n_samples else after_hz

    return clock_hz


@given(st.lists(st.floats(1.71e9, 1.74e9), min_size=1, max_size=60))
def test_what_moves_about_one_clock_has_not_changed_for_good(clocks_hz: list[float]) -> None:
    assert describe_change([RawSample(0.002, 0.0, clock_hz=hz) for hz in clocks_hz]) is None


def test_a_clock_that_was_there_after_a_sixth_of_the_trial_is_the_trial_s() -> None:
    # Boost until the power limit holds: the first samples do not count, and the rest is steady.
    assert describe_change(at_clocks(*[1980] * 15, *[1755] * 75)) is None
    assert describe_change(at_clocks(*[1980] * 30, *[1755] * 60)) == (
        "the SM clock fell from 1980 MHz to 1755 MHz in the middle of the trial"
    )
    assert describe_change(at_clocks(None, None, 1980)) is None


def test_the_next_clock_of_a_board_is_another_operating_point() -> None:
    # 1300.5 and 1198.5 MHz: 102 MHz are 7.8 %, in which no sample at the other clock may be taken.
    samples = measure(CHAIN, Physics(clock_hz=mhz_of(1300, 1300, 1198)), step_hz=102e6)
    assert samples.rejected_s
    assert samples.clock_hz == pytest.approx([1.3e9] * len(samples.seconds_s), rel=1e-4)
    assert samples.disturbances == ()


def test_the_tolerance_of_a_clock() -> None:
    # 2.1 steps of 15 MHz: 1.8 % of 1750, 0.0158 of 1995; of 3300 MHz they are below 1 %.
    assert clock_tolerance(1750e6, 15e6) == pytest.approx(0.018)
    assert clock_tolerance(1995e6, 15e6) == pytest.approx(0.0157894, rel=1e-5)
    assert clock_tolerance(3300e6, 15e6) == 0.01
    # 15 MHz are above 2.5 % of 590 MHz, as 102 MHz are of any clock; and where no step is known.
    assert clock_tolerance(590e6, 15e6) == 0.01
    assert clock_tolerance(1300e6, 102e6) == 0.01
    assert clock_tolerance(1750e6, None) == 0.01


def test_a_card_whose_clocks_are_not_listed_moves_as_all_cards_do() -> None:
    gpu = SoftwareGpu()
    assert OpenGpu(CARD, gpu).clock_step_hz == 15e6
    assert OpenGpu(CARD, gpu, listed_step_hz=7.5e6).clock_step_hz == 7.5e6
    assert OpenGpu(GPU, gpu).clock_step_hz is None


def test_out_of_memory_names_what_was_wanted() -> None:
    with pytest.raises(MeasurementError, match="64 MiB wanted, 10 of 32768 MiB free"):
        measure(FROM_MEMORY, Physics(free_bytes=10 * MIB))


def test_a_load_takes_as_long_as_the_cache_that_holds_its_set() -> None:
    card = msgspec.structs.replace(CARD, sm=90, l1_bytes=256 * 1024, l2_bytes=50 * MIB)
    caches = {"L1": 20e-9, "L2 near": 120e-9, "L2 far": 160e-9}
    physics = Physics(gpu=card, cache_latency_s=caches, latency_s=400e-9)
    seconds = []
    for one in latency_sets(card, 0):
        case = gpu_case("latency", "fp32", one.n_bytes, scope=one.scope)
        samples = measure(case, physics)
        seconds.append(median(samples.seconds_s) / 1024)  # of a repetition of 1024 loads
    # L1, near, far, main memory; a launch of 4 µs in 2 ms is 0.2 %.
    assert seconds == pytest.approx([20e-9, 120e-9, 160e-9, 400e-9], rel=0.005)
