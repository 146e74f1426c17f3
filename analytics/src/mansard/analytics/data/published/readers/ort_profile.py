"""ONNX Runtime's profile (``SessionOptions.enable_profiling``): the time of each node.

Three of its faults are known. A node with a sequence of tensors leaves a comma before a bracket
(microsoft/onnxruntime#10974), which is read as it is meant. A session that was not ended leaves a
file that is cut (#10975), and after a million events the rest is dropped (#17013): both are
refused, because a part of the nodes is not the network.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from mansard.analytics.data.published.cells import LayerRow
from mansard.analytics.data.published.readers.reader import (
    MOST_TOOL_BYTES,
    Reader,
    Reading,
    ToolFile,
    parse_json,
)
from mansard.analytics.data.published.readers.trtexec_profile import layers_row
from mansard.core.errors import InputError

_HEAD = re.compile(r"^\s*\[\s*\{")
_MARKS = re.compile(
    r'"(?:model_loading_\w+|session_initialization|model_run|\w*_kernel_time|op_name)"'
)
_CATEGORY = re.compile(r'"cat"\s*:\s*"(?:Session|Node|Api|Kernel)"')
_STRAY_COMMA = re.compile(rb'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])')
_MOST_EVENTS = 1_000_000
_SUFFIX = "_kernel_time"
_CALLS = ("model_run", "SequentialExecutor::Execute", "ParallelExecutor::Execute")
_WITH_BODIES = frozenset({"If", "Loop", "Scan"})
_CPU = "CPUExecutionProvider"
_AGAIN = "end the session (InferenceSession.end_profiling) and give the file that it names"


class _Event(msgspec.Struct):
    cat: str
    name: str
    dur: float = 0.0
    args: dict[str, Any] = {}


def _read(source: ToolFile) -> Reading:
    if not source.data.rstrip().endswith(b"]"):
        raise InputError(
            "is a profile of ONNX Runtime that was cut, as where its session was not ended "
            "(microsoft/onnxruntime#10975): its nodes are not the whole network",
            where=source.where,
            fix=_AGAIN,
        )
    mended = _STRAY_COMMA.sub(lambda found: found[1] or b"", source.data)
    events = parse_json(ToolFile(source.where, mended), list[_Event], "ONNX Runtime's profiler")
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
    return Reading([layers_row(source, layers, method)], notes)


def _layers(events: Sequence[_Event]) -> tuple[list[LayerRow], list[str]]:
    """The nodes in the order in which they ran first, and a note for each doubt about times."""
    times_us: dict[tuple[str, str, str], list[float]] = {}
    on_gpu: dict[tuple[str, str, str], list[float]] = {}
    key = None
    for event in events:
        if event.cat == "Node" and event.name.endswith(_SUFFIX):
            op_type = str(event.args.get("op_name", ""))
            name = event.name.removesuffix(_SUFFIX) or op_type
            key = (name, str(event.args.get("node_index", "")), op_type)
            times_us.setdefault(key, []).append(event.dur)
            if event.args.get("provider") not in {_CPU, None}:
                on_gpu.setdefault(key, []).append(0.0)
        elif event.cat == "Kernel" and key in on_gpu:
            on_gpu[key][-1] += event.dur
    # The time of a node on a GPU is that of the host, which only puts its kernels into a queue.
    timed = {key: on_gpu.get(key, each) for key, each in times_us.items()}
    medians_s = {key: statistics.median(each) / 1e6 for key, each in timed.items()}
    total_s = sum(medians_s.values())
    layers = [
        LayerRow(
            name=key[0],
            op_type=key[2] or None,
            mean_s=statistics.fmean(each) / 1e6 if any(each) else None,
            median_s=medians_s[key] if any(each) else None,
            share=medians_s[key] / total_s if total_s and any(each) else None,
            runs=len(each),
        )
        for key, each in timed.items()
    ]
    notes = []
    if n_untimed := sum(not any(each) for each in on_gpu.values()):
        notes.append(f"{n_untimed} nodes on a GPU have no time: their kernels were not timed")
    if _WITH_BODIES & {key[2] for key in times_us}:
        notes.append("times of If, Loop and Scan hold those of the nodes in them")
    return layers, notes


def _recognise(head: str) -> bool:
    return all(pattern.search(head) is not None for pattern in (_HEAD, _CATEGORY, _MARKS))


ORT_PROFILE = Reader("ONNX Runtime's profile", _recognise, _read, MOST_TOOL_BYTES)
