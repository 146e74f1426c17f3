"""Transients in what was measured here: set aside with a reason, and their energy with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.transients import outlying
from mansard.analytics.models.predict.measured import measured_programs
from mansard.analytics.models.scaling.call_energy import call_energy
from mansard.analytics.models.scaling.observations import (
    counted_measurements,
    measured_observations,
)
from mansard.core.records import EnergyWindow
from tests.analytics.factory import (
    measurement,
    program,
    repetition,
    window,
    write_networks,
    write_programs,
)

SETTLED_S = (0.101, 0.100, 0.099, 0.100, 0.100)


@pytest.mark.parametrize(
    ("times_s", "places"),
    [
        ((0.8, *SETTLED_S), [0]),  # the first, eight times the rest
        ((*SETTLED_S, 0.8), [5]),  # the last
        ((0.8, 0.5, *SETTLED_S), [0, 1]),  # two first ones
        ((0.02, *SETTLED_S), [0]),  # a first one that is faster
        ((*SETTLED_S[:2], 0.8, *SETTLED_S[2:]), [2]),
        ((0.8, 0.1, 0.1), [0]),
        ((0.19, *SETTLED_S), []),  # not twice the others
        ((0.8, 0.1), []),  # nothing tells which of two is right
        ((0.8, 0.8, 0.8, 0.1, 0.1, 0.1), []),  # two states: the interval tells them
        ((0.8,), []),
        ((), []),
    ],
)
def test_what_is_outlying(times_s: tuple[float, ...], places: list[int]) -> None:
    assert sorted(outlying(times_s)) == places


@given(st.lists(st.floats(1.0, 1.9), min_size=1, max_size=60))
def test_scatter_of_less_than_two_is_never_outlying(times_s: list[float]) -> None:
    assert outlying(times_s) == {}


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=60))
def test_no_more_than_a_third_is_outlying(times_s: list[float]) -> None:
    assert len(outlying(times_s)) <= len(times_s) // 3


def test_a_first_sample_is_rejected_with_its_reason(tmp_path: Path) -> None:
    write_networks(tmp_path, (measurement("r", (0.8, *SETTLED_S)),))
    dataset = ingest(tmp_path)
    (row,) = counted_measurements(dataset)
    assert (row.seconds_s, row.block) == (SETTLED_S, (1, 2, 3, 4, 5))
    assert row.rejected_s == (0.8,)
    assert row.rejected_reason[0].startswith("repeat 1 of 6 has 800\u00a0ms and 5 others have")
    assert dataset.measurements[0].seconds_s == (0.8, *SETTLED_S)  # the file keeps it
    observed = measured_observations(dataset)
    (values,) = observed.rows.iter_rows(named=True)
    assert values["latency_s"] == 0.1
    # Of 0.101 to 0.099 s the logarithm has a deviation of 0.007, of the median 0.007 / √5.
    assert values["latency_deviation"] == pytest.approx(0.0032, rel=0.05)
    (note,) = observed.notes
    assert note.startswith("net: 1 sample of 6 not used for predictions: repeat 1 of 6 has")


def calls(n: int, window_s: float, power_w: float) -> EnergyWindow:
    plain = window({"R": power_w}, ("R",), window_s=window_s, repetitions=n)
    unknown = {name: why for name, why in plain.unknown.items() if name != "disturbed_s"}
    return replace(plain, disturbed_s=0.0, unknown=unknown)


@pytest.mark.parametrize("place", [0, 1])
def test_a_window_of_slow_calls_is_not_averaged_in(tmp_path: Path, place: int) -> None:
    # 2.5 calls of 0.8 s at 4 W are 3.2 J each; 20 of 0.1 s at 10 W 1 J. The mean would be 2.1 J.
    windows = [calls(20, 2.0, 10.0)]
    windows.insert(place, calls(5, 4.0, 4.0))
    energy = call_energy(windows, SETTLED_S)
    assert (energy.energy_j, energy.power_w) == pytest.approx((1.0, 10.0))
    write_networks(tmp_path, (measurement("r", (0.8, *SETTLED_S), energy=tuple(windows)),))
    (values,) = measured_observations(ingest(tmp_path)).rows.iter_rows(named=True)
    assert values["power_w"] == pytest.approx(10.0)
    assert values["power_deviation"] is None or values["power_deviation"] < 0.02


def test_windows_that_all_disagree_give_no_energy() -> None:
    energy = call_energy([calls(5, 4.0, 4.0), calls(5, 4.0, 4.0)], SETTLED_S)
    assert (energy.energy_j, energy.power_w) == (None, None)
    assert "a call took 800\u00a0ms in its energy windows" in energy.reason


def test_a_run_of_a_program_is_set_aside_with_its_energy(tmp_path: Path) -> None:
    # 8 s at 4 W are 32 J; two runs of 1 s at 10 W 10 J each. The median of three powers is 10 W
    # anyhow, the highest reading and the number of runs tell whether the first one counts.
    runs = (repetition(8.0, power_w=40.0), *(repetition(1.0, power_w=10.0),) * 2)
    write_programs(tmp_path, (program("r", (1.0,), repetitions=runs),))
    dataset = ingest(tmp_path)
    (row,) = measured_programs(dataset)
    assert (row.n_runs, row.time_s, row.peak_w) == (2, 1.0, 10.0)
    assert row.energy_j == pytest.approx(10.0)
    observed = measured_observations(dataset)
    (values,) = observed.rows.iter_rows(named=True)
    assert values["power_w"] == pytest.approx(10.0)
    assert observed.notes[0].startswith(
        "llm: 1 run of 3 not used for predictions: repeat 1 of 3 has 8.00"
    )
    assert len(dataset.programs[0].repetitions) == 3
