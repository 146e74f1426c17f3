"""Benchmarks of servers of language models: vLLM, SGLang and TensorRT-LLM.

``vllm bench serve --save-result`` and SGLang's ``bench_serving`` write one object a run: tokens in
and out, and time to first token and time per output token over all requests. ``vllm bench latency``
times whole batches, ``vllm bench throughput`` all requests at once. SGLang's ``bench_one_batch``
times prefill and one step of decode. ``trtllm-bench --report_json`` says all of it by request.

The fields are those of ``vllm/benchmarks/serve.py``, ``latency.py`` and ``throughput.py``, of
SGLang's ``bench_serving.py`` and ``bench_one_batch.py``, and of TensorRT-LLM's
``bench/dataclasses/reporting.py``. ``first_token_s`` and ``token_s`` are medians; the means stand
beside them. A run of several requests at once has no time of a batch: requests come and go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    MOST_TOOL_BYTES,
    Reader,
    ToolFile,
    ToolReading,
    at_most,
    cells,
    known,
    network_of,
    parse_json,
)
from mansard.core.errors import InputError
from mansard.core.weight_formats import stored_weights

Fields = Mapping[str, Any]
_INFINITE = re.compile(rb"(:\s*)Infinity\b")  # Python writes an unlimited rate so; JSON has none
_LATENCIES = (("ttft", "first_token"), ("tpot", "token"))
_PERCENTS = (50, 90, 95, 99)


def _number(fields: Fields, name: str) -> float | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _needed(fields: Fields, name: str, source: ToolFile, tool: str) -> float:
    value = _number(fields, name)
    if value is None or value <= 0:
        raise InputError(
            f"has no {name} above 0", where=source.where, fix=f"run {tool} again, without failures"
        )
    return value


def _milliseconds(fields: Fields, name: str) -> float | None:
    value = _number(fields, f"{name}_ms")
    return None if value is None else value / 1e3


def _latency_figures(fields: Fields) -> dict[str, float]:
    """Seconds of ``median_ttft_ms``, ``p99_tpot_ms`` and the like."""
    figures: dict[str, float | None] = {}
    for key, name in _LATENCIES:
        median, mean = (_milliseconds(fields, f"{what}_{key}") for what in ("median", "mean"))
        figures[f"{name}_s"] = mean if median is None else median
        figures[f"{name}_mean_s"] = mean
        for percent in _PERCENTS:
            figures[f"{name}_p{percent}_s"] = _milliseconds(fields, f"p{percent}_{key}")
        figures[f"{name}_p50_s"] = figures[f"{name}_p50_s"] or median
    return known(**figures)


def _workload(prompt: float, generated: float, concurrency: float | None) -> str:
    """ "512in/128out x4": the mean tokens of a request, and how many ran at once."""
    at_once = "" if concurrency is None or concurrency <= 1 else f" x{concurrency:.4g}"
    return f"{prompt:.0f}in/{generated:.0f}out{at_once}"


def _objects(source: ToolFile, tool: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with one a line, or with one alone."""
    data = _INFINITE.sub(rb"\1null", source.data)
    lines = [(n, line) for n, line in enumerate(data.splitlines(), start=1) if line.strip()]
    # The first line of an object that is written over several has no end.
    if lines and not lines[0][1].rstrip().endswith(b"}"):
        lines = [(1, data)]
    for n, line in lines:
        part = ToolFile(f"{source.where}, line {n}" if len(lines) > 1 else source.where, line)
        yield n, parse_json(part, dict[str, Any], tool)


def _serving(source: ToolFile, tool: str) -> ToolReading:
    rows: list[TextRow] = []
    notes: dict[str, None] = {}
    for line, fields in at_most(_objects(source, tool), MOST_RUNS, "runs", source):
        rows.append(_served(line, fields, source, tool))
        if (n_failed := _number(fields, "failed")) is not None and n_failed > 0:
            notes[f"{n_failed:.0f} requests failed; its times are of the others"] = None
    if not rows:
        raise InputError("holds no run", where=source.where, fix=f"run {tool} again")
    return ToolReading(rows, list(notes))


