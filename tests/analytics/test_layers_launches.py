"""Launches of Nsight Compute as layers: a network of two layers by hand, and recorded exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from onnx import TensorProto, helper
from recorded.counted_networks import Network, attention, deeponet, flash_attention

from mansard import api
from mansard.analytics.models.layers.roofs import PeakKey
from mansard.analytics.models.layers.rows import RoofedLayer, RoofedLayers
from mansard.analytics.pages.figures.engine_layers import layer_title
from mansard.analytics.pages.tables.engine_layers import engine_layer_table, engine_layer_words
from mansard.core.errors import InputError, UsageError
from tests.analytics.ncu_exports import FIXED, SASS

PEAKS: Mapping[PeakKey, float] = {("fp32", "fma"): 1e12, ("fp16", "tensor"): 8e12}
BANDWIDTH = 1e11
METRICS = {
    "gpu__time_duration.sum": "ns",
    SASS.format("ffma"): "inst",
    SASS.format("fadd"): "inst",
    SASS.format("fmul"): "inst",
    "sm__inst_executed_pipe_tensor.sum": "inst",
    "dram__bytes_read.sum": "byte",
    "dram__bytes_write.sum": "byte",
}
RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
# up: 256 · 64 · 128 multiply-adds, 4,194,304 FLOP. Reads 4 · (256 · 64 + 64 · 128) = 98,304 bytes,
# writes 4 · 256 · 128 = 131,072. down: as many, 131,072 + 32,768 read and 65,536 written.
UP, DOWN = ("fancy_sgemm", 2_097_152, 98_304, 131_072), ("fancy_sgemm", 2_097_152, 163_840, 65_536)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x of 256 × 64 → up → Relu → down, in fp32; 128 and 64 columns."""
    stored = [
        TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT)
        for name, dims in (("wu", (64, 128)), ("wd", (128, 64)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "wu"], ["u"], "up"),
        helper.make_node("Relu", ["u"], ["r"], "up_relu"),
        helper.make_node("MatMul", ["r", "wd"], ["y"], "down"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (256, 64))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (256, 64))
    graph = helper.make_graph(nodes, "two", [x], [y], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "two.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def export(
    path: Path,
    launches: Sequence[tuple[str, float, float, float]],
    ranges: Sequence[str] = (),
    *,
    time_ns: int = 10_000,
) -> Path:
    """A raw page; a launch is a kernel, its multiply-adds, and bytes read and written."""
    head = [*FIXED, "CC", *([RANGES] if ranges else []), *METRICS]
    lines = [head, [""] * (len(head) - len(METRICS)) + list(METRICS.values())]
    for at, (kernel, multiply_adds, read, write) in enumerate(launches):
        named = [f"1  {ranges[at]}" if ranges[at] else ""] if ranges else []
        counts = (time_ns, multiply_adds, 0, 0, 0, read, write)
        place = [str(at), "7", "python", "host", kernel, "1", "7", "8.0"]
        lines.append([*place, *named, *map(str, counts)])
    quoted = ("|".join(line) for line in lines)
    rows = [[cell.replace('"', '""') for cell in line.split("|")] for line in quoted]
    path.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    return path


def within(name: str) -> str:
    """A cell of NVTX ranges: one range of the default domain."""
    return f'"<default domain>:{name}:none:none:none:none:none:none"' if name else ""


def layers(model: Path, profile: Path) -> RoofedLayers:
    given = {"peaks": PEAKS, "bandwidth": BANDWIDTH, "launch_s": 1e-6}
    (result,) = api.layers(model, profile=profile, **given)  # type: ignore[arg-type]
    return result


def by_index(result: RoofedLayers) -> list[RoofedLayer]:
    return sorted(result.layers, key=lambda row: row.index)


def test_ranges_name_the_nodes_and_counts_stand_beside_scores(model: Path, tmp_path: Path) -> None:
    # The second product runs as two kernels: 1.5 times its multiply-adds in sum.
    launches = [UP, ("a_gemm", 2_097_152, 163_840, 0), ("b_sum", 1_048_576, 0, 65_536)]
    names = [within("up + up_relu"), within("down"), within("down")]
    result = layers(model, export(tmp_path / "x.csv", launches, names))
    up, down = by_index(result)
    assert (up.name, up.nodes, up.joined_by) == ("up + up_relu", (0, 1), "names")
    # 4,194,304 of the product and 256 · 128 of the Relu are scored, the product alone is counted.
    assert (up.work_flop, up.work_of, up.counted_flop) == (4_227_072, "nodes", 4_194_304)
    assert (up.traffic_bytes, up.traffic_of, up.estimated_bytes) == (229_376, "counted", 229_376)
    # 229,376 bytes at 1e11 are 2.29 µs of 10 µs, 4.2 MFLOP at 1e12 4.23 µs.
    assert up.roof_s == pytest.approx(4.227072e-6)
    assert (up.bound, up.remark) == ("compute", "")
    assert (down.nodes, down.kernel) == ((2,), "a_gemm")
    assert down.time_s == pytest.approx(2e-5)
    assert (down.counted_flop, down.remark) == (6_291_456, "counted 1.5 times its scored FLOP")
    assert (result.joined_share, result.guessed_share) == (1, 0)
    assert "Bytes of 2 engine layers were counted, not estimated." in engine_layer_words(result)


