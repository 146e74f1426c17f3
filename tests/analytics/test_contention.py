"""Surfaces of contention, from points made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.contention import (
    Cell,
    VictimContention,
    measured_contention,
    surface_of,
)
from mansard.analytics.pages.tables.contention import contention_table, contention_words
from mansard.core.records import ContentionPoint
from tests.analytics.factory import manifest, write_run
from tests.analytics.test_concurrent_rows import POINT

SHARES = (0.25, 0.5, 1.0)
MOST = {"cpu:0": 20e9, "cpu:1": 16e9}


def point(victim: str, own: float, other: float, speed: float, run: str = "run") -> ContentionPoint:
    """Three samples alone, of which the middle one is the demand, and three beside the other."""
    aggressor = "cpu:1" if victim == "cpu:0" else "cpu:0"
    demand = own * MOST[victim]
    return replace(
        POINT,
        run_id=run,
        trial_id=f"{victim} {own} {other}",
        victim=victim,
        aggressor=aggressor,
        victim_share=own,
        aggressor_share=other,
        alone_byte_per_s=(0.9 * demand, demand, 1.5 * demand),
        achieved_byte_per_s=(0.5 * speed * demand, speed * demand, 1.1 * speed * demand),
        external_byte_per_s=(other * MOST[aggressor],) * 3,
    )


def points(run: str = "run", lost: float = 0.4, noise: float = 0.01) -> list[ContentionPoint]:
    """Each loses ``lost`` · own share · other's share, and ``noise`` where nothing is beside it."""
    return [
        point(victim, own, other, 1 - lost * own * other if other else 1 - noise, run)
        for victim in MOST
        for own, other in product(SHARES, (0.0, *SHARES))
    ]


def found(runs: Path, *of_runs: Sequence[ContentionPoint]) -> tuple[VictimContention, ...]:
    for number, rows in enumerate(of_runs):
        run_id = rows[0].run_id
        started = f"2026-01-0{number + 1}T00:00:00Z"
        run = manifest(run_id, 2, len(rows), kind="contention", started_utc=started)
        write_run(runs / run_id, run, rows)
    return measured_contention(open_runs([runs]))


def test_a_surface_is_demand_times_speed(tmp_path: Path) -> None:
    first, second = found(tmp_path, points())
    assert (first.victim, first.aggressor, first.mode) == ("cpu:0", "cpu:1", "2c")
    assert first.surface is not None
    assert first.surface.own_byte_per_s == (5e9, 10e9, 20e9)
    assert first.surface.external_byte_per_s == (4e9, 8e9, 16e9)
    # At most beside most: 20 GB/s · (1 - 0.4); at a quarter beside a half: 5 · (1 - 0.05).
    assert first.surface.achieved_byte_per_s[2][2] == pytest.approx(12e9)
    assert first.surface.achieved_byte_per_s[0][1] == pytest.approx(4.75e9)
    assert first.worst_points == pytest.approx(40)
    assert first.noise_points == pytest.approx(1)
    assert (first.n_points, first.n_left_out, first.is_contended) == (9, 0, True)
    assert first.unknown["repeat_points"] == "measured once"
    assert second.surface is not None
    assert second.surface.external_byte_per_s == (5e9, 10e9, 20e9)
    assert "loses at worst 40.0 % of its speed" in contention_words(first).replace("\u00a0", " ")
    table = contention_table(first)
    assert table.rows[2] == ("20.0\u00a0GB/s", "90.0", "80.0", "60.0")


def test_what_is_disturbed_takes_its_row_or_column_with_it(tmp_path: Path) -> None:
    def disturbed(rows: Iterable[ContentionPoint]) -> list[ContentionPoint]:
        bad = {("cpu:0", 0.5, 0.25), ("cpu:0", 0.5, 0.5), ("cpu:0", 1.0, 0.25)}
        return [
            replace(row, disturbances=("other programs used 0.9 CPUs",))
            if (row.victim, row.victim_share, row.aggressor_share) in bad
            else row
            for row in rows
        ]

    first, second = found(tmp_path, disturbed(points()))
    # Two of three are missing beside 4 GB/s, then one of two at 10 GB/s.
    assert first.surface is not None
    assert first.surface.own_byte_per_s == (5e9, 20e9)
    assert first.surface.external_byte_per_s == (8e9, 16e9)
    assert (first.n_points, first.n_left_out) == (4, 5)
    assert first.remark == "5 points are left out: other programs used 0.9 CPUs"
    assert second.n_left_out == 0


def test_no_contention_within_the_noise_is_said(tmp_path: Path) -> None:
    # 1.9 % lost at most, where twice the noise is 2 %.
    first, _ = found(tmp_path, points(lost=0.019, noise=-0.01))
    assert first.is_contended is False
    assert "no contention beyond the noise" in contention_words(first)


def test_of_several_runs_the_newest_whole_one_counts(tmp_path: Path) -> None:
    few = [row for row in points("few", lost=0.8) if row.victim_share > 0.25]
    first, _ = found(tmp_path, points("old", lost=0.2), points("new"), few)
    assert first.run_id == "new"
    assert first.run_ids == ("few", "new", "old")
    # From the old run 20 · own · other: 1.25, 2.5, 2.5, 5, 5, 5, 10, 10, 20; from the short one
    # 40 · own · other: 5, 10, 20, 10, 20, 40. The median of the 15 is the eighth.
    assert first.repeat_points == pytest.approx(10)


def test_nothing_that_counts_has_its_reason(tmp_path: Path) -> None:
    failed = [
        replace(
            row,
            alone_byte_per_s=(),
            achieved_byte_per_s=(),
            external_byte_per_s=(),
            failure="other work interrupted 40 of 40 samples",
            unknown={},
        )
        for row in points()
    ]
    first, _ = found(tmp_path, failed)
    assert first.surface is None
    assert first.unknown["surface"] == "too few undisturbed points"
    assert first.n_left_out == 9
    assert contention_table(first).rows == (("too few undisturbed points",),)
    assert contention_words(first).endswith("too few undisturbed points.")


def test_rates_next_to_nothing_count_for_nothing(tmp_path: Path) -> None:
    tiny = [replace(row, alone_byte_per_s=(5e-324,) * 3) for row in points()]
    first, second = found(tmp_path, tiny)
    assert first.surface is second.surface is None
    assert first.worst_points is None


@given(st.dictionaries(st.tuples(st.integers(1, 4), st.integers(1, 4)), st.floats(0.1, 1.0)))
def test_a_surface_has_whole_rows_and_columns_of_points(
    cells: dict[tuple[int, int], float],
) -> None:
    demands = {float(share): share * 1e9 for share in range(1, 5)}
    speeds = {Cell(*shares): speed for shares, speed in cells.items()}
    surface = surface_of(speeds, demands, demands)
    if surface is None:
        assert len(cells) < 16
        return
    for own, row in zip(surface.own_byte_per_s, surface.achieved_byte_per_s, strict=True):
        for external, achieved in zip(surface.external_byte_per_s, row, strict=True):
            assert achieved == own * speeds[Cell(own / 1e9, external / 1e9)]
    if len(cells) == 16:
        assert len(surface.own_byte_per_s) == len(surface.external_byte_per_s) == 4