def _served(line: int, fields: Fields, source: ToolFile, tool: str) -> TextRow:
    n_done = _needed(fields, "completed", source, tool)
    prompt = _needed(fields, "total_input_tokens", source, tool) / n_done
    generated = _needed(fields, "total_output_tokens", source, tool) / n_done
    limit = _number(fields, "max_concurrency")
    concurrency = limit if limit is not None else _number(fields, "concurrency")
    is_one = limit == 1
    query_s = _milliseconds(fields, "median_e2el") or _milliseconds(fields, "median_e2e_latency")
    rate = fields.get("request_rate")
    sent = f"{rate:.4g} requests a second" if isinstance(rate, int | float) else "requests at once"
    at_once = "unlimited" if limit is None else f"at most {limit:.0f} at once"
    return TextRow(
        line,
        cells(
            network=_named(_model_of(fields), _workload(prompt, generated, concurrency)),
            batch="1" if is_one else None,
            time_s=query_s if is_one else None,
            method=f"{tool}: {n_done:.0f} requests, {sent}, {at_once}",
            repeat=str(line),
        ),
        known(
            samples=n_done,
            prompt_tokens=prompt,
            generated_tokens=generated,
            concurrency=concurrency,
            tokens_per_s=_number(fields, "output_throughput"),
            queries_per_s=_number(fields, "request_throughput"),
            duration_s=_number(fields, "duration"),
        )
        | _latency_figures(fields),
    )


def _model_of(fields: Fields) -> str | None:
    info = fields.get("server_info")
    server: Fields = info if isinstance(info, dict) else {}
    for name in (fields.get("model_id"), fields.get("model"), server.get("model_path")):
        if isinstance(name, str) and name:
            return network_of(name)
    return None


def _named(model: str | None, workload: str) -> str | None:
    return None if model is None else f"{model} {workload}"


def _read_vllm_latency(source: ToolFile) -> ToolReading:
    fields = parse_json(source, dict[str, Any], "vllm bench latency")
    percentiles = fields.get("percentiles")
    spread: Fields = percentiles if isinstance(percentiles, dict) else {}
    mean_s = _needed(fields, "avg_latency", source, "vllm bench latency")
    median_s = _number(spread, "50")
    row = TextRow(
        1,
        cells(
            time_s=mean_s if median_s is None else median_s,
            method="vllm bench latency: "
            + ("mean" if median_s is None else "median")
            + " time of a batch of prompts and their tokens",
        ),
        known(mean_s=mean_s, p90_s=_number(spread, "90"), p99_s=_number(spread, "99")),
    )
    return ToolReading([row], ["it does not say its tokens: name them in --fixed network="])


def _read_vllm_throughput(source: ToolFile) -> ToolReading:
    tool = "vllm bench throughput"
    fields = parse_json(source, dict[str, Any], tool)
    row = TextRow(
        1,
        cells(method=f"{tool}: all requests at once; tokens of prompts and of answers"),
        known(
            samples=_needed(fields, "num_requests", source, tool),
            duration_s=_number(fields, "elapsed_time"),
            queries_per_s=_number(fields, "requests_per_second"),
            all_tokens_per_s=_needed(fields, "tokens_per_second", source, tool),
        ),
    )
    return ToolReading([row])


def _read_one_batch(source: ToolFile) -> ToolReading:
    tool = "SGLang bench_one_batch"
    rows: list[TextRow] = []
    for line, fields in at_most(_objects(source, tool), MOST_RUNS, "runs", source):
        batch, prompt, generated = (
            _needed(fields, name, source, tool)
            for name in ("batch_size", "input_len", "output_len")
        )
        rows.append(
            TextRow(
                line,
                cells(
                    network=_named(_model_of(fields), _workload(prompt, generated, None)),
                    batch=str(int(batch)),
                    time_s=_number(fields, "total_latency"),
                    method=f"{tool}: prefill, and the median step of decode",
                    repeat=str(line),
                ),
                known(
                    prompt_tokens=prompt,
                    generated_tokens=generated,
                    concurrency=batch,
                    first_token_s=_number(fields, "prefill_latency"),
                    token_s=_number(fields, "median_decode_latency"),
                    prefill_tokens_per_s=_number(fields, "prefill_throughput"),
                    decode_tokens_per_s=_number(fields, "median_decode_throughput"),
                    tokens_per_s=_number(fields, "overall_throughput"),
                ),
            )
        )
    if not rows:
        raise InputError("holds no run", where=source.where, fix=f"run {tool} again")
    return ToolReading(rows)


