"""Windows whose energy is unknown, and the reason that is given."""

from __future__ import annotations

import pytest

from mansard.device.meters.energy import window_energy
from mansard.device.meters.meter import RailFacts
from mansard.device.totals import Total
from tests.device.energy_samples import FAST, energy, only_rail, power


def test_a_sample_without_a_number_makes_the_energy_unknown() -> None:
    rail = only_rail([power(0, 5), power(1, None), power(2, 7)], 0.0, 2.0)
    assert rail.energy_j is None
    assert rail.unknown["energy_j"] == "the meter stopped answering at 1.000 s: no answer"
    # A window after the silence is known again: 7 W to 8 W over 1 s.
    later = [power(0, 5), power(1, None), power(2, 7), power(3, 8)]
    assert only_rail(later, 2.0, 3.0).energy_j == pytest.approx(7.5)


def test_too_few_changes_say_which_length_would_do() -> None:
    # 50 samples in 0.5 s, every seventh differs: at 0.07, 0.14, … 0.49 s, so 7 changes.
    # 20 changes take 0.5 s * 20 / 7 = 1.43 s, rounded up to 1.5 s.
    samples = [power(i / 100, 5.0 + (i // 7) % 2) for i in range(51)]
    rail = only_rail(samples, 0.0, 0.5, FAST, n_changed_min=20)
    assert rail.energy_j is None
    assert rail.n_changed == 7
    assert rail.unknown["energy_j"] == (
        "not measurable: 7 changed values of 20 in 0.5 s; run it for 1.5 s, in a loop"
    )
    # 7 of 7 is enough.
    assert only_rail(samples, 0.0, 0.5, FAST, n_changed_min=7).energy_j is not None


def test_a_sensor_that_never_changes_invents_no_length() -> None:
    samples = [power(i / 100, 5.0) for i in range(101)]
    rail = only_rail(samples, 0.0, 1.0, FAST, n_changed_min=20)
    assert rail.energy_j is None
    assert "all 101 readings in 1 s are the same" in rail.unknown["energy_j"]
    assert "a longer run does not help" in rail.unknown["energy_j"]
    assert "no reading changed" in rail.unknown["step_w"]
    # With 3 readings nothing can be said of the sensor, but that 20 take 20 * 0.01 s.
    short = only_rail(samples, 0.0, 0.02, FAST, n_changed_min=20).unknown["energy_j"]
    assert short.startswith("not measurable: 3 readings in 0.02 s")
    assert short.endswith("run it for 0.2 s, in a loop")


def test_a_constant_rail_of_a_chip_that_lives_is_constant() -> None:
    # CV is off at 0 W; SYS5V, on the same chip, changes with every reading.
    samples = [
        sample
        for i in range(101)
        for sample in (power(i / 100, 0.0, "CV"), power(i / 100, 2.0 + i % 2, "SYS5V"))
    ]
    one_chip = RailFacts(period_s=0.01, sensors={"CV": "1-0041", "SYS5V": "1-0041"})
    cv, sys5v = window_energy(samples, 0.0, 1.0, one_chip).rails
    assert (cv.energy_j, cv.n_changed) == (0.0, 0)
    # 2 W and 3 W in turns, linear in between: 2.5 W for 1 s
    assert sys5v.energy_j == pytest.approx(2.5)
    assert sys5v.n_changed == 100
    two_chips = RailFacts(period_s=0.01, sensors={"CV": "1-0041", "SYS5V": "1-0040"})
    assert window_energy(samples, 0.0, 1.0, two_chips).rails[0].energy_j is None


def test_changes_of_two_rails_in_one_reading_are_one_change() -> None:
    # Both rails change in the same 3 readings, a millisecond apart; A once more.
    values = [(1, 1), (2, 2), (1, 1), (2, 2), (3, 2)]
    samples = [
        sample
        for i, (a, b) in enumerate(values)
        for sample in (power(i / 100, a, "A"), power(i / 100 + 0.001, b, "B"))
    ]
    samples += [power(0.05, 3, "A"), power(0.051, 2, "B")]
    facts = RailFacts(period_s=0.01, sensors={"A": "chip", "B": "chip"})
    window = window_energy(samples, 0.001, 0.05, facts, n_changed_min=5)
    assert "4 changed values of 5" in window.rails[1].unknown["energy_j"]


def test_gaps_are_counted_and_long_ones_forbid_the_energy() -> None:
    # Period 0.01 s: pauses of 0.04 s (a gap) and 0.03 s (none).
    times_s = [0.0, 0.01, 0.05, 0.08, *(i / 100 for i in range(9, 101))]
    samples = [power(time_s, 5 + i % 2) for i, time_s in enumerate(times_s)]
    rail = only_rail(samples, 0.0, 1.0, FAST)
    assert rail.n_gaps == 1
    assert rail.energy_j == pytest.approx(5.5, rel=0.01)
    # 0.3 s without a reading in a window of 1 s: more than a tenth of it.
    holed = [sample for sample in samples if not 0.4 < sample.monotonic_s < 0.695]
    rail = only_rail(holed, 0.0, 1.0, FAST)
    assert rail.n_gaps == 2
    assert rail.unknown["energy_j"] == "not measurable: no reading for 0.34 s of 1 s"
    # A counter goes on while nobody looks.
    assert only_rail([energy(0, 0), energy(1, 5)], 0, 1, FAST).energy_j == 5


def test_a_total_with_a_rail_that_is_not_measurable_names_it() -> None:
    samples = [power(0, 1, "GPU"), power(0, 5, "CPU"), power(2, 2, "GPU"), power(2, 5, "CPU")]
    facts = RailFacts(period_s=1.0, total=Total(("GPU", "CPU"), "GPU + CPU", "module"))
    window = window_energy(samples, 0, 2, facts, n_changed_min=1)
    assert window.total_j is None
    assert window.unknown["total_j"].startswith("CPU: not measurable")


def test_swapped_labels_make_no_total() -> None:
    # What a carrier of another maker prints: POM_5V_GPU above POM_5V_IN.
    rails = {"POM_5V_IN": 3.227, "POM_5V_GPU": 8.949, "POM_5V_CPU": 3.148}
    samples = [power(t, w, rail) for t in (0, 1) for rail, w in rails.items()]
    total = Total(("POM_5V_IN",), "POM_5V_IN", "module", ("POM_5V_GPU", "POM_5V_CPU"))
    facts = RailFacts(period_s=1.0, total=total)
    window = window_energy(samples, 0, 1, facts, n_changed_min=0)
    assert window.total_j is None
    # 8.949 + 3.148 = 12.097
    assert window.unknown["total_j"] == (
        "labels seem swapped: POM_5V_IN is 3.227 W, but its parts POM_5V_GPU + POM_5V_CPU "
        "are 12.097 W"
    )
    assert all(rail.energy_j is not None for rail in window.rails)


def test_a_reading_that_jumps_makes_the_energy_unknown() -> None:
    values = [5.0, 5.1, 812.0, 5.2, 5.0, 5.1]
    rail = only_rail([power(i / 10, w) for i, w in enumerate(values)], 0.05, 0.45)
    assert rail.energy_j is None
    assert rail.unknown["energy_j"] == (
        "the sensor jumped to 812.000 W at 0.200 s, between 5.100 W and 5.200 W"
    )


def test_a_load_that_stays_is_no_jump() -> None:
    # 0.4 W idle, then 12 W for good: thirty times as much, but it stays.
    values = [0.4, 0.4, 12.0, 12.1, 12.0, 12.1, 12.0, 12.1]
    assert only_rail([power(i, w) for i, w in enumerate(values)], 0, 7).energy_j is not None
    # A small rail that blinks from 0.04 W to 0.4 W is a display.
    values = [0.04, 0.4, 0.04, 0.04]
    assert only_rail([power(i, w) for i, w in enumerate(values)], 0, 3).energy_j is not None


def test_below_zero_by_a_step_is_the_sensor_further_is_a_fault() -> None:
    thor = [power(0, 0.393, "VDD_GPU"), power(1, -0.393, "VDD_GPU"), power(2, 0.0, "VDD_GPU")]
    facts = RailFacts(period_s=1.0, steps_w={"VDD_GPU": 0.393})
    # (0.393 - 0.393) / 2 * 1 s + (-0.393 + 0) / 2 * 1 s
    assert only_rail(thor, 0, 2, facts).energy_j == pytest.approx(-0.1965)
    below = [power(0, 5), power(1, -7), power(2, 5)]
    why = only_rail(below, 0, 2, RailFacts(period_s=1.0, steps_w={"VDD_IN": 0.04}))
    assert "read -7.000 W at 1.000 s, which this rail cannot be" in why.unknown["energy_j"]
    # A whole board cannot even be one step below zero.
    board = RailFacts(period_s=1.0, steps_w={"VIN": 0.1}, total=Total(("VIN",), "VIN", "board"))
    assert only_rail([power(0, 9, "VIN"), power(1, -0.1, "VIN")], 0, 1, board).energy_j is None


def test_a_counter_that_goes_back_is_a_fault() -> None:
    why = only_rail([energy(0, 5), energy(1, 3), energy(2, 4)], 0, 2).unknown["energy_j"]
    assert why == "the energy counter went back at 1.000 s"


def test_a_whole_that_stands_still_while_its_part_moves_is_stuck() -> None:
    # VDD_IN stays at 6 W while VDD_SOC, inside it and on the same chip, goes from 1 W to 3 W.
    samples = [
        sample
        for i in range(41)
        for sample in (power(i / 10, 6.0), power(i / 10, 1.0 + i % 2 * 0.04 + i // 20, "VDD_SOC"))
    ]
    facts = RailFacts(
        period_s=0.1,
        total=Total(("VDD_IN",), "VDD_IN", "module", ("VDD_SOC",)),
        steps_w={"VDD_IN": 0.04, "VDD_SOC": 0.04},
        sensors={"VDD_IN": "1-0040", "VDD_SOC": "1-0040"},
    )
    window = window_energy(samples, 0, 4, facts)
    # From 1.00 W to 3.00 W
    assert window.unknown["total_j"] == (
        "VDD_IN: the sensor is stuck: it stayed the same while VDD_SOC moved by 2 W"
    )
    # By two steps it may: rounding hides half a step of each.
    calm = window_energy(samples, 0, 1.5, facts, n_changed_min=10)
    assert calm.total_j == pytest.approx(9.0)


def test_a_slipped_decimal_among_wavering_readings_is_a_jump() -> None:
    # Ten times 5.0 W is 9.8 times the 5.1 W beside it.
    rail = only_rail([power(i, w) for i, w in enumerate([5.1, 5.0, 50.0, 5.1, 5.0])], 0, 4)
    assert rail.energy_j is None