def test_labels_of_the_program_that_counts_are_traced(model: Path, tmp_path: Path) -> None:
    names = [within("@0@ + @1@"), within("@2@")]
    up, down = by_index(layers(model, export(tmp_path / "x.csv", [UP, DOWN], names)))
    assert (up.name, up.nodes, up.joined_by) == ("up + up_relu", (0, 1), "traced")
    assert (down.nodes, down.joined_by) == ((2,), "traced")


def test_labels_of_another_network_join_nothing(model: Path, tmp_path: Path) -> None:
    names = [within("@0@"), within("@41@")]
    result = layers(model, export(tmp_path / "x.csv", [UP, DOWN], names))
    assert (result.joined_share, result.lost_share) == (0, 1)
    assert any("it is another network" in note for note in result.notes)


def test_a_launch_beside_ranges_keeps_its_time_and_a_reason(model: Path, tmp_path: Path) -> None:
    launches = [UP, ("memset", 0, 0, 4_096), DOWN]
    names = [within("up"), within("train step"), within("down")]
    result = layers(model, export(tmp_path / "x.csv", launches, names))
    alone = by_index(result)[1]
    assert (alone.name, alone.nodes) == ("memset", ())
    assert alone.time_s == pytest.approx(1e-5)
    assert alone.remark == "no NVTX range around it names nodes"
    assert (alone.work_flop, alone.work_of) == (0, "counted")
    # 4,096 bytes at 1e11.
    assert alone.roof_s == pytest.approx(4.096e-8)
    assert alone.bound == "memory"
    assert alone.unknown["estimated_bytes"] == "no NVTX range around it names nodes"
    assert result.lost_share == pytest.approx(1 / 3)


def test_ranges_of_several_calls_are_noted(model: Path, tmp_path: Path) -> None:
    names = [within("up"), within("down")] * 2
    result = layers(model, export(tmp_path / "x.csv", [UP, DOWN] * 2, names))
    assert "ranges of nodes come several times: the export may hold several calls" in result.notes
    assert result.joined_share == pytest.approx(0.5)


def test_calls_in_ranges_are_told_apart(model: Path, tmp_path: Path) -> None:
    names = [
        f"{within(f'mansard call {call}')}  {within(node)}"
        for call in (0, 1)
        for node in ("up", "down")
    ]
    result = layers(model, export(tmp_path / "x.csv", [UP, DOWN] * 2, names))
    assert (result.joined_share, len(result.layers)) == (1, 2)
    assert "the last of 2 calls is shown" in result.notes


def test_without_ranges_the_order_and_counts_are_a_guess(model: Path, tmp_path: Path) -> None:
    launches = [("fill", 0, 0, 512), UP, ("relu", 32_768, 131_072, 131_072), DOWN]
    result = layers(model, export(tmp_path / "x.csv", launches))
    fill, *rest = by_index(result)
    assert fill.remark == "no layer of the network has its place in the order and its size"
    assert [row.nodes[:1] for row in rest] == [(0,), (1,), (2,)]
    assert {row.joined_by for row in rest} == {"order"}
    assert all("a guess" in row.remark for row in rest)
    assert result.guessed_share == result.joined_share == pytest.approx(3 / 4)


def test_without_ranges_other_work_joins_nothing(model: Path, tmp_path: Path) -> None:
    # Each product counts 8 times the work: the order alone is no proof.
    launches = [(kernel, 8 * n, read, write) for kernel, n, read, write in (UP, DOWN)]
    result = layers(model, export(tmp_path / "x.csv", launches))
    first = by_index(result)[0]
    assert (first.nodes, first.work_of, first.work_flop) == ((), "counted", 33_554_432)
    # 33.6 MFLOP at 1e12 in fp32 take 33.6 µs; the launch took 10.
    assert first.peak == "fp32"
    assert first.roof_s == pytest.approx(3.3554432e-5)
    assert "faster than its roof" in first.remark
    (note,) = [note for note in result.notes if "no launch is joined" in note]
    assert "agree for 0.0% of the network's multiply-adds" in note
    assert result.lost_share == 1


