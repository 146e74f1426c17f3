"""What NVIDIA's trt-engine-explorer keeps of trtexec's log as JSON: ``*.metadata.json``.

The performance summary is a run. Options of a build and the properties of a card hold no time;
they are said of the other files of the same command.
"""

from __future__ import annotations

import re

import msgspec

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.reader import (
    Reader,
    Reading,
    ToolFile,
    cells,
    known,
    network_of,
    parse_json,
)
from mansard.analytics.data.published.readers.trtexec_method import Setting, host_remark
from mansard.core.errors import InputError

_SUMMARY = re.compile(r'^\s*\{\s*"performance_summary"\s*:')
_BUILD = re.compile(r'^\s*\{\s*"(?:model_options|build_options)"\s*:')
_CARD = re.compile(r'^\s*\[?\s*\{\s*"Name"\s*:\s*"[^"]*"\s*,\s*"ComputeCapability"')
_MEDIAN = 3  # of [least, most, mean, median, percentiles…]


class _Performance(msgspec.Struct):
    throughput: float | None = msgspec.field(default=None, name="Throughput")
    latency: list[float] = msgspec.field(default=[], name="Latency")
    compute: list[float] = msgspec.field(default=[], name="GPU Compute Time")
    enqueue: list[float] = msgspec.field(default=[], name="Enqueue Time")
    total_s: float | None = msgspec.field(default=None, name="Total Host Walltime")


class _Summary(msgspec.Struct):
    performance_summary: _Performance
    inference_options: dict[str, object] = {}
    device_information: dict[str, object] = {}


class _Build(msgspec.Struct):
    model_options: dict[str, object] = {}
    build_options: dict[str, object] = {}


class _Card(msgspec.Struct):
    name: str = msgspec.field(name="Name")


def _read_summary(source: ToolFile) -> Reading:
    found = parse_json(source, _Summary, "trt-engine-explorer's metadata")
    performance = found.performance_summary
    if len(performance.compute) <= _MEDIAN:
        raise InputError(
            "has no GPU compute time in its performance summary",
            where=source.where,
            fix="export it again",
        )
    setting = Setting(options={k: str(v) for k, v in found.inference_options.items()})
    enqueue_ms = performance.enqueue[_MEDIAN] if len(performance.enqueue) > _MEDIAN else None
    figures = known(
        queries_per_s=performance.throughput,
        least_s=performance.compute[0] / 1e3,
        enqueue_s=None if enqueue_ms is None else enqueue_ms / 1e3,
        host_latency_s=performance.latency[_MEDIAN] / 1e3
        if len(performance.latency) > _MEDIAN
        else None,
    )
    row = TextRow(
        1,
        cells(
            time_s=performance.compute[_MEDIAN] / 1e3,
            batch=setting.batch,
            method=setting.method("median GPU compute time"),
            remark=host_remark(enqueue_ms, performance.compute[_MEDIAN]),
        ),
        figures,
    )
    card = found.device_information.get("Selected Device")
    notes = [f"it was measured on {card}"] if card else []
    return Reading([row], [*notes, *shape_notes(setting)])


def shape_notes(setting: Setting) -> list[str]:
    """How to say the batch where the file has only the shape of its input."""
    if setting.batch is not None or setting.input_shape is None:
        return []
    shape = setting.input_shape[:80]
    return [f"its input is {shape}: say --fixed batch=N if the first dimension is the batch"]


def _read_build(source: ToolFile) -> Reading:
    found = parse_json(source, _Build, "trt-engine-explorer's metadata")
    options = {**found.build_options, **found.model_options}
    setting = Setting(options={name: str(value) for name, value in options.items()})
    model = network_of(setting.model or "")
    return Reading(says=cells(network=model, precision=setting.precision))


def _read_card(source: ToolFile) -> Reading:
    try:
        (card,) = parse_json(source, list[_Card], "trt-engine-explorer's metadata")
    except ValueError as error:
        raise InputError("is of several cards", where=source.where, fix="leave it out") from error
    return Reading(notes=[f"it is of {card.name}"])


TRTEXEC_SUMMARY = Reader(
    "trt-engine-explorer's summary", lambda head: _SUMMARY.match(head) is not None, _read_summary
)
TRTEXEC_BUILD = Reader(
    "trt-engine-explorer's build options",
    lambda head: _BUILD.match(head) is not None,
    _read_build,
)
TRTEXEC_CARD = Reader(
    "trt-engine-explorer's card", lambda head: _CARD.match(head) is not None, _read_card
)
