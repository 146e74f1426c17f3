"""Bad input: each fault is said in one line, and what can still be drawn is drawn."""

from __future__ import annotations

import html
from pathlib import Path

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.pages.report.summary import notices
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.energy import power_table
from mansard.core.errors import SchemaError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import EnergyWindow, PowerMode, Trial
from tests.analytics.factory import (
    MIB,
    fma_trials,
    manifest,
    stream_trials,
    trial,
    window,
    write_run,
)
from tests.analytics.score_factory import layer, score, write_scores

RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV")
IDLE = (window({"VDD_GPU_SOC": 3.0, "VDD_CPU_CV": 5.0}, RAILS),) * 3
# What a FLOP, a byte and a second cost on the made-up board.
FLOP_J, BYTE_J, CONSTANT_W = 4e-12, 80e-12, 8.0


def metered(row: Trial) -> Trial:
    repetitions = round(2.0 / row.seconds_s[0])
    joules = (FLOP_J * row.work_flop + BYTE_J * row.traffic_bytes) * repetitions
    power_w = {"VDD_GPU_SOC": 3.0, "VDD_CPU_CV": joules / 2.0 + CONSTANT_W - 3.0}
    return with_energy(row, (window(power_w, RAILS, repetitions=repetitions),) * 2)


def with_energy(row: Trial, windows: tuple[EnergyWindow, ...]) -> Trial:
    reasons = {name: why for name, why in row.unknown.items() if name != "energy"}
    return msgspec.structs.replace(row, energy=windows, unknown=reasons)


CHAINS = [metered(row) for row in fma_trials("r") if row.precision == "fp32"]
SETS = [metered(row) for row in stream_trials("r") if row.working_set_bytes > 96 * MIB]


def results_of(
    runs: Path,
    trials: list[Trial],
    idle: tuple[EnergyWindow, ...] = IDLE,
    total: tuple[str, ...] | None = RAILS,
    mode: PowerMode | None = None,
) -> Results:
    """The results of one run of a board."""
    run = manifest("r", n_trials=len(trials), idle=idle, total=total, mode=mode)
    write_run(runs / "r", run, trials)
    return compute(ingest(runs))


def assert_drawn(results: Results) -> None:
    """The page is made, and holds every notice."""
    page = html.unescape(render(results))
    for line in notices(results):
        assert line in page


def test_nothing_is_said_of_a_run_that_lacks_nothing(tmp_path: Path) -> None:
    write_scores(tmp_path, [score("net", [layer(0, 10**9, 10**6)])])
    assert notices(results_of(tmp_path, [*CHAINS, *SETS])) == ()


def test_what_a_score_notes_of_its_network_is_said(tmp_path: Path) -> None:
    scored = score("net", [layer(0, 10**9, 10**6)])
    notes = ("counted as batch 1: …", "1 of 2 layers are unknown, from Odd 'y' on; pass --shape …")
    write_scores(tmp_path, [msgspec.structs.replace(scored, notes=notes)])
    found = results_of(tmp_path, [*CHAINS, *SETS])
    # the second advises options of another command
    assert notices(found) == ("net: counted as batch 1: …",)
    assert_drawn(found)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "nan"])
def test_a_line_with_nan_is_put_aside(tmp_path: Path, word: str) -> None:
    folder = write_run(tmp_path / "r", manifest("r"), CHAINS)
    path = folder / "trials.jsonl"
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace('"duration_s":0.5', f'"duration_s":{word}')
    path.write_text("\n".join(lines) + "\n")
    dataset = ingest(tmp_path)
    assert len(dataset.trials) == len(CHAINS) - 1
    assert dataset.notes == (
        "r/trials.jsonl: 1 line was put aside, the first is line 4, it holds NaN or Infinity",
    )


