"""What trtexec exports as JSON: times of layers, the layers of an engine, and times of queries.

``--exportProfile``, as TensorRT's IProfiler, has the time of each layer. Layers are timed in a pass
of their own or with events between them: their sum is not the time of the network, and no run is
made of it.

``--exportLayerInfo``, as the engine inspector, has the layers without times. Their types, formats
and kernels go with the layers of a profile of the same network by the layers' names.

``--exportTimes`` says when each query began and ended, in milliseconds.
"""

from __future__ import annotations

import re
import statistics

import numpy as np

from mansard.analytics.data.published.cells import LayerRow, LayerTensor, TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_LAYERS,
    MOST_TOOL_BYTES,
    Reader,
    ToolFile,
    ToolReading,
    cells,
    known,
    parse_json,
    seconds_of_ms,
)
from mansard.analytics.data.published.readers.trtexec_method import QueryTimes
from mansard.analytics.data.statistics import repetition_deviation
from mansard.core.errors import InputError
from mansard.core.formats.tensorrt import (
    ExportedEngine,
    ExportedLayer,
    ExportedLayerTime,
    ExportedQuery,
    ExportedTensor,
    precision_of,
)

_PROFILE_KEYS = re.compile(r'^\s*\[\s*\{\s*"count"\s*:')
_SAMPLES = re.compile(r'^\s*\{\s*"(?P<name>(?:[^"\\]|\\.)*)"\s*:\s*\[\s*-?[\d.]')
_TENSORRT = re.compile(r"Reformatting CopyNode|ForeignNode\[|\(Unnamed Layer\*|__myl")


def _read_profile(source: ToolFile) -> ToolReading:
    entries = parse_json(source, list[ExportedLayerTime], "trtexec --exportProfile")
    runs = entries[0].count if entries else None
    layers = [
        LayerRow(
            name=layer.name,
            mean_s=seconds_of_ms(layer.average_ms),
            median_s=seconds_of_ms(layer.median_ms),
            share=None if layer.percentage is None else layer.percentage / 100,
            runs=runs,
        )
        for layer in entries
        if layer.name is not None
    ]
    method = (
        f"trtexec --exportProfile: layers timed one by one, over {runs} calls"
        if runs
        else "trtexec --exportProfile: layers timed one by one"
    )
    return ToolReading([layers_row(source, layers, method)])


def _read_samples(source: ToolFile) -> ToolReading:
    times = parse_json(source, dict[str, list[float]], "TensorRT's IProfiler")
    medians = {name: statistics.median(time) / 1e3 for name, time in times.items() if time}
    total = sum(medians.values())
    layers = [
        LayerRow(
            name=name,
            mean_s=sum(times[name]) / len(times[name]) / 1e3,
            median_s=median_s,
            share=median_s / total if total > 0 else None,
            runs=len(times[name]),
        )
        for name, median_s in medians.items()
    ]
    method = "TensorRT's IProfiler, milliseconds by layer: layers timed one by one"
    return ToolReading([layers_row(source, layers, method)])


def _is_samples(head: str) -> bool:
    # Any table of lists begins so; TensorRT's names of copies and regions tell it.
    return _SAMPLES.match(head) is not None and _TENSORRT.search(head) is not None


def layers_row(source: ToolFile, layers: list[LayerRow], method: str, line: int = 1) -> TextRow:
    """The row of a file that holds layers and no time of the network; raises InputError."""
    if not layers:
        raise InputError("holds no layer", where=source.where, fix="export it again")
    if len(layers) > MOST_LAYERS:
        raise InputError(
            f"holds {len(layers):,} layers, more than the {MOST_LAYERS:,} that a network may have",
            where=source.where,
            fix="give the profile of one network",
        )
    return TextRow(line, cells(method=method), {}, layers)


TRTEXEC_PROFILE = Reader(
    "trtexec --exportProfile", lambda head: _PROFILE_KEYS.match(head) is not None, _read_profile
)
IPROFILER_TIMES = Reader("times of TensorRT's IProfiler", _is_samples, _read_samples)


_LAYERS_KEYS = re.compile(r'^\s*\{\s*"Layers"\s*:')


