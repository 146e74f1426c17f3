"""Benchmarks of servers of language models become runs; the files are written here by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.data.published.importing import Imported, import_files
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.core.errors import InputError
from mansard.core.records import PublishedRun

ORIGIN = PublishedOrigin(device="Jetson AGX Thor", processor="gpu", citation="A. Author, 2026")
FIXED = {"mode": "MAXN"}


def one(folder: Path, text: str, **fixed: str) -> Imported:
    path = folder / "result.json"
    path.write_text(text, encoding="utf-8")
    (imported,) = import_files([path], ORIGIN, fixed={**FIXED, **fixed})[0]
    return imported


def run_of(imported: Imported) -> PublishedRun:
    (run,) = imported.runs
    return run


COUNTS: dict[str, Any] = {
    "duration": 40.0,
    "completed": 10,
    "total_input_tokens": 5120,
    "total_output_tokens": 1280,
    "request_throughput": 0.25,
    "output_throughput": 32.0,
}
LATENCIES = {
    "mean_ttft_ms": 510.0,
    "median_ttft_ms": 500.0,
    "p99_ttft_ms": 900.0,
    "mean_tpot_ms": 26.0,
    "median_tpot_ms": 25.0,
    "p99_tpot_ms": 31.0,
}
VLLM: dict[str, Any] = {
    "date": "20260901-101010",
    "backend": "vllm",
    "model_id": "Qwen/Qwen3-8B-FP8",
    "tokenizer_id": "Qwen/Qwen3-8B-FP8",
    "num_prompts": 10,
    "request_rate": "inf",
    "max_concurrency": 4,
    **COUNTS,
    **LATENCIES,
}


@pytest.mark.parametrize("indent", [None, 2])
def test_vllm_serve(tmp_path: Path, indent: int | None) -> None:
    run = run_of(one(tmp_path, json.dumps(VLLM, indent=indent)))
    assert run.network == "Qwen3-8B-FP8 512in/128out x4"  # 5120 / 10 and 1280 / 10
    assert (run.latency_s, run.batch) == (None, None)  # requests come and go
    expected: dict[str, float] = {
        "prompt_tokens": 512,
        "generated_tokens": 128,
        "concurrency": 4,
        "samples": 10,
    }
    expected |= {"first_token_s": 0.5, "first_token_mean_s": 0.51, "first_token_p50_s": 0.5}
    expected |= {"first_token_p99_s": 0.9, "token_s": 0.025, "token_p99_s": 0.031}
    expected |= {"tokens_per_s": 32, "queries_per_s": 0.25}
    assert {name: pytest.approx(value) for name, value in expected.items()}.items() <= (
        run.figures.items()
    )


def test_one_request_at_a_time_has_a_time(tmp_path: Path) -> None:
    alone = VLLM | {"max_concurrency": 1, "median_e2el_ms": 3700.0}
    run = run_of(one(tmp_path, json.dumps(alone)))
    assert (run.network, run.batch) == ("Qwen3-8B-FP8 512in/128out", 1)
    assert run.latency_s == pytest.approx(3.7)


def test_failed_requests_are_told(tmp_path: Path) -> None:
    (note,) = one(tmp_path, json.dumps(VLLM | {"failed": 3})).notes
    assert note == "3 requests failed; its times are of the others"
    with pytest.raises(InputError, match="has no completed above 0"):
        one(tmp_path, json.dumps(VLLM | {"completed": 0}))


def test_vllm_latency_and_throughput(tmp_path: Path) -> None:
    spread = {"10": 1.9, "50": 2.0, "90": 2.4, "99": 2.5}
    text = json.dumps({"avg_latency": 2.1, "latencies": [2.0, 2.2], "percentiles": spread})
    run = run_of(one(tmp_path, text, network="qwen 32in/128out", batch="8"))
    assert (run.latency_s, run.batch) == (2.0, 8)
    assert run.figures == {"mean_s": 2.1, "p90_s": 2.4, "p99_s": 2.5}
    totals = {"elapsed_time": 20.0, "num_requests": 100, "total_num_tokens": 64000}
    totals |= {"requests_per_second": 5.0, "tokens_per_second": 3200.0}
    run = run_of(one(tmp_path, json.dumps(totals), network="qwen"))
    assert run.figures["all_tokens_per_s"] == 3200
    assert "tokens_per_s" not in run.figures  # prompts are in it


def test_sglang_serving_writes_a_line_each(tmp_path: Path) -> None:
    row = {"backend": "sglang", "dataset_name": "random", "request_rate": float("inf")}
    row |= {"max_concurrency": None, "concurrency": 3.5, **COUNTS, **LATENCIES}
    row |= {"mean_e2e_latency_ms": 3800.0, "server_info": {"model_path": "meta/Llama-3.1-8B"}}
    text = json.dumps(row) + "\n" + json.dumps(row | {"max_concurrency": 1}) + "\n"
    assert "Infinity" in text  # as Python writes a rate without a limit
    several, alone = one(tmp_path, text).runs
    assert several.network == "Llama-3.1-8B 512in/128out x3.5"
    assert several.figures["concurrency"] == 3.5
    assert alone.figures["concurrency"] == 1
    assert several.figures["token_s"] == pytest.approx(0.025)


def test_sglang_one_batch(tmp_path: Path) -> None:
    row = {"run_name": "default", "batch_size": 8, "input_len": 1024, "output_len": 16}
    row |= {"prefill_latency": 0.8, "prefill_throughput": 10240.0, "total_latency": 1.4}
    row |= {"median_decode_latency": 0.04, "median_decode_throughput": 200.0}
    run = run_of(one(tmp_path, json.dumps(row) + "\n", network="llama"))
    assert (run.batch, run.latency_s) == (8, 1.4)
    assert run.figures["first_token_s"] == 0.8
    assert run.figures["token_s"] == 0.04
    assert run.figures["prefill_tokens_per_s"] == 10240  # 8 · 1024 / 0.8
    assert run.figures["decode_tokens_per_s"] == 200  # 8 / 0.04


@pytest.mark.parametrize(
    ("algorithm", "weights", "precision"),
    [
        ("NVFP4", "NVFP4", "fp4"),
        ("FP8", "", "fp8"),
        ("W4A16_AWQ", "W4A16", "fp16"),
        (None, "", "bf16"),
    ],
)
def test_trtllm_bench(tmp_path: Path, algorithm: str | None, weights: str, precision: str) -> None:
    engine: dict[str, str | None] = {
        "model": "meta-llama/Llama-3.1-8B",
        "version": "1.1.0",
        "backend": "Pytorch",
    }
    report = {
        "engine": engine | {"dtype": "bfloat16", "quantization": algorithm},
        "machine": None,
        "request_info": {"num_requests": 32, "avg_num_concurrent_requests": 7.9}
        | {"avg_input_length": 128.0, "avg_output_length": 64.0},
        "performance": {"system_output_throughput_tok_s": 410.0, "avg_request_latency_ms": 1230.0},
        "streaming_metrics": {"avg_ttft_ms": 55.0, "avg_tpot_ms": 18.0}
        | {"ttft_percentiles": {"p50": 50.0, "p99": 80.0}, "tpot_percentiles": {"p50": 17.0}},
    }
    run = run_of(one(tmp_path, json.dumps(report)))
    assert run.network == "Llama-3.1-8B 128in/64out x7.9"
    assert (run.weights, run.precision) == (weights, precision)
    assert run.figures["first_token_s"] == pytest.approx(0.05)
    assert run.figures["first_token_mean_s"] == pytest.approx(0.055)
    assert run.figures["first_token_p99_s"] == pytest.approx(0.08)
    assert run.figures["token_s"] == pytest.approx(0.017)
    assert run.figures["mean_query_s"] == pytest.approx(1.23)
    offline = {**report, "streaming_metrics": None}
    (note,) = one(tmp_path, json.dumps(offline)).notes
    assert note == "it has no time of the first token: run trtllm-bench with --streaming"


@pytest.mark.parametrize("cut", [40, 200, -1])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, cut: int) -> None:
    with pytest.raises(InputError):
        one(tmp_path, json.dumps(VLLM)[:cut])