def _read_trtllm(source: ToolFile) -> ToolReading:
    tool = "trtllm-bench"
    report = parse_json(source, dict[str, dict[str, Any] | None], tool)
    engine, requests, performance, streaming = (
        report.get(name) or {}
        for name in ("engine", "request_info", "performance", "streaming_metrics")
    )
    prompt = _needed(requests, "avg_input_length", source, tool)
    generated = _needed(requests, "avg_output_length", source, tool)
    concurrency = _number(requests, "avg_num_concurrent_requests")
    row = TextRow(
        1,
        cells(
            network=_named(_model_of(engine), _workload(prompt, generated, concurrency)),
            precision=_quantisation(engine),
            method=f"trtllm-bench of TensorRT-LLM {engine.get('version') or 'unknown'}, "
            f"{engine.get('backend') or 'backend not said'}",
        ),
        known(
            samples=_number(requests, "num_requests"),
            prompt_tokens=prompt,
            generated_tokens=generated,
            concurrency=concurrency,
            tokens_per_s=_number(performance, "system_output_throughput_tok_s"),
            queries_per_s=_number(performance, "request_throughput_req_s"),
            mean_query_s=_milliseconds(performance, "avg_request_latency"),
        )
        | _latency_figures(_flat(streaming)),
    )
    notes = (
        []
        if streaming
        else ["it has no time of the first token: run trtllm-bench with --streaming"]
    )
    return ToolReading([row], notes)


def _flat(streaming: Fields) -> dict[str, Any]:
    """trtllm-bench's streaming metrics by vLLM's names."""
    fields = {f"mean_{key}_ms": streaming.get(f"avg_{key}_ms") for key, _ in _LATENCIES}
    for key, _ in _LATENCIES:
        spread = streaming.get(f"{key}_percentiles")
        if isinstance(spread, dict):
            fields |= {f"p{p}_{key}_ms": spread.get(f"p{p}") for p in _PERCENTS}
            fields[f"median_{key}_ms"] = spread.get("p50")
    return fields


_ALGORITHMS = (("W4A16", "W4A16"), ("NVFP4", "NVFP4"), ("MXFP4", "MXFP4"), ("FP8", "fp8"))


def _quantisation(engine: Fields) -> str | None:
    """The format of the weights: of ``quant_algo``, else the type of the network."""
    algorithm = str(engine.get("quantization") or "").upper()
    if not algorithm or algorithm == "NONE":
        dtype = str(engine.get("dtype") or "").removeprefix("torch.")
        return dtype or None
    named = next((name for word, name in _ALGORITHMS if word in algorithm), algorithm)
    return named if stored_weights(named) else None


def _has(names: Iterable[str], head: str) -> bool:
    """Whether a file is an object whose beginning has all of these keys."""
    return head.lstrip()[:1] == "{" and all(f'"{name}"' in head for name in names)


VLLM_SERVE = Reader(
    "vllm bench serve",
    partial(_has, ("model_id", "tokenizer_id", "num_prompts")),
    lambda source: _serving(source, "vllm bench serve"),
    MOST_TOOL_BYTES,
)
VLLM_LATENCY = Reader(
    "vllm bench latency", partial(_has, ("avg_latency", "latencies")), _read_vllm_latency
)
VLLM_THROUGHPUT = Reader(
    "vllm bench throughput",
    partial(_has, ("elapsed_time", "num_requests", "tokens_per_second")),
    _read_vllm_throughput,
)
SGLANG_SERVE = Reader(
    "SGLang bench_serving",
    partial(_has, ("backend", "total_input_tokens", "mean_e2e_latency_ms", "mean_ttft_ms")),
    lambda source: _serving(source, "SGLang bench_serving"),
    MOST_TOOL_BYTES,
)
SGLANG_ONE_BATCH = Reader(
    "SGLang bench_one_batch",
    partial(_has, ("prefill_latency", "batch_size", "input_len")),
    _read_one_batch,
)
TRTLLM = Reader(
    "trtllm-bench", partial(_has, ("engine", "request_info", "avg_input_length")), _read_trtllm
)
SERVING: tuple[Reader, ...] = (
    VLLM_SERVE,
    VLLM_LATENCY,
    VLLM_THROUGHPUT,
    SGLANG_SERVE,
    SGLANG_ONE_BATCH,
    TRTLLM,
)
