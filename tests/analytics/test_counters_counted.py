"""Counted networks: our metrics are read, and what else was measured in the same setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.models.counters.by_network import Counted, layers_of
from mansard.analytics.models.counters.importing import ExportOrigin, counters_of
from mansard.analytics.models.counters.launch import Export, wanted
from mansard.core.formats.ncu import (
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
from mansard.core.records import CounterRun, LayerTime, Measurement
from tests.analytics.factory import measurement
from tests.analytics.ncu_exports import launch


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


def timed(seconds_s: float, **known: Any) -> Measurement:
    layer = LayerTime(
        index=0,
        name="conv",
        op_type="Conv",
        provider="",
        nodes=(0,),
        runs=1,
        seconds_s=(seconds_s,),
    )
    return measurement("r", [1.0], layers=(layer,), **{"provider": "cuda"} | known)


def test_layers_are_those_of_the_newest_run_on_the_same_engine() -> None:
    whole = timed(1.0)
    fields = [name for name in CounterRun.__struct_fields__ if hasattr(whole, name)]
    run = CounterRun(
        **{name: getattr(whole, name) for name in fields if name != "unknown"},
        tool="Nsight Compute 1",
        chip="ga10b",
        metrics=(),
        lacking=(),
        n_calls=1,
        cache_control="all",
        export="exports/a.csv",
        unknown={"failure": "it ran"},
    )
    rows = counters_of(Export("raw page", (launch({}),)), ExportOrigin(device="d", mode="m"), "")
    found = [
        ("d", "m", timed(2.0, started_utc="2026-01-03T00:00:00Z")),
        ("d", "m", timed(3.0, started_utc="2026-01-02T00:00:00Z")),
        ("d", "m", timed(4.0, provider="cpu", started_utc="2026-01-04T00:00:00Z")),
        ("d", "m", timed(5.0, engine="tensorrt", started_utc="2026-01-04T00:00:00Z")),
        ("d", "m", timed(6.0, source="simulated", started_utc="2026-01-04T00:00:00Z")),
        ("d", "other", timed(7.0, started_utc="2026-01-04T00:00:00Z")),
    ]
    (layer,) = layers_of(found, Counted(rows, run))
    assert layer.seconds_s == (2.0,)
    assert layers_of(found, Counted(rows)) == ()  # imported ones are of others
    assert layers_of(found[2:], Counted(rows, run)) == ()
