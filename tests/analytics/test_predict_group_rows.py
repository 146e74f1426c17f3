from __future__ import annotations

import polars as pl
import pytest

from mansard.analytics.models.predict.group_rows import GROUP_ROW_SCHEMA, predict_groups
from tests.analytics.predict_factory import (
    BYTE_J,
    CONSTANT_W,
    DRAM,
    FP32,
    LAUNCH,
    ROUND,
    TENSOR,
    Value,
    coefficient_rows,
    group,
    groups_of,
    mode_frame,
)


def rows_of(
    *rows: dict[str, object], values: dict[tuple[str, str, str], Value] | None = None
) -> list[dict[str, object]]:
    coefficients = coefficient_rows(ROUND if values is None else values)
    return predict_groups(groups_of(*rows), coefficients, mode_frame()).to_dicts()


def test_each_group_has_its_time_energy_and_bounds() -> None:
    found = rows_of(
        group(0, cuda=20e9, traffic=1e9),
        group(1, traffic=3e9),
        group(2, cuda=1e6),
        group(3, n_launches=0),
    )
    # 20 ms of work beside 10 of traffic, 30 ms of traffic, 1 µs of work; 1 ms each to start
    times = [found[at]["time_s"] for at in range(3)]
    assert times == [pytest.approx(0.021), pytest.approx(0.031), pytest.approx(0.001001)]
    assert [row["bound"] for row in found] == ["compute", "memory", "launch"]
    # 20 + 10 mJ + 5 W × 21 ms; 30 mJ + 155 mJ
    assert found[0]["energy_j"] == pytest.approx(0.135)
    assert found[1]["energy_j"] == pytest.approx(0.185)
    assert found[0]["intensity"] == pytest.approx(20.0)
    assert found[2]["intensity"] is None
    # Group 3 only renames: it has no row.
    assert [row["group"] for row in found] == [0, 1, 2]


def test_the_energy_is_bound_by_its_largest_part() -> None:
    low = {**ROUND, CONSTANT_W: 0.1, LAUNCH: 0.0}
    found = rows_of(group(0, cuda=20e9), group(1, traffic=3e9), values=low)
    # 20 mJ of work beside 2 mJ, 30 mJ of traffic beside 3 mJ
    assert [row["energy_bound"] for row in found] == ["work", "traffic"]
    assert rows_of(group(cuda=1e6))[0]["energy_bound"] == "constant"


def test_what_is_known_of_a_group_is_the_least_it_takes() -> None:
    (row,) = rows_of(group(cuda=None, traffic=1e9, reason="the work of Cog is unknown"))
    assert row["time_s"] is None
    assert row["bound"] is None
    # 1 GB at 100 GB/s, and 1 ms
    assert row["least_s"] == pytest.approx(0.011)
    assert row["reason"] == "the work of Cog is unknown"


def test_each_group_says_what_it_lacks() -> None:
    without = {key: value for key, value in ROUND.items() if key not in (DRAM, BYTE_J)}
    found = rows_of(
        group(0, cuda=1e9, traffic=1e9),
        group(1, cuda=1e9),
        group(2, tensor=1e9),
        values={**without, TENSOR: None},
    )
    assert [row["reason"] for row in found] == [
        "no DRAM bandwidth is known in this mode",
        None,
        "no fp16 peak on tensor cores: nobody looked",
    ]
    assert [row["energy_reason"] for row in found] == [
        "no energy of DRAM traffic is known in this mode",
        None,
        None,  # its energy lacks nothing but the time
    ]


def test_intervals_are_there_where_every_ceiling_has_one() -> None:
    values = {FP32: (1e12, 0.5e12, 2e12), DRAM: (100e9, None, None)}
    work, moved = rows_of(group(0, cuda=1e9), group(1, traffic=1e9), values=values)  # type: ignore[arg-type]
    # 1 GFLOP at 2 and at 0.5 TFLOP/s
    assert (work["low_s"], work["high_s"]) == (pytest.approx(0.0005), pytest.approx(0.002))
    assert moved["time_s"] == pytest.approx(0.01)
    assert moved["low_s"] is None


def test_an_efficiency_stretches_the_roof_and_not_the_launch() -> None:
    found = predict_groups(
        groups_of(group(cuda=20e9)), coefficient_rows(ROUND), mode_frame(), efficiency={"conv": 2.0}
    )
    # 2 × 20 ms and 1 ms
    assert found["time_s"].to_list() == [pytest.approx(0.041)]


def test_modes_without_anything_are_rows_of_unknowns() -> None:
    found = predict_groups(
        groups_of(group(cuda=1e9)), coefficient_rows(ROUND), mode_frame(("m", "new"))
    )
    assert found.schema == pl.Schema(GROUP_ROW_SCHEMA)
    assert dict(found.select("mode", "reason").rows()) == {
        "m": None,
        "new": "no fp32 peak is known in this mode",
    }
    nothing = predict_groups(groups_of(), coefficient_rows(ROUND), mode_frame())
    assert nothing.schema == pl.Schema(GROUP_ROW_SCHEMA)
