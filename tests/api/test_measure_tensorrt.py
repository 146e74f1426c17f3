"""Networks on TensorRT through the API: engine files built once, on a simulated board.

TensorRT is a stand-in of its bindings; all that Mansard does is its own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper

from mansard import api
from mansard.core.errors import MeasurementError, UsageError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import EngineBuild
from mansard.core.storage.documents import read_document
from mansard.device.controller import LocalController
from mansard.measuring.attempts import MOST_ATTEMPTS
from mansard.sweeps.engine_builds import choose_engine, highest_first
from mansard.sweeps.networks import with_image
from mansard.sweeps.reporter import SilentReporter
from mansard.sweeps.targets import LocalTarget
from tests.inference import stand_in
from tests.inference.small_networks import perceptron, write

pytestmark = [pytest.mark.board(is_on=False), pytest.mark.usefixtures("before_others")]
VERSION = "10.3.0+stand-in"


class Notes(SilentReporter):
    """Keeps what was noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module", autouse=True)
def tensorrt() -> Iterator[None]:
    with stand_in.played("10.3.0", device="orin"):
        yield


@pytest.fixture
def request_of(board: Path, tmp_path: Path) -> Any:
    """A request for a small network with an open batch, with these settings."""
    perceptron(tmp_path / "mlp.onnx", batch="N")

    def make(**settings: Any) -> api.MeasureRequest:
        return api.MeasureRequest(
            models=(str(tmp_path / "mlp.onnx"),),
            settings=api.NetworkSettings(**{"engine": "tensorrt", **settings}),
            profile="brief",
            is_local=True,
            board=board,
            runs=tmp_path / "runs",
        )

    return make


def built(runs: Path) -> list[EngineBuild]:
    paths = sorted((runs / "engines").glob("*.engine.json"))
    return [read_document(path, EngineBuild) for path in paths]


def test_it_is_built_once_and_measured(request_of: Any) -> None:
    request, notes = request_of(), Notes()
    result = api.measure_networks(request, notes)
    (found,) = result.rows
    row = found.row
    assert row.failure is None
    assert (row.engine, row.engine_version) == ("tensorrt", VERSION)
    assert (row.provider, row.processor, row.source) == ("tensorrt", "cpu", "simulated")
    assert row.options["types"] == "weakly typed"
    assert row.call_seconds_s
    assert row.unknown["memory_bytes"] == "what it takes on the GPU is not memory of the process"
    (build,) = built(request.runs)
    assert result.builds == (build,)
    assert build.engine_file.startswith("mlp_random_fp32-")
    assert (request.runs / "engines" / build.engine_file).stat().st_size == build.engine_bytes
    assert any(line.startswith(f"mlp × 1 fp32: built {build.engine_file}") for line in notes.lines)

    notes = Notes()
    api.measure_networks(request, notes)
    assert built(request.runs) == [build]
    assert not any(": built " in line or "not built" in line for line in notes.lines)


def test_an_engine_file_that_is_gone_is_built_only_to_measure(request_of: Any) -> None:
    request = request_of()
    for _ in range(MOST_ATTEMPTS):  # a busy machine's row is measured again, and then no more
        api.measure_networks(request)
    (build,) = built(request.runs)
    (request.runs / "engines" / build.engine_file).unlink()
    api.measure_networks(request)  # there is nothing to measure
    assert not (request.runs / "engines" / build.engine_file).exists()
    again = msgspec.structs.replace(
        request, settings=api.NetworkSettings(engine="tensorrt", copies="both")
    )
    (found,) = api.measure_networks(again).rows
    assert found.row.failure is None
    assert (request.runs / "engines" / build.engine_file).exists()


def test_a_changed_engine_file_is_said_and_built_anew(request_of: Any) -> None:
    request = request_of()
    api.measure_networks(request)
    (build,) = built(request.runs)
    path = request.runs / "engines" / build.engine_file
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    notes = Notes()
    again = msgspec.structs.replace(
        request, settings=api.NetworkSettings(engine="tensorrt", copies="both")
    )
    result = api.measure_networks(again, notes)
    assert f"{build.engine_file}: it is not what was built, and is rebuilt" in notes.lines
    assert [found.row.failure for found in result.rows] == [None]


def test_one_file_serves_several_batches(request_of: Any) -> None:
    result = api.measure_networks(request := request_of(batches=(8, 1), is_dynamic=True))
    assert [found.row.batch for found in result.rows] == [8, 1]
    assert {found.row.failure for found in result.rows} == {None}
    (row,) = built(request.runs)
    assert (row.batch, row.unknown["batch"]) == (None, "it is open, for 1 and 8")
    assert {found.row.options["open"] for found in result.rows} == {"x"}


