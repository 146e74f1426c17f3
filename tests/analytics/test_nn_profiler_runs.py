"""Runs of several networks in the layout of NN-Profiler, against its recorded sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mansard.analytics.pages.report.nn_profiler_runs import run_files
from mansard.core.records import EnergyWindow, MultiRun, RailEnergy, Reading
from tests.analytics.test_concurrent_rows import RUN

SAMPLE = "networks/Varatheepan+NN-Profiler__README_multi_dnn_orin_nano_sample.json"
ZONES = ("cpu", "soc2", "soc0", "gpu", "tj", "soc1")
RAILS = ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")


def orin_nano() -> MultiRun:
    """One network on one core, on a board with the sensors of an Orin Nano; 6 W on each rail."""
    names = [f"cpu{cpu}_{what}" for cpu in range(6) for what in ("share", "hz")]
    names += ["memory_share", "memory_hz", "gpu_share", "gpu_hz", "memory_bytes", "swap_bytes"]
    names += [f"{zone}-thermal_temperature_c" for zone in ZONES]
    rails = tuple(
        RailEnergy(rail=rail, energy_j=18.0, n_samples=30, n_changed=20, n_gaps=0, step_w=0.04)
        for rail in RAILS
    )
    window = EnergyWindow(start_s=0.0, window_s=3.0, repetitions=30, rails=rails, total_j=18.0)
    known = {name: why for name, why in RUN.unknown.items() if name != "energy"}
    return replace(
        RUN,
        telemetry=tuple(Reading(name=name, low=0.5, high=1.0, mean=0.75) for name in names),
        energy=window,
        unknown=known,
    )


def written(row: MultiRun) -> dict[str, Any]:
    (content,) = run_files([("Orin Nano", "15W", row)], []).values()
    found: dict[str, Any] = msgspec.json.decode(content)
    return found


def test_stages_times_and_power() -> None:
    found = written(orin_nano())
    # 30 runs in 2.9 s, 0.05 s of copies; 18 J in 3 s are 6 W.
    (stage,) = found["stageSummary"]["a"].values()
    assert stage["infCount"] == 30
    assert stage["avgInfTime"] == pytest.approx(2.9 / 30)
    assert stage["avgTransferTime"] == pytest.approx(0.05 / 30)
    assert found["mapping"] == {"a": {"1": "cpu:0"}}
    assert found["samplingDuration"] == 3.0
    assert found["Tegrastats"]["IN Power"] == 6000.0
    assert found["Tegrastats"]["CPU"]["Utilization"]["max"] == 6 * [100.0]


def test_shares_are_in_percent_and_clocks_in_mhz_to_two_digits() -> None:
    readings = (
        Reading(name="gpu_share", low=0.123456, high=0.987654, mean=0.5),
        Reading(name="gpu_hz", low=306_123_456.0, high=1_234_567_890.0, mean=1e9),
    )
    found = written(replace(orin_nano(), telemetry=readings))["Tegrastats"]["GR3D_FREQ"]
    assert found["Utilization"] == {"min": 12.35, "max": 98.77, "avg": 50.0}
    assert found["Frequencies"] == {"min": 306.12, "max": 1234.57, "avg": 1000.0}


def test_what_is_not_known_is_null_and_stages_on_one_device_are_apart() -> None:
    (stage,) = RUN.stages
    two = replace(RUN, stages=(stage, replace(stage, stage=1, n_runs=0, nodes=(2,))))
    found = written(two)
    assert list(found["stageSummary"]["a"]) == ["cpu:0", "cpu:0#2"]
    assert found["stageSummary"]["a"]["cpu:0#2"]["avgInfTime"] is None
    assert found["Tegrastats"]["RAM"] is None
    assert found["Tegrastats"]["GR3D_FREQ"]["Utilization"]["avg"] is None
    assert found["ModelInfo"]["a"]["cpu:0"]["params"] is None
    known = {name: why for name, why in RUN.unknown.items() if name != "failure"}
    assert run_files([("b", "m", replace(RUN, failure="no", unknown=known))], []) == {}


@pytest.mark.shared_data
def test_keys_are_those_of_the_recorded_sample(shared_data: Path) -> None:
    sample = msgspec.json.decode((shared_data / SAMPLE).read_bytes())
    found = written(orin_nano())

    def keys(tree: Any) -> Any:
        return {name: keys(each) for name, each in tree.items()} if isinstance(tree, dict) else {}

    assert list(found) == list(sample)
    assert keys(found["Tegrastats"]) == keys(sample["Tegrastats"])
    for part in ("mapping", "stageSummary", "ModelInfo"):
        (ours,) = found[part]["a"].values()
        theirs = next(iter(sample[part]["resnet50"].values()))
        assert keys(ours) == keys(theirs)
