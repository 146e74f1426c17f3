"""The meters on the five simulated boards: real files, and a daemon that moves them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.hardware import MODULES
from mansard.core.records import EnergyWindow
from mansard.device.identity import identify
from mansard.device.meters.finding import find_meters
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import Sampler, idle_window
from mansard.device.meters.tegrastats import open_tegrastats
from mansard.simulator import create_board, running, set_fault, set_load
from tests.simulator.simulator_bench import GPU, number
from tests.waiting import awaited

BOARDS = {
    "agx-orin": ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    "orin-nano-super": ("VDD_IN",),
    "xavier-nx": ("VDD_IN",),
    "tx2": ("VDD_IN",),
    "thor": ("VIN",),
}


def measure(meters: Meters, seconds: float = 0.5, n_changed_min: int = 1) -> EnergyWindow:
    with Sampler(meters) as sampler:
        return idle_window(sampler, seconds, n_changed_min=n_changed_min)


def wait_for(
    meters: Meters, is_so: Callable[[EnergyWindow], bool], n_changed_min: int = 1
) -> EnergyWindow:
    """The first window in which it is so: the daemon is another process, and takes a moment.

    A busy machine may leave pauses between readings: such a window says nothing of the meters.
    """
    for _ in range(40):
        window = measure(meters, n_changed_min=n_changed_min)
        whys = (rail.unknown.get("energy_j", "") for rail in window.rails)
        if is_so(window) and not any("no reading for" in why for why in whys):
            return window
    raise AssertionError(window)


def powers_w(window: EnergyWindow) -> dict[str, float]:
    return {
        rail.rail: rail.energy_j / window.window_s
        for rail in window.rails
        if rail.energy_j is not None
    }


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_its_rails_its_total_and_energy(name: str, tmp_path: Path) -> None:
    root = create_board(name, tmp_path)
    with running(root):
        machine = identify(root)
        meters = find_meters(root, machine)
        set_load(root, cpu=0.2, gpu=0.0)
        time.sleep(0.2)
        # At rest a rail may stay on one step: its constant power will do here.
        calm = wait_for(meters, lambda window: window.total_j is not None, n_changed_min=0)
        calm_w = (calm.total_j or 0.0) / calm.window_s
        set_load(root, cpu=1.0, gpu=1.0, memory=1.0)
        # Everything at work draws more than a fifth of the cores.
        busy = wait_for(meters, lambda window: (window.total_j or 0.0) > 0.6 * calm_w)
    assert machine.board is not None
    module = MODULES[machine.board.part_number or ""]
    assert set(meters.found[0].rails) == set(module.rails)
    assert meters.missing == {}
    assert meters.total is not None
    assert meters.total.rails == BOARDS[name]
    assert calm_w > 0.5
    assert busy.total_j is not None
    rails = {rail.rail: rail.energy_j or 0.0 for rail in busy.rails}
    assert busy.total_j == pytest.approx(sum(rails[rail] for rail in BOARDS[name]))
    if len(BOARDS[name]) == 1:
        assert busy.total_j > sum(rails[part] for part in meters.total.parts)


def test_chips_and_tegrastats_agree(tmp_path: Path) -> None:
    root = create_board("orin-nano-super", tmp_path)
    with running(root):
        set_load(root, cpu=0.5, gpu=0.5)
        assert awaited(lambda: number(root, f"{GPU}/load") == 500)
        chips = find_meters(root)
        lines, why = open_tegrastats(root)
        assert lines is not None, why
        by_chips, by_lines = (
            powers_w(wait_for(meters, lambda found: len(powers_w(found)) == 3))
            for meters in (chips, Meters((lines,), {}))
        )
    steps_w = chips.facts(0.01).steps_w
    for rail, power_w in by_chips.items():
        # The load stays, heat rises a little; each reading is right to one step.
        assert by_lines[rail] == pytest.approx(power_w, rel=0.05, abs=steps_w[rail])


def test_a_monitor_that_stops_is_not_measurable(running_agx_orin: Path) -> None:
    set_fault(running_agx_orin, "sensor_stops", True)
    meters = find_meters(running_agx_orin)
    window = wait_for(meters, lambda found: all(rail.energy_j is None for rail in found.rails))
    assert "are the same" in window.rails[0].unknown["energy_j"]
    assert window.total_j is None


def test_a_rail_that_jumps_has_no_energy(running_agx_orin: Path) -> None:
    set_fault(running_agx_orin, "sensor_jumps", "VIN_SYS_5V0")
    window = wait_for(find_meters(running_agx_orin), lambda found: found.total_j is None)
    why = {rail.rail: rail.unknown.get("energy_j", "") for rail in window.rails}
    assert "the sensor jumped to" in why["VIN_SYS_5V0"]
    assert why["VDD_CPU_CV"] == ""
    assert window.unknown["total_j"].startswith("VIN_SYS_5V0: the sensor jumped")


def test_labels_that_are_swapped_make_no_total(tmp_path: Path) -> None:
    root = create_board("orin-nano-super", tmp_path)
    set_fault(root, "labels_swapped", ["VDD_IN", "VDD_CPU_GPU_CV"])
    with running(root):
        set_load(root, cpu=0.5, gpu=0.5)
        window = wait_for(find_meters(root), lambda found: found.total_j is None)
    assert window.total_j is None
    assert "labels seem swapped: VDD_IN is" in window.unknown["total_j"]


def test_a_rail_that_is_missing_leaves_no_total(agx_orin: Path) -> None:
    set_fault(agx_orin, "rail_missing", "VDD_CPU_CV")
    meters = find_meters(agx_orin)
    assert "VDD_CPU_CV" not in meters.found[0].rails
    assert meters.total is None
    assert "needs VDD_CPU_CV" in meters.why_no_total
