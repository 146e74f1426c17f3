"""What the steps of an energy counter add to what is said of a network's power."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.run_frames import meter_deviation
from mansard.core.records import EnergyWindow
from tests.analytics.factory import manifest, trial, window, write_run


def stepped(error_j: float | None) -> EnergyWindow:
    """20 W for 2 s, 40 J, by a counter whose steps may be ``error_j`` of it."""
    plain = window({"gpu0": 20.0}, ("gpu0",), repetitions=10)
    unknown = {name: why for name, why in plain.unknown.items() if name != "error_j"}
    if error_j is None:
        return plain
    return msgspec.structs.replace(plain, error_j=error_j, unknown=unknown)


def test_the_deviation_of_windows_is_that_of_a_step_somewhere_within_its_bound() -> None:
    # 1.2 J of 40 J are 3 %; over the root of 3 that is 1.732 %, and of four windows half of it.
    assert meter_deviation([stepped(1.2)]) == pytest.approx(0.0173205, rel=1e-5)
    assert meter_deviation([stepped(1.2)] * 4) == pytest.approx(0.00866025, rel=1e-5)
    assert meter_deviation([stepped(None)]) == 0
    assert meter_deviation([]) == 0


def test_a_row_of_an_earlier_version_has_no_error_and_says_so(tmp_path: Path) -> None:
    old = window({"gpu0": 20.0}, ("gpu0",), repetitions=10)
    assert old.unknown["error_j"] == "the version of Mansard that measured did not record it"
    both = (stepped(1.2), old)
    write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9, energy=both)])
    energy = ingest(tmp_path).energy.filter(pl.col("rail").is_null())
    assert energy["error_j"].to_list() == [1.2, None]
