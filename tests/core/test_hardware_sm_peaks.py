"""FLOP per cycle and SM against the peaks that NVIDIA publishes of whole GPUs."""

from __future__ import annotations

import pytest

from mansard.core.hardware import MODULES, Unit, sm_flop_per_cycle, sm_l1_bytes
from mansard.core.hardware.peaks import _FMA, _TENSOR
from mansard.core.precision import PRECISIONS

CAPABILITIES = (53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)


@pytest.mark.parametrize(
    ("sm", "precision", "unit", "n_sms", "mhz", "tflops"),
    [
        (53, "fp16", "fma", 1, 921.6, 0.472),  # Nano: 1 × 512 × 921.6 MHz
        (60, "fp64", "fma", 56, 1480, 5.3),  # P100 SXM: 56 × 64 × 1480
        (60, "fp16", "fma", 56, 1480, 21.2),  # 56 × 256 × 1480
        (62, "fp16", "fma", 2, 1300, 1.33),  # TX2: 2 × 512 × 1300
        (70, "fp32", "fma", 80, 1530, 15.7),  # V100 SXM: 80 × 128 × 1530
        (70, "fp16", "tensor", 80, 1530, 125.3),  # 80 × 1024 × 1530
        (72, "fp16", "tensor", 8, 1377, 11.3),  # AGX Xavier: 8 × 1024 × 1377
        (72, "int8", "tensor", 8, 1377, 22.6),
        (75, "int8", "tensor", 40, 1590, 130.3),  # T4: 40 × 2048 × 1590
        (80, "fp64", "fma", 108, 1410, 9.7),  # A100: 108 × 64 × 1410
        (80, "fp64", "tensor", 108, 1410, 19.5),  # 108 × 128 × 1410
        (80, "fp32", "fma", 108, 1410, 19.5),
        (80, "fp16", "fma", 108, 1410, 78),  # 108 × 512 × 1410
        (80, "bf16", "fma", 108, 1410, 39),
        (80, "tf32", "tensor", 108, 1410, 156),
        (80, "fp16", "tensor", 108, 1410, 312),  # 108 × 2048 × 1410
        (80, "int8", "tensor", 108, 1410, 624),
        (86, "fp16", "fma", 68, 1710, 29.8),  # RTX 3080: 68 × 256 × 1710
        (86, "int8", "tensor", 68, 1710, 238),  # 68 × 2048 × 1710
        (87, "fp16", "tensor", 16, 1300.5, 42.6),  # AGX Orin: 16 × 2048 × 1300.5
        (87, "int8", "tensor", 16, 1300.5, 85.2),
        (89, "fp32", "fma", 128, 2520, 82.6),  # RTX 4090: 128 × 256 × 2520
        (89, "bf16", "fma", 128, 2520, 82.6),
        (89, "int8", "tensor", 128, 2520, 660.6),
        (90, "fp64", "fma", 132, 1980, 33.5),  # H100 SXM: 132 × 128 × 1980
        (90, "fp64", "tensor", 132, 1980, 66.9),  # its tensor cores clock lower but for fp64
        (90, "fp32", "fma", 132, 1980, 66.9),
        (90, "fp16", "fma", 132, 1980, 133.8),
        (90, "tf32", "tensor", 132, 1830, 494.7),
        (90, "fp16", "tensor", 132, 1830, 989.4),  # 132 × 4096 × 1830
        (90, "fp8", "tensor", 132, 1830, 1978.9),
        (100, "fp64", "fma", 148, 1965, 37.2),  # B200: 148 × 128 × 1965
        (100, "fp16", "tensor", 148, 1850, 2250),  # 148 × 8192 × 1850
        (100, "fp8", "tensor", 148, 1850, 4500),
        (110, "fp32", "fma", 20, 1575, 8.06),  # Thor: 20 × 256 × 1575
        (110, "fp16", "tensor", 20, 1575, 258),  # 20 × 8192 × 1575
        (110, "fp8", "tensor", 20, 1575, 517),
        (120, "fp32", "fma", 170, 2407, 104.8),  # RTX 5090: 170 × 256 × 2407
        (120, "int8", "tensor", 170, 2407, 838),  # 170 × 2048 × 2407
    ],
)
def test_published_peaks(
    sm: int, precision: str, unit: Unit, n_sms: int, mhz: float, tflops: float
) -> None:
    per_cycle = sm_flop_per_cycle(sm, precision, unit)
    assert per_cycle is not None
    assert n_sms * per_cycle * mhz * 1e6 == pytest.approx(tflops * 1e12, rel=6e-3)


@pytest.mark.parametrize(
    ("sm", "precision", "unit"),
    [
        (53, "fp16", "tensor"),  # no tensor cores
        (70, "int8", "tensor"),  # V100's know fp16 alone
        (75, "fp16", "tensor"),  # half on GeForce, whole on a T4: the capability does not tell
        (89, "fp8", "tensor"),
        (87, "fp8", "tensor"),
        (87, "fp16", "fma"),  # not published
        (72, "bf16", "fma"),
        (37, "fp32", "fma"),  # no such row
        (90, "int4", "tensor"),
    ],
)
def test_what_is_not_there_or_not_known_is_none(sm: int, precision: str, unit: Unit) -> None:
    assert sm_flop_per_cycle(sm, precision, unit) is None


def test_every_capability_has_its_fp32_and_its_cache() -> None:
    assert tuple(_FMA) == CAPABILITIES
    for sm in CAPABILITIES:
        # 64 or 128 FP32 cores, 2 FLOP each.
        assert sm_flop_per_cycle(sm, "fp32", "fma") in (128, 256)
        assert sm_l1_bytes(sm) in {kib * 1024 for kib in (24, 48, 96, 128, 192, 256)}
    assert {module.sm for module in MODULES.values()} <= set(CAPABILITIES)
    assert set(_TENSOR) < set(CAPABILITIES)
    assert {name for row in (*_FMA.values(), *_TENSOR.values()) for name in row} <= set(PRECISIONS)


def test_caches_of_an_sm() -> None:
    # Orin 192 KiB and Xavier 128 KiB are on their modules' pages; 24 KiB before Volta.
    assert [sm_l1_bytes(sm) for sm in (87, 72, 90, 53)] == [196_608, 131_072, 262_144, 24_576]
    assert sm_l1_bytes(37) is None


def test_narrower_formats_are_never_slower_on_tensor_cores() -> None:
    for row in _TENSOR.values():
        rates = [row[name] for name in ("fp64", "tf32", "fp16", "int8") if name in row]
        assert rates == sorted(rates)
        assert row.get("bf16", row.get("fp16")) == row.get("fp16")
        assert row.get("fp8", row.get("int8")) == row.get("int8", row.get("fp8"))
