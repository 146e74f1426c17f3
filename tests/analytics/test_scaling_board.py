"""All modes of a board from a few: what is kept, and what is modelled by which law."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from mansard.analytics.models.scaling.board import scale
from tests.analytics.model_factory import (
    DEVICE,
    GPU_HZ,
    MEMORY_HZ,
    board_coefficients,
    board_modes,
)
from tests.analytics.scaling_factory import coefficient, only, rows, table

KEY = ["device", "mode", "quantity", "subject", "unit"]
FEW = (GPU_HZ[0], GPU_HZ[2], GPU_HZ[4])


def test_a_lawful_board_is_found_again_from_few_modes() -> None:
    everything = board_modes()
    few = everything.filter(
        pl.col("gpu_hz").is_in(FEW) & pl.col("memory_hz").is_in([MEMORY_HZ[0], MEMORY_HZ[2]])
    )
    truth = board_coefficients(everything)
    found = scale(few, truth.join(few, on="mode", how="semi"), everything)
    assert len(found) == len(truth)
    both = found.join(truth, on=KEY, suffix="_true")
    np.testing.assert_allclose(both["value"], both["value_true"], rtol=1e-9)
    assert not both["is_extrapolated"].any()
    modelled = both.filter(pl.col("source") == "modelled")
    assert len(modelled) == len(truth) - len(few) * 10  # ten coefficients
    inside = (modelled["low"] <= modelled["value_true"]) & (
        modelled["value_true"] <= modelled["high"]
    )
    assert inside.all()
    assert modelled["error"].is_not_null().all()
    assert modelled["n_fitted"].unique().to_list() == [6]


def test_measured_modes_stay_as_they_are() -> None:
    modes = board_modes()
    truth = board_coefficients(modes)
    found = scale(modes, truth, modes)
    assert_frame_equal(found.sort(KEY), truth.sort(KEY))


def test_a_peak_goes_with_sms_and_clock() -> None:
    modes = rows(
        {"mode": "a", "gpu_hz": 400e6, "n_sms": 6}, {"mode": "b", "gpu_hz": 600e6, "n_sms": 8}
    )
    wanted = rows({"mode": "c", "gpu_hz": 500e6, "n_sms": 7})
    # 6 · 400 MHz · 256 = 614.4 GFLOP/s, 8 · 600 MHz · 256 = 1228.8, 7 · 500 MHz · 256 = 896.
    measured = table(coefficient("a", 614.4e9), coefficient("b", 1228.8e9))
    found = scale(modes, measured, wanted)
    assert found["value"].to_list() == pytest.approx([896e9])
    assert found.row(0, named=True)["source"] == "modelled"
    assert found.row(0, named=True)["error"] == pytest.approx(0.0, abs=1e-12)


def test_the_error_is_that_of_leaving_a_mode_out() -> None:
    modes = rows(
        {"mode": "a", "gpu_hz": 400e6, "n_sms": 8}, {"mode": "b", "gpu_hz": 800e6, "n_sms": 8}
    )
    # Per MHz 2 and 1.6 GFLOP/s. Without a, a is 640 of 800 (-20 %); without b, b is 1600 of 1280
    # (+25 %): the median is 22.5 %.
    measured = table(coefficient("a", 800e9), coefficient("b", 1280e9))
    found = scale(modes, measured, rows({"mode": "c", "gpu_hz": 600e6, "n_sms": 8}))
    row = found.row(0, named=True)
    assert row["error"] == pytest.approx(0.225)
    # The median of 2 and 1.6 is 1.8, times 600; both errors are ln 1.25, and Student's t with two
    # degrees of freedom is 4.303: 1080 · 1.25^4.303 = 2821, 1080 / 2.612 = 413.5.
    assert row["value"] == pytest.approx(1080e9)
    assert row["high"] == pytest.approx(2821e9, rel=1e-3)
    assert row["low"] == pytest.approx(413.5e9, rel=1e-3)


def test_beyond_a_limit_that_was_never_reached_the_bound_is_stated() -> None:
    # All modes are held by the GPU's port, 200 byte a cycle; the memory's own limit was not seen.
    modes = rows(
        *(
            {"mode": name, "gpu_hz": hz, "memory_hz": 3200e6, "n_sms": 8}
            for name, hz in (("a", 300e6), ("b", 400e6), ("c", 500e6))
        )
    )
    measured = table(
        *(
            coefficient(name, 200 * hz, quantity="bandwidth", subject="DRAM", unit="")
            for name, hz in (("a", 300e6), ("b", 400e6), ("c", 500e6))
        )
    )
    wanted = rows({"mode": "d", "gpu_hz": 1000e6, "memory_hz": 3200e6, "n_sms": 8})
    row = scale(modes, measured, wanted).row(0, named=True)
    # At least the 100 GB/s that were seen, at most 200 byte · 1 GHz.
    assert row["value"] == pytest.approx(100e9)
    assert row["high"] >= 200e9 * (1 - 1e-9)
    assert row["is_extrapolated"]


def test_a_bound_is_marked_among_the_clocks_measured_too() -> None:
    # 200 byte · f_gpu in both modes; the memory moved 37.5 byte a cycle at least.
    modes = rows(
        {"mode": "a", "gpu_hz": 300e6, "memory_hz": 1600e6, "n_sms": 8},
        {"mode": "b", "gpu_hz": 500e6, "memory_hz": 3200e6, "n_sms": 8},
    )
    of_memory = {"quantity": "bandwidth", "subject": "DRAM", "unit": ""}
    measured = table(coefficient("a", 60e9, **of_memory), coefficient("b", 100e9, **of_memory))
    wanted = rows({"mode": "c", "gpu_hz": 500e6, "memory_hz": 1600e6, "n_sms": 8})
    row = scale(modes, measured, wanted).row(0, named=True)
    assert row["value"] == pytest.approx(60e9)  # 37.5 · 1.6 GHz
    assert row["high"] >= 100e9 * (1 - 1e-9)
    assert row["is_extrapolated"]


def test_a_cpu_goes_with_its_cores() -> None:
    modes = rows({"mode": "1c", "n_cpus": 1}, {"mode": "2c", "n_cpus": 2})
    measured = table(
        coefficient("1c", 50e9),
        coefficient("2c", 100e9),
        coefficient("1c", 12e9, quantity="bandwidth", subject="DRAM", unit=""),
        coefficient("2c", 16e9, quantity="bandwidth", subject="DRAM", unit=""),
    )
    found = scale(modes, measured, rows({"mode": "4c", "n_cpus": 4}))
    assert only(found, quantity="peak")["value"] == pytest.approx(200e9)
    # One core alone reaches 12 GB/s, two are held by the memory at 16, and so would four be.
    assert only(found, quantity="bandwidth")["value"] == pytest.approx(16e9)


def test_a_cache_goes_with_what_it_serves() -> None:
    # L1: 128 byte a cycle in each SM; L2: 512 byte a cycle, whatever SMs are on.
    clocks_of = {"a": (400e6, 8), "b": (600e6, 16), "c": (800e6, 16)}
    modes = rows(*({"mode": name, "gpu_hz": hz, "n_sms": n} for name, (hz, n) in clocks_of.items()))
    measured = table(
        *(
            coefficient(name, value, quantity="bandwidth", subject=level, unit="")
            for name, (hz, n_sms) in clocks_of.items()
            for level, value in (("L1", 128 * n_sms * hz), ("L2", 512 * hz))
        )
    )
    found = scale(modes, measured, rows({"mode": "d", "gpu_hz": 500e6, "n_sms": 4}))
    assert only(found, subject="L1")["value"] == pytest.approx(128 * 4 * 500e6)
    assert only(found, subject="L2")["value"] == pytest.approx(512 * 500e6)


@settings(max_examples=25)
@given(
    st.floats(50, 400),
    st.floats(10, 80),
    st.floats(50, 300),
    st.lists(st.integers(3, 13), min_size=2, max_size=4, unique=True),
)
def test_more_clock_is_never_less(
    flop: float, per_memory: float, per_gpu: float, steps: list[int]
) -> None:
    modes = rows(
        *({"mode": f"m{at}", "gpu_hz": at * 1e8, "memory_hz": 2e9, "n_sms": 8} for at in steps)
    )
    measured = table(
        *(coefficient(f"m{at}", flop * 8 * at * 1e8) for at in steps),
        *(
            coefficient(
                f"m{at}",
                min(per_memory * 2e9, per_gpu * at * 1e8),
                quantity="bandwidth",
                subject="DRAM",
                unit="",
            )
            for at in steps
        ),
    )
    wanted = rows(
        *(
            {"mode": f"w{at:02}", "gpu_hz": at * 5e7, "memory_hz": 2e9, "n_sms": 8}
            for at in range(2, 40)
        )
    )
    found = scale(modes, measured, wanted).sort("mode")
    for quantity in ("peak", "bandwidth"):
        values = found.filter(pl.col("quantity") == quantity)["value"].to_numpy()
        assert len(values) == 38
        assert (np.diff(values) >= -1e-9 * values[1:]).all()
    peaks = found.filter(pl.col("quantity") == "peak")["value"].to_numpy()
    np.testing.assert_allclose(peaks, [flop * 8 * at * 5e7 for at in range(2, 40)], rtol=1e-9)


def test_a_thousand_modes_come_back_in_their_order() -> None:
    few = board_modes()
    wanted = board_modes([3e8 + 1e6 * at for at in range(500)], [665.6e6, 3199e6]).with_columns(
        mode=pl.format("m{}", pl.int_range(pl.len()))
    )
    found = scale(few, board_coefficients(few), wanted)
    assert len(found) == 1000 * 10
    peaks = found.filter((pl.col("quantity") == "peak") & (pl.col("subject") == "fp32"))
    assert peaks["mode"].to_list() == wanted["mode"].to_list()
    assert set(found["device"]) == {DEVICE}
