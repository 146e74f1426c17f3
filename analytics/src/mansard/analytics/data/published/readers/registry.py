"""Which reader a file is for, by what it holds; its name tells nothing."""

from __future__ import annotations

from mansard.analytics.data.published.readers.cudla import CUDLA
from mansard.analytics.data.published.readers.elsewhere import NCU, TEGRASTATS
from mansard.analytics.data.published.readers.jetson_stats import JETSON_STATS
from mansard.analytics.data.published.readers.llama_bench import (
    LLAMA_CSV,
    LLAMA_JSON,
    LLAMA_JSONL,
    LLAMA_MARKDOWN,
)
from mansard.analytics.data.published.readers.mlperf_log import MLPERF_LOG
from mansard.analytics.data.published.readers.mlperf_table import MLPERF_TABLE
from mansard.analytics.data.published.readers.ort_profile import ORT_PROFILE
from mansard.analytics.data.published.readers.rail_samples import RAIL_SAMPLES
from mansard.analytics.data.published.readers.reader import Reader, ToolFile
from mansard.analytics.data.published.readers.trtexec_layers import TRTEXEC_LAYERS
from mansard.analytics.data.published.readers.trtexec_log import TRTEXEC_LOG
from mansard.analytics.data.published.readers.trtexec_metadata import (
    TRTEXEC_BUILD,
    TRTEXEC_CARD,
    TRTEXEC_SUMMARY,
)
from mansard.analytics.data.published.readers.trtexec_profile import (
    IPROFILER_TIMES,
    TRTEXEC_PROFILE,
)
from mansard.analytics.data.published.readers.trtexec_times import TRTEXEC_TIMES
from mansard.analytics.data.published.readers.zeus import ZEUS

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
