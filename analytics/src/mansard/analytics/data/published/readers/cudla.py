"""cuDLA's sample of layerwise statistics: when each layer of a DLA began and ended."""

from __future__ import annotations

import re

from mansard.analytics.data.published.cells import LayerRow
from mansard.analytics.data.published.readers.csv_rows import header_of, number, read_csv
from mansard.analytics.data.published.readers.reader import (
    MOST_LAYERS,
    Reader,
    Reading,
    ToolFile,
    at_most,
)
from mansard.analytics.data.published.readers.trtexec_profile import layers_row
from mansard.core.errors import InputError

_COLUMNS = ["layer_name", "start_ms", "end_ms"]


def _read(source: ToolFile) -> Reading:
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
    return Reading([layers_row(source, layers, "cuDLA: layers of the DLA in one call")])


CUDLA = Reader("cuDLA's layer statistics", lambda head: header_of(head) == _COLUMNS, _read)
