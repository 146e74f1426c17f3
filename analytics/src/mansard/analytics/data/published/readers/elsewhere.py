"""Files that other commands read: exports of Nsight Compute, and logs of tegrastats."""

from __future__ import annotations

import re

from mansard.analytics.data.published.readers.reader import Reader, Reading, ToolFile
from mansard.core.errors import InputError

_HEADER = re.compile(r'^"?(?:ID|Process ID)"?,.*"?Kernel Name"?,', re.M)


_TEGRASTATS = re.compile(r"\bRAM \d+/\d+MB \(lfb |\bRAM \d+/\d+MB .*\bCPU \[")


def _refuse_counters(source: ToolFile) -> Reading:
    raise InputError(
        "holds counters of Nsight Compute", where=source.where, fix="use 'mansard ncu import'"
    )


def _refuse_telemetry(source: ToolFile) -> Reading:
    raise InputError("is a log of tegrastats", where=source.where, fix="use 'mansard telemetry'")


NCU = Reader("Nsight Compute", lambda head: _HEADER.search(head) is not None, _refuse_counters)
TEGRASTATS = Reader(
    "tegrastats", lambda head: _TEGRASTATS.search(head) is not None, _refuse_telemetry
)