def _read_layers(source: ToolFile) -> ToolReading:
    engine = parse_json(source, ExportedEngine, "trtexec --exportLayerInfo")
    named = sum(isinstance(layer, str) for layer in engine.layers)
    method = "TensorRT's engine inspector: layers without times"
    row = layers_row(source, [_layer(layer) for layer in engine.layers], method)
    note = (
        "it has names alone: --profilingVerbosity=detailed also exports types, formats and kernels"
    )
    return ToolReading([row], [note] if named else [])


def _layer(layer: str | ExportedLayer) -> LayerRow:
    if isinstance(layer, str):
        return LayerRow(name=layer)
    return LayerRow(
        name=layer.name,
        metadata=layer.metadata,
        is_copy=layer.is_copy,
        op_type=layer.layer_type,
        precision=precision_of(layer.outputs[0].format) if layer.outputs else None,
        tactic=layer.tactic_name or layer.tactic_value,
        reads=tuple(map(_tensor, layer.inputs)),
        writes=tuple(map(_tensor, layer.outputs)),
        n_weights=layer.weights.count if layer.weights and layer.weights.count > 0 else None,
        weight_precision=precision_of(layer.weights.type) if layer.weights else None,
    )


def _tensor(tensor: ExportedTensor) -> LayerTensor:
    return LayerTensor(tensor.name, tuple(tensor.dimensions), precision_of(tensor.format) or "")


TRTEXEC_LAYERS = Reader(
    "trtexec --exportLayerInfo", lambda head: _LAYERS_KEYS.match(head) is not None, _read_layers
)


_TIMES_KEYS = re.compile(r'^\s*\[\s*\{\s*"start(?:Enq|In|H2d)Ms"')
_LEAST_FOR_P99 = 100


def _read_times(source: ToolFile) -> ToolReading:
    queries = parse_json(source, list[ExportedQuery], "trtexec --exportTimes")
    if any(query.compute_ms <= 0 for query in queries) or not queries:
        what = "has a query without a GPU compute time" if queries else "holds no query"
        raise InputError(what, where=source.where, fix="export the times again")
    times_s = [query.compute_ms / 1e3 for query in queries]
    hosts = statistics.median(query.latency_ms for query in queries) / 1e3
    copy_in_ms, copy_out_ms = (
        statistics.median(copies_ms)
        for copies_ms in zip(
            *((q.copy_in_ms or 0.0, q.copy_out_ms or 0.0) for q in queries), strict=True
        )
    )
    copy_ms = copy_in_ms + copy_out_ms
    copied = f"{copy_ms:.4g} ms of copies are not in it" if copy_ms > 0 else "nothing is copied"
    enqueues_ms = [ms for query in queries if (ms := query.enqueue_ms) is not None and ms >= 0]
    enqueue_ms = statistics.median(enqueues_ms) if enqueues_ms else None
    of_versions = ", TensorRT up to 8.2" if queries[0].end_to_end_ms is not None else ""
    method = (
        f"trtexec --exportTimes{of_versions}: median GPU compute time of {len(times_s)} queries; "
        f"{copied}; spin-wait and CUDA graph not said"
    )
    figures = known(
        samples=float(len(times_s)),
        deviation_s=statistics.stdev(times_s) if len(times_s) > 1 else None,
        log_deviation=repetition_deviation(times_s),
        p99_s=_p99(times_s),
        host_latency_s=hosts,
        least_s=min(times_s),
        enqueue_s=seconds_of_ms(enqueue_ms),
    )
    time_s = statistics.median(times_s)
    deviation_s = figures.get("deviation_s", 0.0)
    variation = deviation_s / statistics.fmean(times_s)
    medians = QueryTimes(time_s * 1e3, enqueue_ms, copy_in_ms, copy_out_ms, variation)
    remark = medians.remark()
    row = TextRow(1, cells(time_s=time_s, method=method, remark=remark), figures)
    return ToolReading([row])


def _p99(times_s: list[float]) -> float | None:
    """The 99th percentile of the times; None with fewer than 100."""
    if len(times_s) < _LEAST_FOR_P99:
        return None
    return float(np.quantile(times_s, 0.99, method="inverted_cdf"))


TRTEXEC_TIMES = Reader(
    "trtexec --exportTimes",
    lambda head: _TIMES_KEYS.match(head) is not None,
    _read_times,
    MOST_TOOL_BYTES,
)
