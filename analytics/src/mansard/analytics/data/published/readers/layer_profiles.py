"""Profiles of layers that cuDLA and ONNX Runtime write.

cuDLA's sample of layerwise statistics says when each layer of a DLA began and ended, ONNX
Runtime's profile (``SessionOptions.enable_profiling``) how long each node took.

Three faults of the latter are known. A node with a sequence of tensors leaves a comma before a
bracket (microsoft/onnxruntime#10974), which is read as it is meant. A session that was not ended
leaves a file that is cut (#10975), and after a million events the rest is dropped (#17013): both
are refused, because a part of the nodes is not the network.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mansard.analytics.data.published.cells import LayerRow, LayerTensor
from mansard.analytics.data.published.readers.reader import (
    MOST_LAYERS,
    MOST_TOOL_BYTES,
    Reader,
    ToolFile,
    ToolReading,
    at_most,
    header_of,
    number,
    parse_json,
    read_csv,
)
from mansard.analytics.data.published.readers.trtexec_exports import layers_row
from mansard.core.errors import InputError
from mansard.core.formats.onnx import ProfileEvent, node_runs

_CUDLA_COLUMNS = ["layer_name", "start_ms", "end_ms"]


def _read_cudla(source: ToolFile) -> ToolReading:
    times: list[tuple[str, float]] = []
    for row in at_most(read_csv(source, "cuDLA"), MOST_LAYERS, "layers", source):
        start_ms, end_ms = number(row, "start_ms", source), number(row, "end_ms", source)
        if start_ms is None or end_ms is None or end_ms < start_ms:
            raise InputError(
                f"line {row.line} ends before it starts", where=source.where, fix="remove the row"
            )
        # The loadable joins names with and without spaces.
        name = re.sub(r"\s*\+\s*", " + ", row.cells["layer_name"].strip("'\""))
        times.append((name, (end_ms - start_ms) / 1e3))
    total = sum(seconds for _, seconds in times)
    layers = [
        LayerRow(name=name, mean_s=seconds, share=seconds / total if total else None, runs=1)
        for name, seconds in times
    ]
    return ToolReading([layers_row(source, layers, "cuDLA: layers of the DLA in one call")])


CUDLA = Reader(
    "cuDLA's layer statistics", lambda head: header_of(head) == _CUDLA_COLUMNS, _read_cudla
)


_HEAD = re.compile(r"^\s*\[\s*\{")
_MARKS = re.compile(
    r'"(?:model_loading_\w+|session_initialization|model_run|\w*_kernel_time|op_name)"'
)
_CATEGORY = re.compile(r'"cat"\s*:\s*"(?:Session|Node|Api|Kernel)"')
_STRAY_COMMA = re.compile(rb'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])')
_MOST_EVENTS = 1_000_000
_CALLS = ("model_run", "SequentialExecutor::Execute", "ParallelExecutor::Execute")
_WITH_BODIES = frozenset({"If", "Loop", "Scan"})
_AGAIN = "end the session (InferenceSession.end_profiling) and give the file that it names"


def _read_ort(source: ToolFile) -> ToolReading:
    if not source.data.rstrip().endswith(b"]"):
        raise InputError(
            "is a profile of ONNX Runtime that was cut, as where its session was not ended "
            "(microsoft/onnxruntime#10975): its nodes are not the whole network",
            where=source.where,
            fix=_AGAIN,
        )
    mended = _STRAY_COMMA.sub(lambda comma: comma[1] or b"", source.data)
    events = parse_json(
        ToolFile(source.where, mended), list[ProfileEvent], "ONNX Runtime's profiler"
    )
    if len(events) >= _MOST_EVENTS:
        raise InputError(
            f"is incomplete: it holds {len(events):,} events, and ONNX Runtime drops what comes "
            "after 1,000,000 (microsoft/onnxruntime#17013)",
            where=source.where,
            fix="profile fewer calls",
        )
    layers, notes = _layers(events)
    calls = max((sum(event.name == name for event in events) for name in _CALLS), default=0)
    method = f"ONNX Runtime's profile: nodes timed one by one, over {calls or 1} calls"
    if mended != source.data:
        notes.append("has commas before brackets, which ONNX Runtime writes (#10974): left out")
    return ToolReading([layers_row(source, layers, method)], notes)


def _layers(events: Sequence[ProfileEvent]) -> tuple[list[LayerRow], list[str]]:
    """The nodes in the order in which they ran first, and a note for each doubt about times."""
    timed: dict[tuple[str, str, str], list[float]] = {}
    first: dict[tuple[str, str, str], ProfileEvent] = {}
    on_gpu = set()
    for run in node_runs(events):
        key = (run.name or run.op_type, run.number, run.op_type)
        first.setdefault(key, run.event)
        timed.setdefault(key, []).append(sum(run.kernels_us) if run.is_on_gpu else run.event.dur)
        if run.is_on_gpu:
            on_gpu.add(key)
    medians_s = {key: statistics.median(durations) / 1e6 for key, durations in timed.items()}
    total_s = sum(medians_s.values())
    layers = [
        LayerRow(
            name=key[0],
            op_type=key[2] or None,
            reads=_tensors(first[key].args.get("input_type_shape")),
            writes=_tensors(first[key].args.get("output_type_shape")),
            n_weights=_n_weights(first[key].args),
            mean_s=statistics.fmean(durations) / 1e6 if any(durations) else None,
            median_s=medians_s[key] if any(durations) else None,
            share=medians_s[key] / total_s if total_s and any(durations) else None,
            runs=len(durations),
        )
        for key, durations in timed.items()
    ]
    notes = []
    if n_untimed := sum(not any(timed[key]) for key in on_gpu):
        notes.append(f"{n_untimed} nodes on a GPU have no time: their kernels were not timed")
    if _WITH_BODIES & {key[2] for key in timed}:
        notes.append("times of If, Loop and Scan hold those of the nodes in them")
    return layers, notes


# ONNX Runtime's names of element types, and their precisions.
_ORT_TYPES = MappingProxyType(
    {
        "float": "fp32",
        "float16": "fp16",
        "bfloat16": "bf16",
        "double": "fp64",
        "int8": "int8",
        "uint8": "int8",
    }
)


def _tensors(shapes: object) -> tuple[LayerTensor, ...]:
    """The tensors of a node's event, without names: ``[{"float": [1, 64, 56, 56]}, …]``, since 1.8.

    Empty where ``shapes`` has another form.
    """
    if not isinstance(shapes, list):
        return ()
    tensors = []
    for tensor in shapes:
        if not isinstance(tensor, dict) or len(tensor) != 1:
            return ()
        ((kind, dimensions),) = tensor.items()
        is_shape = isinstance(dimensions, list) and all(isinstance(n, int) for n in dimensions)
        if not is_shape:
            return ()
        tensors.append(LayerTensor("", tuple(dimensions), _ORT_TYPES.get(kind, "")))
    return tuple(tensors)


def _n_weights(args: Mapping[str, object]) -> int | None:
    """Elements of the largest tensor that a node reads after its data, where it has parameters."""
    tensors = _tensors(args.get("input_type_shape"))
    sizes = [tensor.n_elements for tensor in tensors[1:]]
    known = [size for size in sizes if size is not None]
    stored = str(args.get("parameter_size") or "0")
    return max(known, default=0) or None if stored.isdecimal() and int(stored[:18]) > 0 else None


def _is_ort(head: str) -> bool:
    return all(pattern.search(head) is not None for pattern in (_HEAD, _CATEGORY, _MARKS))


ORT_PROFILE = Reader("ONNX Runtime's profile", _is_ort, _read_ort, MOST_TOOL_BYTES)