def test_int8_is_calibrated_by_a_version_that_can(request_of: Any) -> None:
    accuracy = api.AccuracySettings(calibration="random")
    request = request_of(precisions=("int8",), accuracy=accuracy)
    (found,) = api.measure_networks(request).rows
    assert (found.row.precision, found.row.failure) == ("int8", None)
    (row,) = built(request.runs)
    assert row.options["calibration"].startswith("entropy")
    assert row.options["types"] == "weakly typed int8 fp16"  # it is built from the network of fp32
    names = [path.name for path in (request.runs / "engines/caches").glob("*/*")]
    assert sum(name.startswith("calibration-") for name in names) == 1


def test_what_cannot_be_built_is_a_row_and_is_not_tried_again(request_of: Any) -> None:
    dla = api.BuildSettings(dla_core=0, with_fallback=False)
    request = request_of(precisions=("fp16",), build=dla)
    result = api.measure_networks(request)
    (found,) = result.rows
    assert "could not be built: " in str(found.row.failure)
    with pytest.raises(MeasurementError, match="1 of 1 measurements failed") as caught:
        result.check()
    assert "also the .json in RUNS/engines" in str(caught.value.fix)
    notes = Notes()
    again = request_of(precisions=("fp16",), build=dla, copies="both")
    (found,) = api.measure_networks(again, notes).rows
    assert "could not be built: " in str(found.row.failure)  # by its row alone
    assert not any(": built " in line or "not built" in line for line in notes.lines)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("STAND_IN_MEMORY_BYTES", "too little memory"),
        ("STAND_IN_BUILD_DIES", "was killed, as it is where the memory runs out"),
    ],
)
def test_what_fails_for_now_is_built_by_the_same_command(
    request_of: Any, monkeypatch: pytest.MonkeyPatch, variable: str, said: str
) -> None:
    request = request_of()
    with monkeypatch.context() as patch:
        patch.setenv(variable, "1")
        result = api.measure_networks(request)
    (found,) = result.rows
    assert str(found.row.failure).startswith("it could not be built now: ")
    assert said in str(found.row.failure)
    (row,) = built(request.runs)
    assert (row.failure is None, row.is_transient) == (False, True)
    assert [path.name for path in (request.runs / "engines").glob("*.engine")] == []
    with pytest.raises(MeasurementError, match="1 of 1 measurements failed") as caught:
        result.check()
    assert str(caught.value.fix).endswith("the same command tries again")
    (found,) = api.measure_networks(request).rows
    assert found.row.failure is None


