"""Files that tools write become published rows: what is read, and what is refused and how."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.published.importing import Imported, import_files
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.readers.reader import MOST_TOOL_BYTES, ToolFile
from mansard.analytics.data.published.readers.registry import READERS, recognise
from mansard.analytics.data.published.runs import published_layers
from mansard.analytics.data.published.store import (
    batch_notes,
    published_observations,
    read_published,
    write_published,
)
from mansard.core.errors import InputError, MansardError
from mansard.core.records import PublishedRun

ORIGIN = PublishedOrigin(device="Jetson AGX Orin 64GB", processor="gpu", citation="A. Author, 2026")
FIXED = {"mode": "MAXN", "network": "resnet18"}


def read(
    folder: Path, texts: Mapping[str, str], fixed: Mapping[str, str] = FIXED
) -> list[tuple[Imported, ...]]:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return import_files([folder / name for name in texts], ORIGIN, fixed=fixed)


def one(folder: Path, text: str, fixed: Mapping[str, str] = FIXED) -> Imported:
    ((found,),) = read(folder, {"file": text}, fixed)
    return found


def run_of(found: Imported) -> PublishedRun:
    (run,) = found.runs
    return run


def times(*compute_ms: float, copy_ms: float = 0.0) -> str:
    return json.dumps(
        [
            {"startEnqMs": 1.0, "h2dMs": copy_ms, "computeMs": ms, "d2hMs": 0.0}
            | {"latencyMs": ms + copy_ms}
            for ms in compute_ms
        ]
    )


def test_exported_times_are_a_median_and_a_deviation(tmp_path: Path) -> None:
    run = run_of(one(tmp_path, times(2.0, 1.0, 6.0, 3.0, copy_ms=0.5)))
    assert run.latency_s == pytest.approx(2.5e-3)  # between 2 and 3 ms
    # Mean 3 ms; squares 1 + 4 + 9 + 0 = 14 over 3: 2.1602 ms.
    assert run.figures["deviation_s"] == pytest.approx(2.1602e-3, rel=1e-4)
    assert run.figures["samples"] == 4
    assert run.figures["host_latency_s"] == pytest.approx(3e-3)
    assert run.method is not None
    assert "median GPU compute time of 4 queries; 0.5 ms of copies are not in it" in run.method
    assert (run.mode.name, run.network, run.batch) == ("MAXN", "resnet18", None)


def test_a_high_quantile_is_one_that_was_measured_among_enough(tmp_path: Path) -> None:
    hundred = [float(ms) for ms in range(100, 0, -1)]
    # 99 of the 100 are no longer than 99 ms.
    assert run_of(one(tmp_path, times(*hundred))).figures["p99_s"] == pytest.approx(99e-3)
    assert "p99_s" not in run_of(one(tmp_path, times(*hundred[:99]))).figures


def test_times_of_tensorrt_7_have_other_names(tmp_path: Path) -> None:
    text = (
        '[\n  { "startInMs" : 1, "endInMs" : 2, "inMs" : 0.5, "computeMs" : 4, "outMs" : 0.25,'
        ' "latencyMs" : 4.75, "endToEndMs" : 5 }\n]\n'
    )
    run = run_of(one(tmp_path, text))
    assert run.latency_s == 4e-3
    assert run.method is not None
    assert "TensorRT up to 8.2" in run.method
    assert "0.75 ms of copies" in run.method


PROFILE = """[
  { "count" : 100 }
, { "name" : "Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1", "timeMs" : 10, "averageMs" : 0.1, "medianMs" : 0.09, "percentage" : 10 }
, { "name" : "Conv_0 + Relu_1", "timeMs" : 90, "averageMs" : 0.9, "medianMs" : 0.8, "percentage" : 90 }
]"""  # noqa: E501
LAYERS = json.dumps(
    {
        "Layers": [
            {
                "Name": "Conv_0 + Relu_1",
                "LayerType": "CaskConvolution",
                "Outputs": [{"Format/Datatype": "Channel major FP16 format"}],
                "TacticName": "sm80_xmma_fprop",
            },
            {"Name": "q", "LayerType": "Reformat", "Origin": "QDQ"},
            {"Name": "Conv_0 copy", "LayerType": "Reformat", "Origin": "REFORMAT"},
        ],
        "Bindings": ["input"],
    }
)


def test_a_profile_becomes_layers_and_a_list_of_layers_completes_it(tmp_path: Path) -> None:
    (profile,), (listed,) = read(tmp_path, {"a.profile.json": PROFILE, "a.graph.json": LAYERS})
    copy, conv = profile.layers
    assert (copy.kind, copy.parts) == ("engine", ())
    assert (conv.kind, conv.parts, conv.runs) == ("layer", ("Conv_0", "Relu_1"), 100)
    assert (conv.mean_s, conv.median_s, conv.share) == (0.9e-3, 0.8e-3, 0.9)
    assert conv.unknown["tactic"] == "the file does not say it"
    assert not profile.runs  # the sum of profiled layers is no time of the network
    assert [layer.kind for layer in listed.layers] == ["layer", "layer", "engine"]
    for found in (profile, listed):
        write_published(tmp_path, found)
    published = read_published(tmp_path)
    assert len(published.layers) == 5
    rows = published_layers(published.layers).rows(named=True)
    assert [row["name"][:4] for row in rows] == ["Refo", "Conv"]  # those with times
    assert rows[1]["parts"] == ["Conv_0", "Relu_1"]
    assert (rows[1]["seconds_s"], rows[1]["layer_precision"]) == (0.8e-3, "fp16")
    assert (rows[1]["op_type"], rows[1]["tactic"]) == ("CaskConvolution", "sm80_xmma_fprop")


def test_options_of_a_build_are_said_of_the_same_engine_s_files_alone(tmp_path: Path) -> None:
    build = json.dumps(
        {
            "model_options": {"Model": "models/alexnet.onnx"},
            "build_options": {"Precision": "FP32+FP16"},
        }
    )
    (build_found,), (mine,), (other,) = read(
        tmp_path,
        {"a.build.metadata.json": build, "a.timing.json": times(1.0), "b.timing.json": times(2.0)},
    )
    assert build_found.notes == ("holds no time; it says network alexnet, precision fp16",)
    assert (run_of(mine).precision, run_of(other).precision) == ("fp16", None)
    assert run_of(mine).network == "resnet18"  # what a person says goes first


OPTIONS = """[06/01/2026-10:00:00] [I] === Inference Options ===
[06/01/2026-10:00:00] [I] Batch: Explicit
[06/01/2026-10:00:00] [I] Data transfers: Enabled
[06/01/2026-10:00:00] [I] Spin-wait: Disabled
[06/01/2026-10:00:00] [I] CUDA Graph: Disabled
"""
SUMMARY = """[06/01/2026-10:00:09] [I] Timing trace has 300 queries over 3.0 s
[06/01/2026-10:00:09] [I] === Performance summary ===
[06/01/2026-10:00:09] [I] Throughput: 100 qps
[06/01/2026-10:00:09] [I] Latency: min = 9 ms, max = 12 ms, mean = 10 ms, median = 9.5 ms, percentile(99%) = 11 ms
[06/01/2026-10:00:09] [I] GPU Compute Time: min = 8 ms, max = 11 ms, mean = 9 ms, median = 8.5 ms, percentile(99%) = 10 ms
"""  # noqa: E501


def log(version: str, flags: str, body: str) -> str:
    line = f"TensorRT.trtexec {version}# trtexec --onnx=m/resnet50.onnx {flags}".rstrip()
    return f"&&&& RUNNING {line}\n{body}&&&& PASSED {line}\n"


def test_a_log_says_what_was_timed(tmp_path: Path) -> None:
    run = run_of(
        one(tmp_path, log("[TensorRT v100300] ", "--fp16", OPTIONS + SUMMARY), {"mode": "15W"})
    )
    assert (run.network, run.latency_s) == ("resnet50", 8.5e-3)
    assert run.figures == {
        "samples": 300,
        "p99_s": 10e-3,
        "host_latency_s": 9.5e-3,
        "queries_per_s": 100,
        "least_s": 8e-3,
    }
    assert run.method == (
        "trtexec of TensorRT 10.3.0: median GPU compute time of 300 queries; "
        "transfers on, spin-wait off, CUDA graph off"
    )


@pytest.mark.parametrize(
    ("version", "flags", "expected"),
    [
        ("[TensorRT v8401] ", "", "8.4.1: {}; transfers on, spin-wait off, CUDA graph off"),
        (
            "[TensorRT v8601] ",
            "--noDataTransfers --useSpinWait --useCudaGraph",
            "8.6.1: {}; transfers off, spin-wait on, CUDA graph on",
        ),
        ("[TensorRT v110000] ", "", "11.0.0: {}; transfers off, spin-wait on, CUDA graph on"),
    ],
)
def test_what_is_not_printed_is_the_version_s_default(
    tmp_path: Path, version: str, flags: str, expected: str
) -> None:
    run = run_of(one(tmp_path, log(version, flags, SUMMARY)))
    what = "median GPU compute time of 300 queries"
    assert run.method == f"trtexec of TensorRT {expected.format(what)}"


OLD = """[10/20/2020-19:56:29] [I] Host Latency
[10/20/2020-19:56:29] [I] min: 4.3 ms (end to end 4.4 ms)
[10/20/2020-19:56:29] [I] median: 4.5 ms (end to end 4.6 ms)
[10/20/2020-19:56:29] [I] percentile: 5.4 ms at 99% (end to end 6.1 ms at 99%)
[10/20/2020-19:56:29] [I] throughput: 0 qps
[10/20/2020-19:56:29] [I] Enqueue Time
[10/20/2020-19:56:29] [I] median: 2.6 ms
[10/20/2020-19:56:29] [I] GPU Compute
[10/20/2020-19:56:29] [I] median: 4.4 ms
[10/20/2020-19:56:29] [I] percentile: 5.3 ms at 99%
"""


def test_a_log_of_tensorrt_7(tmp_path: Path) -> None:
    body = "[10/20/2020-19:56:00] [I] Batch: 8\n[10/20/2020-19:56:00] [I] Precision: INT8\n" + OLD
    run = run_of(one(tmp_path, log("", "--int8", body)))
    assert (run.latency_s, run.batch, run.precision) == (4.4e-3, 8, "int8")
    assert run.figures == {"p99_s": 5.3e-3, "host_latency_s": 4.5e-3, "enqueue_s": 2.6e-3}
    assert run.method is not None
    assert "transfers not said" in run.method


def test_a_log_of_tensorrt_5_has_averages_alone(tmp_path: Path) -> None:
    body = "".join(
        f"[I] Average over 10 runs is {ms} ms (host walltime is {ms + 0.25} ms, 99% percentile "
        "time is 9).\n"
        for ms in (5.5, 5.25, 6.0)
    )
    text = f"&&&& RUNNING TensorRT.trtexec # ./trtexec --deploy=a.prototxt --batch=1 --fp16\n{body}"
    run = run_of(one(tmp_path, text, {"mode": "MAXN", "batch": "1"}))
    assert (run.network, run.latency_s, run.precision) == ("a", 5.5e-3, "fp16")
    assert run.figures == {"host_latency_s": 5.75e-3}
    assert run.method is not None
    assert "median of 3 averages of GPU compute times" in run.method


def test_a_log_without_a_summary_of_enqueueing_has_its_averages(tmp_path: Path) -> None:
    averages = "".join(
        "[I] Average on 10 runs - GPU latency: 8.4 ms - Host latency: 8.5 ms "
        f"(end to end 16.8 ms, enqueue {ms} ms)\n"
        for ms in (9.0, 8.75, 9.5)
    )
    run = run_of(one(tmp_path, log("[TensorRT v7103] ", "", averages + SUMMARY)))
    assert run.figures["enqueue_s"] == 9e-3
    assert run.remark == "bound by the host (enqueue 9 > compute 8.5 ms)"


def test_a_graph_that_trtexec_could_not_capture_is_off(tmp_path: Path) -> None:
    body = (
        "[06/01/2026-10:00:09] [I] CUDA Graph: Enabled\n"
        "[06/01/2026-10:00:09] [W] The specified --useCudaGraph flag has been ignored. The\n"
    )
    run = run_of(one(tmp_path, log("[TensorRT v8601] ", "--useCudaGraph", body + SUMMARY)))
    assert run.method is not None
    assert run.method.endswith("CUDA graph off")
    assert run.remark == "CUDA graph refused by the engine"


def test_copies_that_take_as_long_as_computing_are_a_remark(tmp_path: Path) -> None:
    copies = "[I] H2D Latency: min = 8 ms, max = 10 ms, mean = 9 ms, median = 9 ms\n"
    run = run_of(one(tmp_path, log("[TensorRT v8601] ", "", SUMMARY + copies)))
    assert run.remark == "copies of inputs (9 ms) take as long as computing"
    assert run.latency_s == 8.5e-3


@pytest.mark.parametrize(
    "table",
    [
        "Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer\n"
        "[06/01/2026-10:00:09] [I]    90.0       0.9000      0.8000      90.0   Conv_0 + Relu_1\n"
        "[06/01/2026-10:00:09] [I]   100.0       1.0000      0.9000     100.0   Total\n",
        "Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %\n"
        "[06/01/2026-10:00:09] [I]  Conv_0 + Relu_1   90.00   0.9000   0.8000   90.0\n"
        "[06/01/2026-10:00:09] [I]  Total   100.00   1.0000   0.9000   100.0\n",
    ],
)
def test_a_log_with_a_profile_holds_a_run_and_layers(tmp_path: Path, table: str) -> None:
    head = "[06/01/2026-10:00:09] [I] "
    body = f"{SUMMARY}{head}=== Profile (100 iterations ) ===\n{head}{table}"
    ((runs, layers),) = read(tmp_path, {"log": log("[TensorRT v8502] ", "--dumpProfile", body)})
    assert run_of(runs).latency_s == 8.5e-3
    (layer,) = layers.layers
    assert (layer.name, layer.parts) == ("Conv_0 + Relu_1", ("Conv_0", "Relu_1"))
    assert (layer.mean_s, layer.median_s, layer.share, layer.runs) == (0.9e-3, 0.8e-3, 0.9, 100)


def test_counts_that_no_run_has_are_not_read(tmp_path: Path) -> None:
    run = run_of(one(tmp_path, log("", "", SUMMARY.replace("300 q", f"{'9' * 5000} q"))))
    assert run.latency_s == pytest.approx(8.5e-3)
    assert "samples" not in run.figures


def test_two_runs_in_one_log_keep_their_networks(tmp_path: Path) -> None:
    text = log("[TensorRT v8502] ", "", SUMMARY)
    text += text.replace("resnet50", "yolov8n").replace("8.5 ms", "4.25 ms")
    found = one(tmp_path, text, {"mode": "MAXN"})
    assert [(run.network, run.latency_s) for run in found.runs] == [
        ("resnet50", 8.5e-3),
        ("yolov8n", 4.25e-3),
    ]


def test_zeus_windows_have_time_and_energy(tmp_path: Path) -> None:
    text = (
        "start_time,window_name,elapsed_time,gpu0_energy\n"
        "1700000000.0,step,2.0,30.0\n1700000003.0,step,0.05,0.0\n"
        "1700000005.0,step,2.5,0.0\n1700000009.0,st"
    )
    found = one(tmp_path, text, {"mode": "MAXN"})
    first, second, third = found.runs  # the fourth was being written
    assert (first.network, first.latency_s, first.power_w) == ("step", 2.0, 15.0)  # 30 J / 2 s
    assert (second.latency_s, second.power_w) == (0.05, None)
    assert (third.latency_s, third.power_w) == (2.5, None)
    assert found.notes == (
        "1 windows have no energy: they are too short for the counter",
        "1 windows have no energy though they are long: NVML counts none there, as on a Jetson, "
        "whose meter is its INA3221",
        "no model uses 3 times without a batch: import the file with --fixed batch=N",
    )


JTOP = """time,uptime,CPU1,GPU,Temp cpu,Power VDD_SOC,Power TOT,jetson_clocks,nvp model
2026-06-01 10:00:00.000000,1 day,5,99,45.0,9000,10000,OFF,MAXN
2026-06-01 10:00:01.000000,1 day,5,99,45.0,9000,20000,OFF,MAXN
2026-06-01 10:00:03.000000,1 day,5,99,45.0,9000,20000,OFF,MAXN
2026-06-01 10:00:04.000000,1 day,5,99,45.0,9000,6000,OFF,15W
2026-06-01 10:00:06.000000,1 day,5,99,45.0,9000,8000,OFF,15W
"""


def test_a_log_of_jetson_stats_is_the_mean_power_of_each_mode(tmp_path: Path) -> None:
    found = one(tmp_path, JTOP, {"network": "resnet18", "batch": "1"})
    maxn, low = found.runs
    # 15 W over 1 s and 20 W over 2 s: 55 J in 3 s; 7 W over 2 s.
    assert (maxn.mode.name, low.mode.name) == ("MAXN", "15W")
    assert maxn.power_w == pytest.approx(55 / 3)
    assert maxn.figures == pytest.approx(
        {"samples": 3, "duration_s": 3, "energy_j": 55, "peak_w": 20}
    )
    assert low.power_w == pytest.approx(7.0)
    assert low.latency_s is None


LLAMA = {"build_commit": "df46ea53", "build_number": 5099, "backends": "CUDA"} | {
    "model_type": "llama 8B F16",
    "n_prompt": 0,
    "n_gen": 128,
    "avg_ns": 4e9,
    "stddev_ns": 2e7,
    "avg_ts": 32.0,
}


def test_llama_bench_in_its_four_formats(tmp_path: Path) -> None:
    fixed = {"mode": "MAXN"}
    csv = ",".join(LLAMA) + "\n" + ",".join(f'"{value}"' for value in LLAMA.values()) + "\n"
    table = (
        "| model | size | params | backend | ngl | test | t/s |\n"
        "| --- | ---: | ---: | --- | --: | ---: | ---: |\n"
        "| llama 8B F16 | 14.9 GiB | 8.03 B | CUDA | 99 | tg128 | 32.00 ± 0.16 |\n"
        "\nbuild: df46ea53 (5099)\n"
    )
    texts = [json.dumps([LLAMA]), json.dumps(LLAMA) + "\n", csv, table]
    for text in texts:
        run = run_of(one(tmp_path, text, fixed))
        assert (run.network, run.batch, run.precision) == ("llama 8B F16 tg128", 1, "fp16")
        assert run.latency_s == pytest.approx(4.0)  # 128 tokens at 32 a second
        assert run.figures["tokens_per_s"] == 32.0
        assert run.figures["deviation_s"] == pytest.approx(0.02)  # 4 s · 0.16 / 32
    sampled = LLAMA | {"samples_ns": [3.9e9, 4.0e9, 4.4e9]}
    run = run_of(one(tmp_path, json.dumps([sampled]), fixed))
    assert (run.latency_s, run.figures["samples"]) == (4.0, 3)  # the median of three


def test_llama_bench_says_the_format_the_depth_and_the_options(tmp_path: Path) -> None:
    quantised = LLAMA | {"model_type": "llama 8B Q4_K - Medium", "n_depth": 4096}
    quantised |= {"model_size": 4912898304, "model_n_params": 8030261312, "n_batch": 2048}
    quantised |= {"n_ubatch": 512, "type_k": "f16", "type_v": "q8_0", "flash_attn": True}
    csv = ",".join(quantised) + "\n" + ",".join(f'"{x}"' for x in quantised.values()) + "\n"
    for text in (json.dumps([quantised]), csv):
        run = run_of(one(tmp_path, text, {"mode": "MAXN"}))
        assert (run.weights, run.precision) == ("Q4_K_M", "int8")
        assert run.network == "llama 8B Q4_K - Medium tg128 @ d4096"
        expected: dict[str, float] = {
            "generated_tokens": 128,
            "depth_tokens": 4096,
            "concurrency": 1,
        }
        expected |= {"model_size_bytes": 4912898304, "model_parameters": 8030261312}
        expected |= {"n_batch": 2048, "n_ubatch": 512}
        # A block of Q8_0 is 34 bytes of 32 numbers: 8 x 34 / 32 bits each.
        expected |= {"kv_key_bits": 16, "kv_value_bits": 8.5}
        # 4 s of 128 tokens.
        expected |= {"token_s": 0.03125, "decode_tokens_per_s": 32}
        assert expected.items() <= run.figures.items()
        assert "prompt_tokens" not in run.figures
        assert run.method is not None
        assert run.method.endswith("cache of f16/q8_0, flash attention on")
    table = "| model | size | params | test | t/s |\n| llama 1B IQ2_XXS - 2.0625 bpw | 2 GiB |"
    table += " 1.50 B | pp512 @ d32 | 256.00 |\n"
    run = run_of(one(tmp_path, table, {"mode": "MAXN"}))
    assert (run.weights, run.figures["depth_tokens"]) == ("IQ2_XXS", 32)
    assert run.figures["model_size_bytes"] == 2147483648  # 2 x 1024^3
    assert run.figures["model_parameters"] == 1.5e9
    assert run.figures["prefill_tokens_per_s"] == 256


def mlperf(scenario: str, extra: str) -> str:
    rule = "=" * 48
    return (
        f"{rule}\nMLPerf Results Summary\n{rule}\nSUT name : S\nScenario : {scenario}\n"
        f"Mode     : PerformanceOnly\nResult is : VALID\n{extra}\n{rule}\nTest Parameters Used\n"
        f"{rule}\nsamples_per_query : 1\n"
    )


def test_mlperf_s_summaries(tmp_path: Path) -> None:
    single = "50.00 percentile latency (ns)   : 909226\nQPS w/o loadgen overhead : 1096.55"
    run = run_of(one(tmp_path, mlperf("SingleStream", single)))
    assert (run.latency_s, run.batch) == (909226e-9, 1)
    offline = "Samples per second: 6138.84\n50.00 percentile latency (ns) : 3000000000"
    run = run_of(one(tmp_path, mlperf("Offline", offline)))
    assert (run.latency_s, run.batch) == (None, None)  # queries wait in a queue
    assert run.figures == {"samples_per_s": 6138.84}
    of_windows = run_of(one(tmp_path, mlperf("Offline", offline).replace("\n", "\r\n")))
    assert of_windows.figures == run.figures


def test_what_a_file_says_never_reaches_the_terminal_raw(tmp_path: Path) -> None:
    text = mlperf("Offline", "Samples per second: 6").replace("VALID", "\x1b[31mINVALID", 1)
    assert one(tmp_path, text).notes == ("MLPerf says that it is \\x1b[31mINVALID",)


def test_mlperf_s_tables_are_of_the_device_that_is_named(tmp_path: Path) -> None:
    text = (
        "SystemName,Model,Scenario,Result,Units\n"
        "Orin,resnet50,Offline,6138.84,Samples/s\n"
        "Orin,resnet50,SingleStream,0.92,Latency (ms)\n"
        "Xavier,resnet50,Offline,2045,Samples/s\n"
    )
    path = tmp_path / "summary.csv"
    path.write_text(text)
    origin = PublishedOrigin(device="Orin", processor="gpu", citation="MLCommons")
    ((found,),) = import_files([path], origin, fixed={"mode": "MAXN"})
    assert [run.figures for run in found.runs] == [
        {"samples_per_s": 6138.84},
        {"p90_s": pytest.approx(0.92e-3)},
    ]
    with pytest.raises(InputError, match="2 systems; say which, with --device: Orin, Xavier"):
        import_files([path], ORIGIN, fixed={"mode": "MAXN"})


def test_layers_of_a_dla(tmp_path: Path) -> None:
    text = "layer_name,start_ms,end_ms\n'Conv_219 + Bn_220+Relu_221',0.5,1.0\n'Pool_2',1.0,2.5\n"
    conv, pool = one(tmp_path, text).layers
    assert conv.parts == ("Conv_219", "Bn_220", "Relu_221")
    assert (conv.mean_s, pool.share) == (0.5e-3, 0.75)  # 1.5 of 2 ms


def test_times_of_a_tool_that_does_not_say_the_batch_are_in_no_model(tmp_path: Path) -> None:
    found = one(tmp_path, times(2.0, 8.0))
    fix = "without a batch: import the file with --fixed batch=N"
    assert found.notes == (f"no model uses 1 time {fix}",)
    write_published(tmp_path, found)
    published = read_published(tmp_path)
    assert len(published.runs) == 1
    assert published_observations(published).is_empty()
    device = "Jetson AGX Orin 64GB (published)"
    assert list(batch_notes(published)) == [
        f"{device}: no model uses 1 time of A. Author, 2026 {fix}"
    ]
    # A table that a person wrote may be of something without batches.
    write_published(tmp_path, one(tmp_path, "mode,network,time_ms\nMAXN,llm,2\n", {}))
    assert published_observations(read_published(tmp_path))["network"].to_list() == ["llm"]


def test_repetitions_tell_how_sure_the_median_of_an_observation_is(tmp_path: Path) -> None:
    write_published(tmp_path, one(tmp_path, times(2.0, 8.0), {**FIXED, "batch": "1"}))
    (row,) = published_observations(read_published(tmp_path)).rows(named=True)
    # ln 2 and ln 8 are ln 4 = 1.38629 apart: a deviation of 1.38629 / √2, over √2.
    assert row["latency_deviation"] == pytest.approx(0.693147, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "fixed", "words"),
    [
        (times(1.0), {"network": "a"}, "does not say the mode; say --fixed mode=VALUE"),
        (times(1.0), {"mode": "MAXN"}, "does not say the network; say --fixed network=VALUE"),
        (times(1.0)[:-9], FIXED, "not a whole file of trtexec --exportTimes: .*cut or holds NaN"),
        (times(float("nan")), FIXED, "cut or holds NaN"),
        (times(0.0), FIXED, "a query without a GPU compute time"),
        (PROFILE[:-40], FIXED, "not a whole file of trtexec --exportProfile"),
        ('[ { "count" : 3 } ]', FIXED, "holds no layer"),
        (PROFILE.replace("0.8,", "-0.8,"), FIXED, "layer 1 has a time of -0.0008"),
        ('{"Layers": []}', FIXED, "holds no layer"),
        (PROFILE.replace("100", "0", 1), FIXED, "layer 0 is of 0 calls"),
        (
            times(1.0, copy_ms=1e300),
            FIXED,
            "host_latency_s is 1e\\+297, which is impossible: a time lies between",
        ),
        (log("[TensorRT v8502] ", "", OPTIONS), FIXED, "ends before trtexec's summary"),
        (
            "&&&& RUNNING TensorRT.trtexec # trtexec --onnx=a\n&&&& FAILED TensorRT.trtexec # a\n",
            FIXED,
            "a run of trtexec that failed",
        ),
        (
            "start_time,window_name,elapsed_time,gpu0_energy\n1,a,nan,3\n",
            FIXED,
            "line 2: elapsed_time is 'nan'",
        ),
        (
            "start_time,window_name,elapsed_time,gpu0_energy\n1,a,1e19,1e-14\n",
            {"mode": "MAXN"},
            "line 2: time_s is 1e\\+19, which is impossible",
        ),
        (JTOP.replace("20000,OFF", "oops,OFF", 1), FIXED, "line 3: Power TOT is 'oops'"),
        (JTOP.replace("Power TOT", "Temp"), FIXED, "has no power of the board"),
        (mlperf("SingleStream", ""), FIXED, "ends before its latencies"),
        (mlperf("Offline", "").replace("PerformanceOnly", "AccuracyOnly"), FIXED, "AccuracyOnly"),
        (mlperf("Offline", "").replace("Result is : VALID\n", ""), FIXED, "not a whole summary"),
        (mlperf("Offline", "").replace("Scenario : Offline\n", ""), FIXED, "not a whole summary"),
        (mlperf("Offline", "").replace("Mode     : Perf", ""), FIXED, "not a whole summary"),
        (json.dumps([LLAMA | {"avg_ns": "x"}]), FIXED, "not a whole file of llama-bench"),
        # A line without its end may be cut in a number: 1 J of 15.
        ("start_time,window_name,elapsed_time,gpu0_energy\n1,a,2,1", FIXED, "holds no window"),
        ("start_time,window_name,elapsed_time,gpu0_energy\n1,a,2\n", FIXED, "line 2 has 3 cells"),
        (
            'start_time,window_name,elapsed_time,gpu0_energy\n1,a,2,1\n1,"a,2,1\n1,a,2,1\n',
            FIXED,
            "cannot read line 4",  # or the quote would take all rows that follow
        ),
        (
            "start_time,window_name,elapsed_time,gpu0_energy,gpu0_energy\n1,a,2,1,5\n",
            FIXED,
            "the column 'gpu0_energy' more than once",
        ),
        (
            "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n1,a,2,-1,5\n",
            FIXED,
            "line 2 has an energy below 0",
        ),
        (f"| model | test | t/s |\n| a | pp{'9' * 5000} | 1 |\n", FIXED, "is not a test"),
        (
            json.dumps({"Reformatting CopyNode 1": [1e308, 1e308]}),
            FIXED,
            "layer 0 has a time of inf",
        ),
    ],
)
def test_bad_files_are_refused_in_a_line(
    tmp_path: Path, text: str, fixed: Mapping[str, str], words: str
) -> None:
    with pytest.raises(MansardError, match=words) as raised:
        one(tmp_path, text, fixed)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "published").exists()


def test_a_file_of_200_megabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    with path.open("wb") as stream:
        stream.truncate(200 << 20)  # a hole: no disk is used
    with pytest.raises(MansardError, match=f"more than {MOST_TOOL_BYTES >> 20} MiB"):
        import_files([path], ORIGIN, fixed=FIXED)


EXAMPLES: Sequence[str] = (
    times(1.0, 2.0),
    PROFILE,
    LAYERS,
    log("[TensorRT v8502] ", "--fp16", OPTIONS + SUMMARY),
    log("", "", OLD),
    JTOP,
    "start_time,window_name,elapsed_time,gpu0_energy\n1,a,2.0,3\n",
    json.dumps([LLAMA]),
    mlperf("Offline", "Samples per second: 10"),
    "layer_name,start_ms,end_ms\n'a',0.5,1.0\n",
)


@settings(max_examples=60, deadline=None)
@given(
    text=st.sampled_from(EXAMPLES),
    at=st.integers(0, 2000),
    n_removed=st.integers(0, 400),
    added=st.binary(max_size=12),
)
def test_damaged_files_are_rows_or_one_line(
    text: str, at: int, n_removed: int, added: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = text.encode()
    path = tmp_path_factory.mktemp("damaged") / "file"
    path.write_bytes(data[:at] + added + data[at + n_removed :])
    found: list[tuple[Imported, ...]] = []
    message = ""
    try:
        found = import_files([path], ORIGIN, fixed=FIXED)
    except MansardError as error:
        message = str(error)
    assert "\n" not in message
    assert message or any(one.rows for each in found for one in each)
    for one_kind in (one for each in found for one in each):
        write_published(path.parent, one_kind)
    read_published(path.parent)  # what was imported is never refused when it is read


def test_each_example_has_one_reader() -> None:
    for text in EXAMPLES:
        assert sum(reader.recognise(text) for reader in READERS) == 1
    table = b"mode,network,batch,latency_ms\nMAXN,resnet18,1,2\n"
    assert recognise(ToolFile("table.timing.json", table)) is None  # its name tells nothing


def test_a_language_model_of_mlperf_has_three_times(tmp_path: Path) -> None:
    lines = {
        "50.00 percentile latency (ns)": 4_080_059_346,
        "50.00 percentile first token latency (ns)": 1_382_139_989,
        "50.00 percentile time to output token (ns)": 21_241_545,
        "Mean latency (ns)": 4_089_242_903,
        "Mean First Token latency (ns)": 1_385_205_729,
        "99.00 percentile first token latency (ns)": 1_416_993_311,
        "Mean Time to Output Token (ns)": 21_291_630,
        "90.00 percentile time to output token (ns)": 21_641_875,
        "TPS w/o loadgen overhead": 31.3,
        "samples_per_query": 1,
    }
    text = mlperf("SingleStream", "".join(f"{name} : {value}\n" for name, value in lines.items()))
    run = run_of(one(tmp_path, text, FIXED | {"precision": "fp4"}))
    assert run.precision == "fp4"
    assert run.latency_s == pytest.approx(4.080059346)
    assert run.figures["first_token_s"] == pytest.approx(1.382139989)
    assert run.figures["token_s"] == pytest.approx(0.021241545)
    assert run.figures["tokens_per_s"] == 31.3
    assert run.figures["mean_s"] == pytest.approx(4.089242903)
    assert run.figures["first_token_mean_s"] == pytest.approx(1.385205729)
    assert run.figures["first_token_p99_s"] == pytest.approx(1.416993311)
    assert run.figures["token_mean_s"] == pytest.approx(0.02129163)
    assert run.figures["token_p90_s"] == pytest.approx(0.021641875)


def test_mlperf_s_detailed_log_says_the_same(tmp_path: Path) -> None:
    entries = {
        "effective_scenario": "SingleStream",
        "effective_test_mode": "PerformanceOnly",
        "effective_samples_per_query": 1,
        "result_validity": "VALID",
        "result_50.00_percentile_latency_ns": 4080059346,
        "result_mean_latency_ns": 4089242903,
        "result_first_token_mean_latency_ns": 1385205729,
        "result_first_token_99.00_percentile_latency_ns": 1416993311,
        "result_time_to_output_token_mean": 21291630,
        "result_time_per_output_token_50.00_percentile_ns": 21241545,
        "result_qps_without_loadgen_overhead": 0.24,
    }
    lines = [f":::MLLOG {json.dumps({'key': k, 'value': v})}\n" for k, v in entries.items()]
    run = run_of(one(tmp_path, "".join(lines)))
    assert run.latency_s == pytest.approx(4.080059346)
    assert run.batch == 1
    assert run.figures["first_token_mean_s"] == pytest.approx(1.385205729)
    assert run.figures["first_token_p99_s"] == pytest.approx(1.416993311)
    assert run.figures["token_mean_s"] == pytest.approx(0.02129163)
    assert run.figures["token_s"] == pytest.approx(0.021241545)
    with pytest.raises(InputError, match="not a whole file of MLPerf"):
        one(tmp_path, lines[0] + lines[1][:-4])


def test_files_of_the_version_before_weights_are_read(tmp_path: Path) -> None:
    imported = one(tmp_path, json.dumps([LLAMA | {"model_type": "a model"}]), {"mode": "MAXN"})
    path = write_published(tmp_path, imported)[0]
    text = path.read_text()
    assert '"weights"' not in text
    path.write_text(text.replace('"published-run","version":3', '"published-run","version":2'))
    (run,) = read_published(tmp_path).runs
    assert run.weights == ""


def test_a_log_of_tegrastats_is_for_another_command(tmp_path: Path) -> None:
    text = "RAM 2448/7620MB (lfb 3x4MB) SWAP 0/3810MB CPU [0%@960,0%@960] GR3D_FREQ 0%\n"
    with pytest.raises(InputError, match="is a log of tegrastats; use 'mansard board telemetry'"):
        one(tmp_path, text)
