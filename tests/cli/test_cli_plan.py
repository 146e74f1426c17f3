"""``mansard board plan``: from a table, a grid on a simulated board, and imported figures."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mansard.simulator import create_board
from tests.analytics.factory import program, write_programs, write_two_modes
from tests.cli.in_process import mansard

TABLE = """mode,gpu_hz,memory_hz
slow,300e6,800e6
low,300e6,3200e6
middle,800e6,1600e6
high,1300.5e6,800e6
fast,1300.5e6,3200e6
"""
# 6 ms / f_gpu + 4 ms / f_memory, in W: 2 + 4 · f_gpu
FIGURES = """mode,network,batch,precision,gpu_mhz,emc_mhz,time_ms,power_w
slow,net,1,fp16,300,800,25,3.2
low,net,1,fp16,300,3200,21.25,3.2
high,net,1,fp16,1300.5,800,9.614,7.202
"""


@pytest.fixture(autouse=True)
def _no_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a folder called runs is taken where it is there


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "modes.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_a_first_plan_of_a_table_and_the_command_that_measures_it(table: Path) -> None:
    done = mansard("plan", "--mode", table, "--next", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 5 modes are measured" in done.stdout
    assert "These modes are one set: measure all of them before you plan again." in done.stdout
    words = shlex.split(done.stdout.splitlines()[-1])
    assert words[:3] == ["mansard", "bench", "--mode"]
    # by their clocks, as the board does not know the table's names; 1300.5 MHz is cut to 1300
    assert sorted(words[3].split(";")) == [
        "gpu=1300MHz,emc=3200MHz",
        "gpu=1300MHz,emc=800MHz",
        "gpu=300MHz,emc=3200MHz",
        "gpu=300MHz,emc=800MHz",
        "gpu=800MHz,emc=1600MHz",
    ]


def test_modes_that_clocks_do_not_make_are_named(tmp_path: Path) -> None:
    path = tmp_path / "modes.csv"
    path.write_text("mode,gpu_mhz,n_sms\n15W,408,6\n30W,612,8\nMAX N\x1b[2J,1300,16\n")
    done = mansard("plan", "--mode", path, "--next", "3")
    assert done.returncode == 0, done.stderr
    words = shlex.split(done.stdout.splitlines()[-1])
    assert sorted(words[3].split(",")) == ["15W", "30W", "MAX N\\x1b[2J"]  # no escape gets out


def test_imported_figures_are_known_and_not_measured_again(table: Path, tmp_path: Path) -> None:
    figures, runs = tmp_path / "figures.csv", tmp_path / "runs"
    figures.write_text(FIGURES, encoding="utf-8")
    imported = mansard("import", figures, "--device", "board", "--citation", "me", "--runs", runs)
    assert imported.returncode == 0, imported.stderr
    options = ("--mode", table, "--next", "2", "--minimise", "latency", "--json")
    done = mansard("plan", "--runs", runs, *options)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["plans"]
    assert found["plan"]["n_measured"] == 3
    assert found["plan"]["networks"] == ["net"]
    # 6 / 1.3005 + 4 / 3.2 = 5.86 ms, against 9.61 ms at best so far
    first, second = found["plan"]["picks"]
    assert (first["mode"], second["mode"]) == ("fast", "middle")
    assert first["improvement"] > 0.2
    assert found["command"].endswith(f"--runs {shlex.quote(str(runs))}")
    other = mansard("plan", "--runs", runs, "--mode", table, "--network", "nonet")
    assert other.returncode == 2
    assert other.stderr == "mansard: nothing is known of a network 'nonet'; use net\n"
    other = mansard("plan", "--runs", runs, "--mode", table, "--device", "orin")
    assert other.returncode == 2
    assert other.stderr.startswith("mansard: no measured device is called 'orin'; use board")


def test_modes_of_another_devices_runs_are_that_devices(tmp_path: Path) -> None:
    figures, runs = tmp_path / "figures.csv", tmp_path / "runs"
    figures.write_text(
        "mode,network,batch,precision,gpu_mhz,emc_mhz,time_ms\n"
        "15W,net,1,fp16,408,2133,25\n30W,net,1,fp16,612,3199,15\n"
    )
    named = "Jetson AGX Orin 64GB"
    imported = mansard("import", figures, "--device", named, "--citation", "me", "--runs", runs)
    assert imported.returncode == 0, imported.stderr
    options = ("--minimise", "latency", "--json")
    (found,) = json.loads(mansard("plan", "--runs", runs, *options).stdout)["plans"]
    # not this machine's 1c, 2c, …: the two modes of the board that are not measured
    assert sorted(pick["mode"] for pick in found["plan"]["picks"]) == ["50W", "MAXN"]
    assert found["notes"][-1].startswith(f"the command is for {named} (published), not for this")
    grid = tmp_path / "grid.toml"
    grid.write_text('gpu = ["306MHz", "1300MHz"]\ncores = [4, 12]\n')
    done = mansard("plan", "--runs", runs, "--mode", grid, "--next", "2", *options)
    (found,) = json.loads(done.stdout)["plans"]
    # The least time is at the highest clock.
    assert [pick["settings"]["gpu_hz"] for pick in found["plan"]["picks"]] == [1300e6, 1300e6]
    other = mansard("plan", "--runs", runs, "--mode", "3c")
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == (
        f"mansard: {named} (published) has no mode '3c'; it has MAXN, 15W, 30W, 50W\n"
    )


def test_a_program_is_found_by_its_name_in_any_case(tmp_path: Path) -> None:
    write_programs(tmp_path / "runs", [program("programs", (2.0, 2.01, 2.02), workload="LLM")], 1)
    modes = tmp_path / "modes.csv"
    modes.write_text("mode,n_cpus\n1c,1\n3c,3\n", encoding="utf-8")
    options = ("--mode", modes, "--minimise", "latency", "--network", "llm", "--json")
    done = mansard("plan", "--runs", tmp_path / "runs", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"][0]["command"].endswith(
        "--name LLM -- ./llm --prompt hello"
    )


def test_modes_without_a_common_setting_are_no_plan(table: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    write_two_modes(runs)  # 1c and 2c: counts of cores, no clocks
    done = mansard("plan", "--runs", runs, "--mode", table)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the measured modes and those to choose from have no setting in common" in done.stderr


def test_a_grid_on_a_board_gives_names_that_bench_takes(tmp_path: Path) -> None:
    board = create_board("agx-orin", tmp_path)
    grid = tmp_path / "grid.toml"
    grid.write_text('gpu = "all"\nemc = ["665.6MHz", "3199MHz"]\ncores = [4, 12]\n')
    done = mansard("plan", "--mode", grid, "--board", board, "--next", "4", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["plans"]
    names = [pick["mode"] for pick in found["plan"]["picks"]]
    assert len(set(names)) == 4
    words = shlex.split(found["command"])
    assert words == [*("mansard", "bench", "--mode"), ",".join(names), "--board", str(board)]
    dry = mansard("bench", "--dry-run", "--json", *words[3 - 1 :], "--runs", tmp_path / "runs")
    assert dry.returncode == 0, dry.stderr
    # MAXN leaves its clocks uncapped: they are the highest that the kernel lists
    done = mansard("plan", "--board", board, "--next", "4", "--json")
    picks = {pick["mode"]: pick for pick in json.loads(done.stdout)["plans"][0]["plan"]["picks"]}
    assert sorted(picks) == ["15W", "30W", "50W", "MAXN"]
    assert picks["MAXN"]["settings"]["gpu_hz"] == 1300.5e6


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (["--max-latency", "20"], 2, "--max-latency '20' has no unit; write 20ms"),
        (["--network", "resnet"], 2, "--network needs runs; name the folder of the runs as well"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    table: Path, options: list[str], code: int, line: str
) -> None:
    done = mansard("plan", "--mode", table, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"mansard: {line}")
    assert done.stderr.count("\n") == 1


def test_a_table_of_no_modes_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("mode,gpu_hz\na,-3\n", encoding="utf-8")
    done = mansard("plan", "--mode", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"mansard: {path}, line 2: gpu_hz is -3, and must be above 0")
    assert done.stderr.count("\n") == 1


def test_measured_modes_are_not_planned_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    write_two_modes(runs)  # 1c and 2c
    modes = tmp_path / "modes.csv"
    modes.write_text("mode,n_cpus\n1c,1\n2c,2\n3c,3\n4c,4\n", encoding="utf-8")
    done = mansard("plan", "--runs", runs, "--mode", modes, "--next", "3", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["plans"]
    assert sorted(pick["mode"] for pick in found["plan"]["picks"]) == ["3c", "4c"]
    assert found["plan"]["n_measured"] == 2
    assert "2 of 4 modes are left to measure" in found["plan"]["notes"]
    assert found["command"].startswith("mansard bench --mode 'cores=4;cores=3' --runs")
