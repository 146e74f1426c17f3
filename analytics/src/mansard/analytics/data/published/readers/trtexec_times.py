"""``trtexec --exportTimes``: when each query began and ended, in milliseconds."""

from __future__ import annotations

import re
import statistics

import numpy as np

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.reader import (
    MOST_TOOL_BYTES,
    Reader,
    Reading,
    ToolFile,
    cells,
    known,
    parse_json,
)
from mansard.analytics.data.published.readers.trtexec_method import host_remark
from mansard.analytics.data.repeats import repetition_deviation
from mansard.core.errors import InputError
from mansard.core.tensorrt_files import ExportedQuery

_KEYS = re.compile(r'^\s*\[\s*\{\s*"start(?:Enq|In|H2d)Ms"')
_LEAST_FOR_P99 = 100


def _read(source: ToolFile) -> Reading:
    queries = parse_json(source, list[ExportedQuery], "trtexec --exportTimes")
    if any(query.compute_ms <= 0 for query in queries) or not queries:
        what = "has a query without a GPU compute time" if queries else "holds no query"
        raise InputError(what, where=source.where, fix="export the times again")
    times_s = [query.compute_ms / 1e3 for query in queries]
    hosts = statistics.median(query.latency_ms for query in queries) / 1e3
    copies = [sum(filter(None, (q.h2d_ms, q.d2h_ms, q.in_ms, q.out_ms))) for q in queries]
    copy_ms = statistics.median(copies)
    copied = f"{copy_ms:.4g} ms of copies are not in it" if copy_ms > 0 else "nothing is copied"
    enqueues_ms = [
        q.end_enq_ms - q.start_enq_ms
        for q in queries
        if q.end_enq_ms is not None and q.start_enq_ms is not None
    ]
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
        enqueue_s=None if enqueue_ms is None else enqueue_ms / 1e3,
    )
    time_s = statistics.median(times_s)
    remark = host_remark(enqueue_ms, time_s * 1e3)
    row = TextRow(1, cells(time_s=time_s, method=method, remark=remark), figures)
    return Reading([row])


def _p99(times_s: list[float]) -> float | None:
    """At least 99 % of the times are no longer; None of fewer than 100."""
    if len(times_s) < _LEAST_FOR_P99:
        return None
    return float(np.quantile(times_s, 0.99, method="inverted_cdf"))


TRTEXEC_TIMES = Reader(
    "trtexec --exportTimes", lambda head: _KEYS.match(head) is not None, _read, MOST_TOOL_BYTES
)