def test_on_a_dla_core_the_share_of_its_layers_is_told(request_of: Any) -> None:
    notes = Notes()
    request = request_of(precisions=("fp16",), build=api.BuildSettings(dla_core=0))
    (found,) = api.measure_networks(request, notes).rows
    (row,) = built(request.runs)
    assert row.dla_share is not None
    assert 0 < row.dla_share <= 1
    assert any(
        line.endswith(f"the DLA can run {row.dla_share:.0%} of its layers") for line in notes.lines
    )
    assert found.row.options["dla_core"] == "0"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"engine": "ort", "build": api.BuildSettings(dla_core=0)}, "ort loads ONNX files"),
        ({"build": api.BuildSettings(dla_core=0), "is_dynamic": True}, "fixed shapes"),
        ({"engine": "tensorrt", "provider": "cpu"}, "no provider 'cpu'"),
    ],
)
def test_options_that_exclude_one_another(
    request_of: Any, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        api.measure_networks(request_of(**settings))


def test_a_fixed_batch_cannot_be_opened(request_of: Any, tmp_path: Path) -> None:
    request = request_of(is_dynamic=True)
    perceptron(tmp_path / "mlp.onnx", batch=1)
    with pytest.raises(UsageError, match="has a fixed batch"):
        api.measure_networks(request)


def test_a_stand_in_is_for_simulated_boards_alone(request_of: Any) -> None:
    request = msgspec.structs.replace(request_of(), board=None)
    with pytest.raises(MeasurementError, match=r"10\.3\.0\+stand-in is a stand-in"):
        api.measure_networks(request)


def test_a_simulated_board_runs_networks_on_onnxruntime_unless_it_is_asked(board: Path) -> None:
    controller = LocalController(board)
    target, machine = LocalTarget(board, controller), controller.identify()
    assert choose_engine(target, machine, None, SilentReporter()).engine == "ort"
    assert choose_engine(target, machine, "tensorrt", SilentReporter()).engine == "tensorrt"


def test_a_jetson_runs_networks_on_tensorrt_where_it_is_there(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = LocalController(board)
    target = LocalTarget(board, controller)
    machine = msgspec.structs.replace(controller.identify(), is_simulated=False)
    monkeypatch.setenv("MANSARD_TENSORRT", "a_module_that_is_not_there")
    monkeypatch.setenv("PATH", "/nothing")
    notes = Notes()
    assert choose_engine(target, machine, None, notes).engine == "ort"
    (line,) = notes.lines
    assert "tensorrt is not there (a_module_that_is_not_there is not installed" in line
    assert "trtexec is not there" in line


@pytest.mark.parametrize(
    ("processor", "provider", "engine"),
    [(None, None, None), ("gpu", None, None), ("cpu", None, "ort"), (None, "cpu", "ort")],
)
def test_on_the_cpu_it_is_onnxruntime_everywhere(
    processor: Any, provider: str | None, engine: str | None
) -> None:
    settings = api.NetworkSettings(provider=provider)
    request = api.MeasureRequest(models=("alexnet",), settings=settings, processor=processor)
    found = with_image(request)
    assert found.settings.engine == engine
    assert found.wanted_image.engines == (() if engine else ("tensorrt", "trtexec"))


def test_without_tensorrt_the_error_says_where_it_is(
    request_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANSARD_TENSORRT", "a_module_that_is_not_there")
    with pytest.raises(MeasurementError, match="is not installed") as caught:
        api.measure_networks(request_of())
    assert "mansard doctor" in str(caught.value.fix)


def test_files_are_built_in_the_highest_mode() -> None:
    def mode(name: str, gpu_hz: float | None, cpu_hz: float) -> Any:
        given = core_count_mode(1)
        unknown = dict(given.unknown)
        if gpu_hz is not None:
            unknown.pop("gpu_hz", None)
        unknown.pop("cpu_hz", None)
        return msgspec.structs.replace(
            given, name=name, gpu_hz=gpu_hz, cpu_hz=cpu_hz, unknown=unknown
        )

    # MAXN sets no cap at all; 50W and 30W differ in that of the CPU.
    modes = [mode("15W", 4e8, 1e9), mode("50W", 6e8, 2e9), mode("MAXN", None, 1e9)]
    modes.append(mode("30W", 6e8, 1e9))
    assert [each.name for each in highest_first(modes)] == ["MAXN", "50W", "30W", "15W"]


def test_each_layer_is_run_from_an_engine_file_of_its_own(request_of: Any) -> None:
    request = request_of()
    result = api.measure_layers(request, api.LayerSettings())
    result.check()
    # Gemm and Relu, which are one layer, and Gemm; and the whole.
    assert [each.row.part.op_types for each in result.rows] == [("Gemm", "Relu"), ("Gemm",)]
    assert {each.row.engine for each in result.rows} == {"tensorrt"}
    files = {row.engine_file for row in built(request.runs)}
    assert len(files) == 3
    # On a GPU there are no chains of tiny nodes: what calls take is in the rest.
    (found,) = result.sums
    assert found.calls_s is None
    assert found.n_parts == 2


def test_layers_of_an_int8_network_have_the_types_of_their_files(
    request_of: Any, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    weights = np.random.default_rng(1).random((16, 16), np.float32)
    write(tmp_path / "mlp.onnx", nodes, {"w": weights}, inputs={"x": (2, 16)})
    accuracy = api.AccuracySettings(calibration="random")
    request = request_of(precisions=("int8",), accuracy=accuracy)
    result = api.measure_layers(request, api.LayerSettings())
    result.check()
    # The product has scales, Softmax has none: it is built in fp32.
    types = {row.model: (row.precision, row.options["types"]) for row in built(request.runs)}
    assert types == {
        "mlp": ("int8", "strongly typed"),
        "mlp layer 0": ("int8", "strongly typed"),
        "mlp layer 1": ("fp32", "weakly typed"),
    }
    assert {each.row.precision for each in result.rows} == {"int8"}
    (found,) = result.sums
    assert found.n_parts == 2


def test_a_long_name_of_a_data_set_is_cut(request_of: Any, tmp_path: Path) -> None:
    data = tmp_path / f"{'samples' * 30}.npz"
    np.savez(data, x=np.random.default_rng(1).random((4, 64), np.float32))
    accuracy = api.AccuracySettings(calibration=str(data))
    request = request_of(precisions=("int8",), accuracy=accuracy)
    (found,) = api.measure_networks(request).rows
    assert found.row.failure is None
    (row,) = built(request.runs)
    assert row.engine_file.startswith(f"mlp_{('samples' * 30)[:40]}_int8-")
