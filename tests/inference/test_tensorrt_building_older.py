"""Engines built by TensorRT 8.6 and 10.3, played by a stand-in of their published bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from mansard.core.errors import MeasurementError
from mansard.inference.engines.tensorrt.calibration import SampleFeed
from mansard.inference.engines.tensorrt.cuda_calls import Cuda
from mansard.inference.engines.tensorrt.layers import inspect
from mansard.inference.plan import BuildSettings, InputSpec, ShapeRange
from tests.inference import stand_in
from tests.inference.engine_builds import Bench, dense, quantised, save, weights
from tests.inference.npz_files import without_data

SAMPLES = BuildSettings(calibration_file="samples.npz", calibration_hash="0123456789abcdef")


@pytest.fixture(params=stand_in.VERSIONS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A machine with TensorRT 8.6, then one with 10.3: an AGX Orin with two DLA cores."""
    with stand_in.played(request.param):
        yield Bench(tmp_path, Cuda())


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[Bench]:
    with stand_in.played("10.3.0"):
        yield Bench(tmp_path, Cuda())


def is_old(bench: Bench) -> bool:
    import tensorrt

    return str(tensorrt.__version__).startswith("8")


def refusal(bench: Bench, file: str, settings: BuildSettings, **changes: Any) -> str:
    with pytest.raises(MeasurementError) as caught:
        bench.built(file, settings, **changes)
    assert not bench.engine.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def held_bytes() -> int:
    """The memory of the device that was not freed."""
    import stand_in_device

    return sum(block.size for block in stand_in_device.BLOCKS.values())


def samples(bench: Bench, **arrays: Any) -> None:
    np.savez(bench.folder / "samples.npz", **arrays)


def ten(seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((10, 8), np.float32)


@pytest.mark.parametrize(
    ("precision", "said", "tf32"),
    [("fp32", "weakly typed", "off"), ("fp16", "weakly typed fp16", "allowed")],
)
def test_a_precision_is_a_flag(bench: Bench, precision: str, said: str, tf32: str) -> None:
    built = bench.built(dense(bench.folder / "dense.onnx"), BuildSettings(), precision=precision)
    assert (built.options["types"], built.options["tf32"]) == (said, tf32)
    assert plan_allows_tf32(bench.engine) == (tf32 == "allowed")
    assert built.timing_cache == "new"
    assert built.n_layers == 3  # a product, ReLU, softmax


def plan_allows_tf32(path: Path) -> bool:
    """What the builder's flag was, as the stand-in keeps it in its plan."""
    (said,) = re.findall(rb'"allows_tf32": (true|false)', path.read_bytes())
    return bool(said == b"true")


def layer_types(bench: Bench) -> list[tuple[str, bool]]:
    """The layers of the engine that was built, and whether a DLA runs each."""
    import tensorrt

    runtime = tensorrt.Runtime(tensorrt.Logger())
    runtime.DLA_core = 1
    engine = runtime.deserialize_cuda_engine(bench.engine.read_bytes())
    return [(layer.name, layer.is_on_dla) for layer in inspect(tensorrt, engine)]


def convolutions(path: Path) -> str:
    """Five nodes: Conv, Relu, Conv, Relu, Softmax, which no DLA has."""
    node = helper.make_node
    kernel = np.ones((1, 1, 1, 1), np.float32)
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("Softmax", ["d"], ["y"]),
    ]
    return save(path, nodes, {"w": kernel}, shape=(1, 1, 4, 4))


def test_an_engine_of_both_has_the_nodes_where_they_were_placed(bench: Bench) -> None:
    file = convolutions(bench.folder / "net.onnx")
    built = bench.built(file, BuildSettings(dla_core=1, dla_nodes=(2, 3)), precision="fp16")
    assert (built.options["dla_core"], built.options["dla_nodes"]) == ("1", "2-3")
    assert built.dla_share == 1
    copy = "Reformatting CopyNode for Input Tensor 0 to "
    # A copy before the first layer of fp16, and where the device changes.
    assert layer_types(bench) == [
        (f"{copy}@0@ + @1@", False),
        ("@0@ + @1@", False),
        (f"{copy}{{ForeignNode[@2@...@3@]}}", False),
        ("{ForeignNode[@2@...@3@]}", True),
        (f"{copy}@4@", False),
        ("@4@", False),
    ]


def test_nodes_that_the_dla_lacks_run_on_the_gpu_or_are_refused(bench: Bench) -> None:
    file = convolutions(bench.folder / "net.onnx")
    asked = BuildSettings(dla_core=1, dla_nodes=(3, 4))
    built = bench.built(file, asked, precision="fp16")
    assert built.dla_share == 0.5  # of Relu and Softmax
    assert ("{ForeignNode[@3@...@3@]}", True) in layer_types(bench)
    assert ("@4@", False) in layer_types(bench)
    bench.engine.unlink()
    strict = BuildSettings(dla_core=1, dla_nodes=(3, 4), with_fallback=False)
    said = refusal(bench, file, strict, precision="fp16")
    assert said.startswith("small: the DLA lacks 1 of 2 layers: @4@")
    said = refusal(bench, file, BuildSettings(dla_core=0, dla_nodes=(70,)), precision="fp16")
    assert "no layer of it is any of the nodes 70 for the DLA; name nodes by" in said


