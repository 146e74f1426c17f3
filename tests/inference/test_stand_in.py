"""The stand-in of TensorRT has what is published of a version, and refuses what TensorRT does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.inference import small_networks, stand_in


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_each_version_has_its_own_symbols(version: str) -> None:
    with stand_in.played(version):
        import tensorrt

        is_old = version.startswith("8")
        assert tensorrt.__version__ == f"{version}+stand-in"
        assert hasattr(tensorrt.IExecutionContext, "execute_async_v3")
        assert hasattr(tensorrt.BuilderFlag, "BF16") != is_old
        assert hasattr(tensorrt.DataType, "INT64") != is_old
        assert hasattr(tensorrt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED") != is_old
        assert hasattr(tensorrt, "IProgressMonitor") != is_old
        config = tensorrt.Builder(tensorrt.Logger()).create_builder_config()
        if is_old:
            with pytest.raises(AttributeError):
                config.progress_monitor = None
            with pytest.raises(NotImplementedError, match="is not played"):
                _ = tensorrt.ICudaEngine.num_bindings.__get__(object())
        else:
            assert config.progress_monitor is None
            assert not hasattr(tensorrt.ICudaEngine, "num_bindings")
        with pytest.raises(AttributeError):
            config.flag = 1


def test_an_overridden_initialiser_calls_its_base() -> None:
    with stand_in.played():
        import tensorrt

        class Calibrator(tensorrt.IInt8EntropyCalibrator2):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

        with pytest.raises(TypeError, match="must be called when overriding __init__"):
            Calibrator()


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_an_engine_computes_what_the_network_does(tmp_path: Path, version: str) -> None:
    path = tmp_path / "sum.onnx"
    small_networks.write(path, [helper.make_node("Add", ["x", "x"], ["y"])], {}, inputs={"x": (4,)})
    with stand_in.played(version):
        plan, log = _built(path)
        assert plan is not None, log
        import tensorrt
        from cuda.bindings import runtime

        engine = tensorrt.Runtime(_logger(log)).deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        _, address = runtime.cudaMallocManaged(16, runtime.cudaMemAttachGlobal)
        _, output = runtime.cudaMallocManaged(16, runtime.cudaMemAttachGlobal)
        given = np.array([1, 2, 3, 4], np.float32)
        kind = runtime.cudaMemcpyKind
        runtime.cudaMemcpy(address, given.ctypes.data, 16, kind.cudaMemcpyHostToDevice)
        context.set_tensor_address("x", address)
        assert not context.execute_async_v3(0)  # the output has no place
        context.set_tensor_address("y", output)
        assert context.execute_async_v3(0)
        taken = np.zeros(4, np.float32)
        runtime.cudaMemcpy(taken.ctypes.data, output, 16, kind.cudaMemcpyDeviceToHost)
        assert taken.tolist() == [2, 4, 6, 8]


def test_an_engine_of_another_version_or_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sum.onnx"
    small_networks.write(path, [helper.make_node("Add", ["x", "x"], ["y"])], {}, inputs={"x": (4,)})
    with stand_in.played("8.6.2"):
        plan, _ = _built(path)
    for version, device, said in [
        ("10.3.0", "orin", "expecting library version 10.3.0 got 8.6.2"),
        ("8.6.2", "rtx", "expecting compute 8.6 got compute 8.7"),
    ]:
        with stand_in.played(version, device):
            import tensorrt

            log: list[str] = []
            assert tensorrt.Runtime(_logger(log)).deserialize_cuda_engine(plan) is None
            assert said in log[-1]


def _logger(log: list[str]) -> Any:
    import tensorrt

    class Logger(tensorrt.ILogger):  # type: ignore[misc]
        def log(self, severity: int, message: str) -> None:
            log.append(message)

    return Logger()


def _built(path: Path) -> tuple[bytes | None, list[str]]:
    import tensorrt

    log: list[str] = []
    builder = tensorrt.Builder(_logger(log))
    flags = 1 << int(tensorrt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    network = builder.create_network(flags)
    assert tensorrt.OnnxParser(network, builder.logger).parse_from_file(str(path)), log
    return builder.build_serialized_network(network, builder.create_builder_config()), log
