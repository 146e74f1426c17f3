"""Summaries of logs: ranges, utilisation, energy, and what stays unknown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.core.hardware import MODULES
from mansard.device.tegrastats.columns import Utilisation
from mansard.device.tegrastats.energy import NO_TIMES, TOO_FEW
from mansard.device.tegrastats.summary import LogSummary, Summariser, summarise
from tests.device.tegrastats_lines import LINES


def summary(
    lines: Iterable[str], interval_s: float | None = None, part: str | None = None
) -> LogSummary:
    (found,) = summaries(lines, interval_s, part)
    return found


def summaries(
    lines: Iterable[str], interval_s: float | None = None, part: str | None = None
) -> list[LogSummary]:
    module = MODULES[part] if part else None
    return list(summarise(lines, "a.log", lambda: Summariser(interval_s, module)))


def stamped(powers_mw: Iterable[int], times_s: Iterable[float]) -> list[str]:
    return [
        f"{1_700_000_000 + time_s:.3f}---RAM 1/2MB CPU [1%@100] VDD_IN {power}mW/1mW "
        "VDD_CPU_GPU_CV 100mW/1mW VDD_SOC 200mW/1mW"
        for power, time_s in zip(powers_mw, times_s, strict=True)
    ]


def energies(found: LogSummary) -> dict[str, float | None]:
    return {rail.rail: rail.energy_j for rail in found.rails}


def test_energy_is_a_trapezoid_over_the_lines_times() -> None:
    found = summary(stamped([1000, 3000, 2000], [0.0, 0.5, 2.0]))
    # (1 + 3)/2 W · 0.5 s + (3 + 2)/2 W · 1.5 s = 1 + 3.75 J
    assert energies(found)["VDD_IN"] == pytest.approx(4.75)
    assert energies(found)["VDD_SOC"] == pytest.approx(0.4)  # 0.2 W · 2 s
    assert found.duration_s == pytest.approx(2.0)
    assert found.total_j == pytest.approx(4.75)  # VDD_IN alone holds its parts
    assert found.total_w == pytest.approx(2.0)
    assert found.total_rule is not None
    assert found.total_rule.startswith("VDD_IN alone")


def test_without_times_the_interval_is_needed() -> None:
    lines = ["RAM 1/2MB VDD_IN 1000/1 VDD_SOC 10/1", "RAM 1/2MB VDD_IN 3000/1 VDD_SOC 10/1"] * 2
    found = summary(lines)
    assert energies(found) == {"VDD_IN": None, "VDD_SOC": None}
    assert found.unknown["duration_s"] == found.rails[0].unknown["energy_j"] == NO_TIMES
    assert found.total_w == pytest.approx(2.0)  # power is known all the same
    given_one = summary(lines, interval_s=0.1)
    # 0.1 s · (1 + 3 + 1 + 3 − (1 + 3)/2) W
    assert energies(given_one)["VDD_IN"] == pytest.approx(0.6)
    assert given_one.duration_s == pytest.approx(0.3)
    assert given_one.duration_source == "--interval"


def dated(n_lines: int, lines_each_s: int, power_mw: int = 5000) -> list[str]:
    return [
        f"05-13-2026 12:{n // lines_each_s // 60:02d}:{n // lines_each_s % 60:02d} RAM 1/2MB "
        f"CPU [1%@100] VDD_IN {power_mw}mW/1mW"
        for n in range(n_lines)
    ]


def test_dates_tell_the_length_of_a_log_to_a_second() -> None:
    found = summary(dated(101, 1))
    assert (found.duration_s, found.duration_low_s, found.duration_high_s) == (100.0, 99.0, 101.0)
    # 5 W · 100 s, 99 s and 101 s
    energies_j = (found.total_j, found.total_low_j, found.total_high_j)
    assert energies_j == pytest.approx((500.0, 495.0, 505.0))
    # Ten lines in each second: the first and the last date are 99 s apart.
    assert summary(dated(1000, 10)).total_j == pytest.approx(495.0)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (dated(2, 1), "tell only that they span less than 2 s"),
        ([dated(1, 1)[0]] * 5, "tell only that they span less than 1 s"),
        (dated(1, 1), "fewer than two lines"),
    ],
)
def test_energy_is_unknown_where_the_length_is(lines: list[str], reason: str) -> None:
    found = summary(lines)
    assert found.total_j is None
    assert reason in found.unknown["total_j"]
    assert reason in found.unknown["duration_s"]
    if len(lines) > 1:
        assert summary(lines, interval_s=0.1).total_j is not None


@pytest.mark.parametrize(
    ("period_s", "interval_s", "was"),
    [
        (1.0, 0.1, "10 times too low"),
        (0.55, 1.05, "91 % too high"),
        (1.087, 1.0, "8 % too low"),
    ],
)
def test_dates_win_over_a_wrong_interval(period_s: float, interval_s: float, was: str) -> None:
    start_s = 1_700_000_000.3
    times_s = [start_s + n * period_s for n in range(201)]
    lines = [
        f"{datetime.fromtimestamp(time_s, timezone.utc):%m-%d-%Y %H:%M:%S} RAM 1/2MB CPU [1%@100] "
        f"VDD_IN {power_mw}mW/1mW"
        for time_s, power_mw in zip(times_s, [4000, 6000] * 101, strict=False)
    ]
    found = summary(lines, interval_s)
    true_s = 200 * period_s
    assert found.duration_s is not None
    assert found.duration_low_s is not None
    assert found.duration_high_s is not None
    assert abs(found.duration_s - true_s) < 1, was
    assert found.duration_low_s < true_s < found.duration_high_s
    # 101 lines of 4 W, 100 of 6 W
    assert found.total_j == pytest.approx(found.duration_s * 1004 / 201)
    (said,) = found.warnings
    assert said.startswith(f"--interval {interval_s:g} s makes {200 * interval_s:g} s")
    assert "the times count" in said


def test_an_interval_that_fits_the_dates_serves_where_they_are_coarse() -> None:
    # 30 lines, 100 ms apart: 2.9 s, dates 2 s apart.
    found = summary(dated(30, 10), interval_s=0.1)
    assert found.duration_s == pytest.approx(2.9)
    assert (found.duration_low_s, found.duration_high_s) == (1.0, 3.0)
    assert (found.warnings, found.duration_source) == ((), "--interval")


def test_a_wrong_interval_does_not_help_dates_that_tell_nothing() -> None:
    found = summary([dated(1, 1)[0]] * 5, interval_s=1.0)  # 4 s in one second
    assert found.total_j is None
    assert "4 s of these lines, but their times tell 0 s" in found.warnings[0]


def test_a_line_without_a_date_among_dates_is_in_no_energy() -> None:
    lines = [*dated(11, 1), "RAM 1/2MB CPU [1%@100] VDD_IN 9000mW/5mW"]
    found = summary(lines, interval_s=0.1)
    assert found.total_j == pytest.approx(50.0)
    assert "1 of 12 lines have no time and add no energy" in found.warnings


def test_a_rail_of_one_line_has_no_energy() -> None:
    found = summary([*stamped([1000, 1000], [0, 1]), stamped([1], [2])[0] + " VIN 5mW/1mW"])
    assert found.rails[-1].rail == "VIN"
    assert found.rails[-1].unknown["energy_j"] == TOO_FEW


def test_a_pause_in_the_log_is_a_warning() -> None:
    steady = summary(stamped([1000] * 11, range(11)))
    assert steady.warnings == ()
    broken = summary(stamped([1000] * 12, [*range(11), 16]))
    assert "pauses, 6 s at the longest" in broken.warnings[0]


def test_swapped_labels_are_refused_as_a_total() -> None:
    # A part above the whole: 8.9 W + 3.1 W inside 3.2 W.
    line = "RAM 1/2MB CPU [1%@100] POM_5V_GPU 8900/1 POM_5V_IN 3200/1 POM_5V_CPU 3100/1"
    found = summary([line] * 3, interval_s=1.0)
    assert (found.total_w, found.total_j) == (None, None)
    assert "labels seem swapped" in found.unknown["total_w"]
    assert any("labels seem swapped" in warning for warning in found.warnings)
    assert energies(found)["POM_5V_IN"] == pytest.approx(6.4)  # each rail stays what it says


def test_totals_by_the_rule_of_each_board() -> None:
    orin = summary([LINES["AGX Orin r35"]] * 2, interval_s=1.0)
    # 3.150 + 14.312 + 4.968 W; VDDQ_VDD2_1V8AO lies inside VIN_SYS_5V0
    assert orin.total_w == pytest.approx(22.430)
    xavier = summary([LINES["AGX Xavier r32"]] * 2, interval_s=1.0)
    assert xavier.total_w == pytest.approx(0.120 + 0.468 + 0.937 + 0 + 0.312 + 1.458)
    thor = summary([LINES["Thor r39"]] * 2, interval_s=1.0)
    assert thor.total_w == pytest.approx(28.906)
    bare = summary([LINES["DRIVE Orin"]] * 2)
    assert bare.total_w is None
    assert bare.unknown["total_w"] == "the lines have no power rails"


def test_a_known_module_has_its_own_rule() -> None:
    found = summary([LINES["Nano r32"]] * 2, interval_s=1.0, part="p3701-0005")
    assert found.total_w is None
    assert "VDD_GPU_SOC" in found.unknown["total_w"]  # the log is of another board


def test_ranges_of_every_field() -> None:
    lines = [
        "RAM 100/2000MB CPU [10%@100,off] GR3D_FREQ 0%@[400,500] tj@40C NC 1mW/1mW NC 2mW/2mW",
        "RAM 300/2000MB CPU [30%@20,50%@300] GR3D_FREQ 9%@[600,700] tj@-256C NC 3mW/1mW NC 4mW/4mW",
    ]
    found = {(one.field, one.quantity): one for one in summary(lines).fields}
    ram = found["RAM", "used"]
    assert (ram.minimum, ram.mean, ram.maximum) == (100 << 20, 200 << 20, 300 << 20)
    assert found["CPU1", "load"].n_lines == 1  # off in the other line
    assert found["CPU1", "load"].mean == 50.0
    assert found["GR3D_FREQ", "clock 1"].maximum == 700e6
    assert found["tj", "temperature"].n_lines == 1
    assert found["NC (2)", "power"].mean == pytest.approx(0.003)


def test_utilisation_of_cores_gpu_memory_and_dla() -> None:
    lines = [
        "RAM 1/2MB CPU [10%@100,off] EMC_FREQ 5%@2133 GR3D_FREQ 20% NVDLA0_FREQ @1600",
        "RAM 1/2MB CPU [30%@200,50%@300] EMC_FREQ 7%@2133 GR3D_FREQ 40% NVDLA0_FREQ @1600",
    ]
    found = {one.name: one for one in summary(lines).utilisation}
    assert found["CPU"].mean_percent == pytest.approx(30.0)  # (10 + 30 + 50)/3
    assert found["CPU"].maximum_percent == 50.0
    assert (found["GR3D_FREQ"].kind, found["GR3D_FREQ"].mean_percent) == ("gpu", 30.0)
    assert (found["EMC_FREQ"].kind, found["EMC_FREQ"].mean_percent) == ("emc", 6.0)
    dla = found["NVDLA0_FREQ"]
    assert isinstance(dla, Utilisation)
    assert (dla.kind, dla.mean_percent) == ("dla", None)
    assert "no load" in dla.unknown["mean_percent"]


def test_what_was_not_understood_is_said() -> None:
    found = summary(["words of a script", LINES["Nano r32"] + " FUTURE_TOKEN value", "", "# no"])
    assert (found.n_lines, found.n_other_lines) == (1, 2)
    assert "'FUTURE_TOKEN', 'value'" in found.warnings[-1]


def test_lines_of_a_simulated_board_stay_simulated() -> None:
    assert summary([LINES["Nano r32"]]).source == "measured"
    assert summary([LINES["Nano r32"] + " simulated"]).source == "simulated"


def test_a_log_without_a_line_of_tegrastats() -> None:
    with pytest.raises(InputError, match="none of its 2 lines"):
        summaries(["a", "b"])


@given(st.lists(st.integers(-9999, 99_999), min_size=2, max_size=600), st.floats(0.05, 10))
def test_energy_lies_between_the_lowest_and_the_highest_power(
    powers_mw: list[int], step_s: float
) -> None:
    found = summary(stamped(powers_mw, (n * step_s for n in range(len(powers_mw)))))
    energy_j, duration_s = found.rails[0].energy_j, found.duration_s
    assert energy_j is not None
    assert duration_s is not None
    assert min(powers_mw) * duration_s - 1 <= energy_j * 1000 <= max(powers_mw) * duration_s + 1
    field = next(one for one in found.fields if one.field == "VDD_IN")
    assert field.minimum == min(powers_mw) / 1000
    assert field.maximum == max(powers_mw) / 1000
    assert field.mean == pytest.approx(sum(powers_mw) / len(powers_mw) / 1000, abs=1e-9)
