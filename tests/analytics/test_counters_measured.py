"""Counters that were measured: our metrics are read, and tables become rows of their network."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.counters.launch import wanted
from mansard.core.ncu_metrics import (
    CUDA_CORE_WORK,
    DRAM_TRAFFIC,
    DRAM_TRAFFIC_SINCE_BLACKWELL,
    L1_TRAFFIC,
    L2_TRAFFIC,
    TEGRA_TRAFFIC,
    TENSOR_CORE_WORK,
    TENSOR_INSTRUCTIONS,
    TENSOR_PIPE,
    choose_metrics,
)


@pytest.mark.parametrize(
    "metric",
    [
        *CUDA_CORE_WORK,
        *TENSOR_CORE_WORK,
        *TENSOR_INSTRUCTIONS,
        TENSOR_PIPE,
        *L1_TRAFFIC,
        *L2_TRAFFIC,
        *DRAM_TRAFFIC,
        *DRAM_TRAFFIC_SINCE_BLACKWELL,
        *TEGRA_TRAFFIC,
    ],
)
def test_what_is_asked_for_is_read(metric: str) -> None:
    assert wanted(metric) == metric


@pytest.mark.shared_data
def test_all_that_is_asked_of_any_chip_is_read(shared_data: Path) -> None:
    for path in (shared_data / "ncu/chip_metrics").glob("*.txt"):
        for metric in choose_metrics(path.stem, path.read_text().split()).metrics:
            assert wanted(metric) == metric
