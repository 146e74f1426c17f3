"""Energy in the report: fits, the power table, the total's rule, and simulated boards."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.energy.fit import energy_points
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.energy import (
    energy_facts,
    energy_table,
    meter_facts,
    power_table,
)
from mansard.core.errors import InputError
from mansard.core.records import Board, EnergyWindow, Trial
from tests.analytics.factory import (
    MIB,
    fma_trials,
    machine,
    manifest,
    stream_trials,
    trial,
    window,
    write_run,
)
from tests.analytics.score_factory import layer, score, write_scores

RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV")
# What a FLOP in fp32, a byte from L1 and from DRAM, and a second cost on the made-up board.
FLOP_J, L1_J, DRAM_J, CONSTANT_W = 4e-12, 10e-12, 80e-12, 8.0
IDLE = (window({"VDD_GPU_SOC": 3.0, "VDD_CPU_CV": 5.0}, RAILS),) * 3


def metered(row: Trial, byte_j: float = L1_J, share: float = 1.0) -> Trial:
    """The trial with two windows of 2 s, which read ``share`` of what the costs give."""
    repetitions = round(2.0 / row.seconds_s[0])
    joules = FLOP_J * row.work_flop + byte_j * row.traffic_bytes
    watts = share * (joules * repetitions / 2.0 + CONSTANT_W)
    power_w = {"VDD_GPU_SOC": 3.0, "VDD_CPU_CV": watts - 3.0}
    windows = (window(power_w, RAILS, repetitions=repetitions),) * 2
    reasons = {name: why for name, why in row.unknown.items() if name != "energy"}
    return msgspec.structs.replace(row, energy=windows, unknown=reasons)


def board_trials(run_id: str = "r") -> list[Trial]:
    chains = [row for row in fma_trials(run_id) if row.precision == "fp32"]
    sets = [row for row in stream_trials(run_id) if row.working_set_bytes > 96 * MIB]
    return [*map(metered, chains), *(metered(row, DRAM_J) for row in sets)]


def board_run(runs: Path, trials: list[Trial], *, is_simulated: bool = False) -> Results:
    on = machine(is_simulated=is_simulated)
    run = manifest("r", on=on, meters_missing={}, idle=IDLE, total=RAILS)
    write_run(runs / "r", run, trials)
    return compute(ingest(runs))


def test_the_costs_that_the_trials_were_made_from_come_back(tmp_path: Path) -> None:
    found = board_run(tmp_path, board_trials()).energies["r"]
    assert found.flop_j["fp32"].value == pytest.approx(FLOP_J, rel=1e-6)
    assert found.byte_j["L1"].value == pytest.approx(L1_J, rel=1e-6)
    assert found.byte_j["DRAM"].value == pytest.approx(DRAM_J, rel=1e-6)
    assert found.constant_w.value == pytest.approx(CONSTANT_W, rel=1e-6)
    assert (found.n_idle, found.missing) == (3, ())


def test_disturbed_trials_and_sets_between_levels_are_no_points(tmp_path: Path) -> None:
    disturbed = metered(trial("r", "fma", 1e9, fma_per_element=3, disturbances=("throttled once",)))
    between = metered(trial("r", "read", 1e9, working_set_bytes=60 * 1024))  # L1 ends at 48 KiB
    unmetered = trial("r", "read", 1e9, working_set_bytes=20 * 1024)
    calm = metered(trial("r", "read", 1e9))
    results = board_run(tmp_path, [disturbed, between, unmetered, calm])
    (roof,) = results.roofs
    names = [point.name for point in energy_points(results.dataset, roof)]
    assert names == ["idle", "idle", "idle", "read fp32, 16\u00a0KiB"]


def test_a_point_is_all_windows_of_its_trial(tmp_path: Path) -> None:
    results = board_run(tmp_path, [metered(trial("r", "read", 1e9))])
    *_, point = energy_points(results.dataset, results.roofs[0])
    assert point.window_s == 4.0  # two of 2 s
    row = trial("r", "read", 1e9)
    repetitions = 2 * round(2.0 / row.seconds_s[0])
    assert point.traffic_bytes == {"L1": float(row.traffic_bytes * repetitions)}


def test_the_table_says_what_each_cost_is(tmp_path: Path) -> None:
    results = board_run(tmp_path, board_trials())
    rows = [[cell.replace("\u00a0", " ") for cell in row] for row in energy_table(results).rows]
    assert [row[1] for row in rows] == [
        "work in fp32",
        "traffic from DRAM",
        "traffic from L1",
        "constant power",
    ]
    assert rows[0][2].startswith("4.00")
    assert rows[0][2].endswith(" pJ/FLOP")
    assert rows[3][2].endswith(" W")
    (fact,) = energy_facts(results)
    assert "3 of them idle" in fact


def test_what_is_not_identifiable_says_why(tmp_path: Path) -> None:
    long = [row for row in fma_trials("r") if (row.fma_per_element or 0) >= 64]
    write_run(
        tmp_path / "r",
        manifest("r", idle=(), total=RAILS),
        [metered(row, share=1 + 0.01 * (-1) ** at) for at, row in enumerate(long)],
    )
    results = compute(ingest(tmp_path))
    remarks = {row[1]: row[3] for row in energy_table(results).rows}
    assert "no idle point" in remarks["constant power"]
    assert "all points are bound by arithmetic" in remarks["work in fp32"]
    (mode,) = summary(results.dataset, results).modes
    assert mode.energy is not None
    assert mode.energy.constant_w.value is None
    assert mode.idle_power_w is None


def test_power_of_each_rail_and_of_the_total_with_idle_beside_it(tmp_path: Path) -> None:
    results = board_run(tmp_path, [metered(trial("r", "read", 1e9))])
    rows = [[cell.replace("\u00a0", " ") for cell in row] for row in power_table(results).rows]
    # 1e9 B/s at 10 pJ are 0.010 W; 1 MFLOP in 163,840 bytes are 6.10 GFLOP/s, at 4 pJ 0.024 W
    assert rows == [
        ["2c", "VDD_CPU_CV", "stream", "5.034 W", "1", "5.000 W"],
        ["2c", "VDD_GPU_SOC", "stream", "3.000 W", "1", "3.000 W"],
        ["2c", "total", "stream", "8.034 W", "1", "8.000 W"],
    ]
    assert meter_facts(results) == [
        "ina3221 was read. Total: the sum of VDD_GPU_SOC and VDD_CPU_CV. It covers: the module."
    ]


def test_windows_that_were_not_measurable_are_kept_and_not_counted(tmp_path: Path) -> None:
    why = "too few changed samples; 4 s would do"
    good = window({"VDD_GPU_SOC": 3.0, "VDD_CPU_CV": 6.0}, RAILS, repetitions=5)
    rails = tuple(
        msgspec.structs.replace(rail, energy_j=None, unknown={**rail.unknown, "energy_j": why})
        for rail in good.rails
    )
    bad = msgspec.structs.replace(
        good, rails=rails, total_j=None, unknown={**good.unknown, "total_j": why}
    )
    results = board_run(tmp_path, [trial("r", "read", 1e9, energy=(good, bad))])
    energy = results.dataset.energy.filter(pl.col("trial_id").is_not_null())
    assert energy["energy_j"].to_list() == [6.0, 12.0, 18.0, None, None, None]
    assert why in energy["unknown_json"].to_list()[-1]
    assert power_table(results).rows[-1][3].replace("\u00a0", " ") == "9.000 W"


def test_a_rail_that_was_never_measurable_is_unknown_in_the_table(tmp_path: Path) -> None:
    good = window({"VDD_GPU_SOC": 3.0, "VDD_CPU_CV": 6.0}, RAILS, repetitions=5)
    still = msgspec.structs.replace(
        good.rails[1], energy_j=None, unknown={**good.rails[1].unknown, "energy_j": "still"}
    )
    odd = msgspec.structs.replace(
        good,
        rails=(good.rails[0], still),
        total_j=None,
        unknown={**good.unknown, "total_j": "a part is unknown"},
    )
    results = board_run(tmp_path, [trial("r", "read", 1e9, energy=(odd,))])
    rows = [[cell.replace("\u00a0", " ") for cell in row] for row in power_table(results).rows]
    assert rows == [
        ["2c", "VDD_CPU_CV", "stream", "unknown", "0", "5.000 W"],
        ["2c", "VDD_GPU_SOC", "stream", "3.000 W", "1", "3.000 W"],
        ["2c", "total", "stream", "unknown", "0", "8.000 W"],
    ]
    assert results.energies == {}


def test_every_window_of_a_run_is_a_row(tmp_path: Path) -> None:
    results = board_run(tmp_path, [metered(trial("r", "read", 1e9))])
    stored = results.dataset.energy
    assert len(stored) == (3 + 2) * 3  # idle and trial windows; two rails and the total each
    (run,) = results.dataset.runs.iter_rows(named=True)
    assert run["idle_power_w"] == 8.0
    assert run["total_rails"] == list(RAILS)


@pytest.mark.parametrize("length", [0.0, -1.0, 1e10])
def test_windows_that_cannot_be_are_refused(tmp_path: Path, length: float) -> None:
    odd = msgspec.structs.replace(IDLE[0], window_s=length)
    write_run(tmp_path / "r", manifest("r", idle=(odd,), total=RAILS), [])
    with pytest.raises(InputError, match="an energy window takes less than"):
        ingest(tmp_path)


def test_energies_that_cannot_be_are_refused(tmp_path: Path) -> None:
    odd: EnergyWindow = msgspec.structs.replace(IDLE[0], total_j=1e300)
    write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9, energy=(odd,))])
    dataset = ingest(tmp_path)
    assert len(dataset.trials) == 0
    assert "1 trial was left out, the first is" in dataset.notes[0]
    assert "an energy is beyond 1e+15 J" in dataset.notes[0]


def test_a_simulated_machine_never_says_measured(tmp_path: Path) -> None:
    trials = [msgspec.structs.replace(row, source="simulated") for row in board_trials()]
    write_scores(tmp_path, [score("net", [layer(0, 10**9, 10**6)])])
    results = board_run(tmp_path, trials, is_simulated=True)
    page = render(results)
    assert 'class="tag measured"' not in page
    assert 'class="tag simulated"' in page
    assert "(simulated)</h1>" in page
    assert "How was it simulated?" in page
    assert '<p class="when">simulated on 2026-01-02</p>' in page
    assert "Machine (simulated)" in page
    (mode,) = summary(results.dataset, results).modes
    assert mode.source == "simulated"
    assert {peak.source for peak in mode.peaks} == {"simulated"}


def test_a_real_machine_never_says_simulated(tmp_path: Path) -> None:
    page = render(board_run(tmp_path, board_trials()))
    assert "simulated" not in page.split("</style>")[1].split("<script")[0]


def test_a_board_beside_its_simulation_says_which_is_which(tmp_path: Path) -> None:
    for name, is_simulated in (("real", False), ("made-up", True)):
        on = machine(f"Board {name}", is_simulated=is_simulated)
        write_run(tmp_path / name, manifest(name, on=on), fma_trials(name))
    results = compute(ingest(tmp_path))
    sources = {roof.machine: roof.source for roof in results.roofs}
    assert sources == {"Board real": "measured", "Board made-up": "simulated"}
    page = render(results)
    assert "(partly simulated)</h1>" in page
    assert 'class="tag measured"' in page


def test_a_board_says_what_it_is(tmp_path: Path) -> None:
    board = Board(
        module="Jetson AGX Orin 64GB",
        part_number="p3701-0005",
        soc="tegra234",
        l4t="36.4.7",
        jetpack=None,
        unknown={"jetpack": "no JetPack is known for this L4T"},
    )
    known = {"kind": "jetson", "board": board, "cuda": "12.6"}
    on = msgspec.structs.replace(machine(), **known, unknown={"driver": "not loaded"})
    write_run(tmp_path / "r", manifest("r", on=on), fma_trials("r"))
    page = render(compute(ingest(tmp_path)))
    assert "Jetson AGX Orin 64GB" in page
    assert "unknown: no JetPack is known for this L4T" in page
    assert "12.6" in page
