"""What cannot be modelled is not, and says why."""

from __future__ import annotations

import math

import polars as pl
import pytest

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA
from mansard.analytics.models.scaling.board import scale
from tests.analytics.model_factory import board_coefficients, board_modes
from tests.analytics.scaling_factory import coefficient, only, rows, table


def test_one_mode_tells_nothing_of_its_error() -> None:
    modes = rows({"mode": "a", "gpu_hz": 400e6, "n_sms": 8})
    wanted = rows({"mode": "a"}, {"mode": "c", "gpu_hz": 600e6, "n_sms": 8})
    found = scale(modes, table(coefficient("a", 800e9)), wanted)
    row = only(found, mode="c")
    assert row["value"] == pytest.approx(1200e9)
    assert (row["low"], row["high"], row["error"]) == (None, None, None)
    assert "only one mode" in str(row["reason"])
    assert row["is_extrapolated"]
    assert only(found, mode="a")["source"] == "measured"


def test_what_was_measured_in_vain_is_modelled_from_the_others() -> None:
    modes = rows(
        *(
            {"mode": name, "gpu_hz": hz, "n_sms": 8}
            for name, hz in (("a", 400e6), ("b", 600e6), ("c", 800e6))
        )
    )
    measured = table(coefficient("a", 800e9), coefficient("b", None), coefficient("c", 1600e9))
    found = scale(modes, measured, modes)
    assert only(found, mode="b")["value"] == pytest.approx(1200e9)
    assert only(found, mode="b")["source"] == "modelled"


def test_without_any_value_the_reasons_stay() -> None:
    modes = rows({"mode": "a", "gpu_hz": 400e6, "n_sms": 8})
    wanted = rows({"mode": "a"}, {"mode": "b", "gpu_hz": 600e6, "n_sms": 8})
    found = scale(modes, table(coefficient("a", None)), wanted)
    assert found["value"].to_list() == [None, None]
    assert only(found, mode="a")["reason"] == "its only trial was disturbed"
    assert "its only trial was disturbed" in str(only(found, mode="b")["reason"])


@pytest.mark.parametrize("odd", [math.nan, math.inf, 0.0, -5.0])
def test_impossible_values_are_no_measurement(odd: float) -> None:
    modes = rows(
        {"mode": "a", "gpu_hz": 400e6, "n_sms": 8}, {"mode": "b", "gpu_hz": 800e6, "n_sms": 8}
    )
    found = scale(modes, table(coefficient("a", 800e9), coefficient("b", odd)), modes)
    assert only(found, mode="b")["value"] == pytest.approx(1600e9)
    assert only(found, mode="b")["n_fitted"] == 1


def test_a_mode_without_a_clock_says_so() -> None:
    modes = rows(
        {"mode": "a", "gpu_hz": 400e6, "n_sms": 8}, {"mode": "b", "gpu_hz": 800e6, "n_sms": 8}
    )
    measured = table(coefficient("a", 800e9), coefficient("b", 1600e9))
    row = scale(modes, measured, rows({"mode": "c", "n_sms": 8})).row(0, named=True)
    assert row["value"] is None
    assert row["reason"] == "unknown in this mode: its GPU clock"


def test_devices_never_share_a_law() -> None:
    modes = pl.concat(
        [
            rows({"mode": "a", "gpu_hz": 400e6, "n_sms": 8}).with_columns(device=pl.lit(device))
            for device in ("one", "two")
        ]
    )
    measured = table(coefficient("a", 800e9, device="one"), coefficient("a", 400e9, device="two"))
    wanted = pl.concat(
        [
            rows({"mode": "c", "gpu_hz": 800e6, "n_sms": 8}).with_columns(device=pl.lit(device))
            for device in ("one", "two", "three")
        ]
    )
    found = scale(modes, measured, wanted)
    assert only(found, device="one")["value"] == pytest.approx(1600e9)
    assert only(found, device="two")["value"] == pytest.approx(800e9)
    assert "three" not in found["device"].to_list()


def test_nothing_in_nothing_out() -> None:
    modes = board_modes()
    empty = pl.DataFrame(schema=COEFFICIENT_SCHEMA)
    assert scale(modes, empty, modes).schema == pl.Schema(COEFFICIENT_SCHEMA)
    assert len(scale(modes, board_coefficients(), modes.head(0))) == 0
    assert len(scale(modes.head(0), empty, modes)) == 0
    # Coefficients of modes whose clocks nobody knows: kept, and of no use elsewhere.
    found = scale(modes.head(0), board_coefficients(modes.head(1)), modes.head(2))
    assert found.filter(pl.col("source") == "simulated")["value"].is_not_null().all()
    assert found.filter(pl.col("source") == "modelled")["value"].is_null().all()
    assert found.filter(pl.col("value").is_null())["reason"].is_not_null().all()
