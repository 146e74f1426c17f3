"""Selects the reader of a file by its content; the file's name is not used.

Files that other commands read, of Nsight Compute and tegrastats, are known as well: to name those
commands.
"""

from __future__ import annotations

import re

from mansard.analytics.data.published.readers.layer_profiles import CUDLA, ORT_PROFILE
from mansard.analytics.data.published.readers.llama_bench import (
    LLAMA_CSV,
    LLAMA_JSON,
    LLAMA_JSONL,
    LLAMA_MARKDOWN,
)
from mansard.analytics.data.published.readers.mlperf import MLPERF_DETAIL, MLPERF_LOG, MLPERF_TABLE
from mansard.analytics.data.published.readers.power_logs import JETSON_STATS, RAIL_SAMPLES, ZEUS
from mansard.analytics.data.published.readers.reader import Reader, ToolFile, ToolReading
from mansard.analytics.data.published.readers.serving import SERVING
from mansard.analytics.data.published.readers.trtexec_exports import (
    IPROFILER_TIMES,
    TRTEXEC_LAYERS,
    TRTEXEC_PROFILE,
    TRTEXEC_TIMES,
)
from mansard.analytics.data.published.readers.trtexec_log import (
    TRTEXEC_BUILD,
    TRTEXEC_CARD,
    TRTEXEC_LOG,
    TRTEXEC_SUMMARY,
)
from mansard.core.errors import InputError

# Of the command line and of the GUI; or a report.
_NCU = re.compile(
    r'^\ufeff?"?(?:ID|Process ID)"?[,;\t].*"?(?:Kernel|Function) Name"?[,;\t]|\ANVR\0', re.M
)


_TEGRASTATS = re.compile(r"\bRAM \d+/\d+MB \(lfb |\bRAM \d+/\d+MB .*\bCPU \[")


def _refuse_counters(source: ToolFile) -> ToolReading:
    raise InputError(
        "holds counters of Nsight Compute",
        where=source.where,
        fix="use 'mansard models ncu import'",
    )


def _refuse_telemetry(source: ToolFile) -> ToolReading:
    raise InputError(
        "is a log of tegrastats", where=source.where, fix="use 'mansard board telemetry'"
    )


NCU = Reader("Nsight Compute", lambda head: _NCU.search(head) is not None, _refuse_counters)
TEGRASTATS = Reader(
    "tegrastats", lambda head: _TEGRASTATS.search(head) is not None, _refuse_telemetry
)


READERS: tuple[Reader, ...] = (
    TRTEXEC_TIMES,
    TRTEXEC_PROFILE,
    TRTEXEC_LAYERS,
    TRTEXEC_SUMMARY,
    TRTEXEC_BUILD,
    TRTEXEC_CARD,
    IPROFILER_TIMES,
    LLAMA_JSON,
    LLAMA_JSONL,
    LLAMA_CSV,
    LLAMA_MARKDOWN,
    *SERVING,
    MLPERF_DETAIL,
    MLPERF_LOG,
    MLPERF_TABLE,
    ZEUS,
    JETSON_STATS,
    CUDLA,
    RAIL_SAMPLES,
    ORT_PROFILE,
    NCU,
    TEGRASTATS,
    TRTEXEC_LOG,
)


def recognise(source: ToolFile) -> Reader | None:
    """The reader whose kind of file this is; None for any other, such as a table."""
    head = source.head
    return next((reader for reader in READERS if reader.recognise(head)), None)
