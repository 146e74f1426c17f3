"""Exports of Nsight Compute made up of a few cells, as the tool writes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.launch import Export, ProfiledLaunch
from mansard.analytics.models.counters.reading import read_export

FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream")
PLACED = (*FIXED, "Block Size", "Grid Size", "Device", "CC")

SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"


def floats(fma: float, add: float = 0, mul: float = 0) -> dict[str, float]:
    """Thread instructions in fp32."""
    return {SASS.format("ffma"): fma, SASS.format("fadd"): add, SASS.format("fmul"): mul}


def raw_page(
    columns: Mapping[str, str], rows: Sequence[Sequence[str]], kernels: Sequence[str] = ()
) -> str:
    """``columns``: metric to unit; a row holds their cells. Kernels are k0, k1, … by default."""
    lines = [[*PLACED, *columns], [""] * len(PLACED) + list(columns.values())]
    for number, cells in enumerate(rows):
        kernel = kernels[number] if kernels else f"k{number}"
        placed = [
            str(number),
            "7",
            "python",
            "host",
            kernel,
            "1",
            "7",
            "(128, 1, 1)",
            "(2, 256, 1)",
        ]
        lines.append([*placed, "0", "8.7", *cells])
    return _quoted(lines)


def details_page(rows: Sequence[tuple[str, str, str, str, str, str]]) -> str:
    """``rows``: ID, kernel, section, metric, unit, value; as short as the tool leaves them."""
    head = [*PLACED, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name"]
    lines = [
        [
            number,
            "7",
            "python",
            "host",
            kernel,
            "1",
            "7",
            "(128, 1, 1)",
            "(2, 1, 1)",
            "0",
            "8.7",
            *rest,
        ]
        for number, kernel, *rest in rows
    ]
    return _quoted([[*head, "Rule Type", "Rule Description", "Speedup"], *lines])


def _quoted(lines: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(lines)
    return text.getvalue()


def read(text: str | bytes) -> Export:
    """What is read of it."""
    data = text.encode() if isinstance(text, str) else text
    return read_export(ToolFile("export.csv", data))


def launch(
    metrics: Mapping[str, float], kernel: str = "kernel", sm: int | None = 87
) -> ProfiledLaunch:
    """A launch with these metrics."""
    return ProfiledLaunch(line=3, kernel=kernel, metrics=metrics, compute_capability=sm)
