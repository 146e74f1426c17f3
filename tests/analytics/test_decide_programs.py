"""A program that was run in a few modes: what to measure next, and which mode is best."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.modes import select_data
from mansard.analytics.decisions.next_modes import plan_next
from mansard.analytics.decisions.records import Candidate, Wanted
from mansard.analytics.models.predict.measured import measured_programs
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.predict.prediction import NetworkSelection, predict
from mansard.analytics.pages.words.next_modes import plan_in_words
from mansard.core.records import NamedWindow, PowerMode
from tests.analytics.answers import recommend_each
from tests.analytics.factory import manifest, measurement, program, window, write_run
from tests.analytics.gpu_factory import board, gpu_manifest, mode_30w, orin, write_orin

RAIL = "VDD_IN"
DEVICE = "Jetson AGX Orin 64GB (whole board)"
# Five clocks of the GPU, two of the memory, two of the CPU: 20 modes.
CLOCKS = {
    f"{gpu}-{memory}-{cpu}": (gpu * 1e6, memory * 1e6, cpu * 1e6)
    for gpu in (306, 510, 714, 918, 1300)
    for memory in (2133, 3199)
    for cpu in (1190, 2201)
}


def truth(mode: str) -> tuple[float, float]:
    """Seconds and watts: decoding waits for memory, the prompt for the GPU, the rest for a CPU."""
    gpu_hz, memory_hz, cpu_hz = CLOCKS[mode]
    time_s = 0.4e9 / gpu_hz + 1.6e9 / memory_hz + 0.2e9 / cpu_hz
    volts = 0.6 + 0.3 * gpu_hz / 1e9
    power_w = 7.0 + 10.0 * volts**2 * gpu_hz / 1e9 + 1.2 * memory_hz / 1e9 + cpu_hz / 1e9
    return time_s, power_w


def energy_j(mode: str) -> float:
    time_s, power_w = truth(mode)
    return time_s * power_w


def power_mode(name: str) -> PowerMode:
    gpu_hz, memory_hz, cpu_hz = CLOCKS[name]
    clocks = {"gpu_hz": gpu_hz, "memory_hz": memory_hz, "cpu_hz": cpu_hz}
    return replace(mode_30w(), name=name, kind="clocks", **clocks)


def candidates() -> pl.DataFrame:
    modes = [power_mode(name) for name in CLOCKS]
    rows = [
        {name: getattr(mode, name, None) for name in MODE_SCHEMA}
        | {"device": DEVICE, "mode": mode.name}
        for mode in modes
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def run_in(runs: Path, mode: str) -> None:
    """What ``mansard measure --mode … -- ./llm`` writes: six runs, and a window inside each."""
    time_s, power_w = truth(mode)
    prompt = NamedWindow(
        name="prompt",
        start_s=100.0,
        window_s=time_s / 4,
        energy=window({RAIL: power_w}, (RAIL,), window_s=time_s / 4),
    )
    walls_s = [time_s * factor for factor in (1.001, 0.999, 1.0, 1.002, 0.998, 1.0)]
    run_id = f"llm-{mode}"
    row = program(run_id, walls_s, power_w=power_w, windows=(prompt,), metric=128 / time_s)
    run = manifest(run_id, 8, 1, board(), {}, mode=power_mode(mode), total=(RAIL,), kind="programs")
    write_run(runs / run_id, run, [row])


def best_of(runs: Path) -> Candidate:
    """What ``mansard recommend llm`` chooses of the 20 modes."""
    prediction = predict(open_runs([runs]), [NetworkSelection(name="llm")], candidates())
    (found,) = recommend_each(prediction.predictions, prediction.modes, Wanted())
    assert found.choice is not None
    return found.choice


def planned(runs: Path, n: int) -> list[str]:
    """What ``mansard board plan RUNS --network llm`` names."""
    models = find_models(open_runs([runs]))
    known = select_data(
        models.modes, models.observations, predict(models).predictions, network="llm"
    )
    found = plan_in_words(plan_next(candidates(), known.observations, n=n, measured=known.modes))
    return [pick.mode for pick in found.picks]


def test_four_modes_and_what_the_plan_adds_find_the_best_of_twenty(tmp_path: Path) -> None:
    first = [pick.mode for pick in plan_in_words(plan_next(candidates(), n=4)).picks]
    for mode in first:
        run_in(tmp_path, mode)
    assert len(first) == 4
    least_j = min(map(energy_j, CLOCKS))
    choice = best_of(tmp_path)
    assert choice.device == DEVICE
    assert energy_j(choice.mode) <= 1.02 * least_j
    # The next two are others, and with them the choice stands.
    more = planned(tmp_path, 2)
    assert not set(more) & set(first)
    for mode in more:
        run_in(tmp_path, mode)
    assert energy_j(best_of(tmp_path).mode) <= 1.02 * least_j


def test_a_measured_mode_stands_as_it_was_measured(tmp_path: Path) -> None:
    run_in(tmp_path, "306-2133-1190")
    prediction = predict(open_runs([tmp_path]))
    rows = {row["network"]: row for row in prediction.predictions.iter_rows(named=True)}
    assert rows.keys() == {"llm", "llm [prompt]"}
    time_s, power_w = truth("306-2133-1190")
    assert rows["llm"]["latency_s"] == pytest.approx(time_s)
    assert rows["llm"]["power_w"] == pytest.approx(power_w)
    assert rows["llm"]["energy_j"] == pytest.approx(time_s * power_w)
    assert rows["llm [prompt]"]["latency_s"] == pytest.approx(time_s / 4)
    assert (rows["llm"]["batch"], rows["llm"]["precision"]) == (None, None)


def test_a_program_runs_on_the_whole_board(tmp_path: Path) -> None:
    """It is no device of kernels: its modes have every clock, and no roof is of it."""
    run_in(tmp_path, "306-2133-1190")
    found = find_models(open_runs([tmp_path]))
    (mode,) = found.modes.to_dicts()
    assert (mode["device"], mode["gpu_hz"], mode["cpu_hz"]) == (DEVICE, 306e6, 1190e6)
    assert found.roofs == ()
    assert found.coefficients.is_empty()
    assert set(found.observations["engine"]) == {"program"}


def test_a_network_on_the_gpu_of_a_board_is_of_the_device_of_its_kernels(tmp_path: Path) -> None:
    write_orin(tmp_path)
    run = replace(gpu_manifest("nets", 1), kind="networks")
    row = measurement("nets", (0.01,), processor="gpu", provider="cuda", source="simulated")
    write_run(tmp_path / "nets", run, [row])
    found = find_models(open_runs([tmp_path]))
    assert found.devices == ("Jetson AGX Orin 64GB GPU",)
    assert found.observations["device"].to_list() == ["Jetson AGX Orin 64GB GPU"]
    assert found.observations["engine"].to_list() == ["onnxruntime cuda"]
    assert run.gpu == orin()


def test_of_repeated_runs_the_newest_counts_whatever_its_version(tmp_path: Path) -> None:
    run_in(tmp_path, "306-2133-1190")
    (old,) = open_runs([tmp_path]).programs
    newer = replace(
        old,
        run_id="newer",
        started_utc="2027-01-01T00:00:00Z",
        repetitions=tuple(replace(each, wall_s=each.wall_s * 2) for each in old.repetitions),
    )
    disturbed = replace(
        newer, run_id="newest", started_utc="2028-01-01T00:00:00Z", disturbances=("it throttled",)
    )
    for row in (newer, disturbed):
        run = manifest(
            row.run_id, 8, 1, board(), {}, mode=power_mode("306-2133-1190"), total=(RAIL,),
            kind="programs",
        )  # fmt: skip
        write_run(tmp_path / row.run_id, replace(run, tool_version="9.9.9"), [row])
    found = find_models(open_runs([tmp_path])).observations
    whole = found.filter(pl.col("network") == "llm")
    assert whole["latency_s"].to_list() == pytest.approx([2 * truth("306-2133-1190")[0]])


def test_runs_of_an_earlier_version_of_a_program_are_in_no_model(tmp_path: Path) -> None:
    for mode in ("306-2133-1190", "1300-3199-2201"):
        run_in(tmp_path, mode)
    (old, _) = open_runs([tmp_path]).programs
    changed = replace(old, run_id="changed", program_hash="d" * 16)
    changed = replace(changed, started_utc="2027-01-01T00:00:00Z")
    run = manifest(
        "changed", 8, 1, board(), {}, mode=power_mode("918-3199-2201"), total=(RAIL,),
        kind="programs",
    )  # fmt: skip
    write_run(tmp_path / "changed", run, [changed])
    dataset = open_runs([tmp_path])
    found = find_models(dataset)
    whole = found.observations.filter(pl.col("network") == "llm")
    assert whole["mode"].to_list() == ["918-3199-2201"]
    assert any("2 earlier runs are not used for predictions" in line for line in found.notes)
    remarks = {row.mode: row.remark for row in measured_programs(dataset) if row.window is None}
    assert remarks["918-3199-2201"] == ""
    assert remarks["306-2133-1190"] == "an earlier version of the program"
