"""Several recordings in one log, lines that were taken out, and numbers that cannot be true."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.device.tegrastats import Parser, parse_line, stream
from mansard.device.tegrastats.files import read_lines
from mansard.device.tegrastats.grammar import refusals_of
from mansard.device.tegrastats.summary import LogSummary, Summariser, summarise
from tests.device.tegrastats_lines import LINES


def summaries(lines: Iterable[str], interval_s: float | None = None) -> list[LogSummary]:
    return list(summarise(lines, "a.log", lambda: Summariser(interval_s)))


def recorded(
    first_s: int, n_lines: int, power_mw: int = 5000, fields: str = "RAM 1/2048MB CPU [1%@100]"
) -> list[str]:
    """``n_lines`` of one board, one a second, from ``first_s`` of the day on."""
    return [
        f"05-13-2026 {s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d} {fields} VDD_IN "
        f"{power_mw}mW/1mW VDD_SOC 900mW/900mW"
        for s in range(first_s, first_s + n_lines)
    ]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (recorded(3600, 21, 8000), "dates go back by 32 s"),
        (recorded(9000, 21, 8000), "a gap of 5368 s between lines that are 1 s apart"),
        (
            recorded(3633, 21, 8000, "RAM 1/4096MB CPU [1%@100]"),
            "another board: 4096 MB of RAM, 2048 before",
        ),
        (
            recorded(3633, 21, 8000, "RAM 1/2048MB CPU [1%@100,off]"),
            "another board: 2 cores, 1 before",
        ),
        (["tegrastats of today", *recorded(3633, 21, 8000)], "stands before it again"),
    ],
)
def test_two_recordings_are_two_energies_and_none_for_the_gap(second: list[str], why: str) -> None:
    first = recorded(3602, 31)
    one, other = summaries(["tegrastats of today", *first, *second], interval_s=1.0)
    assert one.total_j == pytest.approx(150.0)  # 5 W · 30 s
    assert other.total_j == pytest.approx(160.0)  # 8 W · 20 s
    assert (one.session, one.session_begins, other.session) == (1, "", 2)
    assert why in other.session_begins
    assert (one.n_lines, other.n_lines) == (31, 21)


def test_recordings_without_dates_are_told_by_what_a_script_wrote_before() -> None:
    lines = [line[20:] for line in recorded(0, 11)]
    log = ["run 1 of Monday", *lines, "run 2 of Monday", *lines]
    found = summaries(log, interval_s=1.0)
    assert [one.total_j for one in found] == pytest.approx([50.0, 50.0])
    # The same words where dates go on as before are a script's progress.
    log = ["step 1", *recorded(0, 11), "step 2", *recorded(11, 11)]
    assert [one.total_j for one in summaries(log)] == pytest.approx([105.0])  # 5 W · 21 s
    # A date that a script writes before every line is no header.
    log = [text for line in lines for text in ("Tue May 13 12:00:00 UTC 2026", line)]
    assert [one.total_j for one in summaries(log, interval_s=1.0)] == pytest.approx([50.0])


def test_another_boards_rails_are_another_recording() -> None:
    nano = ["RAM 1/2048MB POM_5V_IN 2000/2100 POM_5V_GPU 40/57 POM_5V_CPU 203/289"] * 3
    orin = [line[20:] for line in recorded(0, 4)]
    one, other = summaries([*nano, *orin], interval_s=1.0)
    assert one.total_j == pytest.approx(4.0)  # 2 W · 2 s
    assert other.total_j == pytest.approx(15.0)  # 5 W · 3 s
    assert "VDD_IN" in other.session_begins


def test_a_first_line_far_before_the_others_is_a_recording_of_its_own() -> None:
    one, other = summaries([*recorded(0, 1), *recorded(900, 11)])
    assert (one.n_lines, one.total_j) == (1, None)
    assert other.total_j == pytest.approx(50.0)
    # Lines ten minutes apart are one recording all the same.
    slow = [line for n in range(6) for line in recorded(600 * n, 1)]
    assert [found.total_j for found in summaries(slow)] == pytest.approx([5.0 * 3000])


@pytest.mark.parametrize(
    "odd",
    [
        "05-13-2062 00:00:05 RAM 1/2048MB CPU [1%@100] VDD_IN 9000mW/1mW VDD_SOC 1mW/1mW",
        "05-13-2026 00:00:05 RAM 1/204MB CPU [1%@100] VDD_IN 9000mW/1mW VDD_SOC 1mW/1mW",
    ],
)
def test_one_line_that_fits_neither_neighbour_is_refused(odd: str) -> None:
    (found,) = summaries([*recorded(0, 5), odd, *recorded(6, 5)])
    assert found.total_j == pytest.approx(50.0)
    assert (found.n_lines, found.n_refused, found.n_other_lines) == (10, 1, 1)
    assert "1 refused, not counted: line 6: not counted at all" in found.warnings[-1]


def test_a_log_of_junk_does_not_fill_the_memory_with_recordings() -> None:
    lines = [f"RAM 1/{n // 2 + 2}MB CPU [1%@100]" for n in range(4000)]
    with pytest.raises(InputError, match="more than 1000 recordings"):
        summaries(lines)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_every_line_is_in_one_recording_or_refused(steps_s: list[int]) -> None:
    times_s, time_s = [], 20_000
    for number, step_s in enumerate(steps_s):
        time_s += step_s if number % 3 else -step_s
        times_s.append(time_s)
    found = summaries([line for at in times_s for line in recorded(at, 1)])
    n_refused = sum(one.n_refused for one in found)
    assert sum(one.n_lines for one in found) + n_refused == len(times_s)
    assert [one.session for one in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize(
    "mark", ["#", "# ", "  # ", "//", "; ", "% ", "#05-13-2026 00:00:00 ", "05-13-2026 00:00:00 #"]
)
def test_a_line_that_was_taken_out_never_counts(mark: str) -> None:
    line = LINES["Nano r32"]
    lines = [line, f"{mark}{line}", line, f"{mark}{line}"]
    assert len(list(stream(lines))) == 2
    parser = Parser()
    assert [parser.read(each) is not None for each in lines] == [True, False, True, False]
    assert parser.read(f"run #3: {line}") is not None  # a script's own name of its run


REFUSED = [
    ("VDD_IN 24582458", "24582.5 W cannot be a power of a rail"),  # 2458/2458 without its slash
    ("VDD_IN 24582458mW/2458mW", "24582.5 W cannot be a power of a rail"),
    ("VDD_IN 245245mW", "245.245 W cannot be a power of a rail"),
    ("VDD_IN 4750mW", "a slash is lost"),
    ("cpu@435C", "435 °C cannot be a temperature"),
    ("cpu@43C/435C", "435 °C cannot be a temperature"),
    ("GR3D_FREQ 101%@1300", "101 % cannot be a load"),
    ("NVENC 71600", "71600 MHz cannot be a clock"),
    ("EMC_FREQ 5%@[2133,21332]", "21332 MHz cannot be a clock"),
    ("SWAP 9000/8192MB", "more is in use than there is"),
    ("MTS fg 0% bg 101%", "101 % cannot be a load"),
]


@pytest.mark.parametrize(("field", "reason"), REFUSED)
def test_a_number_that_cannot_be_true_is_refused_with_a_reason(field: str, reason: str) -> None:
    good = "RAM 1/2048MB CPU [1%@100] VDD_SOC 900mW/900mW"
    sample = parse_line(f"{good} {field} VDD_CPU 1mW/1mW")
    (refused,) = refusals_of(sample.shape)
    assert refused.startswith(field.split(maxsplit=1)[0])
    assert reason in refused
    assert [rail.name for rail in sample.rails] == ["VDD_SOC", "VDD_CPU"]
    assert (sample.temperatures, sample.engines, sample.swap) == ((), (), None)
    assert sample.mts_background_percent is None


def test_cores_and_memory_that_cannot_be_true_leave_the_rest_of_the_line() -> None:
    for text in ("[101%@100,1%@100]", "[1%@100,1%@70000]", "[1%,2%]@70000"):
        sample = parse_line(f"RAM 1/2048MB CPU {text} VDD_IN 900mW/900mW")
        assert sample.cpus == ()
        assert len(refusals_of(sample.shape)) == 1
    sample = parse_line("RAM 3000/2048MB (lfb 1x4MB) CPU [1%@100] VDD_IN 900mW/900mW")
    assert (sample.ram, len(sample.cpus), len(sample.rails)) == (None, 1, 1)


def test_refused_values_are_told_by_line_and_do_not_move_energy_or_ranges() -> None:
    lines = recorded(0, 21)
    lines[5] = lines[5].replace("VDD_IN 5000mW/1mW", "VDD_IN 50005000mW")
    lines[9] += " cpu@435C"
    (found,) = summaries(lines, interval_s=0.1)
    assert found.total_j == pytest.approx(100.0)  # 5 W · 20 s
    assert found.n_refused == 2
    said = found.warnings[-1]
    assert "line 6: VDD_IN 50005000mW (50005 W cannot be a power of a rail: -20 to 200)" in said
    assert "line 10: cpu@435C (435 °C" in said
    assert max(one.maximum for one in found.fields if one.unit == "W") == 5.0


@pytest.mark.parametrize("family", LINES)
def test_no_line_of_a_release_is_refused(family: str) -> None:
    assert refusals_of(parse_line(LINES[family]).shape) == ()


@pytest.mark.shared_data
def test_logs_of_other_people_are_read_whole(shared_data: Path) -> None:
    logs = sorted((shared_data / "tegrastats").glob("*tegrastats_*.log"))
    logs += sorted((shared_data / "tegrastats").glob("thynics*.txt"))
    assert len(logs) >= 24
    for log in logs:
        (found,) = summarise(read_lines(log), log.name, Summariser)
        assert (found.n_refused, found.warnings) == (0, ()), log.name


@pytest.mark.shared_data
@pytest.mark.parametrize(("interval_s", "n_kept"), [(0.1, 1), (1.91, 1), (0.46, 2)])
def test_a_recorded_log_keeps_its_energy_whatever_the_interval(
    shared_data: Path, interval_s: float, n_kept: int
) -> None:
    name = "gwonxhj__orin_nano__tegrastats_multi_workload_20260517_221116.log"
    lines = list(read_lines(shared_data / "tegrastats" / name))
    # Every line, or every second: 608 s by the first and the last date.
    (found,) = summaries(lines[::n_kept], interval_s)
    assert found.duration_s == 608.0
    assert found.total_w is not None
    assert found.total_j == pytest.approx(found.total_w * 608)
    assert found.total_j == pytest.approx(3414, rel=0.02)  # the whole log without --interval
    assert "the times count" in found.warnings[0]


@pytest.mark.shared_data
def test_recorded_logs_in_one_file_are_a_recording_each(shared_data: Path) -> None:
    logs = sorted((shared_data / "tegrastats").glob("*fastapi*.log"))
    alone = [summary for log in logs for summary in summarise(read_lines(log), "", Summariser)]
    found = summaries(line for log in logs for line in read_lines(log))
    assert [one.total_j for one in found] == [one.total_j for one in alone]
    assert len(found) == len(logs) > 3
