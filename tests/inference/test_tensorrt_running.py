"""Engine files are loaded and run: by the real code, on the stand-in of TensorRT and of CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from onnx import TensorProto, helper

from mansard.core.errors import MeasurementError
from mansard.core.formats.tensorrt import ExportedLayer
from mansard.inference.engines import find_engine
from mansard.inference.engines.tensorrt.cuda_calls import Cuda
from mansard.inference.engines.tensorrt.engine import LoadedTensorrtNetwork, placement_words
from mansard.inference.engines.tensorrt.execution import GrowingBuffer, allocator
from mansard.inference.engines.tensorrt.layers import (
    LayerTimes,
    layer_times,
    profiler,
    trace,
)
from mansard.inference.engines.tensorrt.versions import MODULE_VARIABLE, load_bindings
from mansard.inference.plan import BuildSettings, BuildTrial, NetworkTrial, ShapeRange
from tests.inference import engine_rows, small_networks, stand_in
from tests.inference.engine_builds import Bench, dense

pytest.importorskip("onnxruntime")

WIDTH = 8
# Gemm and Relu are one layer, as on a GPU; the Softmax is one that DLA lacks.
NODES = [
    helper.make_node("Gemm", ["x", "w"], ["a"]),
    helper.make_node("Relu", ["a"], ["b"]),
    helper.make_node("Softmax", ["b"], ["y"]),
]
RANDOM = np.random.default_rng(7)
WEIGHTS = RANDOM.standard_normal((WIDTH, WIDTH), dtype=np.float32)
GIVEN = RANDOM.standard_normal((2, WIDTH), dtype=np.float32)


def expected(given: Any) -> Any:
    """Relu(x·w), and of each row the exponentials over their sum."""
    exponentials = np.exp(np.maximum(given @ WEIGHTS, 0))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@contextmanager
def loaded(
    folder: Path, settings: BuildSettings | None = None, given: Any = GIVEN, **changes: Any
) -> Iterator[LoadedTensorrtNetwork]:
    """The network built and loaded by the engine "tensorrt"."""
    trial = built(folder, settings or BuildSettings(), **changes)
    engine = find_engine("tensorrt")
    network = cast("LoadedTensorrtNetwork", engine.load(trial, folder, {"x": given}, 1))
    try:
        yield network
    finally:
        network.close()


def built(folder: Path, settings: BuildSettings, **changes: Any) -> NetworkTrial:
    batch = "N" if settings.ranges else 2
    small_networks.write(folder / "net.onnx", NODES, {"w": WEIGHTS}, inputs={"x": (batch, WIDTH)})
    trial = small_networks.trial(
        "net.onnx", small_networks.uniform("x", (2, WIDTH)), engine="tensorrt"
    )
    trial = msgspec.structs.replace(
        trial, provider="tensorrt", engine_file="net_random.engine", **changes
    )
    shared = {
        name: getattr(trial, name)
        for name in BuildTrial.__struct_fields__
        if name in NetworkTrial.__struct_fields__ and name != "schema"
    }
    asked = BuildTrial(**shared, settings=settings)
    made = find_engine("tensorrt").build(asked, folder, folder, lambda *_: None)  # type: ignore[attr-defined]
    engine_rows.write_row(folder, made.options)
    return trial


@pytest.mark.parametrize("version", stand_in.VERSIONS)
@pytest.mark.parametrize("device", ["orin", "rtx"])
def test_outputs_are_those_of_the_network(tmp_path: Path, version: str, device: str) -> None:
    with stand_in.played(version, device), loaded(tmp_path, copies="both") as network:
        import stand_in_device

        network.call()
        other = RANDOM.standard_normal((2, WIDTH), dtype=np.float32)
        for given in (GIVEN, other):
            found = network.outputs({"x": given})
            assert np.allclose(found["y"], expected(given), atol=1e-6)
        kinds = {block.kind for block in stand_in_device.BLOCKS.values()}
        assert kinds == ({"managed"} if device == "orin" else {"device", "pinned"})
        assert network.options["memory"] == ("managed" if device == "orin" else "pinned")


@pytest.mark.parametrize("device", ["orin", "rtx"])
def test_closing_gives_all_memory_back(tmp_path: Path, device: str) -> None:
    with stand_in.played(device=device):
        with loaded(tmp_path, with_graph=True) as network:
            network.call()
            network.start_profiling()
            network.call()
        import stand_in_device

        assert not stand_in_device.BLOCKS
        assert list(stand_in_device.STREAMS) == [0]


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_a_graph_is_captured_and_launched(tmp_path: Path, version: str) -> None:
    with stand_in.played(version), loaded(tmp_path, with_graph=True, copies="out") as network:
        import stand_in_device

        assert network.launching == "graph"
        assert network.options["cuda_graph"] == "on"
        stand_in_device.CALLS.clear()
        network.call()
        assert stand_in_device.CALLS.count("cudaGraphLaunch") == 1
        assert np.allclose(network.outputs({"x": GIVEN})["y"], expected(GIVEN), atol=1e-6)


@pytest.mark.parametrize("with_graph", [False, True])
def test_the_host_s_and_the_gpu_s_times_are_told_apart(tmp_path: Path, with_graph: bool) -> None:
    with stand_in.played(), loaded(tmp_path, with_graph=with_graph) as network:
        times = network.time_enqueues(3)
        assert len(times) == 3
        assert all(enqueue_s > 0 and compute_s > 0 for enqueue_s, compute_s in times)
        network.call()
        assert np.allclose(network.outputs({"x": GIVEN})["y"], expected(GIVEN), atol=1e-6)
    # The host takes 50 ms to enqueue kernels, and nothing of that to launch them as a graph.
    with (
        stand_in.played(STAND_IN_ENQUEUE_S="0.05"),
        loaded(tmp_path, with_graph=with_graph) as net,
    ):
        least_s = min(enqueue_s for enqueue_s, _ in net.time_enqueues(5))
        assert (least_s > 0.05) is not with_graph


def test_a_network_with_dla_layers_is_enqueued_where_a_graph_was_asked_for(tmp_path: Path) -> None:
    settings = BuildSettings(dla_core=1)
    with (
        stand_in.played(),
        loaded(tmp_path, settings, with_graph=True, precision="fp16") as network,
    ):
        assert network.launching == "enqueue"
        assert network.options["cuda_graph"].startswith("not possible: TensorRT cannot run it:")
        assert "operation not permitted when stream is capturing" in network.options["cuda_graph"]
        # Gemm and Relu on the DLA; the Softmax, and a copy before each, on the GPU.
        assert network.options["dla_layers"] == "1 of 4"
        assert network.options["dla_core"] == "1"
        network.call()
        assert np.allclose(network.outputs({"x": GIVEN})["y"], expected(GIVEN), atol=1e-6)


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_an_engine_of_both_runs_and_says_where_its_nodes_are(tmp_path: Path, version: str) -> None:
    settings = BuildSettings(dla_core=1, dla_nodes=(1, 2))
    with stand_in.played(version), loaded(tmp_path, settings, precision="fp16") as network:
        assert network.options["dla_placement"] == "1 of 2 nodes are on the DLA, the GPU runs 2"
        assert np.allclose(network.outputs({"x": GIVEN})["y"], expected(GIVEN), atol=1e-6)


@pytest.mark.parametrize(
    ("placed", "words"),
    [
        ((0, 1), "2 of 2 nodes are on the DLA"),
        ((0, 1, 9), "2 of 2 nodes are on the DLA"),  # no layer has node 9
        ((1, 2), "1 of 2 nodes are on the DLA, the GPU runs 2; and 0, which were to be on the GPU"),
    ],
)
def test_a_placement_is_compared_with_the_layers_of_the_engine(
    placed: tuple[int, ...], words: str
) -> None:
    layers = [
        ExportedLayer("{ForeignNode[@0@...@1@]}", layer_type="DLA"),
        ExportedLayer("Reformatting CopyNode for Input Tensor 0 to @2@", layer_type="Reformat"),
        ExportedLayer("@2@", layer_type="SoftMax"),
    ]
    assert placement_words(layers, placed) == words
    unnamed = [ExportedLayer("{ForeignNode[a...b]}", layer_type="DLA")]
    assert placement_words(unnamed, placed).startswith("not said")


@pytest.mark.parametrize("with_graph", [False, True])
@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_layers_have_times_and_nodes(tmp_path: Path, version: str, with_graph: bool) -> None:
    with stand_in.played(version), loaded(tmp_path, with_graph=with_graph) as network:
        network.start_profiling()
        for _ in range(3):
            network.call()
        layers, reason = network.end_profiling([False, True, True])
        assert not reason
        assert [(layer.name, layer.nodes) for layer in layers] == [
            ("@0@ + @1@", (0, 1)),
            ("@2@", (2,)),
        ]
        assert all(len(layer.seconds_s) == 2 and min(layer.seconds_s) > 0 for layer in layers)
        assert {layer.provider for layer in layers} == {"GPU"}
        assert [layer.kernel for layer in layers] == ["stand_in_gemm", "stand_in_softmax"]
        assert network.launching == ("graph" if with_graph else "enqueue")


def test_a_profile_without_a_graph_says_nothing_of_the_timed_calls(tmp_path: Path) -> None:
    with (
        stand_in.played(STAND_IN_NO_PROFILED_GRAPH="1"),
        loaded(tmp_path, with_graph=True) as network,
    ):
        network.start_profiling()
        network.call()
        layers, _ = network.end_profiling([True])
        assert [layer.nodes for layer in layers] == [(0, 1), (2,)]
        assert (network.launching, network.options["cuda_graph"]) == ("graph", "on")
        assert network.options["profile"].startswith("without the graph: TensorRT cannot run it")


def test_layers_on_a_dla_are_told_from_those_on_the_gpu(tmp_path: Path) -> None:
    settings = BuildSettings(dla_core=0)
    with stand_in.played(), loaded(tmp_path, settings, precision="fp16") as network:
        network.start_profiling()
        network.call()
        network.call()
        layers, _ = network.end_profiling([False, True])
        assert [(layer.provider, layer.nodes) for layer in layers] == [
            ("GPU", ()),  # "Reformatting CopyNode for Input Tensor 0 to …"
            ("DLA", (0, 1)),
            ("GPU", ()),
            ("GPU", (2,)),
        ]


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_open_dimensions_take_the_shape_of_the_inputs(tmp_path: Path, version: str) -> None:
    most = ShapeRange(least=(1, WIDTH), usual=(2, WIDTH), most=(4, WIDTH))
    settings = BuildSettings(ranges={"x": most})
    given = RANDOM.standard_normal((3, WIDTH), dtype=np.float32)
    with stand_in.played(version), loaded(tmp_path, settings, given) as network:
        assert network.outputs({"x": given})["y"].shape == (3, WIDTH)
    too_many = np.zeros((5, WIDTH), np.float32)
    with (
        stand_in.played(version),
        pytest.raises(MeasurementError, match=r"cannot take the shape: .* not within the range"),
        loaded(tmp_path, settings, too_many),
    ):
        pass


@pytest.mark.parametrize(("waiting", "flag"), [("spin", 1), ("block", 4)])
def test_a_thread_spins_or_is_blocked(tmp_path: Path, waiting: str, flag: int) -> None:
    # cudaDeviceScheduleSpin is 1, cudaDeviceScheduleBlockingSync 4.
    with stand_in.played(), loaded(tmp_path, waiting=waiting):
        import stand_in_device

        assert [flag] == stand_in_device.DEVICE_FLAGS


def test_what_cuda_cannot_change_any_more_is_said(tmp_path: Path) -> None:
    with stand_in.played(STAND_IN_FLAGS_ONCE="1"):
        with loaded(tmp_path, waiting="spin") as network:
            assert "schedule" not in network.options
        with loaded(tmp_path, waiting="block") as network:
            assert network.options["schedule"] == "that of the first network of the process"
            network.call()


@pytest.mark.parametrize("device", ["orin", "rtx"])
def test_what_sets_a_shape_is_where_the_host_reads_it(tmp_path: Path, device: str) -> None:
    node = helper.make_node("Expand", ["x", "n"], ["y"], name="@0@")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1,))
    sizes = helper.make_tensor_value_info("n", TensorProto.INT64, (2,))
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))
    graph = helper.make_graph([node], "g", [given, sizes], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    arrays = {"x": np.array([7], np.float32), "n": np.array([2, 3], np.int64)}
    with stand_in.played(device=device):
        trial = built(tmp_path, BuildSettings())
        (tmp_path / trial.engine_file).write_bytes(plan_of(model.SerializeToString()))
        loads = find_engine("tensorrt").load(trial, tmp_path, arrays, 1)
        network = cast("LoadedTensorrtNetwork", loads)
        assert network.outputs(arrays)["y"].tolist() == [[7, 7, 7], [7, 7, 7]]
        network.close()


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_an_output_whose_shape_depends_on_data_grows(tmp_path: Path, version: str) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"], name="@0@")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,))
    made = helper.make_tensor_value_info("y", TensorProto.INT64, (1, "n"))
    graph = helper.make_graph([node], "g", [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    few, many = np.array([0, 1, 0, 0], np.float32), np.array([1, 0, 1, 1], np.float32)
    with stand_in.played(version):
        trial = built(tmp_path, BuildSettings(), with_graph=True, copies="out")
        (tmp_path / trial.engine_file).write_bytes(plan_of(model.SerializeToString()))
        loads = find_engine("tensorrt").load(trial, tmp_path, {"x": few}, 1)
        network = cast("LoadedTensorrtNetwork", loads)
        assert network.launching == "enqueue"  # the size is known when the network has run
        network.call()
        assert network.outputs({"x": few})["y"].tolist() == [[1]]
        assert network.outputs({"x": many})["y"].tolist() == [[0, 2, 3]]
        network.close()
        import stand_in_device

        assert not stand_in_device.BLOCKS


def test_managed_memory_is_lent_to_the_side_that_uses_it(tmp_path: Path) -> None:
    with stand_in.played(), loaded(tmp_path, copies="both") as network:
        import stand_in_device

        blocks = list(stand_in_device.BLOCKS.values())
        for block in blocks:
            block.attached.clear()
        network.call()
        # 1 is cudaMemAttachGlobal, 2 cudaMemAttachHost: to the device before, to the host after.
        assert [block.attached for block in blocks] == [[1, 2], [1, 2]]
    with stand_in.played(), loaded(tmp_path) as network:
        import stand_in_device

        stand_in_device.CALLS.clear()
        network.call()
        assert "cudaStreamAttachMemAsync" not in stand_in_device.CALLS


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (b"not an engine", "Magic tag does not match"),
        (b"", "Magic tag does not match"),
    ],
)
def test_what_is_no_engine_is_refused_in_one_line(tmp_path: Path, file: bytes, said: str) -> None:
    with stand_in.played():
        trial = built(tmp_path, BuildSettings())
        (tmp_path / trial.engine_file).write_bytes(file)
        with pytest.raises(MeasurementError) as raised:
            find_engine("tensorrt").load(trial, tmp_path, {"x": GIVEN}, 1)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_engine_of_another_version_is_refused_in_one_line(tmp_path: Path) -> None:
    with stand_in.played("8.6.2"):
        trial = built(tmp_path, BuildSettings())
    with (
        stand_in.played("10.3.0"),
        pytest.raises(MeasurementError, match=r"expecting library version 10\.3\.0 got 8\.6\.2"),
    ):
        find_engine("tensorrt").load(trial, tmp_path, {"x": GIVEN}, 1)


def test_a_dla_core_that_is_not_here_is_refused(tmp_path: Path) -> None:
    with stand_in.played():
        trial = built(tmp_path, BuildSettings(dla_core=0), precision="fp16")
        engine_rows.write_row(tmp_path, {"dla_core": "2"})
        with pytest.raises(
            MeasurementError, match="needs DLA core 2; this device has cores 0 and 1"
        ):
            find_engine("tensorrt").load(trial, tmp_path, {"x": GIVEN}, 1)


def test_integers_of_64_bits_are_fed_as_the_engine_has_them(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"], name="@0@")
    tensors = [helper.make_tensor_value_info(name, TensorProto.INT64, (2,)) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = np.array([3, -4], np.int64)
    for version, dtype in (("8.6.2", np.int32), ("10.3.0", np.int64)):
        with stand_in.played(version):
            trial = built(tmp_path, BuildSettings())
            (tmp_path / trial.engine_file).write_bytes(plan_of(model.SerializeToString()))
            made = find_engine("tensorrt").load(trial, tmp_path, {"x": given}, 1)
            network = cast("LoadedTensorrtNetwork", made)
            found = network.outputs({"x": given})["y"]
            assert (found.tolist(), found.dtype) == ([6, -8], dtype)
            if dtype == np.int32:
                with pytest.raises(MeasurementError, match="cannot be fed as int32"):
                    network.outputs({"x": given << 40})
            network.close()


def plan_of(model: bytes) -> bytes:
    """An engine file of an ONNX file, built by hand."""
    import tensorrt

    builder = tensorrt.Builder(tensorrt.Logger())
    network = builder.create_network(
        1 << int(tensorrt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    )
    assert tensorrt.OnnxParser(network, builder.logger).parse(model)
    return bytes(builder.build_serialized_network(network, builder.create_builder_config()))


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    with stand_in.played():
        trial = built(tmp_path, BuildSettings())
    with (
        stand_in.played(STAND_IN_MEMORY_BYTES="64"),
        pytest.raises(MeasurementError, match="the GPU has too little memory"),
    ):
        find_engine("tensorrt").load(trial, tmp_path, {"x": GIVEN}, 1)


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with stand_in.played():
        trial = built(tmp_path, BuildSettings())
        with pytest.raises(MeasurementError, match="nothing is fed to the input 'x'"):
            find_engine("tensorrt").load(trial, tmp_path, {}, 1)


def test_the_probe_says_what_is_there() -> None:
    with stand_in.played("8.6.2"):
        probe = find_engine("tensorrt").probe()
        assert probe.providers == ("tensorrt",)
        assert probe.versions["tensorrt"] == probe.version
        assert str(probe.version).startswith("8.6.2")
    with stand_in.played(device="none"):
        probe = find_engine("tensorrt").probe()
        assert probe.version is not None  # it can build for a named device
        assert probe.providers is None
        assert "driver version is insufficient" in probe.unknown["providers"]


def test_an_older_cuda_python_is_used_where_it_is_what_is_there(tmp_path: Path) -> None:
    with stand_in.played("8.6.2", STAND_IN_CUDA="cudart"), loaded(tmp_path) as network:
        network.call()
        assert np.allclose(network.outputs({"x": GIVEN})["y"], expected(GIVEN), atol=1e-6)


def test_regions_have_the_nodes_between_their_ends_that_no_other_layer_has() -> None:
    layers = [
        ExportedLayer("Reformatting CopyNode for Input Tensor 0 to @0@", layer_type="Reformat"),
        ExportedLayer("@0@ + @1@"),
        ExportedLayer("{ForeignNode[@2@...@6@]}"),
        ExportedLayer("@4@"),
        ExportedLayer("__myl_MulAdd_myl0_1", metadata="[ONNX Layer: @7@]\x1e[ONNX Layer: @8@]"),
        ExportedLayer("__myl_Cast_myl0_2"),
        ExportedLayer("PWN(PWN(@9@, @10@), @11@)"),
    ]
    # 4 is another layer's, so the region from 2 to 6 is 2, 3, 5 and 6.
    assert trace(layers) == ((), (0, 1), (2, 3, 5, 6), (4,), (7, 8), None, (9, 10, 11))


def test_of_regions_that_overlap_nothing_tells_the_nodes() -> None:
    layers = [
        ExportedLayer("{ForeignNode[@0@...@10@]}"),
        ExportedLayer("{ForeignNode[@5@...@20@]}"),
        ExportedLayer("{ForeignNode[@21@...@23@]}"),
        ExportedLayer("@30@"),
    ]
    # 5 to 10 are between the ends of the first two.
    assert trace(layers) == (None, None, (21, 22, 23), (30,))


def test_runs_of_a_layer_in_a_call_are_added() -> None:
    calls = [{"@0@": [1.0, 2.0], "@1@": [4.0]}, {"@0@": [3.0, 1.0], "@1@": [5.0]}]
    first, second = layer_times(calls, [])
    assert (first.runs, first.seconds_s) == (2, (3.0, 4.0))
    assert (second.runs, second.seconds_s) == (1, (4.0, 5.0))
    assert first.op_type == "unknown"


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The real module of TensorRT for RTX, which runs nothing without a card."""
    pytest.importorskip("tensorrt_rtx_bindings", reason="the extra trt-test is not installed")
    monkeypatch.setenv(MODULE_VARIABLE, "tensorrt_rtx_bindings")
    return load_bindings()


