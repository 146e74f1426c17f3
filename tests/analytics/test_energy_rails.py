"""Each rail fitted by itself: who pays for work, for traffic, and for being awake."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.energy.fit import fit_rails, fit_runs
from mansard.analytics.models.roofs.roofline import rooflines
from mansard.core.records import Trial
from tests.analytics.factory import MIB, window, write_run
from tests.analytics.gpu_factory import gpu_manifest, gpu_trial
from tests.analytics.gpu_runs import STALL, chain_runs, stream_runs

RAILS = ("VDD_GPU", "VDD_DRAM")
GPU_W, DRAM_W = 5.0, 2.0
FLOP_J, BYTE_J = 4e-12, 80e-12


def on_two_rails(row: Trial) -> Trial:
    """Work is paid by the GPU's rail alone, traffic by the memory's alone."""
    repetitions = round(2.0 / row.seconds_s[0])
    powers_w = {
        "VDD_GPU": GPU_W + FLOP_J * row.work_flop * repetitions / 2.0,
        "VDD_DRAM": DRAM_W + BYTE_J * row.traffic_bytes * repetitions / 2.0,
    }
    return replace(row, energy=(window(powers_w, RAILS, repetitions=repetitions),) * 2)


def test_each_rail_has_its_own_costs_and_the_total_all_of_them(tmp_path: Path) -> None:
    runs = [run for run in chain_runs() if run.working_set_bytes == 64 * MIB]
    runs += [run for run in stream_runs() if run.working_set_bytes >= 64 * MIB]
    plain = [run for run in runs if run.operands == "chaotic" and run.memory == "device"]
    trials = [on_two_rails(gpu_trial("r", run)) for run in [*plain, STALL]]
    idle = replace(on_two_rails(gpu_trial("r", STALL)), trial_id="stalled").energy
    manifest = replace(gpu_manifest("r", len(trials)), total_rails=RAILS, idle=idle)
    write_run(tmp_path / "r", manifest, trials)
    dataset = ingest(tmp_path)
    (roof,) = rooflines(dataset)
    rails = fit_rails(dataset, roof)
    assert list(rails) == ["VDD_DRAM", "VDD_GPU"]
    gpu, memory = rails["VDD_GPU"], rails["VDD_DRAM"]
    assert gpu.flop_j["fp32"].value == pytest.approx(FLOP_J, rel=1e-6)
    assert gpu.byte_j["DRAM"].value is None
    assert gpu.constant_w.value == pytest.approx(GPU_W, rel=1e-6)
    assert memory.byte_j["DRAM"].value == pytest.approx(BYTE_J, rel=1e-6)
    assert memory.flop_j["fp32"].value is None
    assert memory.constant_w.value == pytest.approx(DRAM_W, rel=1e-6)
    total = fit_runs(dataset, (roof,))["r"]
    assert total.flop_j["fp32"].value == pytest.approx(FLOP_J, rel=1e-6)
    assert total.byte_j["DRAM"].value == pytest.approx(BYTE_J, rel=1e-6)
    # 5 W + 2 W
    assert total.constant_w.value == pytest.approx(7.0, rel=1e-6)
