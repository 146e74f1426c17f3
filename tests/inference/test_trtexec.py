"""The engine "trtexec": builds, runs and reads, by the real code and a program that stands in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper

from mansard.core.errors import MeasurementError, SchemaError
from mansard.core.formats.tensorrt import ExportedTensor, version_in
from mansard.core.records import Copies, Measurement
from mansard.core.storage.jsonl import read_rows
from mansard.inference.builds import device_name
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import BuildingEngine, Built, SelfTimingEngine
from mansard.inference.engines.tensorrt.layers import trace
from mansard.inference.engines.trtexec.engine import (
    TRTEXEC,
    TrtexecNetwork,
    call_times,
    read_layers,
    read_profile,
    read_queries,
)
from mansard.inference.engines.trtexec.program import read_printed, shape_option
from mansard.inference.plan import BuildSettings, BuildTrial, NetworkTrial, ShapeRange
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from tests.inference import small_networks, stand_in
from tests.inference.engine_rows import FILE, write_row

pytest.importorskip("onnxruntime")

WIDTH = 8
NODES = [
    helper.make_node("Gemm", ["x", "w"], ["a"]),
    helper.make_node("Relu", ["a"], ["b"]),
    helper.make_node("Softmax", ["b"], ["y"]),
]
WEIGHTS = np.eye(WIDTH, dtype=np.float32)
GIVEN = np.ones((2, WIDTH), np.float32)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for files, and the program that stands in on PATH."""
    (tmp_path / "bin").mkdir()
    stand_in.put_program(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    with stand_in.played("10.3.0"):
        yield tmp_path


def trial(**changes: Any) -> NetworkTrial:
    made = small_networks.trial(
        "net.onnx", small_networks.uniform("x", (2, WIDTH)), engine="trtexec"
    )
    return msgspec.structs.replace(made, provider="tensorrt", engine_file=FILE, **changes)


def built(folder: Path, settings: BuildSettings | None = None, **changes: Any) -> Built:
    settings = settings or BuildSettings()
    batch = "N" if settings.ranges else 2
    small_networks.write(folder / "net.onnx", NODES, {"w": WEIGHTS}, inputs={"x": (batch, WIDTH)})
    of = trial(**changes)
    shared = {
        name: getattr(of, name)
        for name in BuildTrial.__struct_fields__
        if name in NetworkTrial.__struct_fields__ and name != "schema"
    }
    asked = BuildTrial(**shared, settings=settings)
    made = TRTEXEC.build(asked, folder, folder, lambda *_: None)
    write_row(folder, made.options)
    return made


def opened(folder: Path, given: Any = GIVEN, **changes: Any) -> TrtexecNetwork:
    return TRTEXEC.open(trial(**changes), folder, {"x": given})


def test_it_is_an_engine_that_builds_and_times_itself() -> None:
    assert isinstance(find_engine("trtexec"), BuildingEngine)
    assert isinstance(find_engine("trtexec"), SelfTimingEngine)
    assert not isinstance(find_engine("ort"), SelfTimingEngine)
    with pytest.raises(MeasurementError, match="gives no way to call a network"):
        find_engine("trtexec").load(trial(), Path(), {}, 1)


def test_the_program_is_found_and_says_its_version(bench: Path) -> None:
    probe = TRTEXEC.probe()
    assert probe.version is not None
    assert probe.version.startswith("10.3.0")
    assert probe.versions == {"trtexec": probe.version}
    assert probe.providers == ("tensorrt",)


def test_without_the_program_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    probe = TRTEXEC.probe()
    assert probe.providers is None
    assert "there is no trtexec" in probe.unknown["providers"]
    assert "/usr/src/tensorrt/bin" in probe.unknown["providers"]


def test_an_engine_is_built_run_and_timed(bench: Path) -> None:
    made = built(bench)
    assert (bench / FILE).stat().st_size > 0
    assert made.timing_cache == "new"
    assert (made.n_layers, made.dla_share) == (None, None)
    assert made.options == {"types": "weakly typed", "tf32": "off"}
    assert b'"allows_tf32": false' in (bench / FILE).read_bytes()
    assert built(bench, precision="fp16").options["tf32"] == "allowed"
    assert built(bench).timing_cache == "used"
    (bench / "timing.cache").write_bytes(b"cut")
    assert built(bench).timing_cache == "new"
    network = opened(bench)
    try:
        seconds = network.time_calls(5)
        assert len(seconds) == 5
        assert min(seconds) > 0
        assert network.launching == "enqueue"
        assert {name: network.options[name] for name in ("data_transfers", "cuda_graph")} == {
            "data_transfers": "off",
            "cuda_graph": "off",
        }
        layers = network.time_layers(4)
        assert [(layer.name, layer.nodes) for layer in layers] == [
            ("@0@ + @1@", (0, 1)),
            ("@2@", (2,)),
        ]
        assert all(len(layer.seconds_s) == 1 for layer in layers)
    finally:
        network.close()


def test_copies_are_in_the_time_where_they_belong_to_a_call(bench: Path) -> None:
    built(bench)
    # The program copies for 0.25 ms to the device and for 0.5 ms back.
    for copies, least_s in (("in", 0.25e-3), ("out", 0.5e-3), ("both", 0.75e-3)):
        network = opened(bench, copies=copies)
        assert min(network.time_calls(3)) > least_s
        assert network.options["data_transfers"] == "on"
        network.close()


def test_a_graph_is_asked_for(bench: Path) -> None:
    built(bench)
    network = opened(bench, with_graph=True)
    network.time_calls(1)
    assert (network.launching, network.options["cuda_graph"]) == ("graph", "on")
    network.close()


def test_from_11_on_the_defaults_are_said_beside_the_number(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_TRTEXEC", "11.0.0")
    built(bench)
    network = opened(bench)
    network.time_calls(1)
    assert network.launching == "graph"
    assert {
        name: network.options[name] for name in ("data_transfers", "cuda_graph", "spin_wait")
    } == {
        "data_transfers": "off",
        "cuda_graph": "on",
        "spin_wait": "on",
    }
    network.close()
    with pytest.raises(MeasurementError, match="copies nothing in a call"):
        opened(bench, copies="both").time_calls(1)
    with pytest.raises(MeasurementError, match="spins while it waits; use --wait spin"):
        opened(bench, waiting="block").time_calls(1)
    # Its precisions are those of the file: the flag --fp16 is gone.
    assert built(bench, precision="fp16").options["types"] == "strongly typed"


def test_open_dimensions_are_fed_in_their_shape(bench: Path) -> None:
    ranges = ShapeRange(least=(1, WIDTH), usual=(2, WIDTH), most=(4, WIDTH))
    made = built(bench, BuildSettings(ranges={"x": ranges}))
    assert made.options["open"] == "x"
    network = opened(bench, np.ones((3, WIDTH), np.float32))
    assert len(network.time_calls(2)) == 2
    network.close()
    with pytest.raises(MeasurementError, match="not within the range"):
        opened(bench, np.ones((5, WIDTH), np.float32)).time_calls(1)


def test_layers_that_a_dla_lacks_run_on_the_gpu_or_are_refused(bench: Path) -> None:
    made = built(bench, BuildSettings(dla_core=0), precision="fp16")
    assert made.unknown["dla_share"] == "trtexec does not say"
    assert (made.options["dla_core"], made.options["dla_rest"]) == ("0", "on the GPU")
    with pytest.raises(MeasurementError, match="the DLA cannot run all of it alone"):
        built(bench, BuildSettings(dla_core=0, with_fallback=False), precision="fp16")


def test_nodes_are_placed_by_their_names(bench: Path) -> None:
    made = built(bench, BuildSettings(dla_core=0, dla_nodes=(0,)), precision="fp16")
    assert made.options["dla_nodes"] == "0"
    network = opened(bench, precision="fp16")
    try:
        layers = network.time_layers(1)
    finally:
        network.close()
    # The Gemm on the DLA; Relu, which a DLA has, and Softmax on the GPU.
    assert [(layer.name, layer.provider) for layer in layers if layer.nodes] == [
        ("{ForeignNode[@0@...@0@]}", "DLA"),
        ("@1@", "GPU"),
        ("@2@", "GPU"),
    ]
    with pytest.raises(MeasurementError, match="no node of it is any of 7-8, which are for the D"):
        built(bench, BuildSettings(dla_core=0, dla_nodes=(7, 8)), precision="fp16")


def test_what_it_cannot_do_is_one_line(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementError, match="trtexec cannot calibrate int8"):
        built(bench, precision="int8")
    monkeypatch.setenv("STAND_IN_MEMORY_BYTES", "64")
    with pytest.raises(MeasurementError, match="too little memory; close other programs"):
        built(bench)
    assert not (bench / FILE).exists()


def test_a_build_that_is_killed_is_one_line(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_BUILD_DIES", "1")
    with pytest.raises(MeasurementError, match="trtexec was ended by signal 9"):
        built(bench)
    assert not (bench / FILE).exists()


def test_an_engine_of_another_version_is_refused_by_the_program(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(bench)
    monkeypatch.setenv("STAND_IN_TENSORRT", "8.6.2")
    with pytest.raises(MeasurementError, match=r"expecting library version 8\.6\.2 got 10\.3\.0"):
        opened(bench).time_calls(1)


def measured(bench: Path, made: Built) -> Measurement:
    probe = TRTEXEC.probe()
    planned = small_networks.plan(trial())
    planned = msgspec.structs.replace(planned, versions={**planned.versions, **probe.versions})
    device = device_name(planned.gpu, planned.machine)
    size = (bench / FILE).stat().st_size
    version = str(probe.version)
    write_row(bench, made.options, engine_version=version, device=device, engine_bytes=size)
    measurer = LocalMeasurer(files=bench)
    outcome = run_plan(planned, bench / "runs", measurer=measurer)
    (row,) = read_rows(outcome.folder / "measurements.jsonl", Measurement).rows
    return row


@pytest.mark.parametrize(
    ("spoils", "said"),
    [('printf "[{" >', "the times that trtexec exported are cut"), ("rm", "exported no times")],
)
def test_an_export_that_is_cut_or_missing_is_a_row_with_a_failure(
    bench: Path, spoils: str, said: str
) -> None:
    made = built(bench)
    program = bench / "bin" / "trtexec"
    whole = program.rename(bench / "bin" / "whole")
    program.write_text(
        f'#!/bin/sh\n"{whole}" "$@" || exit\n'
        f'for word; do case $word in --exportTimes=*) {spoils} "${{word#*=}}"; esac; done\n'
    )
    program.chmod(0o755)
    row = measured(bench, made)
    assert said in str(row.failure)
    assert row.seconds_s == ()


def test_blocks_of_one_run_can_be_stable(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The plan gives a trial 0.2 s; a run of the program takes longer before its first query.
    monkeypatch.setenv("STAND_IN_START_S", "0.3")
    monkeypatch.setenv("STAND_IN_QUERY_MS", "2")
    row = measured(bench, built(bench))
    assert (row.stability, row.stability_interval) == ("stable", 0)
    # A query is a sample; "brief" asks for 40 in 8 blocks.
    assert row.block == tuple(block for block in range(8) for _ in range(5))
    assert set(row.seconds_s) == {2e-3}
    assert row.options["blocks"] == "parts of one run of trtexec"


@pytest.mark.parametrize(
    ("enqueue_ms", "why"),
    [
        # Queries take 2 ms: the host is slower, as fast within 5 %, faster.
        (
            "2.5",
            "bound by the host (enqueue 2.5 > compute 2 ms); a lower estimate of the GPU's own ",
        ),
        ("1.95", "bound by the host (enqueue 1.95 ≈ compute 2 ms); "),
        ("1.8", ""),
    ],
)
def test_a_host_that_sets_the_pace_is_said_with_the_row(
    bench: Path, monkeypatch: pytest.MonkeyPatch, enqueue_ms: str, why: str
) -> None:
    monkeypatch.setenv("STAND_IN_QUERY_MS", "2")
    monkeypatch.setenv("STAND_IN_ENQUEUE_MS", enqueue_ms)
    row = measured(bench, built(bench))
    assert set(row.seconds_s) == {2e-3}
    assert row.enqueue_time.enqueue_s is not None
    assert set(row.enqueue_time.compute_s or ()) == {2e-3}
    assert row.enqueue_time.enqueue_s[-1] == pytest.approx(float(enqueue_ms) * 1e-3)
    bound = [line for line in row.disturbances if "bound by" in line]
    assert len(bound) == bool(why)
    assert all(line.startswith(why) and line.endswith("is its least, 2 ms") for line in bound)


def test_a_graph_that_the_engine_refuses_is_not_called_one(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_GRAPH_REFUSED", "1")
    built(bench)
    network = opened(bench, with_graph=True)
    network.time_calls(1)
    assert network.launching == "enqueue"
    assert network.options["cuda_graph"].startswith("not possible")
    network.close()


def test_a_network_is_measured_by_the_program(bench: Path) -> None:
    row = measured(bench, built(bench))
    assert row.failure is None
    assert (row.engine, row.provider, row.launching) == ("trtexec", "tensorrt", "enqueue")
    assert row.engine_version == TRTEXEC.probe().version
    assert row.seconds_s
    assert len(row.call_seconds_s) > 1
    assert row.options["times"] == "of the GPU, between events of trtexec"
    assert row.layers is not None
    for name in ("load_s", "first_call_s", "memory_bytes", "profiled_s"):
        assert row.unknown[name] == "trtexec does not say"
    assert row.unknown["energy"] == "trtexec cannot run it in windows of a meter"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v8401] # trtexec", "8.4.1"),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v100300] # trtexec", "10.3.0"),
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # trtexec", "10.13.3"),
        ("[TensorRT v100300+stand-in]", "10.3.0+stand-in"),
        ("TensorRT version: 8.6.2", "8.6.2"),
        ("no version", None),
    ],
)
def test_versions_are_read(text: str, version: str | None) -> None:
    assert version_in(text) == version


def test_messages_and_options_are_read_from_what_is_printed() -> None:
    printed = read_printed(
        "[05/13/2026-12:54:14] [I] Data transfers: Enabled\n"
        "[05/13/2026-12:54:14] [W] [TRT] slow\n"
        "[05/13/2026-12:54:14] [E] Error[1]: broken\n"
        "[I] CUDA Graph: Disabled\n"
        "nothing\n"
    )
    assert (printed.messages.warnings, printed.messages.errors) == (["slow"], ["Error[1]: broken"])
    assert printed.is_on("Data transfers") is True
    assert printed.is_on("CUDA Graph") is False
    assert printed.is_on("Spin-wait") is None


def test_names_that_hold_a_separator_are_quoted() -> None:
    assert shape_option("x", (1, 3)) == "x:1x3"
    assert shape_option("Input:0", (4,)) == "'Input:0':4"


def read_times(path: Path, copies: Copies) -> tuple[float, ...]:
    return call_times(read_queries(path), copies, path)


def test_times_are_with_the_copies_that_were_asked_for(tmp_path: Path) -> None:
    # 1.5 ms on the GPU, 0.25 ms to it and 0.125 ms back.
    path = tmp_path / "times.json"
    path.write_text(
        '[{"h2dMs": 0.25, "computeMs": 1.5, "d2hMs": 0.125, "latencyMs": 1.875, "startEnqMs": 0}]'
    )
    assert read_times(path, "none") == pytest.approx((1.5e-3,))
    assert read_times(path, "in") == pytest.approx((1.75e-3,))
    assert read_times(path, "out") == pytest.approx((1.625e-3,))
    assert read_times(path, "both") == pytest.approx((1.875e-3,))
    path.write_text('[{"computeMs": 0, "latencyMs": 1}]')
    with pytest.raises(SchemaError, match="a query without a time"):
        read_times(path, "none")
    path.write_text('[{"h2dMs": 0.25, "computeMs": 1, "d2hMs": null, "latencyMs": 1}]')
    assert read_times(path, "in") == pytest.approx((1.25e-3,))
    with pytest.raises(SchemaError, match="a query without its copies"):
        read_times(path, "both")
    path.write_text('[{"computeMs": 1')
    with pytest.raises(SchemaError, match="are cut"):
        read_times(path, "none")


def test_a_tensor_says_its_type_in_one_field_or_in_two() -> None:
    old = msgspec.json.decode(b'{"Format/Datatype": "Row major linear FP32"}', type=ExportedTensor)
    new = msgspec.json.decode(
        b'{"Format": "Row major linear format (kLINEAR)", "DataType": "Half"}', type=ExportedTensor
    )
    assert old.format == "Row major linear FP32"
    assert new.format == "Half Row major linear format (kLINEAR)"


@pytest.mark.shared_data
def test_recorded_exports_are_read(shared_data: Path) -> None:
    folder = shared_data / "trtexec"
    times = sorted(folder.glob("*.timing.json"))
    profiles = sorted(folder.glob("*.profile.json"))
    assert len(times) >= 3
    assert len(profiles) >= 8
    for path in times:
        assert min(read_times(path, "none")) > 0
        assert min(read_times(path, "both")) > 0
    for path in profiles:
        layers = read_profile(path, ())
        assert any(layer.seconds_s[0] > 0 for layer in layers)
        copies = [layer for layer in layers if layer.name.startswith("Reformatting CopyNode")]
        assert all(layer.nodes == () for layer in copies)


@pytest.mark.shared_data
def test_recorded_layers_are_read(shared_data: Path) -> None:
    folder = shared_data / "trtexec"
    paths = [*sorted(folder.glob("*.graph.json")), *folder.glob("*engine_info.json")]
    assert len(paths) >= 8
    for path in paths:
        layers = read_layers(path)
        assert layers
        for layer, nodes in zip(layers, trace(layers), strict=True):
            assert nodes in {(), None}  # these networks have no labels
            if layer.name.startswith("Reformatting CopyNode"):
                assert nodes == ()
            elif layer.layer_type == "CaskConvolution":
                assert nodes is None
                assert layer.tactic_name


@pytest.mark.shared_data
def test_recorded_logs_say_what_was_done(shared_data: Path) -> None:
    for path in (shared_data / "trtexec").glob("*trtexec_resnet18*.log"):
        text = path.read_text()
        printed = read_printed(text)
        assert version_in(text) == "10.3.0"
        assert not printed.messages.errors
        said = [printed.is_on(name) for name in ("Data transfers", "Spin-wait", "CUDA Graph")]
        assert said == [True, False, False]