def test_lines_that_are_no_json_are_put_aside(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", manifest("r"), CHAINS)
    path = folder / "trials.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    beyond = lines[2].replace(b'"duration_s":0.5', b'"duration_s":1e999')
    path.write_bytes(b"".join([*lines[:2], b"\n", b"\xff{\n", beyond, *lines[3:]]))
    dataset = ingest(tmp_path)
    assert len(dataset.trials) == len(CHAINS) - 1
    (note,) = dataset.notes
    assert note.startswith(
        "r/trials.jsonl: 3 lines were put aside, the first is line 3, cannot read this row: "
    )


def test_nan_in_a_manifest_is_one_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", manifest("r"), [])
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 1', '"seed": NaN'))
    with pytest.raises(SchemaError, match=r"manifest\.json: cannot read this document"):
        ingest(tmp_path)


@pytest.mark.parametrize("total_j", [0.0, -5.0])
def test_zero_and_negative_energy_is_in_no_power_and_no_fit(tmp_path: Path, total_j: float) -> None:
    def drained(windows: tuple[EnergyWindow, ...] | None) -> tuple[EnergyWindow, ...]:
        return tuple(msgspec.structs.replace(each, total_j=total_j) for each in windows or ())

    odd = [with_energy(row, drained(row.energy)) for row in CHAINS[:2]]
    found = results_of(tmp_path, [*odd, *CHAINS[2:], *SETS], idle=(*IDLE, *drained(IDLE[:1])))
    assert notices(found) == (
        "r/manifest.json: 1 idle window has zero or negative total energy: in no idle power and "
        "in no fit",
        "r/trials.jsonl: 2 trials were metered with zero or negative energy, which is in no "
        "power and in no fit; look at the rails of the total",
    )
    assert idle_power_w(found.dataset.manifests[0]) == 8.0
    # 11 chains, 2 of them without, the working sets above main memory's margin, 3 idle windows
    assert found.energies["r"].n_points == 9 + len(SETS) + 3
    (total,) = (row for row in power_table(found).rows if row[1:3] == ["total", "fma"])
    assert total[4] == "9"


def test_all_energies_negative_leaves_the_roofs(tmp_path: Path) -> None:
    def drained(row: Trial) -> Trial:
        windows = tuple(msgspec.structs.replace(w, total_j=-1.0) for w in row.energy or ())
        return with_energy(row, windows)

    found = results_of(tmp_path, [drained(row) for row in [*CHAINS, *SETS]], idle=())
    assert "2c: no trial has a total energy above 0, so no energy is fitted" in notices(found)
    assert_drawn(found)
    assert found.roofs[0].peak("fp32").value == pytest.approx(128e9)


def test_reasons_without_a_total_that_differ_in_numbers_are_one_notice(tmp_path: Path) -> None:
    def short_of_readings(row: Trial, n: int) -> Trial:
        why = {"total_j": f"{n} of 40 readings are missing"}
        windows = [
            msgspec.structs.replace(window, total_j=None, unknown=window.unknown | why)
            for window in row.energy or ()
        ]
        return with_energy(row, tuple(windows))

    rows = [short_of_readings(row, at % 4 + 7) for at, row in enumerate([*CHAINS, *SETS])]
    notice, _ = notices(results_of(tmp_path, rows))
    # Numbers count as numbers: as texts 10 would be the smallest of 7, 8, 9 and 10.
    why = "7 to 10 of 40 readings are missing"
    assert notice == f"2c: {2 * len(rows)} windows have no total energy: {why}"


def test_a_rail_that_was_not_read(tmp_path: Path) -> None:
    why = "the rail VDD_CPU_CV was not read"

    def without_rail(row: Trial) -> Trial:
        windows = tuple(
            msgspec.structs.replace(
                w, rails=w.rails[:1], total_j=None, unknown={**w.unknown, "total_j": why}
            )
            for w in row.energy or ()
        )
        return with_energy(row, windows)

    found = results_of(tmp_path, [without_rail(row) for row in [*CHAINS, *SETS]])
    n_windows = 2 * len([*CHAINS, *SETS])
    assert notices(found) == (
        f"2c: {n_windows} windows have no total energy: {why}",
        "2c: no trial has a total energy above 0, so no energy is fitted",
    )
    assert_drawn(found)


def test_no_idle_point(tmp_path: Path) -> None:
    found = results_of(tmp_path, [*CHAINS, *SETS], idle=())
    assert notices(found) == ("2c: the energy fit is short of points: no idle point",)


def test_all_points_on_the_side_of_arithmetic(tmp_path: Path) -> None:
    write_scores(tmp_path, [score("net", [layer(0, 10**9, 10**6)])])
    long = [row for row in CHAINS if (row.fma_per_element or 0) >= 64]
    found = results_of(tmp_path, long)
    why = "the kernel read was not measured"
    assert notices(found) == (
        f"2c: no bandwidth of main memory, so no roof of it: {why}",
        "2c: the energy fit is short of points: all points are bound by arithmetic",
        f"2c: the time of net is unknown: no DRAM bandwidth: {why}",
    )
    assert found.roofs[0].peak("fp32").value == pytest.approx(128e9)
    assert_drawn(found)


def test_all_points_on_the_side_of_memory(tmp_path: Path) -> None:
    reads = [row for row in SETS if row.kernel == "read"]
    found = results_of(tmp_path, reads)
    assert_drawn(found)
    assert notices(found)[0] == (
        "2c: no peak, so no roof of arithmetic: no kernel that computes was measured"
    )
    assert "all points are bound by memory" in notices(found)[1]
    assert found.roofs[0].bandwidth("DRAM").value == pytest.approx(16e9)


def test_one_mode_of_a_board(tmp_path: Path) -> None:
    mode = msgspec.structs.replace(core_count_mode(2), name="15W", kind="nvpmodel")
    found = results_of(tmp_path, [*CHAINS, *SETS], mode=mode)
    assert notices(found) == (
        "15W: the only mode measured; predictions of other modes have no known error",
    )


def test_unknown_networks_of_one_mode_are_one_note_with_one_number(tmp_path: Path) -> None:
    names = [f"net{at}" for at in range(9)]
    scores = [
        score(name, [layer(0, None, None, op_type="Foo" if at < 4 else "Bar")])
        for at, name in enumerate(names)
    ]
    write_scores(tmp_path, scores)
    found = results_of(tmp_path, [*CHAINS, *SETS])
    (note,) = notices(found)
    assert note.startswith("2c: the time of 9 networks, net0, net1, net2, net3, …, is unknown: ")
    assert "the work of Foo is unknown; or the work of Bar is unknown" in note


def test_a_network_with_unknown_layers(tmp_path: Path) -> None:
    layers = [layer(0, 10**9, 10**6), layer(1, None, None, op_type="Foo")]
    write_scores(tmp_path, [score("net", layers), score("other", layers[:1])])
    found = results_of(tmp_path, [*CHAINS, *SETS])
    assert notices(found) == ("2c: the time of net is unknown: the work of Foo is unknown",)
    assert_drawn(found)
    times = dict(found.networks.select("network", "time_s").iter_rows())
    # The other: 1e9 FLOP at 128 GFLOP/s take longer than 1e6 bytes at 16 GB/s.
    assert times == {"net": None, "other": pytest.approx(1 / 128)}


def test_a_run_without_trials(tmp_path: Path) -> None:
    found = results_of(tmp_path, [])
    assert len(notices(found)) == 3  # no peak, no bandwidth, no energy
    assert_drawn(found)


def test_what_is_said_of_many_modes_is_one_line(tmp_path: Path) -> None:
    for at in range(6):
        mode = msgspec.structs.replace(core_count_mode(2), name=f"mode {at}")
        rows = [trial(f"r{at}", "read", 16e9, working_set_bytes=256 * MIB)]
        write_run(tmp_path / f"r{at}", manifest(f"r{at}", n_trials=1, mode=mode), rows)
    assert notices(compute(ingest(tmp_path))) == (
        "mode 0; mode 1; mode 2; mode 3 and 2 more: no peak, so no roof of arithmetic: "
        "no kernel that computes was measured",
    )