def test_a_real_runtime_says_in_one_line_why_it_loads_nothing(tmp_path: Path, real: Any) -> None:
    bench = Bench(tmp_path)
    made = bench.built(dense(tmp_path / "dense.onnx"), BuildSettings(compute_capability="8.6"))
    bench.engine.rename(bench.into / engine_rows.FILE)
    engine_rows.write_row(bench.into, made.options)
    loads = small_networks.trial("dense.onnx", small_networks.uniform("x", (1, 8)))
    trial = msgspec.structs.replace(loads, engine="tensorrt", engine_file=engine_rows.FILE)
    with stand_in.played(), pytest.raises(MeasurementError) as raised:  # of CUDA alone
        find_engine("tensorrt").load(trial, bench.into, {}, 1)
    assert "there is no NVIDIA driver that TensorRT can use" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_a_driver_it_can_be_probed(real: Any) -> None:
    with stand_in.played(device="none"):
        probe = find_engine("tensorrt").probe()
    assert str(probe.version).startswith("rtx-1.")
    assert probe.providers is None


def test_a_real_module_has_what_running_uses(real: Any) -> None:
    used = {
        "Runtime": "DLA_core num_DLA_cores deserialize_cuda_engine",
        "ICudaEngine": "create_execution_context create_engine_inspector num_io_tensors"
        " get_tensor_name get_tensor_mode get_tensor_dtype",
        "IExecutionContext": "set_input_shape set_tensor_address set_output_allocator"
        " get_tensor_shape execute_async_v3 profiler enqueue_emits_profile report_to_profiler",
        "EngineInspector": "get_engine_information",
        "TensorIOMode": "INPUT OUTPUT",
        "LayerInformationFormat": "JSON",
    }
    for name, members in used.items():
        for member in members.split():
            assert hasattr(getattr(real, name), member)


def test_a_real_module_takes_our_profiler_and_allocator(real: Any) -> None:
    times = LayerTimes()
    kept = profiler(real, times)
    assert isinstance(kept, real.IProfiler)
    kept.report_layer_time("@0@", 2.0)
    assert times.current == {"@0@": [2e-3]}
    with stand_in.played():
        buffer = GrowingBuffer(Cuda(), np.dtype(np.float32))
        asked = allocator(real, buffer)
        assert isinstance(asked, real.IOutputAllocator)
        address = asked.reallocate_output_async("y", 0, 8, 256, 0)
        assert address == asked.reallocate_output("y", 0, 4, 256)
        asked.notify_shape("y", (1, 1))
        assert buffer.array().shape == (1, 1)
        buffer.close()
