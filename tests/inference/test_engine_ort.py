"""ONNX Runtime as an engine: what it cannot run, which nodes its layers are, its profile."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from mansard.core.errors import MeasurementError, SchemaError
from mansard.core.records import LayerTime
from mansard.inference.engines import find_engine
from mansard.inference.engines.ort import allows_tf32, provider_options
from mansard.inference.engines.ort_fusions import TracedNode, read_profile
from mansard.inference.inputs import make_inputs
from mansard.inference.memory import limited_to_available
from mansard.inference.plan import InputSpec
from tests.inference.small_networks import perceptron, trial, uniform, write

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("provider", "precision", "version", "switch", "is_allowed"),
    [
        ("cuda", "fp32", "1.18.0", "0", False),
        ("cuda", "fp32", "1.23.2", "0", False),
        ("cuda", "fp16", "1.18.0", "1", True),  # where a layer stays fp32
        ("cuda", "fp32", "1.17.3", None, True),  # refuses the option, and uses TF32
        ("tensorrt", "fp32", "1.23.2", "0", True),  # of what falls to CUDA's provider alone
    ],
)
def test_fp32_of_cuda_does_not_multiply_in_tf32(
    provider: str, precision: str, version: str, switch: str | None, is_allowed: bool
) -> None:
    made = trial("net.onnx", provider=provider, precision=precision)
    assert allows_tf32(made, version) is is_allowed
    providers = provider_options(made, version, with_graph=False)
    options = dict(one for one in providers if not isinstance(one, str))
    assert options["CUDAExecutionProvider"].get("use_tf32") == switch
    assert providers[-1] == "CPUExecutionProvider"


def layers_of(folder: Path, spec: InputSpec, **changes: Any) -> tuple[LayerTime, ...]:
    made = trial("net.onnx", spec, **changes)
    network = find_engine("ort").load(made, folder, make_inputs(made, folder, 1), 1)
    network.start_profiling()
    seconds_s = []
    for _ in range(4):
        start_s = time.monotonic()
        network.call()
        seconds_s.append(time.monotonic() - start_s)
    layers, reason = network.end_profiling([False, True, True, True])
    network.close()
    assert reason == ""
    # Layers are parts of the calls; a microsecond is the profile's resolution.
    for call, call_s in enumerate(seconds_s[1:]):
        assert sum(layer.seconds_s[call] for layer in layers) <= call_s + 2e-6
    return layers


def parts(layers: tuple[LayerTime, ...]) -> list[tuple[int, ...]]:
    """The nodes of the layers that have some, in order."""
    assert all(layer.nodes is not None for layer in layers), layers
    return sorted(layer.nodes for layer in layers if layer.nodes)


def weights(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def test_what_was_fetched_stays_while_the_network_runs_on(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    write(tmp_path / "net.onnx", [node], {}, inputs={"x": (3,)}, output="y")
    made = trial("net.onnx", uniform("x", (3,)))
    network = find_engine("ort").load(made, tmp_path, make_inputs(made, tmp_path, 1), 1)
    fetched = []
    for first in (1.0, 2.0, 3.0):
        network.feed({"x": np.array([first, -1.0, 5.0], np.float32)})
        network.call()
        fetched.append(network.fetch()["y"])
    network.close()
    assert [each.tolist() for each in fetched] == [[first, 0.0, 5.0] for first in (1, 2, 3)]


def test_a_product_with_its_activation_is_one_layer(tmp_path: Path) -> None:
    assert parts(layers_of(tmp_path, perceptron(tmp_path / "net.onnx"))) == [(0, 1), (2,)]


def test_convolutions_with_what_follows_them_are_layers(tmp_path: Path) -> None:
    # Two convolutions, a sum over a branch, activations: four kernels at most, whether in
    # blocked layout (x86) or not (Arm).
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "one", "zero", "zero", "one"], ["d"]),
        helper.make_node("Add", ["d", "b"], ["e"]),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["y"]),
    ]
    stored = {"w0": weights(16, 16, 3, 3), "w1": weights(16, 16, 3, 3)}
    stored |= {"one": np.ones(16, np.float32), "zero": np.zeros(16, np.float32)}
    write(tmp_path / "net.onnx", nodes, stored, inputs={"x": (1, 16, 8, 8)})
    found = parts(layers_of(tmp_path, uniform("x", (1, 16, 8, 8))))
    assert sorted(index for nodes in found for index in nodes) == list(range(7))  # each once
    assert found[0] == (0, 1)
    assert found[1][:2] == (2, 3)
    assert found[-1] == (6,)


def test_a_normalisation_written_out_is_one_layer(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("Pow", ["centred", "two"], ["squared"]),
        helper.make_node("ReduceMean", ["squared"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "epsilon"], ["shifted"]),
        helper.make_node("Sqrt", ["shifted"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], ["normal"]),
        helper.make_node("Mul", ["normal", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["z"]),
        helper.make_node("MatMul", ["z", "w"], ["m"]),
        helper.make_node("Div", ["m", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["g"]),
        helper.make_node("Add", ["g", "unit"], ["h"]),
        helper.make_node("Mul", ["m", "h"], ["i"]),
        helper.make_node("Mul", ["i", "half"], ["y"]),
    ]
    numbers = {"two": 2.0, "epsilon": 1e-5, "root": 2.0**0.5, "unit": 1.0, "half": 0.5}
    stored = {name: np.float32(number) for name, number in numbers.items()}
    stored |= {"scale": weights(32), "shift": weights(32), "w": weights(32, 32)}
    write(tmp_path / "net.onnx", nodes, stored, inputs={"x": (1, 8, 32)})
    found = parts(layers_of(tmp_path, uniform("x", (1, 8, 32))))
    assert found == [tuple(range(9)), (9,), (10, 11, 12, 13, 14)]


def test_a_quantised_convolution_is_one_layer(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["b"]),
        helper.make_node("Conv", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("QuantizeLinear", ["d", "s", "z"], ["e"]),
        helper.make_node("DequantizeLinear", ["e", "s", "z"], ["y"]),
    ]
    stored = {"s": np.float32(0.1), "z": np.uint8(0), "zw": np.int8(0)}
    stored |= {"w": np.arange(-64, 64, dtype=np.int8).reshape(8, 16, 1, 1)}
    write(tmp_path / "net.onnx", nodes, stored, inputs={"x": (1, 16, 8, 8)})
    found = parts(layers_of(tmp_path, uniform("x", (1, 16, 8, 8)), precision="int8"))
    assert found == [(0,), (1, 2, 3, 4, 5), (6,)]


def test_half_precision_on_a_cpu_and_operators_taken_apart(tmp_path: Path) -> None:
    # A CPU runs the convolution in single precision; of HardSwish it has no kernel and runs
    # the operators of its definition.
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["c"]),
        helper.make_node("HardSwish", ["c"], ["y"]),
    ]
    stored = {"w0": weights(16, 16, 1, 1), "w1": weights(8, 8)}
    halves = {name: array.astype(np.float16) for name, array in stored.items()}
    write(tmp_path / "net.onnx", nodes, halves, inputs={"x": (1, 16, 8, 8)})
    model = onnx.load(tmp_path / "net.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.save(model, tmp_path / "net.onnx")
    spec = InputSpec(name="x", type_name="float16", shape=(1, 16, 8, 8), fill="uniform")
    found = parts(layers_of(tmp_path, spec, precision="fp16"))
    assert sorted(set(found))[-2:] == [(2,), (3,)]
    assert {index for nodes in found for index in nodes} == {0, 1, 2, 3}


def test_the_body_of_a_loop_is_not_counted_twice(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"], name="@1@"),
            helper.make_node("Identity", ["go"], ["on"], name="@2@"),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", 7, []),
            helper.make_tensor_value_info("go", 9, []),
            helper.make_tensor_value_info("state", 1, [128, 128]),
        ],
        [
            helper.make_tensor_value_info("on", 9, []),
            helper.make_tensor_value_info("next", 1, [128, 128]),
        ],
    )
    nodes = [helper.make_node("Loop", ["rounds", "true", "x"], ["y"], body=body)]
    stored = {"rounds": np.int64(10), "true": np.bool_(True), "w": weights(128, 128)}
    write(tmp_path / "net.onnx", nodes, stored, inputs={"x": (128, 128)})
    layers = {layer.op_type: layer for layer in layers_of(tmp_path, uniform("x", (128, 128)))}
    assert layers["MatMul"].nodes == (1,)
    assert layers["MatMul"].runs == 10
    assert layers["Loop"].nodes == (0,)
    assert layers["Loop"].runs == 1


def test_bfloat16_is_fed_by_its_bits(tmp_path: Path) -> None:
    # A CPU has few kernels for it: Cast is one.
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT)]
    write(tmp_path / "net.onnx", nodes, {}, inputs={"x": (2, 3)})
    model = onnx.load(tmp_path / "net.onnx")
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    onnx.save(model, tmp_path / "net.onnx")
    spec = InputSpec(name="x", type_name="bfloat16", shape=(2, 3), fill="uniform")
    for copies in ("none", "both"):
        made = trial("net.onnx", spec, precision="bf16", copies=copies)
        network = find_engine("ort").load(made, tmp_path, make_inputs(made, tmp_path, 1), 1)
        network.call()
        network.close()


def test_an_operator_that_it_lacks_is_named_in_one_line(tmp_path: Path) -> None:
    nodes = [helper.make_node("Frobnicate", ["x"], ["y"])]
    write(tmp_path / "net.onnx", nodes, {}, inputs={"x": (1, 8)})
    made = trial("net.onnx", uniform("x", (1, 8)))
    with pytest.raises(MeasurementError, match="Frobnicate") as caught:
        find_engine("ort").load(made, tmp_path, make_inputs(made, tmp_path, 1), 1)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_what_fails_in_a_node_is_said_with_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["table", "x"], ["y"])]
    write(tmp_path / "net.onnx", nodes, {"table": weights(4)}, inputs={})
    model = onnx.load(tmp_path / "net.onnx")
    model.graph.input.append(helper.make_tensor_value_info("x", 7, [1]))
    onnx.save(model, tmp_path / "net.onnx")
    index = InputSpec(name="x", type_name="int64", shape=(1,), fill="integers", low=9.0, high=10.0)
    made = trial("net.onnx", index)
    network = find_engine("ort").load(made, tmp_path, make_inputs(made, tmp_path, 1), 1)
    with pytest.raises(MeasurementError, match=r"^Gather @0@: indices element out of data bounds"):
        network.call()


def test_too_little_memory_is_said_and_the_limit_is_lifted(tmp_path: Path) -> None:
    # 2**40 floats: no machine has them.
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["y"]),
    ]
    write(tmp_path / "net.onnx", nodes, {"shape": np.array([2**40])}, inputs={"x": (1,)})
    made = trial("net.onnx", uniform("x", (1,)))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_to_available():
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] != before[0]
        network = find_engine("ort").load(made, tmp_path, make_inputs(made, tmp_path, 1), 1)
        with pytest.raises(MeasurementError, match="too little memory: it asks for 4398046511104"):
            network.call()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_layers_on_a_gpu_are_their_kernels() -> None:
    # The kernels are listed after the node that started them, and may run when it has long
    # returned: the product takes 40 + 2 µs on the GPU, the copy back is the CPU's 3 µs.
    gpu = {"op_name": "MatMul", "provider": "CUDAExecutionProvider", "node_index": "0"}
    cpu = {"op_name": "Gather", "provider": "CPUExecutionProvider", "node_index": "1"}
    kernel = {**event("gemm", 150, 40), "cat": "Kernel"}
    events = [
        event("@0@_kernel_time", 110, 9, **gpu),
        kernel,
        {**kernel, "name": "splitk", "ts": 190, "dur": 2},
        event("@1@_kernel_time", 120, 3, **cpu),
        event("model_run", 100, 120),
    ]
    layers, _ = read_profile(json.dumps(events).encode(), [True], ())
    times_s = [second for layer in layers for second in layer.seconds_s]
    assert times_s == pytest.approx([42e-6, 3e-6])
    without = [one for one in events if one["cat"] != "Kernel"]
    assert read_profile(json.dumps(without).encode(), [True], ()) == (
        (),
        "this build of ONNX Runtime does not time the kernels of a GPU",
    )


def event(name: str, start_us: int, us: int, **details: Any) -> dict[str, Any]:
    category = "Session" if name == "model_run" else "Node"
    return {"cat": category, "name": name, "ts": start_us, "dur": us, "args": details}


def test_times_of_the_profile() -> None:
    # Two calls, of which the last is kept. A loop from 200 to 260 µs has two runs of 20 µs
    # of a product inside, so 20 µs are its own; the add after it has 5 µs.
    product = {"op_name": "MatMul", "provider": "CPUExecutionProvider", "node_index": "0"}
    other = {**product, "op_name": "Loop", "node_index": "3"}
    text = json.dumps(
        [
            event("model_run", 100, 50),
            event("@1@_kernel_time", 110, 30, **product),
            event("@1@_kernel_time", 205, 20, **product),
            event("@1@_kernel_time", 230, 20, **product),
            event("@0@_kernel_time", 200, 60, **other),
            event("fast_kernel_time", 270, 5, **{**product, "node_index": "4"}),
            event("MatMul_5_kernel_time", 276, 2, **{**product, "node_index": "5"}),
            event("model_run", 195, 90),
        ]
    ).encode()
    parts = {("@0@", "Loop"): (0,), ("@1@", "MatMul"): (1,), ("fast", "MatMul"): (2, 3)}
    parts[("", "MatMul")] = (4,)  # the profile calls it by its operator and number
    traced = [TracedNode(*name, nodes) for name, nodes in parts.items()]
    layers, reason = read_profile(text, [False, True], traced)
    assert reason == ""
    assert [(layer.nodes, layer.runs) for layer in layers] == [
        ((0,), 1),
        ((1,), 2),
        ((2, 3), 1),
        ((4,), 1),
    ]
    times_s = [second for layer in layers for second in layer.seconds_s]
    assert times_s == pytest.approx([20e-6, 40e-6, 5e-6, 2e-6])
    assert read_profile(text, [True] * 3, ()) == (
        (),
        "the profile holds 2 of 3 calls: ONNX Runtime cuts it at a million events",
    )
    untraced, _ = read_profile(text, [False, True], ())
    assert [layer.nodes for layer in untraced] == [(0,), (1,), None, None]


@pytest.mark.parametrize("text", [b"", b"{}", b'[{"cat": "Node"}]', b"[" * 9000])
def test_what_is_no_profile_is_refused(text: bytes) -> None:
    with pytest.raises(SchemaError, match="cannot read the profile"):
        read_profile(text, [True], ())
