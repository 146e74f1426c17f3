"""One kernel launch as an export has it: its name, its grid, and the metrics that are used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Launch:
    """``metrics``: in SI and single counts, by their full names; absent ones were not counted."""

    line: int
    kernel: str
    metrics: Mapping[str, float]
    n_launches: int = 1
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    compute_capability: int | None = None
    nvtx: tuple[str, ...] | None = None

    def time_out_of_range(self) -> bool:
        """Whether its duration is none that a kernel can have."""
        time_s = self.metrics.get("gpu__time_duration.sum")
        return time_s is not None and not LEAST_S <= time_s <= MOST_S


@dataclass(frozen=True)
class Export:
    """A file as it was read. ``form``: which page of which tool; ``notes``: a line each."""

    form: str
    launches: tuple[Launch, ...]
    notes: tuple[str, ...] = field(default=())


LEAST_S, MOST_S = 1e-9, 86400.0  # of a launch: a ns, a day
_WANTED = re.compile(
    r"gpu__time_duration|(?:sm|smsp|gpc|lts|dram)__cycles_elapsed|sm__cycles_active"
    r"|(?:sm|smsp)__sass_thread_inst_executed_op_[dfh](?:fma|add|mul)2?_pred_on"
    r"|sm__ops_path_tensor_\w+|sm__pipe_tensor(?:_op_[hid]mma)?_cycles_active"
    r"|sm__inst_executed_pipe_(?:tensor(?:_op_[hid]mma(?:_type_hfma2)?)?|fma_type_fp16|fp16)"
    r"|dram__(?:bytes|sectors)(?:_op)?(?:_read|_write)?|l1tex__t_bytes"
    r"|lts__d_sectors_fill_sysmem|lts__t_sectors_aperture_sysmem_op_(?:read|write)"
    r"|lts__t_(?:bytes|sectors)|lts__t_sectors_srcunit_tex_op_(?:read|write)"
    r"|launch__sm_count|device__attribute_(?:multiprocessor_count|l2s_count|integrated)"
)
# Labels of the details page -> the metric that each shows. "SM Frequency" is the clock of the GPCs
# since 2023; the files that were compared with their raw pages agree.
_LABELS = MappingProxyType(
    {
        "Duration": "gpu__time_duration.sum",
        "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        "Elapsed Cycles": "gpc__cycles_elapsed.max",
        "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
        "SM Active Cycles": "sm__cycles_active.avg",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "# SMs": "launch__sm_count",
    }
)
METRIC_NAME = re.compile(r"[a-z0-9]+__\w+(?:\.\w+)*")


def is_used(column: str) -> bool:
    """Whether a column is kept: any but those of metrics that nothing is made of."""
    return METRIC_NAME.fullmatch(column) is None or wanted(column) is not None


def wanted(name: str) -> str | None:
    """The metric that a column or a label stands for, if anything is made of it."""
    name = _LABELS.get(name, name)
    return name if _WANTED.fullmatch(name.partition(".")[0]) else None