def test_bf16_is_in_the_newer_alone(bench: Bench) -> None:
    file = dense(bench.folder / "dense.onnx")
    if is_old(bench):
        said = refusal(bench, file, BuildSettings(), precision="bf16")
        assert re.fullmatch(r"TensorRT 8\.6\.2\S* has no bf16; use fp32, fp16, int8", said)
    else:
        built = bench.built(file, BuildSettings(), precision="bf16")
        assert built.options["types"] == "weakly typed bf16"


def test_int8_is_calibrated_with_batches_of_the_samples(bench: Bench) -> None:
    samples(bench, x=ten())
    file = dense(bench.folder / "dense.onnx", shape=(4, 8))
    four = InputSpec(name="x", type_name="float32", shape=(4, 8), fill="uniform")
    built = bench.built(file, SAMPLES, precision="int8", input_specs=(four,), batch=4)
    assert built.options["types"] == "weakly typed int8 fp16"
    # 10 samples: two batches of 4, and two samples that fill none
    assert built.options["calibration"] == "entropy, 2 batches of 4"
    assert held_bytes() == 0
    assert len(list(bench.into.glob("calibration-*.cache"))) == 1


def test_a_second_build_takes_the_calibration_and_the_times_of_the_first(bench: Bench) -> None:
    samples(bench, x=ten())
    file = dense(bench.folder / "dense.onnx")
    first = bench.built(file, SAMPLES, precision="int8")
    second = bench.built(file, SAMPLES, precision="int8")
    assert first.options["calibration"] == "entropy, 10 batches of 1"
    assert second.options["calibration"] == "entropy, 10 batches of 1, from the cache"
    assert (first.timing_cache, second.timing_cache) == ("new", "used")


def test_other_samples_have_a_cache_of_their_own(bench: Bench) -> None:
    samples(bench, x=ten())
    file = dense(bench.folder / "dense.onnx")
    bench.built(file, SAMPLES, precision="int8")
    samples(bench, x=ten(seed=1))
    other = BuildSettings(calibration_file="samples.npz", calibration_hash="f" * 16)
    built = bench.built(file, other, precision="int8")
    assert "cache" not in built.options["calibration"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (None, "int8 needs data to calibrate with; give an .npz with an array for each input"),
        ({"z": ten()}, "samples.npz: it has no samples of the input 'x'"),
        ({"x": np.zeros((10, 7), np.float32)}, "'x' is [10, 7], not [samples, 8]"),
        ({"x": np.zeros((10, 8), np.complex64)}, "'x' is complex64, the network wants float32"),
        ({"x": np.zeros((0, 8), np.float32)}, "has 0 samples, fewer than one batch of 1"),
    ],
)
def test_data_that_cannot_calibrate_is_refused(
    bench: Bench, arrays: dict[str, Any] | None, said: str
) -> None:
    if arrays is not None:
        samples(bench, **arrays)
    settings = SAMPLES if arrays is not None else BuildSettings()
    assert said in refusal(bench, dense(bench.folder / "d.onnx"), settings, precision="int8")
    assert held_bytes() == 0


def test_samples_of_another_shape_are_refused_by_their_headers(bench: Bench) -> None:
    without_data(bench.folder / "samples.npz", x=("<f4", (1 << 27, 7)))  # else "is cut short"
    said = refusal(bench, dense(bench.folder / "d.onnx"), SAMPLES, precision="int8")
    assert "'x' is [134217728, 7], not [samples, 8]" in said


def test_a_network_whose_inputs_have_no_samples_cannot_be_calibrated(bench: Bench) -> None:
    samples(bench, x=np.float32(1))
    scalar = InputSpec(name="x", type_name="float32", shape=(), fill="uniform")
    file = dense(bench.folder / "d.onnx")
    said = refusal(bench, file, SAMPLES, precision="int8", input_specs=(scalar,))
    assert said == "small: no input of the network has samples"


def test_samples_that_do_not_fit_leave_no_memory_behind() -> None:
    # 32 bytes fit into 48, the second 32 do not.
    with stand_in.played(STAND_IN_MEMORY_BYTES="48"):
        batch = {name: np.zeros(8, np.float32) for name in ("x", "y")}
        with pytest.raises(MeasurementError, match="the GPU has too little memory"):
            SampleFeed([batch], Cuda(), Path("unused"))
        assert held_bytes() == 0


def test_a_file_with_scales_is_not_calibrated(bench: Bench) -> None:
    file = quantised(bench.folder / "int8.onnx", np.int8(0))
    built = bench.built(file, BuildSettings(), precision="int8")
    wanted = "weakly typed int8 fp16" if is_old(bench) else "strongly typed"
    assert built.options["types"] == wanted
    assert "calibration" not in built.options


