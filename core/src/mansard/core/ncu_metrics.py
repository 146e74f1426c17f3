"""The metrics of Nsight Compute that a network's counters are made of, by chip.

A role is what is wanted: time, clocks, FLOP, bytes of a level. Each has alternatives in the
order of preference; the first whose metrics a chip's list has is asked for. A list has base
names: ``ncu --query-metrics --chips CHIP`` prints it (with the rollups ``.sum``, ``.avg``,
``.max`` left off). https://docs.nvidia.com/nsight-compute/ProfilingGuide/ explains the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Role = Literal[
    "time", "sm_cycles", "gpc_clock", "cuda_core_work", "tensor_core_work", "l1", "l2", "memory"
]
SECTOR_BYTES = 32  # of the caches and of DRAM: Nsight Compute's documentation, "sector"

_CALL_RANGE = "mansard call "


def call_range(number: int) -> str:
    """The NVTX range around a call of a network, counted from 0."""
    return f"{_CALL_RANGE}{number}"


def call_of(ranges: Iterable[str]) -> int | None:
    """Which call some NVTX ranges around a kernel name; None: none."""
    found = (re.fullmatch(rf"{_CALL_RANGE}([0-9]{{1,9}})", name) for name in ranges)
    return next((int(each[1]) for each in found if each), None)


# Compute capability -> the chip, as ``ncu --list-chips`` calls it. Chips of one capability have
# the same metrics (ga102 to ga107).
_CHIPS: Mapping[int, str] = MappingProxyType(
    {
        70: "gv100",
        72: "gv11b",
        75: "tu102",
        80: "ga100",
        86: "ga102",
        87: "ga10b",
        89: "ad102",
        90: "gh100",
        100: "gb100",
        101: "gb10b",
        110: "gb10b",
        120: "gb202",
    }
)
# Their memory is the system's: the L2 cache's sectors of "sysmem" are all that crosses. Recorded
# exports of an Orin Nano have columns ``dram__*`` that are 0.
TEGRA_CHIPS = frozenset({"gv11b", "ga10b", "gb10b"})


class WorkMetric(NamedTuple):
    """What one count of a metric is: so many FLOP of a precision."""

    precision: str
    flop: int


# Thread instructions of the CUDA cores. fp16 instructions do two lanes (HFMA2): Nsight Compute's
# own metrics ``derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x4`` and ``…hadd…_x2``.
_SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
CUDA_CORE_WORK: Mapping[str, WorkMetric] = MappingProxyType(
    {
        _SASS.format("ffma"): WorkMetric("fp32", 2),
        _SASS.format("fadd"): WorkMetric("fp32", 1),
        _SASS.format("fmul"): WorkMetric("fp32", 1),
        _SASS.format("hfma"): WorkMetric("fp16", 4),
        _SASS.format("hadd"): WorkMetric("fp16", 2),
        _SASS.format("hmul"): WorkMetric("fp16", 2),
        _SASS.format("dfma"): WorkMetric("fp64", 2),
        _SASS.format("dadd"): WorkMetric("fp64", 1),
        _SASS.format("dmul"): WorkMetric("fp64", 1),
    }
)
# Operations of the tensor cores, counted as such by Nsight Compute 2023.1 and later.
_OPS = "sm__ops_path_tensor_src_{}.sum"
TENSOR_CORE_WORK: Mapping[str, WorkMetric] = MappingProxyType(
    {
        _OPS.format("fp16_dst_fp16"): WorkMetric("fp16", 1),
        _OPS.format("fp16_dst_fp32"): WorkMetric("fp16", 1),
        _OPS.format("bf16_dst_fp32"): WorkMetric("bf16", 1),
        _OPS.format("tf32_dst_fp32"): WorkMetric("tf32", 1),
        _OPS.format("fp64"): WorkMetric("fp64", 1),
        _OPS.format("fp8"): WorkMetric("fp8", 1),
        _OPS.format("fp8_dst_fp16"): WorkMetric("fp8", 1),
        _OPS.format("fp8_dst_fp32"): WorkMetric("fp8", 1),
        _OPS.format("int8"): WorkMetric("int8", 1),
        _OPS.format("int4"): WorkMetric("int4", 1),
    }
)
# Before that: the share of cycles in which the tensor pipe ran, whose peak is in
# ``hardware.peaks``, and the warp instructions that tell which precision it was.
TENSOR_PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
TENSOR_INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "sm__inst_executed_pipe_tensor_op_hmma.sum": "hmma",
        # Plain half instructions on the same pipe, which are in the count above.
        "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum": "hfma2",
        "sm__inst_executed_pipe_tensor_op_imma.sum": "imma",
        "sm__inst_executed_pipe_tensor_op_dmma.sum": "dmma",
    }
)


# Bytes, both directions together.
L1_TRAFFIC = ("l1tex__t_bytes.sum",)
L2_TRAFFIC = ("lts__t_bytes.sum",)
# Read and written: bytes, and on Tegra sectors.
DRAM_TRAFFIC = ("dram__bytes_read.sum", "dram__bytes_write.sum")
DRAM_TRAFFIC_SINCE_BLACKWELL = ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum")
# What fills the L2 cache from the system's memory, and what is written to lines of it. A line
# that is written twice before it leaves the cache counts twice.
TEGRA_TRAFFIC = (
    "lts__d_sectors_fill_sysmem.sum",
    "lts__t_sectors_aperture_sysmem_op_write.sum",
)


class _Alternative(NamedTuple):
    """Metrics that give a role together; of ``any_of`` those that the list has, one at least."""

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()


_DRAM = _Alternative(all_of=DRAM_TRAFFIC)
_DRAM_SINCE_BLACKWELL = _Alternative(all_of=DRAM_TRAFFIC_SINCE_BLACKWELL)
_SYSMEM = _Alternative(all_of=TEGRA_TRAFFIC)
_ROLES: Mapping[Role, tuple[_Alternative, ...]] = MappingProxyType(
    {
        "time": (_Alternative(("gpu__time_duration.sum",)),),
        # The sum over the mean is the number of SMs.
        "sm_cycles": (_Alternative(("sm__cycles_elapsed.avg", "sm__cycles_elapsed.sum")),),
        "gpc_clock": (_Alternative(("gpc__cycles_elapsed.avg.per_second",)),),
        "cuda_core_work": (_Alternative(any_of=tuple(CUDA_CORE_WORK)),),
        "tensor_core_work": (
            _Alternative(any_of=tuple(TENSOR_CORE_WORK)),
            _Alternative((TENSOR_PIPE,), any_of=tuple(TENSOR_INSTRUCTIONS)),
        ),
        "l1": (_Alternative(L1_TRAFFIC),),
        "l2": (_Alternative(L2_TRAFFIC),),
        "memory": (_DRAM, _DRAM_SINCE_BLACKWELL),
    }
)


class MetricChoice(NamedTuple):
    """The metrics to ask for, and the roles that the chip has none for."""

    metrics: tuple[str, ...]
    lacking: tuple[Role, ...]


def chip_of(sm: int) -> str | None:
    """The chip of a compute capability (87 is 8.7), as ``ncu`` calls it; None: not known."""
    return _CHIPS.get(sm)


def base_name(metric: str) -> str:
    """A metric's name without its rollups: as the list of a chip has it."""
    return metric.partition(".")[0]


def choose_metrics(chip: str, listed: Collection[str]) -> MetricChoice:
    """The least set of metrics for ``chip``, of the base names that its list has."""
    metrics: list[str] = []
    lacking: list[Role] = []
    for role, alternatives in _ROLES.items():
        if role == "memory" and chip in TEGRA_CHIPS:
            alternatives = (_SYSMEM,)  # noqa: PLW2901 - of this chip
        found = next(filter(None, (_listed(each, listed) for each in alternatives)), ())
        metrics += found
        if not found:
            lacking.append(role)
    return MetricChoice(tuple(metrics), tuple(lacking))


def _listed(alternative: _Alternative, listed: Collection[str]) -> tuple[str, ...]:
    """What to ask for; empty where the list lacks what the alternative needs."""
    some = tuple(name for name in alternative.any_of if base_name(name) in listed)
    is_whole = all(base_name(name) in listed for name in alternative.all_of)
    if not is_whole or (alternative.any_of and not some):
        return ()
    return (*alternative.all_of, *some)
