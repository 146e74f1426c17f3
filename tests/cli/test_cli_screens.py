"""What commands print first: a network's modes, disturbed medians, dry runs, headings of help."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.quantities import MILLI, in_unit
from mansard.api import results
from mansard.cli.console import TerminalReporter, take_verbosity
from mansard.cli.data.network_runs import best_mode, run_tables, why_lines
from mansard.cli.measuring.networks import print_networks
from mansard.core.units import ABOVE_ROOF, ROOF_FACTORS
from mansard.simulator import create_board, snapshot
from mansard.sweeps.reporter import WAITING
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.cli.in_process import mansard
from tests.cli.measured_times import network_times


@pytest.mark.parametrize(
    ("value", "ends", "kind", "shown"),
    [
        (0.0213, (0.0206, 0.0220), "spread", "21.30"),
        (None, (None, None), "spread", "unknown"),
        (0.0031, (0.0030, 0.0032), "roof", "≥ 3.10"),
        (0.0046281, (0.0046253, 0.0046309), "roof", "≥ 4.62"),  # rounded down: it is a bound
        (0.03, (0.026, 0.1), "bounds", "26 to 100"),
    ],
)
def test_a_cell_has_the_unit_of_its_head(
    value: float | None, ends: tuple[float | None, float | None], kind: str, shown: str
) -> None:
    assert in_unit(value, *ends, kind, unit=MILLI) == shown


def test_the_recommended_mode_has_the_least_energy() -> None:
    slow = network_times("15W", time_s=0.030, energy_j=0.18)
    fast = network_times("MAXN", time_s=0.020, energy_j=0.20)
    best = best_mode([slow, fast])
    assert best is not None
    assert best.row is slow
    (table,) = run_tables([slow, fast], 5)
    assert table.column(table.columns.index("remark")) == ["recommended", ""]
    assert table.column(table.columns.index("items/s")) == ["33.33", "50.00"]
    (line,) = why_lines([slow, fast], 5)
    # 0.18 / 0.20 is −10 %, 30 / 20 is +50 %.
    assert line.replace("\u00a0", " ") == (
        "net × 1 fp32: 15W uses the least energy; compared with MAXN: energy −10 %, time +50 %"
    )


def test_modes_whose_intervals_overlap_are_not_recommended() -> None:
    # 3.54 ± 0.13 ends at 3.67, above 3.58 − 0.14 = 3.44.
    slower = network_times("15W", time_s=0.00358, low_s=0.00344, high_s=0.00372)
    faster = network_times("MAXN", time_s=0.00354, low_s=0.00341, high_s=0.00367)
    (table,) = run_tables([slower, faster], 5)
    assert "recommended" not in {cell for row in table.rows for cell in row}
    (line,) = why_lines([slower, faster], 5)
    assert line == (
        "net × 1 fp32: MAXN and 15W cannot be distinguished: the intervals of their times overlap"
    )


def test_energies_that_overlap_are_not_recommended_either() -> None:
    # The times differ by far; 0.18 J is at most 0.21, above 0.19.
    slow = network_times("15W", time_s=0.030, energy_j=0.18, energy_low_j=0.17, energy_high_j=0.21)
    fast = network_times("MAXN", time_s=0.020, energy_j=0.20, energy_low_j=0.19, energy_high_j=0.22)
    (line,) = why_lines([slow, fast], 5)
    assert line == (
        "net × 1 fp32: 15W and MAXN cannot be distinguished: the intervals of their energies "
        "overlap"
    )


def test_any_mode_may_overlap_and_many_are_counted() -> None:
    # 10, 11, …, 14 ms, each from 10 to 15; then one of 9 ms up to 10, and one of 20 without ends.
    rows = [
        network_times(f"m{at}", time_s=0.001 * (10 + at), low_s=0.010, high_s=0.015)
        for at in range(5)
    ]
    best = network_times("MAXN", time_s=0.009, low_s=0.008, high_s=0.010)
    (line,) = why_lines([*rows, best, network_times("7W", time_s=0.020)], 5)
    assert line.startswith("net × 1 fp32: MAXN and 5 other modes cannot be distinguished: ")


def test_intervals_apart_are_recommended() -> None:
    # At most 3.57 ms, and at least 3.58.
    slower = network_times("15W", time_s=0.0036, low_s=0.00358, high_s=0.00362)
    faster = network_times("MAXN", time_s=0.0035, low_s=0.00343, high_s=0.00357)
    (table,) = run_tables([slower, faster], 5)
    assert table.column(table.columns.index("remark")) == ["", "recommended"]
    (line,) = why_lines([slower, faster], 5)
    assert line.startswith("net × 1 fp32: MAXN is fastest; compared with 15W: time ")


def test_a_network_above_its_roof_says_that_the_peaks_are_too_low() -> None:
    # At best 20 ms, measured 17.6 ms, at most 18.2: it cannot be.
    row = network_times(
        "2c", time_s=0.0176, low_s=0.0170, high_s=0.0182,
        predicted_s=0.020, predicted_interval="roof",
    )  # fmt: skip
    first, *_ = why_lines([row], 5)
    assert first == f"net × 1 fp32 {ABOVE_ROOF}"
    slower = network_times("2c", time_s=0.0199, high_s=0.0205, predicted_s=0.020)
    assert not any(ABOVE_ROOF in line for line in why_lines([slower], 5))


def test_a_disturbed_row_is_never_recommended() -> None:
    noisy = network_times("15W", time_s=None, disturbed_s=(0.01, 0.008, 0.012), remark="busy")
    assert best_mode([noisy, network_times("MAXN", time_s=0.02)]) is None
    (table,) = run_tables([noisy, network_times("MAXN", time_s=0.02)], 5)
    assert table.rows[0][1].replace("\u00a0", " ") == "10.0 ± 2.0, disturbed"


def test_a_network_whose_samples_were_all_rejected_has_a_median(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path / "runs")
    row = measurement(
        "nets-2c",
        (),
        model="alexnet",
        rejected_s=(0.060,) * 9,
        rejected_reason=("other processes used the CPU",) * 9,
        stability="unstable",
    )
    write_networks(runs, [row])
    done = mansard("report", "--runs", runs)
    assert done.returncode == 0, done.stderr
    assert "60.0" in done.stdout
    assert "disturbed" in done.stdout
    networks, ceilings = done.stdout.index("Networks on"), done.stdout.index("Ceilings of")
    assert networks < ceilings


@pytest.mark.parametrize(
    "words",
    [
        ("measure", "resnet18"),
        ("multi", "run", "resnet18"),
        ("models", "ncu", "run", "resnet18"),
    ],
)
def test_a_dry_run_prints_writes_and_touches_nothing(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    board = create_board("agx-orin", tmp_path)
    before = snapshot(board)
    done = mansard(*words, "--board", board, "--mode", "15W", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nvpmodel -m" in done.stdout
    assert "nothing is changed" in done.stdout
    assert snapshot(board) == before
    assert not (tmp_path / "runs").exists()


def test_many_options_stand_under_headings_and_few_do_not() -> None:
    shown = mansard("measure", "--help").stdout
    heads = [line for line in shown.splitlines() if line.endswith(":") and line[:1].isalpha()]
    assert heads[0] == "Arguments:"
    assert {"Network:", "Server:", "Engine:", "Mode:", "Board:", "Output:"} <= set(heads)
    assert "Options:" in mansard("models", "fit", "--help").stdout


def test_who_holds_the_machine_is_said_in_a_quiet_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    take_verbosity(["-q"])
    try:
        TerminalReporter().note("nothing of this")
        TerminalReporter().note(f"/: in use by another sweep, process 7{WAITING}")
    finally:
        take_verbosity([])
    err = capsys.readouterr().err
    assert err == "/: in use by another sweep, process 7; waiting until it has ended\n"


def test_at_best_comes_with_how_far_real_times_have_been(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path / "runs")
    done = mansard("recommend", "alexnet", "--runs", runs)
    assert ROOF_FACTORS in done.stdout


def test_bounds_come_with_the_ratios_of_what_ran_here() -> None:
    row = network_times("2c", time_s=0.021, predicted_s=0.020, predicted_interval="roof")
    other = network_times("2c", time_s=0.030, predicted_s=0.020, predicted_interval="roof")
    # 21 ms / 20 ms = 1.05 and 30 / 20 = 1.5
    *_, line = why_lines([row], 5)
    assert line == "≥: at best, by the roofs; measured times are 1.05 times the bound"
    *_, line = why_lines([row, other], 5)
    assert line == "≥: at best, by the roofs; measured times are 1.05 to 1.50 times the bound"
    *_, line = why_lines([network_times("2c", predicted_s=0.020, predicted_interval="roof")], 5)
    assert "times are 1.1 to 82.5 times as long (TensorRT" in line


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("it was not scored, or its mode has no roofs", "mansard bench --runs my-runs measures"),
        ("no fp32 peak is known in this mode", "mansard bench --again --runs my-runs measures"),
    ],
)
def test_roofs_are_measured_again_only_where_some_were(
    capsys: pytest.CaptureFixture[str], why: str, advice: str
) -> None:
    row = network_times("2c", time_s=0.02)
    times = replace(row, unknown={**row.unknown, "predicted_s": why})
    result = results.MeasureResult(rows=(), times=(times,), accuracies=(), failure=None)
    print_networks(result, Path("my-runs"), with_layers=False, all_rows=False, as_json=False)
    assert f"no predictions: {why}; {advice} the roofs" in capsys.readouterr().err
