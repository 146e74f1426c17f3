"""Files of trtexec, cuDLA and MLPerf that others recorded: all of them import."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from mansard.analytics.data.published.importing import import_files
from mansard.analytics.data.published.origin import PublishedOrigin

pytestmark = pytest.mark.shared_data
ORIGIN = PublishedOrigin(device="Orin_TRT_MaxQ", processor="gpu", citation="SOURCES.md")
MODE = {"mode": "as published"}


def test_every_recorded_file_of_trtexec_is_read(shared_data: Path) -> None:
    paths = sorted((shared_data / "trtexec").iterdir())
    named = [path for path in paths if "README" in path.name]  # it names two networks itself
    others = [path for path in paths if path not in named]
    found = import_files(named, ORIGIN, fixed=MODE)
    found += import_files(others, ORIGIN, fixed=MODE | {"network": "a network"})
    files = zip([*named, *others], found, strict=True)
    kinds = {path.name: [one.kind for one in each if one.rows] for path, each in files}
    assert len(kinds) == 44
    for name, kind in kinds.items():
        if name.endswith(("build.metadata.json", "resnet.metadata.json", "qat.metadata.json")):
            assert kind == [], name  # options of a build and a card: no time
        elif (
            "timing.json" in name
            or "profile.metadata" in name
            or ".log" in name
            or "README" in name
        ):
            assert kind == ["runs"], name
        else:
            assert kind == ["layers"], name
    notes = [note for each in found for one in each for note in one.notes if not one.rows]
    assert all("holds no time" in note or note.startswith("it is of") for note in notes)


def test_recorded_times_are_those_of_the_file(shared_data: Path) -> None:
    (path,) = (shared_data / "trtexec").glob("*A100__fp32__resnet.timing.json")
    (log,) = (shared_data / "trtexec").glob("gwonxhj*run.log")
    ((times,), (run,)) = import_files([path, log], ORIGIN, fixed=MODE | {"network": "resnet"})
    expected = statistics.median(row["computeMs"] for row in json.loads(path.read_text()))
    assert times.runs[0].latency_s == pytest.approx(expected / 1e3, rel=1e-12)
    assert times.runs[0].figures["samples"] == 1600
    assert run.runs[0].latency_s == 0.87793e-3  # its line "GPU Compute Time: … median"
    assert run.runs[0].figures["host_latency_s"] == pytest.approx(0.926514e-3)
    assert run.runs[0].method == (
        "trtexec of TensorRT 10.3.0: median GPU compute time of 3408 queries; transfers on, "
        "spin-wait off, CUDA graph off"
    )


def test_recorded_profiles_have_all_of_their_network(shared_data: Path) -> None:
    stem = shared_data / "trtexec/trex-v10.8.0__A100__fp16__resnet"
    ((profile,), (listed,)) = import_files(
        [Path(f"{stem}.profile.json"), Path(f"{stem}.graph.json")],
        ORIGIN,
        fixed=MODE | {"network": "resnet"},
    )
    assert [layer.name for layer in profile.layers] == [layer.name for layer in listed.layers]
    # resnet18 in ONNX: 20 convolutions, 17 activations, 8 additions, 2 pools, Flatten and Gemm.
    parts = [part.partition("_")[0] for layer in profile.layers for part in layer.parts]
    assert {kind: parts.count(kind) for kind in ("Conv", "Relu", "Add", "MaxPool")} == {
        "Conv": 20,
        "Relu": 17,
        "Add": 8,
        "MaxPool": 1,
    }
    assert sum(layer.share or 0.0 for layer in profile.layers) == pytest.approx(1, abs=1e-4)


def test_recorded_results_of_mlperf(shared_data: Path) -> None:
    folder = shared_data / "benchmarks"
    (log,) = folder.glob("mlcommons*mlperf_log_summary.txt")
    (table,) = folder.glob("mlcommons*perf_power.csv")
    ((run,),) = import_files([log], ORIGIN, fixed=MODE | {"network": "resnet50"})
    assert run.runs[0].latency_s == pytest.approx(909226e-9)
    assert run.runs[0].batch == 1
    ((results,),) = import_files([table], ORIGIN, fixed=MODE)
    (single,) = (
        row
        for row in results.runs
        if row.network == "resnet50" and row.method and "SingleStream" in row.method
    )
    assert single.latency_s is not None
    assert single.latency_s == pytest.approx(run.runs[0].latency_s, rel=0.02)
    assert single.power_w is None or single.remark is not None  # of the wall


def test_a_recorded_language_model_of_mlperf(shared_data: Path) -> None:
    (log,) = (shared_data / "llm").glob("mlcommons*mlperf_log_summary.txt")
    fixed = MODE | {"network": "llama3.1-8b", "precision": "nvfp4"}
    ((imported,),) = import_files([log], ORIGIN, fixed=fixed)
    (run,) = imported.runs
    assert (run.weights, run.precision, run.batch) == ("NVFP4", "fp4", 1)
    # The lines "Mean latency", "Mean First Token latency" and "Mean Time to Output Token", in ns.
    assert run.figures["mean_s"] == pytest.approx(4.089242903)
    assert run.figures["first_token_mean_s"] == pytest.approx(1.385205729)
    assert run.figures["token_mean_s"] == pytest.approx(0.02129163)
    assert run.figures["token_p99_s"] == pytest.approx(0.021964708)


def test_recorded_rails_give_the_energy_of_decode(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "llm/jbecirovski+jetson-llm-maxperf"
    power = folder / "2026-08-12-energy-maxn-q4km-1__power.csv"
    # The command ends at 1786581586.076 s; decode lasts 11.68 s and ends 1.0 s before.
    windows = tmp_path / "windows.csv"
    windows.write_text("start_s,end_s\n1786581573.396,1786581585.076\n")
    fixed = MODE | {"network": "decode", "batch": "1"}
    (imported,), _ = import_files([windows, power], ORIGIN, fixed=fixed)
    (run,) = imported.runs
    # Its author's sum cuts the window to whole samples: 0.1 s of 11.68 s may be missing.
    assert run.figures["energy_j"] == pytest.approx(558.7, rel=0.01)
