"""The scatter of runs that a single measurement is given, held against recorded runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.data.statistics import pool_repeats

pytestmark = pytest.mark.shared_data
CASE = ("framework", "model", "quantization", "prompt_tokens", "gen_tokens", "device_name")
SWEEP = "power_modes/kevinhe5+IISWC2026__chat__sweep_locked.csv"


@pytest.fixture(scope="module")
def runs(shared_data: Path) -> pl.DataFrame:
    """15 runs of each of 648 cases: ``case``, ``run``, ``latency_s``, ``power_w``."""
    table = pl.read_csv(shared_data / SWEEP, infer_schema_length=None)
    case = pl.concat_str(pl.col(CASE).cast(pl.String).fill_null(""), separator="|")
    return table.select(
        network=case,
        run=pl.int_range(pl.len()).over(case),
        latency_s=pl.col("tpot_ms") / 1e3,
        power_w=pl.col("dec_total_mw") / 1e3,
    ).filter(pl.col("latency_s") > 0, pl.col("power_w") > 0)


@pytest.mark.parametrize("n_runs", [1, 2, 5])
@pytest.mark.parametrize("column", ["latency_s", "power_w"])
def test_the_interval_of_a_few_runs_holds_the_mean_of_the_others(
    runs: pl.DataFrame, n_runs: int, column: str
) -> None:
    first = runs.filter(pl.col("run") < n_runs).with_columns(
        pl.lit(None, kind).alias(name)
        for name, kind in OBSERVATION_SCHEMA.items()
        if name not in runs.columns
    )
    others = runs.filter(pl.col("run") >= n_runs)
    means = others.group_by("network").agg(pl.col(column).log().mean().exp().alias("mean"))
    pooled = pool_repeats(first, ["network"]).join(means, on="network", validate="1:1")
    assert pooled.height > 640  # a case may have lost the runs that are held back
    half = pl.col(f"{column.rpartition('_')[0]}_half")
    off = (pl.col(column) / pl.col("mean")).log().abs()
    held = float(pooled.select((off <= half).mean()).item())
    assert 0.92 < held < 1.0  # later runs drift a little from the first
