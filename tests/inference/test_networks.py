"""Networks are run and timed: rows of a run, in this process and behind a pipe."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import MeasurementError
from mansard.core.records import Measurement
from mansard.core.storage.jsonl import read_rows, write_rows
from mansard.inference.networks import NETWORKS
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import missing_trials, run_plan
from tests.inference.small_networks import perceptron, plan, trial
from tests.measuring.metered_windows import windows_read
from tests.measuring.test_runner import SteadyMeter, metered

pytestmark = pytest.mark.usefixtures("before_others")

pytest.importorskip("onnxruntime")


def rows(run: Path) -> list[Measurement]:
    return list(read_rows(run / "measurements.jsonl", Measurement).rows)


def test_a_network_is_a_row_of_its_run(tmp_path: Path) -> None:
    spec = perceptron(tmp_path / "mlp.onnx")
    planned = plan(
        trial("mlp.onnx", spec), trial("mlp.onnx", spec, copies="both", with_layers=False)
    )
    outcome = run_plan(planned, tmp_path / "runs", measurer=LocalMeasurer(files=tmp_path))
    assert outcome.n_measured == 2
    first, second = rows(outcome.folder)
    assert first.failure is None
    assert (first.engine, first.provider, first.processor, first.threads) == (
        "ort",
        "cpu",
        "cpu",
        1,
    )
    assert first.calls_per_sample is not None
    assert first.calls_per_sample > 1  # a call takes some microseconds, a sample two milliseconds
    n_taken = len(first.seconds_s) + len(first.rejected_s)
    assert n_taken >= 5
    assert len(first.block) == len(first.seconds_s)
    assert len(first.call_seconds_s) > 1
    assert min(first.call_seconds_s) > 0
    assert first.layers is not None
    assert first.profiled_s is not None
    assert all(len(layer.seconds_s) == len(first.profiled_s) for layer in first.layers)
    assert second.layers is None
    assert second.unknown["layers"] == "layers were not asked for"


def test_a_network_without_a_time_is_measured_by_the_next_run(tmp_path: Path) -> None:
    # As on a machine on which other programs took a CPU in every sample of the second.
    spec, measurer = perceptron(tmp_path / "mlp.onnx"), LocalMeasurer(files=tmp_path)
    planned = plan(trial("mlp.onnx", spec), trial("mlp.onnx", spec, copies="both"))
    outcome = run_plan(planned, tmp_path / "runs", measurer=measurer)
    path = outcome.folder / "measurements.jsonl"
    first, second = rows(outcome.folder)
    kept = msgspec.structs.replace(first, seconds_s=(0.001,), block=(0,))
    why = ("threads waited for a CPU for 0.5 of the time",)
    lost = msgspec.structs.replace(
        second, seconds_s=(), block=(), rejected_s=(0.001,), rejected_reason=why
    )
    write_rows(path, Measurement, [kept, lost])
    path.write_bytes(path.read_bytes() + b'{"run_id": "')  # and a kill half way through a row
    assert missing_trials(planned, tmp_path / "runs") == planned.trials[1:]
    outcome = run_plan(planned, tmp_path / "runs", measurer=measurer)
    assert outcome.n_measured == 1
    assert outcome.torn_path == outcome.folder / "measurements.jsonl.torn-1"
    found = rows(outcome.folder)
    assert [row.trial_id for row in found] == [first.trial_id, second.trial_id]
    assert found[0] == kept
    assert found[1].started_utc >= second.started_utc
    assert found[1].rejected_s != lost.rejected_s


def test_energy_is_that_of_calls_in_a_row(tmp_path: Path) -> None:
    planned = plan(trial("mlp.onnx", perceptron(tmp_path / "mlp.onnx"), with_layers=False))
    brief = msgspec.structs.replace(planned.protocol, idle_s=0.2, energy_window_s=0.2)
    planned = msgspec.structs.replace(planned, protocol=brief)
    measurer = LocalMeasurer(meters=metered(SteadyMeter()), files=tmp_path)
    (row,) = rows(run_plan(planned, tmp_path / "runs", measurer=measurer).folder)
    assert row.energy is not None
    assert row.calls_per_sample is not None
    for window in windows_read(row.energy):
        assert window.total_j == pytest.approx(5 * window.window_s, rel=1e-6)  # 5 W all the time
        assert window.repetitions > 0
        assert window.repetitions % row.calls_per_sample == 0


def test_a_batch_that_needs_too_much_memory_is_a_row(tmp_path: Path) -> None:
    # An input of 2**38 numbers: no machine has memory for 1 TiB of them.
    spec = perceptron(tmp_path / "mlp.onnx")
    wide = msgspec.structs.replace(spec, shape=(2**32, 64))
    planned = plan(trial("mlp.onnx", wide, batch=2**32), trial("mlp.onnx", spec))
    outcome = run_plan(planned, tmp_path / "runs", measurer=LocalMeasurer(files=tmp_path))
    large, small = rows(outcome.folder)
    assert large.failure == "too little memory"
    assert large.unknown["load_s"] == "it could not be run: too little memory"
    assert small.failure is None


def test_what_cannot_run_is_a_row_and_the_rest_goes_on(tmp_path: Path) -> None:
    spec = perceptron(tmp_path / "mlp.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x08:7")
    planned = plan(trial("broken.onnx", spec), trial("mlp.onnx", spec))
    outcome = run_plan(planned, tmp_path / "runs", measurer=LocalMeasurer(files=tmp_path))
    broken, whole = rows(outcome.folder)
    assert broken.failure == "Load model from broken.onnx failed:Protobuf parsing failed."
    assert broken.seconds_s == ()
    assert whole.failure is None


def test_a_network_whose_process_is_killed_is_a_row(tmp_path: Path) -> None:
    planned = plan(trial("mlp.onnx", perceptron(tmp_path / "mlp.onnx")))
    # In a container the engine may be another version than here.
    planned = msgspec.structs.replace(
        planned, versions=planned.versions | {"onnxruntime": "1.19.2"}
    )
    assert NETWORKS.crashed is not None
    how = "the process that ran it was killed, as it is where the memory runs out"
    row = NETWORKS.crashed(planned, planned.trials[0], how, 2.5)
    assert (row.run_id, row.trial_id) == (planned.run_id, planned.trials[0].trial_id)
    assert (row.failure, row.seconds_s, row.layers) == (how, (), None)
    assert (row.duration_s, row.engine_version) == (2.5, "1.19.2")
    assert row.conditions.unknown["cpu_clock_hz"] == how
    assert not NETWORKS.is_result(row)  # the next run tries it again


def test_an_absent_provider_ends_the_run(tmp_path: Path) -> None:
    spec = perceptron(tmp_path / "mlp.onnx")
    planned = plan(trial("mlp.onnx", spec, provider="tensorrt"))
    with pytest.raises(MeasurementError, match="ort cannot run on tensorrt"):
        run_plan(planned, tmp_path / "runs", measurer=LocalMeasurer(files=tmp_path))
    assert not list((tmp_path / "runs").iterdir())


def test_a_file_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    planned = plan(trial("none.onnx"))
    with pytest.raises(MeasurementError, match="no such file"):
        run_plan(planned, tmp_path / "runs", measurer=LocalMeasurer(files=tmp_path))
