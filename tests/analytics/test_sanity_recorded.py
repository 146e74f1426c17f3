"""Boards as others recorded them: what is odd there is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from recorded.mode_sweeps import read_sweeps
from recorded.network_checks import observed
from recorded.regret import metered
from recorded.subgraphs import read_recording
from recorded.tx2 import modes_of, observations_of, read_sweep

from mansard.analytics.models.sanity.checks import time_findings
from mansard.analytics.models.sanity.finding import Finding

pytestmark = pytest.mark.shared_data


def test_of_35_sweeps_one_network_throttles(shared_data: Path) -> None:
    sweeps = metered(read_sweeps(shared_data))
    assert len(sweeps) >= 35  # 4 language models, 30 kernels, VGG19
    (found,) = [each for one in sweeps for each in time_findings(one.modes, one.observations)]
    # 11.18 ms in MAXN and 9.82 ms in 25W: a note, and still recommended from.
    assert (list(found.networks), found.is_serious) == (["SmolLM2-360M decode"], False)
    assert "1.14 times as long in MAXN as in 25W" in found.what


def test_a_tx2_is_in_order(shared_data: Path) -> None:
    rows = read_sweep(shared_data)
    assert list(time_findings(modes_of(rows), observations_of(rows))) == []


def test_an_agx_orin_is_in_order_where_the_cpu_clocks_are_known(shared_data: Path) -> None:
    recording = read_recording(shared_data)
    seen = observed(recording.timed)
    assert list(time_findings(recording.modes, seen)) == []
    # Small networks wait for the CPU, which is slower in 50W than in 30W: without its clock the
    # table looks odd, but not so odd that nothing is said of it.
    blind = recording.modes.with_columns(pl.lit(None, pl.Float64).alias("cpu_hz"))
    found = list(time_findings(blind, seen))
    assert found
    assert serious(found) == []
    assert all("that is known" in each.what for each in found)


def serious(found: list[Finding]) -> list[str]:
    return [each.text for each in found if each.is_serious]
