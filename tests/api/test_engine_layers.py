"""Layers of an engine from files of tools, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from mansard import api
from mansard.analytics.models.layers.roofs import PeakKey
from mansard.core.errors import InputError, UsageError
from tests.analytics.engine_cases import residual_network
from tests.documents.given import make_given

PEAKS: dict[PeakKey, float] = {("fp32", "fma"): 5e12, ("fp16", "tensor"): 20e12}


@pytest.fixture
def engine(tmp_path: Path) -> tuple[Path, Path]:
    """A profile and the graph of the same engine: AlexNet's first layers."""
    for name in ("profile.json", "graph.json"):
        make_given(name, tmp_path / name)
    return tmp_path / "profile.json", tmp_path / "graph.json"


def ort_event(
    name: str, op: str, us: int, reads: list[list[int]], writes: list[int]
) -> dict[str, object]:
    """A node's event as ONNX Runtime 1.8 and later write it."""
    args = {
        "op_name": op,
        "provider": "CPUExecutionProvider",
        "node_index": "0",
        "parameter_size": "2304" if len(reads) > 1 else "0",
        "input_type_shape": [{"float": shape} for shape in reads],
        "output_type_shape": [{"float": writes}],
    }
    return {"cat": "Node", "ts": 1, "dur": us, "name": f"{name}_kernel_time", "args": args}


def test_a_profile_and_its_graph_by_hand(engine: tuple[Path, Path]) -> None:
    profile, graph = engine
    (result,) = api.layers(
        "alexnet", profile=profile, description=graph, peaks=PEAKS, bandwidth=1e11
    )
    assert (result.batch, result.precision, result.source) == (1, "fp16", "published")
    conv = next(row for row in result.layers if row.name == "Conv_0 + Relu_1")
    # 64 · 55 · 55 = 193,600 results of 3 · 11 · 11 = 363 multiply-adds, with bias and Relu more.
    # In fp16: 2 · (150,528 read + 193,600 written + 23,232).
    assert conv.traffic_bytes == 2 * (150_528 + 193_600 + 23_232)
    assert conv.work_flop is not None
    assert conv.work_flop >= 2 * 193_600 * 363
    assert conv.operators[0] == "Conv"
    assert (conv.joined_by, conv.peak) == ("shapes", "fp16 tensor")
    assert conv.time_s == pytest.approx(0.18e-3)
    # 0.02 of 0.25 ms are the reformat.
    assert result.reformat_share == pytest.approx(0.08)
    assert result.joined_share == pytest.approx(0.92)


def test_the_profile_alone_is_joined_by_a_guess(engine: tuple[Path, Path]) -> None:
    (result,) = api.layers("alexnet", profile=engine[0])
    assert result.guessed_share == result.joined_share == pytest.approx(0.92)
    assert result.roofs_source is None


def test_profiles_of_onnx_runtime_are_told_by_their_content(tmp_path: Path) -> None:
    wide = [1, 8, 16, 16]
    events = [
        ort_event("ra_nchwc", "Conv", 40, [wide, [8, 8, 3, 3]], wide),
        ort_event("td_nchwc", "Conv", 12, [wide, [8, 8, 1, 1]], wide),
        ort_event("rs_nchwc", "Conv", 44, [wide, [8, 8, 3, 3], wide], wide),
        ort_event("pool", "GlobalAveragePool", 4, [wide], [1, 8, 1, 1]),
    ]
    head = {"cat": "Session", "dur": 1, "ts": 0, "name": "model_loading_uri", "args": {}}
    profile, model = tmp_path / "any.json", tmp_path / "net.onnx"
    profile.write_text(json.dumps([head, *events]))
    model.write_bytes(residual_network())
    (result,) = api.layers(model, profile=profile, peaks=PEAKS, bandwidth=1e10)
    assert result.joined_share == 1
    first = next(row for row in result.layers if row.name == "ra_nchwc")
    assert (first.nodes, first.time_s) == ((0, 1), 40e-6)
    # 8,192 read, 8,192 written, 576 · 4 of weights.
    assert (first.traffic_bytes, first.traffic_of) == (18_688, "engine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is of no tool's layers"),
        ('[{"count": 1}, {"name": "a", "averageMs": NaN}]', "is not a whole file of trtexec"),
        ('[{"count": 1}, {"name": "a", "averageMs": "1"}]', "is not a whole file of trtexec"),
        ('[{"count": 1}, {"name": "a", "averageMs": -1}]', "layer a has a time of -0.001 s"),
        ('[{"count": 1}, {"name": "a", "averageMs": 1e999}]', "is not a whole file of trtexec"),
        ('[{"count": 1}]', "holds no layer"),
        ('[{"count": 1}, {"name": "a", "averageMs": 1', "is not a whole file of trtexec"),
    ],
)
def test_damaged_profiles_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        api.layers("alexnet", profile=path)


def test_names_with_control_characters_are_shown_safely(tmp_path: Path) -> None:
    path, page = tmp_path / "profile.json", tmp_path / "page.html"
    name = "Conv\x1b[2J<script>alert(1)</script>"
    path.write_text(json.dumps([{"count": 1}, {"name": name, "averageMs": 1}]))
    result = api.layers("alexnet", profile=path)
    api.write_layers_page(result, page)
    text = page.read_text("utf-8")
    assert "<script>alert" not in text
    assert "\x1b" not in text


def test_a_graph_of_another_engine_is_refused(engine: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"Layers": [{"Name": "other"}]}')
    with pytest.raises(InputError, match="describes none of the layers of the profile"):
        api.layers("alexnet", profile=engine[0], description=other)


def test_what_does_not_go_together_is_refused(engine: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--graph needs a profile"):
        api.layers("alexnet", description=engine[1])
    with pytest.raises(UsageError, match="roofs need peaks and a bandwidth"):
        api.layers("alexnet", profile=engine[0], bandwidth=1e9)
    with pytest.raises(UsageError, match="--mode needs a device"):
        api.layers("alexnet", profile=engine[0], mode="15W")
    with pytest.raises(InputError, match="there is no such folder"):
        api.layers("alexnet", runs=[tmp_path / "runs"])


def test_a_batch_that_the_network_does_not_have_is_noted(
    engine: tuple[Path, Path], tmp_path: Path
) -> None:
    graph, model = tmp_path / "graph.json", tmp_path / "net.onnx"
    graph.write_text(engine[1].read_text().replace("[1,", "[8,"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 512))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 512))
    shape = helper.make_tensor("shape", TensorProto.INT64, (2,), (1, 512))
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    made = helper.make_model(helper.make_graph(nodes, "fixed", [x], [y], [shape]))
    model.write_bytes(made.SerializeToString())
    (result,) = api.layers(model, profile=engine[0], description=graph)
    assert result.batch == 1
    assert result.notes[0].startswith("the engine is for batch 8, the network is not")
