"""Recorded Orin boards: each mode from the other modes of its board, against the bars."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from recorded.power_modes import recorded_modes, stream_and_blas, sustained_products
from recorded_modes import MEDIAN_BAR, WORST_BAR, errors_of, leave_modes_out

pytestmark = pytest.mark.shared_data


@pytest.fixture(scope="module")
def short(shared_data: Path) -> pl.DataFrame:
    return leave_modes_out(recorded_modes(), stream_and_blas(shared_data))


@pytest.fixture(scope="module")
def sustained(shared_data: Path) -> pl.DataFrame:
    return leave_modes_out(recorded_modes(), sustained_products(shared_data))


def of(found: pl.DataFrame, subject: str) -> pl.DataFrame:
    return found.filter(pl.col("subject") == subject)


# Orin NX ran no large product in fp32 in its mode of 10 W.
@pytest.mark.parametrize(("subject", "n_modes"), [("DRAM", 12), ("fp32", 11)])
def test_bandwidth_and_fp32_of_every_mode(short: pl.DataFrame, subject: str, n_modes: int) -> None:
    rows = of(short, subject)
    assert len(rows) == n_modes
    median, worst = errors_of(rows)
    assert median <= MEDIAN_BAR
    assert worst <= WORST_BAR
    inside = (rows["low"] <= rows["true"]) & (rows["true"] <= rows["high"])
    assert inside.sum() >= n_modes - 1


@pytest.mark.parametrize(
    ("subject", "n_modes"),
    # Four modes of AGX Orin each; fp32 on CUDA cores and fp16 in three of Orin Nano.
    [("fp16", 7), ("bf16", 4), ("tf32", 4), ("fp32", 3)],
)
def test_peaks_where_the_clock_had_time_to_rise(
    sustained: pl.DataFrame, subject: str, n_modes: int
) -> None:
    rows = of(sustained, subject)
    assert len(rows) == n_modes
    median, worst = errors_of(rows)
    assert median <= MEDIAN_BAR
    assert worst <= WORST_BAR


def test_recorded_bandwidths_are_those_of_the_facts(short: pl.DataFrame) -> None:
    """Best STREAM in GB/s, as told beside the data."""
    recorded = {
        (row["device"], row["mode"]): row["true"] / 1e9
        for row in of(short, "DRAM").iter_rows(named=True)
    }
    assert recorded["AGX Orin 64GB", "15W"] == pytest.approx(81, abs=0.5)
    assert recorded["AGX Orin 64GB", "MAXN"] == pytest.approx(189, abs=0.5)
    assert recorded["Orin NX 16GB", "25W"] == pytest.approx(43.8, abs=0.05)
    assert recorded["Orin Nano 8GB", "MAXN_SUPER"] == pytest.approx(95.3, abs=0.05)


def test_a_mode_is_not_predicted_from_itself(shared_data: Path) -> None:
    """A mode's own value is out of its law: doubled, it leaves its prediction as it was."""
    modes, recorded = recorded_modes(), stream_and_blas(shared_data)
    is_it = (pl.col("device") == "AGX Orin 64GB") & (pl.col("mode") == "50W")
    doubled = recorded.with_columns(
        value=pl.when(is_it).then(2 * pl.col("value")).otherwise(pl.col("value"))
    )
    plain, odd = (
        of(leave_modes_out(modes, each), "fp32").filter(is_it)["value"].item()
        for each in (recorded, doubled)
    )
    assert plain == odd