def test_what_was_not_counted_is_unknown_with_its_reason(model: Path, tmp_path: Path) -> None:
    path = export(tmp_path / "x.csv", [UP, DOWN])
    text = path.read_text().replace("dram__bytes_write", "some__bytes_write")
    path.write_text(text.replace(SASS.format("fadd"), "some_add.sum"))
    first = by_index(layers(model, path))[0]
    assert (first.work_flop, first.work_of, first.counted_flop) == (None, "unknown", None)
    assert "fp32 instructions of CUDA cores were not counted" in first.unknown["counted_flop"]
    assert (first.traffic_bytes, first.traffic_of) == (None, "unknown")
    assert first.unknown["traffic_bytes"]
    assert first.unknown["gap_s"] == first.unknown["work_flop"]


def test_kernels_are_shown_without_their_templates(model: Path, tmp_path: Path) -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::GeluCUDAKernelImpl<float>>(int)"
    result = layers(model, export(tmp_path / "x.csv", [(name, 0, 8, 8)]))
    assert layer_title(result.layers[0], 80) == "vectorized_elementwise_kernel (Gelu)"
    hostile = layers(model, export(tmp_path / "y.csv", [("k\x1b[2J", 0, 8, 8)]))
    assert "\x1b" not in str(engine_layer_table(hostile))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"ID","Kernel Name","gpu__time_duration.sum"\n', "holds no kernel launch"),
        ('"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n"0","k","-5"\n', "'-5'"),
        ('"ID","Kernel Name","gpu__time_duration.sum"\n"","","ns"\n"0","k","1e99"\n', "1e99"),
        ("NVR\0", "is a report or an archive"),
    ],
)
def test_damaged_exports_are_one_line(model: Path, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        api.layers(model, profile=path)


def test_an_export_has_no_description(model: Path, tmp_path: Path) -> None:
    path = export(tmp_path / "x.csv", [UP])
    with pytest.raises(UsageError, match="an export of Nsight Compute has no description"):
        api.layers(model, profile=path, description=path)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("build", "name", "share"),
    [
        (deeponet, "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv", 0.967),
        (attention, "leleucas__A100_bert_attention_torch_fp32_ncu_long.csv", 0.868),
        # Half of its time are kernels that make random weights.
        (flash_attention, "leleucas__A100_bert_attention_flashattn_fp16_ncu_long.csv", 0.486),
    ],
)
def test_recorded_exports_of_their_networks(
    shared_data: Path, tmp_path: Path, build: object, name: str, share: float
) -> None:
    assert callable(build)
    net, output = build()
    assert isinstance(net, Network)
    path = tmp_path / "net.onnx"
    path.write_bytes(net.file(output))
    result = layers(path, shared_data / "ncu" / name)
    assert result.joined_share == pytest.approx(share, abs=5e-4)
    assert result.guessed_share == result.joined_share
    assert result.joined_work_share == 1


@pytest.mark.shared_data
@pytest.mark.parametrize("network", ["resnet18", "vgg16", "lstm"])
def test_recorded_exports_of_other_networks_join_nothing(shared_data: Path, network: str) -> None:
    for path in sorted((shared_data / "ncu").glob("*ncu_*.csv")):
        (result,) = api.layers(network, profile=path)
        assert (result.joined_share or 0, result.joined_work_share) == (0, 0)


def test_counters_that_were_imported_are_shown_beside_measurements(
    model: Path, tmp_path: Path
) -> None:
    names = [within("up + up_relu"), within("down")]
    path, runs = export(tmp_path / "x.csv", [UP, DOWN], names), tmp_path / "runs"
    for network in ("two", "three"):
        origin = api.ExportOrigin(
            citation="A. Author", device="board", mode="15W", network=network, precision="fp32"
        )
        api.import_counters([path], origin, runs=runs)
    (result,) = api.layers(model, runs=[runs], peaks=PEAKS, bandwidth=BANDWIDTH)
    assert (result.device, result.mode, result.source) == ("board", "15W", "published")
    assert result.engine == "Nsight Compute, A. Author; kernels run one by one"
    assert (result.joined_share, len(result.layers)) == (1, 2)
    (without,) = api.layers(model, runs=[runs])
    assert without.roofs_source is None
    with pytest.raises(InputError, match="no measurements of"):
        api.layers(model, runs=[runs], mode="30W")
