"""Logs of rails: what is added, and the energies of windows beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.published.importing import Imported, import_files
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.readers.reader import PowerTrace
from mansard.core.errors import InputError, UsageError
from mansard.core.records import PublishedRun

ORIGIN = PublishedOrigin(device="a board", processor="gpu", citation="A. Author, 2026")
FIXED = {"mode": "15W", "network": "net", "batch": "1"}
ORIN = {"VDD_IN": 5.0, "VDD_CPU_GPU_CV": 2.0, "VDD_SOC": 1.5}
AGX = {"VDD_GPU_SOC": 8.0, "VDD_CPU_CV": 2.0, "VIN_SYS_5V0": 4.0, "VDDQ_VDD2_1V8AO": 1.0}


def long(rails: Mapping[str, float], *, step_s: float = 0.01, n: int = 101) -> str:
    """Each rail at a constant power, the rails one millisecond after another."""
    rows = [
        f"{at * step_s + number / 1000:.4f},{rail},{watts}"
        for at in range(n)
        for number, (rail, watts) in enumerate(rails.items())
    ]
    return "\n".join(["timestamp_s,rail_name,power_w", *rows, ""])


def wide(rails: Mapping[str, float]) -> str:
    head = ",".join(f"{rail}_mW" for rail in rails)
    cells = ",".join(str(watts * 1e3) for watts in rails.values())
    return "\n".join([f"time_ms,{head}", *(f"{10 * at},{cells}" for at in range(101)), ""])


def read(folder: Path, *texts: str) -> list[tuple[Imported, ...]]:
    paths = [folder / f"{at}.csv" for at, _ in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return import_files(paths, ORIGIN, fixed=FIXED)


def runs_of(found: Sequence[tuple[Imported, ...]]) -> tuple[PublishedRun, ...]:
    return tuple(run for each in found for one in each for run in one.runs)


@pytest.mark.parametrize("form", [long, wide])
@pytest.mark.parametrize(
    ("rails", "total_w"),
    [
        (ORIN, 5.0),  # VDD_IN holds the others
        (AGX, 14.0),  # 8 + 2 + 4; the memory's is fed from VIN_SYS_5V0
        ({"POM_5V_IN": 6.0, "POM_5V_GPU": 2.0, "POM_5V_CPU": 1.0}, 6.0),
        ({"VIN": 30.0, "VDD_GPU": 9.0, "VDD_CPU_SOC_MSS": 7.0, "VIN_SYS_5V0": 5.0}, 30.0),
        ({"GPU": 9.0, "CPU": 3.0, "SOC": 2.0, "CV": 1.0, "VDDRQ": 2.0, "SYS5V": 3.0}, 20.0),
        ({"VDD_IN": 7.0, "VDD_SYS_GPU": 2.0, "VDD_SYS_SOC": 1.0}, 7.0),
    ],
)
def test_only_rails_that_make_the_total_are_added(
    tmp_path: Path, form: object, rails: Mapping[str, float], total_w: float
) -> None:
    assert callable(form)
    (run,) = runs_of(read(tmp_path, form(rails)))
    assert run.power_w == pytest.approx(total_w)
    assert run.latency_s is None


@pytest.mark.parametrize(
    "rails",
    [
        {"VDD_CPU_GPU_CV": 2.0, "VDD_SOC": 1.5},  # parts alone
        {"VDD_GPU_SOC": 8.0, "VDD_CPU_CV": 2.0},  # an AGX without its 5 V
        {"VDD_IN": 5.0, "MY_RAIL": 1.0},
    ],
)
def test_rails_that_make_no_known_total_are_refused(
    tmp_path: Path, rails: Mapping[str, float]
) -> None:
    with pytest.raises(InputError, match="do not make the total of a board that is known"):
        read(tmp_path, long(rails))


def test_the_energy_of_a_window_is_interpolated_at_its_ends(tmp_path: Path) -> None:
    # 10 W/s from 0: between 0.25 s and 0.75 s 5 · (0.75² − 0.25²) = 2.5 J, 5 W. Of the samples
    # inside, 0.3 to 0.7 s, 2 J. The table claims 3.2 J, of rails that contain one another.
    ramp = "".join(f"{at / 10},VDD_IN,{at}\n{at / 10},VDD_SOC,{at / 2}\n" for at in range(11))
    windows = "start_s,end_s,duration_s,energy_j,avg_power_w,peak_power_w\n.25,.75,.5,3.2,9,9\n"
    found = read(tmp_path, windows, "t_s,rail,power_w\n" + ramp)
    (run,) = runs_of(found)
    assert run.latency_s == pytest.approx(0.5)
    assert run.figures["energy_j"] == pytest.approx(2.5)
    assert run.power_w == pytest.approx(5.0)
    assert found[0][0].notes == (
        "its energies, 3.2 J in sum, are not used: the samples give 2.5 J",
    )


@pytest.mark.parametrize("ends", ["0.5,1.5", "2,3"])
def test_a_window_beyond_the_samples_has_no_energy(tmp_path: Path, ends: str) -> None:
    found = read(tmp_path, f"start_s,end_s,energy_j\n{ends},5\n", long(ORIN))
    (run,) = runs_of(found)
    assert run.power_w is None
    assert "energy_j" not in run.figures
    assert "no energy in lines 2: the samples do not cover" in found[0][0].notes[0]


def test_a_window_in_a_pause_of_the_log_has_no_energy(tmp_path: Path) -> None:
    log = "t_s,rail,power_w\n" + "".join(
        f"{t / 100},VDD_IN,5\n" for t in (*range(50), *range(150, 200))
    )
    with pytest.raises(InputError, match="none in half of the log"):
        read(tmp_path, log)
    found = read(tmp_path, "start_s,end_s\n0.45,1.55\n0.1,0.4\n", log)
    assert [run.power_w for run in runs_of(found)] == [None, pytest.approx(5.0)]


def test_a_claimed_energy_that_contradicts_its_power_is_refused(tmp_path: Path) -> None:
    # 0.961197 J in 0.105737 s are 9.09 W, not 10.60 W.
    table = "start_s,end_s,duration_s,energy_j,avg_power_w,peak_power_w\n"
    with pytest.raises(InputError, match=r"line 2: .* is 9\.09 W, its power 10\.6 W"):
        read(tmp_path, f"{table}1,1.105737,0.105737,0.961197,10.5969,10.7\n")


def test_a_window_whose_duration_is_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"its duration_s is 0\.7 s, its end less its start 0\.5 s"
    ):
        read(tmp_path, "start_s,end_s,duration_s\n0.2,0.7,0.7\n", long(ORIN))


def test_logs_that_go_back_or_stand_beside_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its times go back"):
        read(tmp_path, "t_s,rail,power_w\n2,VDD_IN,5\n1,VDD_IN,5\n")
    with pytest.raises(UsageError, match="several logs of rails"):
        read(tmp_path, "start_s,end_s\n0.2,0.7\n", long(ORIN), wide(ORIN))


def test_one_rail_of_an_agx_is_no_power_of_the_board(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column is a time, a power or an energy"):
        read(tmp_path, "name,VIN_SYS_5V0_w\na,4\n")


def test_a_sum_of_jtop_that_adds_parts_is_not_used(tmp_path: Path) -> None:
    # 5 W of VDD_IN; its log says 8.5 W, with the two rails that VDD_IN feeds.
    rails = "Power VDD_IN,Power VDD_CPU_GPU_CV,Power VDD_SOC"
    rows = "".join(f"2026-01-01 00:00:0{s},0,MAXN,8500,5000,2000,1500\n" for s in range(5))
    path = tmp_path / "log.csv"
    path.write_text(f"time,uptime,nvp model,Power TOT,{rails}\n{rows}")
    ((found,),) = import_files([path], ORIGIN, fixed={"network": "net"})
    assert found.runs[0].power_w == pytest.approx(5.0)
    assert "Power TOT is +70% off Power VDD_IN" in found.notes[0]


@given(
    st.lists(st.floats(0.5, 60.0), min_size=5, max_size=30),
    st.floats(0.1, 0.9),
    st.floats(0.1, 0.9),
)
def test_the_energies_of_two_halves_are_that_of_the_whole(
    powers: list[float], at: float, end: float
) -> None:
    points = tuple((float(t), watts) for t, watts in enumerate(powers))
    trace, last = PowerTrace({"VDD_IN": points}), len(powers) - 1.0
    low, high = 0.0, last
    middle = min(max(at * end * last, 0.5), last - 0.5)
    parts = [trace.energy_j(low, middle), trace.energy_j(middle, high)]
    whole = trace.energy_j(low, high)
    assert whole is not None
    assert None not in parts
    assert sum(part or 0.0 for part in parts) == pytest.approx(whole)


@pytest.mark.shared_data
def test_the_recorded_windows(shared_data: Path) -> None:
    folder = shared_data / "cases/06"
    if not folder.is_dir():
        pytest.skip("../shared/data/cases is not there")
    paths = [folder / "claimed_windows.csv", folder / "raw_samples.csv"]
    runs = runs_of(import_files(paths, ORIGIN, fixed=FIXED))
    # The log that is there ends in the fourth window.
    energies_j = [run.figures.get("energy_j") for run in runs]
    assert energies_j[:3] == [pytest.approx(j, abs=5e-4) for j in (0.732, 0.731, 0.739)]
    assert energies_j[3:] == [None, None, None]
