"""Engines built by a real builder, TensorRT for RTX, on a machine without a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from mansard.core.errors import MeasurementError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import EngineBuild
from mansard.device.identity import identify
from mansard.inference.engines import find_engine
from mansard.inference.engines.tensorrt.building import layers_of_nodes
from mansard.inference.engines.tensorrt.versions import MODULE_VARIABLE, load_bindings
from mansard.inference.plan import BuildPlan, BuildSettings, ShapeRange, make_plan
from mansard.measuring.events import Row
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer
from tests.inference.engine_builds import FP8_ZERO, Bench, dense, make_trial, quantised, save

pytest.importorskip("tensorrt_rtx_bindings", reason="the extra trt-test is not installed")
FOR_86 = BuildSettings(compute_capability="8.6")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv(MODULE_VARIABLE, "tensorrt_rtx_bindings")
    return Bench(tmp_path)


def refusal(bench: Bench, file: str, settings: BuildSettings = FOR_86, **changes: Any) -> str:
    """The one line in which a build is refused; it leaves nothing behind."""
    with pytest.raises(MeasurementError) as caught:
        bench.built(file, settings, **changes)
    assert list(bench.into.iterdir()) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_fp32_is_built_for_a_card_that_is_not_here(bench: Bench) -> None:
    built = bench.built(dense(bench.folder / "dense.onnx"), FOR_86)
    assert bench.engine.stat().st_size > 10_000
    assert built.n_layers is not None
    assert built.n_layers >= 3  # a product, ReLU, softmax
    assert built.dla_share is None
    assert built.unknown == {"dla_share": "it is built for the GPU"}
    assert built.options["types"] == "strongly typed"
    assert "optimization_level" not in built.options  # the builder's own


def test_the_same_network_gives_the_same_engine(bench: Bench) -> None:
    file = dense(bench.folder / "dense.onnx")
    bench.built(file, FOR_86)
    first = bench.engine.read_bytes()
    bench.built(file, FOR_86)
    assert bench.engine.read_bytes() == first


def test_options_reach_the_builder(bench: Bench) -> None:
    settings = BuildSettings(
        compute_capability="8.6", optimization_level=5, workspace_bytes=64 << 20
    )
    built = bench.built(dense(bench.folder / "dense.onnx"), settings)
    assert built.options["optimization_level"] == "5"
    assert built.options["workspace_bytes"] == str(64 << 20)


def test_a_file_of_fp16_is_built_in_fp16(bench: Bench) -> None:
    file = dense(bench.folder / "dense.onnx", type_name="float16")
    assert bench.built(file, FOR_86, precision="fp16").options["types"] == "strongly typed"


def test_int8_comes_from_quantize_nodes(bench: Bench) -> None:
    file = quantised(bench.folder / "int8.onnx", np.int8(0))
    bench.built(file, FOR_86, precision="int8")
    assert bench.engine.exists()


def test_fp8_is_for_devices_that_have_it(bench: Bench) -> None:
    file = quantised(bench.folder / "fp8.onnx", FP8_ZERO)
    said = refusal(bench, file, precision="fp8")
    assert "compute capability 8.6, has no fp8: it begins with 8.9" in said
    bench.built(file, BuildSettings(compute_capability="8.9"), precision="fp8")
    assert bench.engine.exists()


def test_a_type_that_the_device_lacks_is_refused_by_the_builder_too(bench: Bench) -> None:
    file = quantised(bench.folder / "fp8.onnx", FP8_ZERO)
    assert "this device has no fp8_e4m3" in refusal(bench, file, precision="fp32")


def test_a_file_without_the_types_of_the_precision_is_refused(bench: Bench) -> None:
    file = dense(bench.folder / "dense.onnx")
    said = refusal(bench, file, precision="int8")
    assert "takes int8 from the file, which has no scales; give a file with Quantize" in said
    said = refusal(bench, file, precision="bf16")
    assert "no tensor of the file is bf16" in said


def test_an_open_batch_is_built_for_a_range(bench: Bench) -> None:
    file = dense(bench.folder / "dense.onnx", shape=("batch", 8))
    said = refusal(bench, file)
    assert "the dimensions of x are open, and no range is given for them" in said
    ranges = {"x": ShapeRange(least=(1, 8), usual=(4, 8), most=(16, 8))}
    bench.built(file, BuildSettings(compute_capability="8.6", ranges=ranges))
    assert bench.engine.exists()


@pytest.mark.parametrize(
    ("least", "usual", "most"),
    [
        ((4, 8), (1, 8), (16, 8)),  # not in order
        ((1, 9), (4, 9), (16, 9)),  # another fixed dimension
        ((1,), (4,), (16,)),  # too few dimensions
    ],
)
def test_a_range_that_cannot_be_is_refused(
    bench: Bench, least: tuple[int, ...], usual: tuple[int, ...], most: tuple[int, ...]
) -> None:
    file = dense(bench.folder / "dense.onnx", shape=("batch", 8))
    ranges = {"x": ShapeRange(least=least, usual=usual, most=most)}
    said = refusal(bench, file, BuildSettings(compute_capability="8.6", ranges=ranges))
    assert f"'x' of shape [-1, 8] (-1: open) cannot be {list(least)} to {list(most)}" in said


def test_an_operator_that_it_lacks_is_named(bench: Bench) -> None:
    file = save(
        bench.folder / "odd.onnx",
        [
            helper.make_node("Odd", ["x"], ["h"], domain="own"),
            helper.make_node("Unique", ["h"], ["y"]),
        ],
        {},
        domains=("own",),
    )
    said = refusal(bench, file)
    assert "has no operator Odd (@0@), operator Unique (@1@)" in said
    assert "--engine ort" in said


def test_types_that_do_not_fit_are_named(bench: Bench) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    file = save(bench.folder / "types.onnx", nodes, {"w": np.ones(1, np.float16)})
    said = refusal(bench, file)
    assert "@0@: ElementWiseOperation SUM must have same input types" in said
    assert ".cpp" not in said


def test_shapes_that_do_not_fit_are_named(bench: Bench) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    file = save(bench.folder / "shapes.onnx", nodes, {"w": np.zeros((4, 3), np.float32)})
    assert "last dimension of input0 = 8 and second to last dimension of input1 = 4" in refusal(
        bench, file
    )


def test_numbers_with_a_zero_point_are_refused_as_it_says(bench: Bench) -> None:
    file = quantised(bench.folder / "uint8.onnx", np.uint8(128))
    assert "Non-zero zero point is not supported" in refusal(bench, file, precision="int8")


def test_a_workspace_that_is_too_small_is_said(bench: Bench) -> None:
    settings = BuildSettings(compute_capability="8.6", workspace_bytes=0)
    said = refusal(bench, dense(bench.folder / "dense.onnx"), settings)
    assert "the workspace is too small; give the builder more workspace" in said


def test_a_card_that_this_builder_does_not_know_is_refused_with_those_it_does(
    bench: Bench,
) -> None:
    said = refusal(
        bench, dense(bench.folder / "dense.onnx"), BuildSettings(compute_capability="8.7")
    )
    assert "builds for SM75, SM80, SM86, SM89" in said
    assert "not for compute capability 8.7" in said
    said = refusal(
        bench, dense(bench.folder / "dense.onnx"), BuildSettings(compute_capability="orin")
    )
    assert "'orin' is not a compute capability; write it as 8.6" in said


def test_it_has_no_dla(bench: Bench) -> None:
    settings = BuildSettings(compute_capability="8.6", dla_core=0)
    file = dense(bench.folder / "dense.onnx", type_name="float16")
    assert "TensorRT for RTX 1." in refusal(bench, file, settings, precision="fp16")


def test_progress_is_announced_and_never_falls(bench: Bench) -> None:
    bench.built(dense(bench.folder / "dense.onnx"), FOR_86)
    shares = [int(text.rpartition(" ")[2].rstrip("%")) for text in bench.told]
    assert len(shares) > 20
    assert shares == sorted(shares)
    assert shares[0] < 20
    assert 80 < shares[-1] <= 100
    assert bench.told[0].startswith("building small × 1 fp32, tensorrt: ")


def test_what_an_announcement_raises_ends_the_build(bench: Bench) -> None:
    def interrupted(_now: str) -> None:
        raise KeyboardInterrupt

    bench.tell = interrupted
    with pytest.raises(KeyboardInterrupt):
        bench.built(dense(bench.folder / "dense.onnx"), FOR_86)
    assert not bench.engine.exists()


def test_the_timing_cache_is_kept(bench: Bench) -> None:
    """TensorRT for RTX keeps no times in it, and without a card does not read its own file."""
    file = dense(bench.folder / "dense.onnx")
    first = bench.built(file, FOR_86)
    cache = bench.into / "timing.cache"
    kept = cache.read_bytes()
    second = bench.built(file, FOR_86)
    assert (first.timing_cache, second.timing_cache) == ("new", "new")
    assert any("timing cache" in remark for remark in second.remarks)
    assert cache.read_bytes() == kept
    cache.write_bytes(b"damaged")
    assert bench.built(file, FOR_86).timing_cache == "new"
    assert cache.read_bytes() == kept


def test_an_engine_that_cannot_be_written_leaves_the_old_one(bench: Bench) -> None:
    bench.into.mkdir()
    bench.engine.write_bytes(b"old")
    file = save(
        bench.folder / "odd.onnx", [helper.make_node("Odd", ["x"], ["y"], domain="own")], {},
        domains=("own",),
    )  # fmt: skip
    with pytest.raises(MeasurementError):
        bench.built(file, FOR_86)
    assert bench.engine.read_bytes() == b"old"


def test_bf16_is_built_from_a_file_of_it(bench: Bench) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT),
    ]
    bench.built(save(bench.folder / "bf16.onnx", nodes, {}), FOR_86, precision="bf16")


def test_layers_of_the_real_parser_are_found_by_the_nodes_that_they_are(bench: Bench) -> None:
    """TensorRT for RTX has no DLA, but its parser names and adds layers as TensorRT's does."""
    tensorrt = load_bindings()
    node = helper.make_node
    nodes = [
        node("Gemm", ["x", "w"], ["a"], transB=1),
        node("Relu", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["c"]),
        node("Add", ["c", "s"], ["d"]),
        node("Softmax", ["d"], ["y"]),
    ]
    stored = {"w": np.eye(8, dtype=np.float32), "s": np.float32(2.0)}
    save(bench.folder / "net.onnx", nodes, stored)
    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(0)
    assert tensorrt.OnnxParser(network, logger).parse_from_file(str(bench.folder / "net.onnx"))
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    layers = [layer for layer in layers if layer.type != tensorrt.LayerType.CONSTANT]
    stretches = ((0,), (1,), (2,), (3,), (4,))
    found = [{layer.name for layer in layers_of_nodes(layers, each, "net")} for each in stretches]
    # Each layer is of one node, also those that the parser adds.
    assert sum(map(len, found)) == len(layers) > len(nodes)
    assert set.union(*found) == {layer.name for layer in layers}
    for number, names in enumerate(found):
        assert any(name.startswith(f"@{number}@") for name in names)


