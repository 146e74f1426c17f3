"""Names that people write for modes, modes that are not known, runs of another machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.simulator import create_board
from tests.analytics.factory import write_two_modes
from tests.cli.in_process import mansard

XAVIER = "Jetson AGX Xavier"
TABLE = """mode,network,batch,latency_ms,power_w
MODE_15W,net,1,496,14.4
MODE_30W_ALL,net,1,373,17.9
MODE_10W,net,1,1237,8.6
"""
# 10W, 15W and 30W_ALL as NVIDIA has them, and one whose CPU clock nobody says
MODES = """mode,gpu_mhz,memory_mhz,cpu_mhz,n_sms,n_cpus
10W,520,1065.6,1200,4,2
15W,670,1331.2,1200,8,4
30W_ALL,900,1600,1200,8,8
fast,1377,2133,,8,8
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(text: str, device: str) -> None:
    Path("a.csv").write_text(text)
    done = mansard("import", "a.csv", "--citation", "x", "--device", device, "--runs", "runs")
    assert done.returncode == 0, done.stderr


def recommended(*options: object) -> tuple[dict[str, Any], str]:
    done = mansard("recommend", "net", *options, "--json", "-v")
    (found,) = json.loads(done.stdout)["recommendations"]
    return found, done.stderr


@pytest.mark.parametrize(
    "names", ["10W,15W,30W_ALL", "mode 10w,MODE-15W,30W all", "1,2,3", "10 W,15 Watt,MODE_30W_ALL"]
)
def test_a_measured_mode_is_known_by_any_of_its_names(names: str) -> None:
    imported(TABLE, XAVIER)
    found, notes = recommended("--mode", names, "--max-latency", "400ms")
    assert (found["verdict"], found["choice"]["mode"]) == ("feasible", "MODE_30W_ALL")
    assert found["choice"]["latency_s"] == pytest.approx(0.373)
    assert (found["n_candidates"], found["n_measured"]) == (3, 3)
    assert " is MODE_15W: " in notes  # it says which name it took for which


def test_a_mode_beside_them_changes_no_name() -> None:
    imported(TABLE.replace("MODE_30W_ALL", "MAXN"), "Jetson Orin Nano 8GB Super")
    found, _ = recommended("--mode", "7W,15W,MAXN_SUPER", "--minimise", "latency")
    assert (found["choice"]["mode"], found["choice"]["source"]) == ("MAXN", "published")


def test_a_mode_without_a_prediction_stays_in_the_answer() -> None:
    imported(TABLE, XAVIER)
    Path("m.csv").write_text(MODES)
    options = ("--mode", "m.csv", "--max-latency", "200ms")
    found, _ = recommended(*options)
    assert found["verdict"] == "unknown"
    assert (found["n_candidates"], found["n_broken"], found["n_unknown"]) == (4, 3, 1)
    assert list(found["modes_unknown"]) == ["fast"]
    assert "fast is unknown" in found["sentence"]
    assert mansard("recommend", "net", *options, "--check").returncode == 3
    assert "fast " in mansard("recommend", "net", *options).stdout.split("Whether")[0]
    best, _ = recommended("--mode", "m.csv", "--minimise", "latency")
    assert "of the modes whose time is known" in best["sentence"]
    assert "fast is unknown" in best["sentence"]


def test_a_mix_and_a_batch_say_it_too() -> None:
    imported(TABLE, XAVIER)
    Path("m.csv").write_text(MODES)
    Path("w.toml").write_text('[[network]]\nmodel = "net"\nrate = "5/s"\n')
    options = ("--mode", "m.csv", "--json")
    done = mansard("recommend", "--workload", "w.toml", *options)
    (mix,) = json.loads(done.stdout)["mixes"]
    assert mix["sentence"].startswith("Whether a mode keeps up is unknown.")
    assert list(mix["modes_unknown"]) == ["fast"]
    assert "fast is unknown" in mansard("batch", "net", "--mode", "m.csv").stderr


def test_maxn_of_an_agx_xavier_is_predicted_by_name() -> None:
    imported(TABLE, XAVIER)
    found, _ = recommended("--mode", "10W,15W,30W_ALL,MAXN", "--max-latency", "300ms")
    assert found["verdict"] == "uncertain"  # between bounds: it may keep them
    assert (found["choice"]["mode"], found["n_candidates"]) == ("MAXN", 4)
    assert found["modes_unknown"] == {}


def test_a_table_with_other_clocks_under_a_measured_name_is_another_mode() -> None:
    imported(TABLE, XAVIER)
    Path("m.csv").write_text(
        MODES.replace("30W_ALL,900,", "MODE_30W_ALL,675,").replace("fast", "top")
    )
    found, notes = recommended("--mode", "m.csv", "--minimise", "latency")
    assert found["n_measured"] == 2
    assert "MODE_30W_ALL as asked has other clocks than as measured" in notes


def test_runs_of_another_machine_are_no_modes_of_the_board(tmp_path: Path) -> None:
    board, runs = create_board("agx-orin", tmp_path), write_two_modes(tmp_path / "cpu")
    done = mansard("plan", "--board", board, "--runs", runs)
    assert done.returncode == 0, done.stderr
    assert "0 of 4 modes are measured" in done.stdout
    assert "MAXN" in done.stdout
    assert "none of its modes counts as measured" in done.stderr
    for command in ("recommend", "batch", "report"):
        network = () if command == "report" else ("resnet50",)
        done = mansard(command, *network, "--runs", runs, "--board", board, "--mode", "all")
        assert done.returncode == 2, command
        assert "leave --board out, or name runs of that board" in done.stderr
