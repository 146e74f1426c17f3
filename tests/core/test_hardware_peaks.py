"""Peaks of every module against arithmetic by hand, and modelled roofs against recordings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import UsageError
from mansard.core.hardware import (
    BOARD_CACHES,
    MODULES,
    Unit,
    active_sms,
    cache_bytes,
    memory_bytes_per_s,
    memory_roof_bytes_per_s,
    peak_flop_per_s,
)

AGX_ORIN, ORIN_NX, ORIN_NANO = "p3701-0005", "p3767-0000", "p3767-0005"
THOR, NANO = "p3834-0008", "p3448-0000"


def peak(part: str, mhz: float, precision: str, unit: Unit) -> float | None:
    module = MODULES[part]
    gpu_hz = mhz * 1e6
    return peak_flop_per_s(
        module, n_sms=module.n_sms, gpu_hz=gpu_hz, precision=precision, unit=unit
    )


@pytest.mark.parametrize(
    ("part", "mhz", "tflops"),
    [
        (AGX_ORIN, 1300.5, 5.326848),  # 16 SMs × 128 cores × 2 × 1300.5 MHz
        ("p3701-0004", 930, 3.33312),  # 14 × 256 × 930
        (ORIN_NX, 918, 1.880064),  # 8 × 256 × 918
        (ORIN_NX, 1173, 2.402304),
        ("p3767-0001", 765, 1.56672),
        (ORIN_NANO, 625, 1.28),
        (ORIN_NANO, 1020, 2.08896),
        ("p3767-0004", 625, 0.64),  # 4 × 256 × 625
        ("p3767-0004", 1020, 1.04448),
        ("p2888-0001", 1377, 1.410048),  # 8 SMs × 64 cores × 2 × 1377 MHz
        ("p3668-0001", 1109.25, 0.851904),  # 6 × 128 × 1109.25
        ("p3310-1000", 1300, 0.6656),  # 2 × 256 × 1300
        (NANO, 921.6, 0.2359296),  # 1 × 256 × 921.6
        (THOR, 1575, 8.064),  # 20 × 256 × 1575
    ],
)
def test_fp32_peaks(part: str, mhz: float, tflops: float) -> None:
    assert peak(part, mhz, "fp32", "fma") == pytest.approx(tflops * 1e12, rel=1e-12)


@pytest.mark.parametrize(
    ("part", "mhz", "tflops"),
    [
        (AGX_ORIN, 1300.5, 42.614784),  # 16 SMs × 2048 × 1300.5 MHz
        ("p3701-0004", 930, 26.66496),
        (ORIN_NX, 918, 15.040512),
        (ORIN_NX, 1173, 19.218432),
        (ORIN_NANO, 625, 10.24),
        (ORIN_NANO, 1020, 16.71168),
        ("p3767-0004", 1020, 8.35584),
        ("p2888-0001", 1377, 11.280384),  # 8 × 1024 × 1377
        ("p3668-0001", 1109.25, 6.815232),
        (THOR, 1575, 258.048),  # 20 × 8192 × 1575
    ],
)
def test_tensor_peaks_and_int8_twice_as_many(part: str, mhz: float, tflops: float) -> None:
    assert peak(part, mhz, "fp16", "tensor") == pytest.approx(tflops * 1e12, rel=1e-12)
    assert peak(part, mhz, "int8", "tensor") == pytest.approx(2 * tflops * 1e12, rel=1e-12)


def test_a_chip_without_tensor_cores_has_no_tensor_peak() -> None:
    assert peak("p3310-1000", 1300, "fp16", "tensor") is None
    assert peak(NANO, 921.6, "int8", "tensor") is None
    assert peak(AGX_ORIN, 1300.5, "fp16", "fma") is None  # not published, so not said


def test_the_configured_clocks_of_modules() -> None:
    clocks = {
        part: (MODULES[part].gpu_hz / 1e6, MODULES[part].highest_gpu_hz / 1e6)
        for part in (AGX_ORIN, ORIN_NX, "p3767-0001", ORIN_NANO, "p3767-0004", THOR, NANO)
    }
    assert clocks == {
        AGX_ORIN: (1300.5, 1300.5),
        ORIN_NX: (918, 1173),
        "p3767-0001": (765, 1173),
        ORIN_NANO: (625, 1020),
        "p3767-0004": (625, 1020),
        THOR: (1575, 1575),
        NANO: (921.6, 921.6),
    }


@pytest.mark.parametrize(
    ("part", "mhz", "gb_per_s"),
    [
        (AGX_ORIN, 3199, 204.736),  # 3199 MHz × 2 × 256 / 8
        (AGX_ORIN, 2133, 136.512),
        (ORIN_NX, 3199, 102.368),  # 3199 × 2 × 16
        (ORIN_NANO, 2133, 68.256),
        (ORIN_NANO, 3199, 102.368),
        ("p3767-0004", 2133, 34.128),  # 2133 × 2 × 8
        ("p3767-0004", 3199, 51.184),
        ("p2888-0001", 2133, 136.512),
        ("p3668-0001", 1866, 59.712),
        ("p3310-1000", 1866, 59.712),
        (NANO, 1600, 25.6),
        (THOR, 4266, 273.024),
    ],
)
def test_memory_peaks(part: str, mhz: float, gb_per_s: float) -> None:
    assert memory_bytes_per_s(MODULES[part], mhz * 1e6) == pytest.approx(gb_per_s * 1e9, rel=1e-12)
    memory_hz = {MODULES[part].memory_hz, MODULES[part].highest_memory_hz}
    assert mhz * 1e6 in memory_hz or (part, mhz) == (AGX_ORIN, 2133)


# Best STREAM results recorded by others: module, GPU and memory MHz, GB/s.
STREAM = [
    (AGX_ORIN, 408, 2133, 81),
    (AGX_ORIN, 612, 3199, 128),
    (AGX_ORIN, 816, 3199, 171),
    (AGX_ORIN, 1300.5, 3199, 189),  # limited by the memory
    (ORIN_NX, 612, 3199, 60),
    (ORIN_NX, 612, 3199, 65),
    (ORIN_NX, 408, 3199, 43.8),
    (ORIN_NX, 918, 3199, 92.6),
    (ORIN_NANO, 408, 2133, 39.7),
    (ORIN_NANO, 918, 3199, 95.5),
    (ORIN_NANO, 1020, 3199, 95.3),
]


@pytest.mark.parametrize(("part", "gpu_mhz", "memory_mhz", "gb_per_s"), STREAM)
def test_the_modelled_memory_roof_meets_recorded_boards(
    part: str, gpu_mhz: float, memory_mhz: float, gb_per_s: float
) -> None:
    roof = memory_roof_bytes_per_s(MODULES[part], memory_hz=memory_mhz * 1e6, gpu_hz=gpu_mhz * 1e6)
    assert roof == pytest.approx(gb_per_s * 1e9, rel=0.055)


def test_the_two_branches_of_the_memory_roof() -> None:
    module = MODULES[AGX_ORIN]
    # 204.5 bytes a cycle × 408 MHz; 0.92 × 204.736 GB/s.
    low = memory_roof_bytes_per_s(module, memory_hz=3199e6, gpu_hz=408e6)
    high = memory_roof_bytes_per_s(module, memory_hz=3199e6, gpu_hz=1300.5e6)
    assert low == pytest.approx(83.436e9)
    assert high == pytest.approx(188.35712e9)


def test_no_roof_where_the_port_was_not_recorded() -> None:
    assert memory_roof_bytes_per_s(MODULES[THOR], memory_hz=4266e6, gpu_hz=1575e6) is None


@pytest.mark.parametrize(
    ("part", "mask", "n_sms"),
    [
        # AGX Orin: CUDA reports 768, 1024, 2048 cores: 6, 8, 16 SMs of 128.
        (AGX_ORIN, 248, 6),
        (AGX_ORIN, 240, 8),
        (AGX_ORIN, 0, 16),
        ("p3701-0004", 128, 14),  # its MAXN: 8 − 1 TPCs
        ("p3701-0004", 0, 14),  # it has no eighth TPC to switch on
        (ORIN_NX, 240, 8),
        (ORIN_NX, 252, 4),
        ("p3767-0004", 252, 4),
        ("p2888-0001", 5, 4),  # 4 TPCs on the chip, two of them off
        ("p3668-0001", 1, 6),
        (AGX_ORIN, None, None),
        (AGX_ORIN, -1, None),
        (AGX_ORIN, 255, 0),
        ("p3310-1000", None, 2),  # nothing to switch off
        (THOR, 0, 20),
        (THOR, 512, None),  # what its bits mean is not known
    ],
)
def test_sms_under_a_gating_mask(part: str, mask: int | None, n_sms: int | None) -> None:
    assert active_sms(MODULES[part], mask) == n_sms


@given(st.sampled_from(sorted(MODULES)), st.integers(0, 2**40), st.integers(0, 40))
def test_switching_a_tpc_off_never_adds_sms(part: str, mask: int, bit: int) -> None:
    more, less = active_sms(MODULES[part], mask), active_sms(MODULES[part], mask | 1 << bit)
    if more is not None and less is not None:
        assert 0 <= less <= more <= MODULES[part].n_sms


@given(
    st.sampled_from(sorted(MODULES)),
    st.floats(1e6, 3e9),
    st.floats(1e6, 3e9),
    st.integers(1, 20),
)
def test_peaks_grow_in_step_with_clocks_and_sms(
    part: str, low_hz: float, high_hz: float, n_sms: int
) -> None:
    module = MODULES[part]
    one = peak_flop_per_s(module, n_sms=1, gpu_hz=low_hz)
    many = peak_flop_per_s(module, n_sms=n_sms, gpu_hz=high_hz)
    assert one is not None
    assert many is not None
    assert many / one == pytest.approx(n_sms * high_hz / low_hz)


def test_last_level_caches_by_short_name() -> None:
    mib = 1024 * 1024
    assert dict(BOARD_CACHES) == {
        "agx-orin": 4 * mib,
        "orin-nx": 2 * mib,
        "orin-nano": 2 * mib,
        "agx-xavier": mib // 2,
        "xavier-nx": mib // 2,
        "tx2": mib // 2,
        "nano": mib // 4,
        "thor": 32 * mib,
        "a100": 40 * mib,
    }
    assert cache_bytes("AGX-Orin") == 4 * mib
    assert cache_bytes("3MiB") == 3 * mib
    with pytest.raises(UsageError, match=r"neither a board nor a size.*agx-orin.*a100"):
        cache_bytes("orin")
