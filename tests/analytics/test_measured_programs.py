"""What is said of a program that was run, against hand arithmetic."""

from __future__ import annotations

from math import exp, hypot, log
from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.predict.row_times import ProgramTimes, program_times
from mansard.analytics.models.scaling.observations import measured_observations
from mansard.core.records import NamedWindow, ProgramRun
from tests.analytics.factory import program, repetition, window, write_programs


def times(run: ProgramRun) -> tuple[ProgramTimes, ...]:
    return program_times(run, "board", "15W")


def named(name: str, window_s: float, power_w: float | None = None) -> NamedWindow:
    energy = None if power_w is None else window({"R": power_w}, ("R",), window_s=window_s)
    unknown = {} if energy else {"energy": "too short"}
    return NamedWindow(name=name, start_s=100.0, window_s=window_s, energy=energy, unknown=unknown)


def test_medians_of_its_runs() -> None:
    runs = (
        repetition(2.0, power_w=10.0, metric=64.0),
        repetition(4.0, power_w=15.0, metric=32.0),
        repetition(3.0, power_w=20.0, metric=48.0),
    )
    (whole,) = times(replace(program("p", ()), repetitions=runs))
    # Energies 20, 60 and 60 J; powers 10, 15 and 20 W.
    assert (whole.time_s, whole.energy_j, whole.power_w) == (3.0, 60.0, 15.0)
    assert (whole.peak_w, whole.metric, whole.n_runs) == (20.0, 48.0, 3)
    assert (whole.window, whole.n_per_run, whole.remark) == (None, None, "")


def test_the_interval_is_that_of_the_next_measurement() -> None:
    (whole,) = times(program("p", (2.0, 2.2)))
    assert whole.time_s == pytest.approx(2.1)
    # Of two times the deviation of the median's logarithm is ln(2.2 / 2) / 2; beside it 1.2 %
    # between measurements; Student's t of 4 degrees of freedom is 2.776.
    half = 2.776 * hypot(0.012, log(1.1) / 2)
    assert whole.high_s == pytest.approx(2.1 * exp(half), rel=1e-4)
    assert whole.low_s == pytest.approx(2.1 / exp(half), rel=1e-4)


def test_a_single_run_has_no_interval() -> None:
    (whole,) = times(program("p", (2.0,)))
    assert (whole.time_s, whole.low_s, whole.high_s) == (2.0, None, None)
    assert whole.unknown["low_s"] == "one time gives no interval"


def test_windows_are_of_one_and_say_how_often_each_run_has_them() -> None:
    runs = (
        repetition(9.0, windows=(named("decode", 1.0, 10.0), named("decode", 3.0, 10.0))),
        repetition(9.0, windows=(named("decode", 2.0, 40.0), named("load", 0.1))),
    )
    whole, decode, load = times(replace(program("p", ()), repetitions=runs))
    assert whole.unknown["energy_j"] == "not asked for"
    assert decode.workload == "llm [decode]"
    # Three in two runs, of 1, 2 and 3 s, with 10, 80 and 30 J.
    assert (decode.n_per_run, decode.n_runs) == (1.5, 2)
    assert (decode.time_s, decode.energy_j, decode.power_w) == (2.0, 30.0, 10.0)
    assert decode.unknown["cpu_s"] == "only known for the whole program"
    assert (load.n_per_run, load.energy_j) == (0.5, None)
    assert load.unknown["energy_j"] == "too short"


def test_a_total_that_is_unknown_or_not_above_zero_is_in_no_energy_and_no_power(
    tmp_path: Path,
) -> None:
    good, odd = repetition(2.0, power_w=10.0), repetition(2.0, power_w=-3.0)
    assert good.energy is not None
    why = "the rail VDD_IN was not read"
    unknown = {**good.energy.unknown, "total_j": why}
    unread = replace(good, energy=replace(good.energy, total_j=None, unknown=unknown))
    plain = program("p", ())
    (whole,) = times(replace(plain, repetitions=(good, odd, unread)))
    assert (whole.energy_j, whole.power_w) == (20.0, 10.0)  # of the first run alone
    (whole,) = times(replace(plain, repetitions=(odd, odd)))
    assert (whole.energy_j, whole.power_w) == (None, None)
    assert whole.unknown["energy_j"] == "no window has a total energy"
    (whole,) = times(replace(plain, repetitions=(unread,)))
    assert whole.unknown["power_w"] == why
    # The observation gives the same reason.
    write_programs(tmp_path, [replace(plain, repetitions=(unread,))])
    assert measured_observations(ingest(tmp_path)).rows["reason"].to_list() == [why]


def test_what_was_disturbed_says_so_in_every_row() -> None:
    run = program("p", (2.0,), windows=(named("decode", 1.0),), disturbances=("the mode changed",))
    assert [row.remark for row in times(run)] == ["the mode changed", "the mode changed"]


def test_a_peak_by_readings_that_gave_no_energy_is_unknown() -> None:
    # The sensor jumped, which gave no energy and 44.5 W as the peak.
    good, odd = repetition(2.0, power_w=10.0), repetition(2.0, power_w=44.5)
    assert odd.energy is not None
    why = "the sensor jumped to 39 W"
    unknown = {**odd.energy.unknown, "total_j": why}
    jumped = replace(odd, energy=replace(odd.energy, total_j=None, unknown=unknown))
    (whole,) = times(replace(program("p", ()), repetitions=(jumped,)))
    assert (whole.peak_w, whole.unknown["peak_w"]) == (None, why)
    (whole,) = times(replace(program("p", ()), repetitions=(jumped, good)))
    assert whole.peak_w == 10.0
