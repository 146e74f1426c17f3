"""Engine files built without a measurement, and found by the one that comes after."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.core.errors import MeasurementError, UsageError
from mansard.inference.engines.tensorrt.versions import MODULE_VARIABLE
from mansard.sweeps.reporter import SilentReporter
from tests.inference import stand_in
from tests.inference.small_networks import perceptron

pytestmark = [pytest.mark.board(is_on=False), pytest.mark.usefixtures("before_others")]


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """TensorRT's bindings and its program, both of which stand in."""
    (tmp_path / "bin").mkdir()
    stand_in.put_program(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    with stand_in.played("10.3.0", device="orin"):
        yield


@pytest.fixture
def request_(board: Path, tmp_path: Path) -> api.MeasureRequest:
    perceptron(tmp_path / "mlp.onnx", batch="N")
    return api.MeasureRequest(
        models=(str(tmp_path / "mlp.onnx"),),
        settings=api.NetworkSettings(batches=(1, 2)),
        profile="brief",
        is_local=True,
        board=board,
        runs=tmp_path / "runs",
    )


def with_settings(request: api.MeasureRequest, **changes: object) -> api.MeasureRequest:
    settings = msgspec.structs.replace(request.settings, **changes)
    return msgspec.structs.replace(request, settings=settings)


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("engine", ["tensorrt", "trtexec"])
def test_what_is_built_is_what_a_measurement_loads(
    request_: api.MeasureRequest, engine: str
) -> None:
    request_ = with_settings(request_, engine=engine)
    planned = api.build(request_, is_dry_run=True).files
    assert [file.state for file in planned] == ["missing"] * 2
    assert not request_.runs.exists()
    built = api.build(request_)
    built.check()
    assert [(file.batch, file.state) for file in built.files] == [(1, "built"), (2, "built")]
    assert [file.path for file in built.files] == [file.path for file in planned]
    assert all(
        file.path.stat().st_size == file.build.engine_bytes for file in built.files if file.build
    )
    assert not list(request_.runs.glob("*/measurements.jsonl"))
    assert [file.state for file in api.build(request_).files] == ["kept"] * 2
    notes = Notes()
    result = api.measure_networks(request_, notes)
    assert [one.row.failure for one in result.rows] == [None, None]
    assert not [line for line in notes.lines if ": built " in line]  # both were there


@pytest.mark.usefixtures("played")
def test_only_what_is_missing_is_built_again(request_: api.MeasureRequest) -> None:
    first, second = api.build(request_).files
    first.path.unlink()
    assert [file.state for file in api.build(request_, is_dry_run=True).files] == [
        "missing",
        "kept",
    ]
    assert [file.state for file in api.build(request_).files] == ["built", "kept"]
    second.path.write_bytes(b"cut")
    notes = Notes()
    assert [file.state for file in api.build(request_, notes).files] == ["kept", "built"]
    assert any("it is not what was built" in line for line in notes.lines)


@pytest.mark.usefixtures("played")
def test_what_cannot_be_built_is_said_with_its_reason(
    request_: api.MeasureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_ = with_settings(request_, engine="trtexec", batches=(1,))
    monkeypatch.setenv("STAND_IN_BUILD_DIES", "1")
    result = api.build(request_)
    assert [file.state for file in result.files] == ["failed"]
    with pytest.raises(MeasurementError, match=r"1 of 1 engine files could not be built.*signal 9"):
        result.check()
    monkeypatch.delenv("STAND_IN_BUILD_DIES")
    assert [file.state for file in api.build(request_).files] == ["built"]  # it was for now


@pytest.mark.usefixtures("played")
def test_without_an_engine_the_bindings_are_taken_then_the_program(
    request_: api.MeasureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {file.engine for file in api.build(request_).files} == {"tensorrt"}
    monkeypatch.setenv(MODULE_VARIABLE, "not_installed_here")
    notes = Notes()
    assert {file.engine for file in api.build(request_, notes).files} == {"trtexec"}
    assert any(line.startswith("note: trtexec builds: tensorrt is not") for line in notes.lines)


def test_where_nothing_builds_one_line_says_so(
    request_: api.MeasureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODULE_VARIABLE, "not_installed_here")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MeasurementError, match="nothing here builds engine files: tensorrt is not"):
        api.build(request_)
    with pytest.raises(UsageError, match="ort loads ONNX files: it builds no engine files"):
        api.build(with_settings(request_, engine="ort"))
    assert not request_.runs.exists()


def test_a_builder_without_a_card_builds_for_one_that_is_named(
    request_: api.MeasureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorrt_rtx_bindings", reason="the extra trt-test is not installed")
    monkeypatch.setenv(MODULE_VARIABLE, "tensorrt_rtx_bindings")
    named = api.BuildSettings(compute_capability="8.6")
    (file,) = api.build(with_settings(request_, build=named, batches=(1,))).files
    assert (file.state, file.device) == ("built", "compute capability 8.6")
    assert file.path.stat().st_size > 0
    with pytest.raises(MeasurementError, match=r"cannot build here: .*--compute-capability 8\.6"):
        api.build(request_)
