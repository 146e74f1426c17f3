"""Profiles of ONNX Runtime: nodes with times, and the faults of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mansard.analytics.data.published.importing import Imported, import_files
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.core.errors import InputError

ORIGIN = PublishedOrigin(device="AGX Orin", processor="cpu", citation="A. Author, 2026")
FIXED = {"mode": "MAXN", "network": "net"}


def node(name: str, us: int, provider: str = "CPUExecutionProvider", op: str = "Add") -> str:
    args = {"op_name": op, "node_index": name[-1], "provider": provider}
    event = {"cat": "Node", "ts": 1, "dur": us, "name": f"{name}_kernel_time", "args": args}
    return json.dumps(event)


def read(folder: Path, *events: str, end: str = "\n]\n") -> tuple[Imported, ...]:
    path = folder / "profile.json"
    head = '{"cat" : "Session","dur" :30779,"ts" :13,"name" :"model_loading_uri","args" : {}}'
    path.write_text("[\n" + ",\n".join((head, *events)) + end)
    (found,) = import_files([path], ORIGIN, fixed=FIXED)
    return found


def layers(found: tuple[Imported, ...]) -> list[tuple[str, float | None]]:
    (one,) = found
    return [(layer.name, layer.median_s) for layer in one.layers]


def test_nodes_have_the_median_of_their_calls(tmp_path: Path) -> None:
    found = read(tmp_path, *(node("Add_0", us) for us in (300, 246, 240)), node("Mul_1", 51))
    assert layers(found) == [("Add_0", 246e-6), ("Mul_1", 51e-6)]
    assert found[0].layers[0].share == pytest.approx(246 / 297)


def test_a_comma_before_a_bracket_is_read_as_it_is_meant(tmp_path: Path) -> None:
    bad = node("Seq_1", 51).replace('{"op_name"', '{"shape": [{"int32": [4096]},], "op_name"')
    found = read(tmp_path, node("Add_0,]", 246), bad, node("Cat_2", 77))
    assert [name for name, _ in layers(found)] == ["Add_0,]", "Seq_1", "Cat_2"]
    assert "#10974" in found[0].notes[0]


@pytest.mark.parametrize("end", [",\n", "", ',\n{"cat" : "Node","dur" :'])
def test_a_session_that_was_not_ended_is_no_whole_network(tmp_path: Path, end: str) -> None:
    with pytest.raises(InputError, match=r"session was not ended \(microsoft/onnxruntime#10975"):
        read(tmp_path, node("Add_0", 246), node("Mul_1", 51), end=end)


def test_a_million_events_are_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    event = '{"cat":"Session","name":"model_run"}'
    path.write_text("[" + ",".join([event] * 1_000_000) + "]")
    with pytest.raises(InputError, match="is incomplete: it holds 1,000,000 events"):
        import_files([path], ORIGIN, fixed=FIXED)


def test_nodes_on_a_gpu_have_the_time_of_their_kernels(tmp_path: Path) -> None:
    kernel = json.dumps({"cat": "Kernel", "ts": 2, "dur": 900, "name": "gemm", "args": {}})
    cuda = "CUDAExecutionProvider"
    found = read(tmp_path, node("Gemm_0", 20, cuda), kernel, node("Add_1", 15, cuda))
    assert layers(found) == [("Gemm_0", 900e-6), ("Add_1", None)]
    assert "1 nodes on a GPU have no time" in found[0].notes[0]


def test_a_profile_without_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no layer"):
        read(tmp_path)


@pytest.mark.shared_data
def test_the_recorded_faults(shared_data: Path) -> None:
    folder = shared_data / "cases/09"
    if not folder.is_dir():
        pytest.skip("../shared/data/cases is not there")
    ((found,),) = import_files([folder / "profile_tensorseq_comma.json"], ORIGIN, fixed=FIXED)
    assert [layer.median_s for layer in found.layers] == [
        pytest.approx(us * 1e-6) for us in (246, 51, 77)
    ]
    with pytest.raises(InputError, match="#10975"):
        import_files([folder / "profile_session_not_ended.json"], ORIGIN, fixed=FIXED)


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": [{"name": "a", "cat": "kernel"}]}', "{\n"])
def test_json_of_another_tool_is_said_to_be_that(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is JSON of no tool that is known"):
        import_files([path], ORIGIN, fixed=FIXED)