def test_fp8_needs_a_device_that_has_it(newer: Bench) -> None:
    said = refusal(newer, dense(newer.folder / "d.onnx"), BuildSettings(), precision="fp8")
    assert "compute capability 8.7, has no fp8: it begins with 8.9" in said


def test_the_share_of_layers_on_the_dla(bench: Bench) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Erf", ["r"], ["e"]),  # that a DLA lacks
        helper.make_node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2]),
    ]
    stored = {"w": np.ones((4, 3, 3, 3), np.float32)}
    file = save(bench.folder / "conv.onnx", nodes, stored, shape=(1, 3, 8, 8))
    built = bench.built(file, BuildSettings(dla_core=1), precision="fp16")
    assert built.dla_share == 0.75  # 3 of 4
    assert (built.options["dla_core"], built.options["dla_rest"]) == ("1", "on the GPU")
    alone = BuildSettings(dla_core=1, with_fallback=False)
    bench.engine.unlink()
    said = refusal(bench, file, alone, precision="fp16")
    assert said == "small: the DLA lacks 1 of 4 layers: @2@; allow the GPU for the rest"


@pytest.mark.parametrize(
    ("changes", "precision", "said"),
    [
        ({"dla_core": 2}, "fp16", "there is no DLA core 2: this device has 2 DLA cores; give 0 to"),
        ({"dla_core": 0}, "fp32", "a DLA has no fp32; use fp16 or int8"),
        (
            {"dla_core": 0, "ranges": {"x": ShapeRange(least=(1, 8), usual=(1, 8), most=(2, 8))}},
            "fp16",
            "a DLA runs only networks of fixed dimensions",
        ),
    ],
)
def test_what_a_dla_cannot_be_asked_for(
    bench: Bench, changes: dict[str, Any], precision: str, said: str
) -> None:
    file = dense(bench.folder / "dense.onnx")
    assert said in refusal(bench, file, BuildSettings(**changes), precision=precision)


def test_a_device_without_a_dla_says_so(tmp_path: Path) -> None:
    with stand_in.played("10.3.0", "rtx"):
        bench = Bench(tmp_path, Cuda())
        said = refusal(bench, dense(tmp_path / "d.onnx"), BuildSettings(dla_core=0))
    assert "there is no DLA core 0: this device has no DLA core; leave the DLA out" in said


def test_a_range_is_built_and_calibrated_with_its_usual_shape(bench: Bench) -> None:
    samples(bench, x=ten())
    file = dense(bench.folder / "dense.onnx", shape=("batch", 8))
    ranges = {"x": ShapeRange(least=(1, 8), usual=(5, 8), most=(10, 8))}
    settings = BuildSettings(
        ranges=ranges, calibration_file="samples.npz", calibration_hash="0" * 16
    )
    five = InputSpec(name="x", type_name="float32", shape=(5, 8), fill="uniform")
    built = bench.built(file, settings, precision="int8", input_specs=(five,))
    assert built.options["calibration"] == "entropy, 2 batches of 5"


def test_a_network_that_needs_more_memory_than_there_is(tmp_path: Path) -> None:
    with stand_in.played(STAND_IN_MEMORY_BYTES="100"):
        bench = Bench(tmp_path, Cuda())
        said = refusal(bench, dense(tmp_path / "d.onnx"), BuildSettings())
    assert said.startswith("small: too little memory; close other programs")


def test_without_a_driver_nothing_is_built(tmp_path: Path) -> None:
    with stand_in.played(device="none"):
        bench = Bench(tmp_path, Cuda())
        said = refusal(bench, dense(tmp_path / "d.onnx"), BuildSettings())
    assert "CUDA driver version is insufficient" in said


def test_these_versions_build_for_their_own_device_alone(bench: Bench) -> None:
    settings = BuildSettings(compute_capability="8.6")
    said = refusal(bench, dense(bench.folder / "d.onnx"), settings)
    assert "builds for the device that it runs on alone, not for compute capability 8.6" in said


def test_an_operator_that_it_lacks(bench: Bench) -> None:
    nodes = [helper.make_node("Odd", ["x"], ["y"], domain="own")]
    file = save(bench.folder / "odd.onnx", nodes, {"w": weights()}, domains=("own",))
    assert "has no operator" in refusal(bench, file, BuildSettings())


def test_the_cache_of_another_version_is_made_anew(tmp_path: Path) -> None:
    file = dense(tmp_path / "dense.onnx")
    with stand_in.played("8.6.2"):
        Bench(tmp_path, Cuda()).built(file, BuildSettings())
    with stand_in.played("10.3.0"):
        bench = Bench(tmp_path, Cuda())
        assert bench.built(file, BuildSettings()).timing_cache == "new"
        assert bench.built(file, BuildSettings()).timing_cache == "used"
