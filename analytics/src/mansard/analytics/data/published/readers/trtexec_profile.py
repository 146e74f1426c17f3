"""``trtexec --exportProfile``: the time of each layer; and the same of TensorRT's IProfiler.

Layers are timed in a pass of their own or with events between them: their sum is not the time of
the network, and no run is made of it.
"""

from __future__ import annotations

import re
import statistics

from mansard.analytics.data.published.cells import LayerRow, TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_LAYERS,
    Reader,
    Reading,
    ToolFile,
    cells,
    parse_json,
)
from mansard.core.errors import InputError
from mansard.core.tensorrt_files import ExportedLayerTime

_KEYS = re.compile(r'^\s*\[\s*\{\s*"count"\s*:')
_SAMPLES = re.compile(r'^\s*\{\s*"(?P<name>(?:[^"\\]|\\.)*)"\s*:\s*\[\s*-?[\d.]')
_TENSORRT = re.compile(r"Reformatting CopyNode|ForeignNode\[|\(Unnamed Layer\*|__myl")


def _read(source: ToolFile) -> Reading:
    entries = parse_json(source, list[ExportedLayerTime], "trtexec --exportProfile")
    runs = entries[0].count if entries else None
    layers = [
        LayerRow(
            name=layer.name,
            mean_s=_seconds(layer.average_ms),
            median_s=_seconds(layer.median_ms),
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
    return Reading([layers_row(source, layers, method)])


def _read_samples(source: ToolFile) -> Reading:
    times = parse_json(source, dict[str, list[float]], "TensorRT's IProfiler")
    medians = {name: statistics.median(each) / 1e3 for name, each in times.items() if each}
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
    return Reading([layers_row(source, layers, method)])


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


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3


TRTEXEC_PROFILE = Reader(
    "trtexec --exportProfile", lambda head: _KEYS.match(head) is not None, _read
)
IPROFILER_TIMES = Reader("times of TensorRT's IProfiler", _is_samples, _read_samples)
