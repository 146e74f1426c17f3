"""Calibrations by totals, judged on recorded networks that they have not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded import calibrations
from recorded.calibrations import MANSARD, NetworkRow, judge
from recorded.network_totals import NetworkTable, read_tables

pytestmark = pytest.mark.shared_data


@pytest.fixture(scope="module")
def tables(shared_data: Path) -> tuple[NetworkTable, ...]:
    return read_tables(shared_data)


def judged(
    tables: tuple[NetworkTable, ...], name: str, board: str, k: int
) -> dict[str, NetworkRow]:
    """By model, what it is off on the networks of all such tables after ``k`` measured ones."""
    found: dict[str, list[NetworkRow]] = {}
    for table in tables:
        if table.name == name and board in table.label:
            for n_networks, seen in calibrations.choices(table, n_draws=1):
                if n_networks == k:
                    for row in judge(table, seen):
                        found.setdefault(row.model, []).append(row)
    return {model: calibrations.joined(rows, name) for model, rows in found.items()}


def median(row: NetworkRow) -> float:
    return float(np.median(np.abs(np.expm1(row.errors))))


@pytest.mark.parametrize("board", ["OrinAGX-32GB", "OrinAGX-64GB", "OrinNano-8GB"])
def test_sizes_of_a_yolo_are_within_six_percent_where_one_factor_is_off_by_far(
    tables: tuple[NetworkTable, ...], board: str
) -> None:
    found = judged(tables, "one YOLO in 8 image sizes", board, 4)
    assert median(found["one factor"]) > 0.10
    assert median(found[MANSARD]) < 0.06
    held = found[MANSARD].held
    assert held is not None
    assert held.mean() >= 0.93


@pytest.mark.parametrize("k", [2, 4, 8])
def test_networks_in_pytorch_are_nearer_than_by_any_baseline(
    tables: tuple[NetworkTable, ...], k: int
) -> None:
    found = judged(tables, "10 networks, eager PyTorch", "", k)
    best = min(median(row) for model, row in found.items() if model != MANSARD)
    assert median(found[MANSARD]) < best
    held = found[MANSARD].held
    assert held is not None
    assert held.mean() >= 0.85  # of a single draw
