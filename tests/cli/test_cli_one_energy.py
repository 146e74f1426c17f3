"""The same runs give one energy in ``measure``, ``recommend`` and ``report``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.api.rows import times_of_networks
from tests.analytics.factory import manifest, measurement, window, write_networks
from tests.cli.decide_runs import document

RAIL = ("R",)


def test_a_network_has_one_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, shown = tmp_path / "runs", {}
    for n_cpus, time_s, power_w in ((1, 0.020, 6.0), (2, 0.010, 10.0)):
        # The windows have 98 and 196 calls in 2 s: each is 2 % longer than those of the loop.
        plain = window({"R": power_w}, RAIL, window_s=2.0, repetitions=round(1.96 / time_s))
        unknown = {name: why for name, why in plain.unknown.items() if name != "disturbed_s"}
        metered = replace(plain, disturbed_s=0.0, unknown=unknown)
        row = measurement(f"run{n_cpus}", (time_s,) * 40, model="net", energy=(metered,))
        write_networks(runs, [row], n_cpus, total=RAIL)
        (times,) = times_of_networks([(manifest(row.run_id, n_cpus, total=RAIL), row)])
        shown[times.mode] = times.energy_j
    # 6 W for 2 s over 98 calls, not 6 W times 20 ms; 10 W for 2 s over 196
    assert shown == pytest.approx({"1c": 0.122449, "2c": 0.102041}, rel=1e-4)
    (one,) = document(capsys, "recommend", "net", "--runs", runs)["recommendations"]
    candidates = [one["choice"], *(other["candidate"] for other in one["neighbours"])]
    assert {each["mode"]: each["energy_j"] for each in candidates} == pytest.approx(shown)
    measured = document(capsys, "report", "--runs", runs, "--output", tmp_path / "page.html")
    reported = {row["mode"]: row["energy_j"] for row in measured["summary"]["measured"]}
    assert reported == pytest.approx(shown)


def mansard(folder: Path, *words: str) -> dict[str, object]:
    command = [sys.executable, "-m", "mansard.cli", *words, "--json"]
    if "--" in words:
        at = command.index("--")
        command = [*command[:at], "--json", *command[at:-1]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_program_on_a_simulated_board_has_one_energy(
    running_agx_orin: Path, tmp_path: Path
) -> None:
    board = ("--board", str(running_agx_orin))
    words = ("--mode", "15W,30W", "--profile", "brief", "--repeat", "3", "--name", "nap", *board)
    measured = mansard(tmp_path, "measure", *words, "--", "sleep", "0.3")
    times = [one["times"][0] for one in measured["programs"]]  # type: ignore[attr-defined]
    # On a busy machine the sensors of a mode may stop for too long: its energy is modelled then.
    energies = {row["mode"]: row["energy_j"] for row in times if row["energy_j"] is not None}
    if not energies:
        pytest.skip("this machine is too busy: no window was read without a gap")
    advised = mansard(tmp_path, "recommend", "nap", *board)["recommendations"][0]  # type: ignore[index]
    candidates = [advised["choice"], *(other["candidate"] for other in advised["neighbours"])]
    found = {each["mode"]: each["energy_j"] for each in candidates if each["mode"] in energies}
    assert found == pytest.approx(energies)
    summary = mansard(tmp_path, "report")["summary"]
    programs = summary["programs"]  # type: ignore[index]
    reported = {row["mode"]: row["energy_j"] for row in programs if row["mode"] in energies}
    assert reported == pytest.approx(energies)