def test_an_engine_of_both_is_refused_by_a_builder_without_a_dla(bench: Bench) -> None:
    settings = BuildSettings(compute_capability="8.6", dla_core=0, dla_nodes=(0,))
    said = refusal(bench, dense(bench.folder / "dense.onnx"), settings, precision="fp16")
    assert said.startswith("TensorRT for RTX 1.")
    assert "cannot build for a DLA; leave the DLA out" in said


def test_a_device_before_ampere_has_no_bf16(bench: Bench) -> None:
    settings = BuildSettings(compute_capability="7.5")
    said = refusal(bench, dense(bench.folder / "dense.onnx"), settings, precision="bf16")
    assert "compute capability 7.5, has no bf16: it begins with 8.0" in said


def test_a_run_of_builds_has_rows_of_the_real_builder(bench: Bench) -> None:
    """Two trials as the measuring process does them: one is built, the other a row with why not."""
    machine, mode = identify(), core_count_mode(1)
    probe = find_engine("tensorrt").probe()
    assert (probe.version or "").startswith("rtx-1.")
    assert probe.providers is None  # nothing can run: there is no GPU, or no package to call it by
    good = make_trial(dense(bench.folder / "dense.onnx"), FOR_86)
    half = make_trial("dense.onnx", FOR_86, precision="fp16", engine_file="half.engine")
    plan = make_plan(BuildPlan, machine, mode, (good, half), probe.versions, None)
    job = Job(plan=plan, missing=tuple(each.trial_id for each in plan.trials), read_back=mode)
    bench.into.mkdir()
    measurer = LocalMeasurer(files=bench.folder, outputs=bench.into)
    rows = [each.row for each in measurer(job) if isinstance(each, Row)]
    built, refused = rows
    assert isinstance(built, EngineBuild)
    assert isinstance(refused, EngineBuild)
    assert built.failure is None
    assert built.device == "compute capability 8.6"
    assert built.engine_version == probe.version
    assert built.engine_bytes == (bench.into / built.engine_file).stat().st_size
    assert built.timing_cache == "new"
    assert refused.failure is not None
    assert "no tensor of the file is fp16" in refused.failure
    assert refused.engine_bytes is None
    assert not (bench.into / refused.engine_file).exists()
