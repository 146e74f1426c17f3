"""Runs of networks and programs in a dataset: read, kept, merged, and no run of kernels."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.names import engine_name
from mansard.analytics.data.opening import merge, open_runs
from mansard.analytics.models.predict.models import Models, find_models
from mansard.core.errors import InputError
from mansard.core.records import LayerTime, Measurement, NamedWindow, ProgramRun
from tests.analytics.board_runs import MODES, power_mode, write_board
from tests.analytics.dataset_checks import assert_same
from tests.analytics.factory import (
    measurement,
    program,
    window,
    write_networks,
    write_programs,
    write_run,
    write_two_modes,
)
from tests.analytics.gpu_factory import gpu_manifest

CONV = LayerTime(
    index=0, name="conv", op_type="Conv", provider="CPUExecutionProvider", nodes=(0, 1), runs=1,
    seconds_s=(0.004, 0.005),
)  # fmt: skip
PROMPT = NamedWindow(
    name="prompt",
    start_s=100.0,
    window_s=0.5,
    energy=window({"VDD_IN": 9.0}, ("VDD_IN",), window_s=0.5),
)


def networks(run_id: str = "nets") -> list[Measurement]:
    return [
        measurement(run_id, (0.01, 0.011), profiled_s=(0.012, 0.013), layers=(CONV,)),
        measurement(run_id, (0.02, 0.021), batch=2),
        measurement(run_id, (), batch=4096, failure="it needs more memory than there is"),
    ]


def programs(run_id: str = "programs") -> list[ProgramRun]:
    return [program(run_id, (2.0, 2.1), power_w=10.0, windows=(PROMPT,), metric=31.5)]


def write_all(runs: Path) -> Path:
    write_two_modes(runs)
    write_networks(runs, networks())
    write_programs(runs, programs())
    return runs


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    found = ingest(write_all(tmp_path))
    assert list(found.measurements) == networks()
    assert list(found.programs) == programs()
    assert [each.run_id for each in found.manifests] == ["run-1c", "run-2c"]
    assert [each.run_id for each in found.workload_manifests] == ["nets", "programs"]
    assert found.runs["run_id"].to_list() == ["run-1c", "run-2c"]
    assert not found.notes
    again = ingest(tmp_path)
    assert_same(again, found)


def test_a_folder_of_networks_alone_opens(tmp_path: Path) -> None:
    write_networks(tmp_path, networks())
    found = open_runs([tmp_path])
    assert len(found.measurements) == 3
    assert found.manifests == ()
    assert found.trials.is_empty()
    models = find_models(found)
    assert models.devices == ("Example",)
    assert models.modes["mode"].to_list() == ["2c"]


def test_they_are_merged_like_trials(tmp_path: Path) -> None:
    """A copy with fewer rows changes nothing, one with more replaces it, another is refused."""
    into = str(tmp_path / "fleet")
    part, whole, other = tmp_path / "part", tmp_path / "whole", tmp_path / "other"
    write_networks(part, networks()[:1], n_trials=3)
    merge([part], into)
    write_all(whole)
    merged = merge([whole], into)
    assert (merged.n_new, merged.n_grown, merged.n_same) == (3, 1, 0)
    assert_contents(open_runs([into]), open_runs([whole]))
    assert merge([part], into).n_same == 1
    assert_contents(open_runs([into, part]), open_runs([whole]))
    faster = replace(networks()[0], seconds_s=(0.001, 0.0011))
    write_networks(other, [faster], n_trials=3)
    with pytest.raises(InputError, match=r"run nets is also in .*, with other trials"):
        merge([other], into)


def assert_contents(found: Dataset, wanted: Dataset) -> None:
    assert_same(dataclasses.replace(found, notes=()), dataclasses.replace(wanted, notes=()))


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"seconds_s": (0.01, -1.0)}, "a call takes less than"),
        ({"call_seconds_s": (1e10,)}, "a call takes less than"),
        ({"block": (0,)}, "samples and blocks differ"),
        ({"threads": -1}, "threads is negative"),
        ({"profiled_s": (0.01,)}, "times of a layer and profiled calls differ"),
        ({"failure": "out of memory", "unknown": {}}, "it has times and a failure"),
    ],
)
def test_a_row_that_cannot_be_is_left_out_and_said(
    tmp_path: Path, bad: dict[str, object], what: str
) -> None:
    first, second, _ = networks()
    unknown = first.unknown | {"failure": "it ran"}
    if "unknown" in bad:
        bad["unknown"] = {name: why for name, why in unknown.items() if name != "failure"}
    write_networks(tmp_path, [replace(first, **bad), second])
    found = ingest(tmp_path)
    assert found.measurements == (second,)
    note, unfinished = found.notes
    assert note.startswith("nets/measurements.jsonl: 1 trial was left out, the first is trial")
    assert what in note
    assert "1 of 2 trials were measured; run 'mansard measure' again" in unfinished


def test_layers_may_have_their_mean_times_alone(tmp_path: Path) -> None:
    first, second, _ = networks()
    means = tuple(replace(layer, seconds_s=(2e-3,)) for layer in first.layers or ())
    unknown = first.unknown | {"profiled_s": "trtexec does not say"}
    row = replace(first, profiled_s=None, layers=means, unknown=unknown)
    write_networks(tmp_path, [row, second])
    assert ingest(tmp_path).measurements == (row, second)


def test_a_program_that_cannot_be_is_left_out(tmp_path: Path) -> None:
    (row,) = programs()
    write_programs(
        tmp_path, [replace(row, repetitions=(replace(row.repetitions[0], wall_s=-1.0),))]
    )
    found = ingest(tmp_path)
    assert found.programs == ()
    assert any("a run takes less than" in note for note in found.notes)


def test_a_named_window_without_energy_is_said(tmp_path: Path) -> None:
    drained = replace(PROMPT, energy=window({"VDD_IN": 0.0}, ("VDD_IN",), window_s=0.5))
    write_programs(tmp_path, [program("programs", (2.0,), power_w=10.0, windows=(drained,))])
    (note,) = ingest(tmp_path).notes
    assert "1 trial was metered with zero or negative energy" in note


def test_rows_of_another_kind_in_a_run_are_refused(tmp_path: Path) -> None:
    write_two_modes(tmp_path)
    (tmp_path / "run-1c/measurements.jsonl").write_text("")
    with pytest.raises(InputError, match=r"holds rows of networks, by its manifest .* kernels"):
        ingest(tmp_path)


def test_a_kind_of_a_newer_version_is_left_out_with_a_note(tmp_path: Path) -> None:
    write_two_modes(tmp_path)
    path = tmp_path / "run-1c/manifest.json"
    path.write_text(path.read_text().replace('"kernels"', '"stages"'))
    dataset = ingest(tmp_path)
    assert "run-1c" not in {run.run_id for run in dataset.all_manifests}
    (note,) = [line for line in dataset.notes if "stages" in line]
    assert note.startswith(
        "run-1c: left out: a run of the kind 'stages'; known are kernels, networks"
    )


def models_of(runs: Path) -> Models:
    return find_models(open_runs([runs]))


@pytest.mark.parametrize("started_utc", ["2020-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])
def test_roofs_and_costs_are_the_same_with_networks_beside_them(
    tmp_path: Path, started_utc: str
) -> None:
    """Runs of many networks, older and newer than those of the kernels, in each of their modes."""
    bare, full = write_board(tmp_path / "bare"), write_board(tmp_path / "full")
    for name, clocks in MODES.items():
        run = gpu_manifest(f"nets-{name}", 40, mode=power_mode(name, *clocks))
        run = replace(run, kind="networks", tool_version="9.9.9", started_utc=started_utc)
        rows = [
            measurement(
                run.run_id,
                (0.01,),
                model=f"net {number}",
                processor="gpu",
                provider="cuda",
                source="simulated",
                energy=(window({"VDD_IN": 99.0}, ("VDD_IN",), repetitions=200),),
            )
            for number in range(40)
        ]
        write_run(full / run.run_id, run, rows)
    one, two = models_of(bare), models_of(full)
    assert len(two.dataset.measurements) == 160
    assert two.observations.height == 160
    assert one.roofs == two.roofs
    assert one.energies == two.energies
    assert one.coefficients.equals(two.coefficients)
    assert one.modes.equals(two.modes)
    assert one.run_coefficients.equals(two.run_coefficients)
    assert one.devices == two.devices


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "tensorrt"),
        ({"dla_core": "0"}, "tensorrt DLA 0"),
        ({"calibration": "entropy, 8 batches of 1"}, "tensorrt calibrated"),
        ({"open": "x"}, "tensorrt open batch"),
        ({"optimization_level": "0"}, "tensorrt level 0"),
        ({"workspace_bytes": "1000000"}, "tensorrt workspace 1000000"),
    ],
)
def test_rows_of_engine_files_are_told_apart_by_how_they_were_built(
    options: dict[str, str], name: str
) -> None:
    known: dict[str, Any] = {"provider": "tensorrt", "processor": "gpu", "options": options}
    assert engine_name(measurement("run", [1e-3], engine="tensorrt", **known)) == name
    # ONNX Runtime's provider of that name builds no files.
    of_ort = measurement("run", [1e-3], provider="tensorrt", processor="gpu", options=options)
    assert engine_name(of_ort) == "onnxruntime tensorrt"
