"""Nsight Compute: its messages, and the metrics that a network's counters are made of, by chip.

A role is what is wanted: time, clocks, FLOP, bytes of a level. Where it has alternatives, the first
whose metrics a chip's list has is asked for. A list has base names: ``ncu --query-metrics --chips
CHIP`` prints it (with the rollups ``.sum``, ``.avg``, ``.max`` left off).
https://docs.nvidia.com/nsight-compute/ProfilingGuide/ explains the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

Role = Literal[
    "time", "sm_cycles", "gpc_clock", "cuda_core_work", "tensor_core_work", "l1", "l2", "memory"
]
ROLES: tuple[Role, ...] = get_args(Role)
SECTOR_BYTES = 32  # of the caches and of DRAM: Nsight Compute's documentation, "sector"

REPORT_MAGIC = b"NVR\0"
REPORT_ENDINGS = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")  # the last one before 2020
EXPORT_COMMAND = "ncu --import REPORT --csv --page raw"
MESSAGE = re.compile(r"==(ERROR|WARNING|PROF)==\s*(.*)")  # of the program, among other lines

_CALL_RANGE = "mansard call "


def call_range(number: int) -> str:
    """The NVTX range around a call of a network, counted from 0."""
    return f"{_CALL_RANGE}{number}"


def call_of(ranges: Iterable[str]) -> int | None:
    """The number of the call that the NVTX ranges around a kernel name; None if none does."""
    ranges_of_calls = (re.fullmatch(rf"{_CALL_RANGE}([0-9]{{1,9}})", name) for name in ranges)
    return next((int(match[1]) for match in ranges_of_calls if match), None)


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
    """The work of one count of a metric, in FLOP of a precision."""

    precision: str
    flop: int


# Thread instructions of the CUDA cores. fp16 instructions do two lanes (HFMA2): Nsight Compute's
# own metrics ``derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x4`` and ``…hadd…_x2``.
_SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
_FLOP = {"fma": 2, "add": 1, "mul": 1}
CUDA_CORE_WORK: Mapping[str, WorkMetric] = MappingProxyType(
    {
        _SASS.format(letter + op): WorkMetric(precision, lanes * flop)
        for letter, precision, lanes in (("f", "fp32", 1), ("h", "fp16", 2), ("d", "fp64", 1))
        for op, flop in _FLOP.items()
    }
)
# Since Blackwell (10.0) also two fp32 in one instruction.
SINCE_PACKED = 100
PACKED_WORK: Mapping[str, WorkMetric] = MappingProxyType(
    {_SASS.format(f"f{op}2"): WorkMetric("fp32", 2 * flop) for op, flop in _FLOP.items()}
)
# Operations of the tensor cores, counted as such by Nsight Compute 2023.1 and later, by operands;
# each with those that count the same operations among others. Chips list a whole or its parts.
_OPS = "sm__ops_path_tensor_src_{}.sum"
_SMALL = ("fp4_fp6_fp8_dst_fp16", "fp4_fp6_fp8_dst_fp32")  # of 10.x
_TENSOR_OPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fp16": (),
        "fp16_dst_fp16": ("fp16",),
        "fp16_dst_fp32": ("fp16",),
        "bf16_dst_fp32": (),
        "tf32_dst_fp32": (),
        "fp64": (),
        **dict.fromkeys(_SMALL, ()),
        "fp8": _SMALL,
        "fp8_dst_fp16": ("fp8", *_SMALL),
        "fp8_dst_fp32": ("fp8", *_SMALL),
        "fp4_fp6_dst_fp16": _SMALL,  # of 12.x: what is not packed, beside the next
        "fp4_fp6_dst_fp32": _SMALL,
        "fp4_dst_fp32": (),
        "int8": (),
        "int4": (),
    }
)
TENSOR_CORE_WORK: Mapping[str, str] = MappingProxyType(
    {_OPS.format(n): "fp8" if "fp8" in n else n.partition("_")[0] for n in _TENSOR_OPS}
)
# Before that: the share of cycles in which the tensor pipe ran, whose peak is in
# ``hardware.peaks``, and the warp instructions that tell which precision it was. HFMA2 are plain
# half instructions, which are in those of HMMA on chips that have no other pipe for them.
TENSOR_PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
TENSOR_INSTRUCTIONS = tuple(
    f"sm__inst_executed_pipe_tensor_op_{op}.sum"
    for op in ("hmma", "hmma_type_hfma2", "imma", "dmma")
)


def tensor_operations(names: Collection[str]) -> tuple[str, ...]:
    """The metrics of operations among ``names`` that are added up: each operation is in one."""
    return tuple(
        _OPS.format(name)
        for name, wholes in _TENSOR_OPS.items()
        if _OPS.format(name) in names and not any(_OPS.format(whole) in names for whole in wholes)
    )


def base_name(metric: str) -> str:
    """A metric's name without its rollups: as the list of a chip has it."""
    return metric.partition(".")[0]


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


# By role the alternatives, each of metrics that give it together.
_ROLES: Mapping[Role, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "time": (("gpu__time_duration.sum",),),
        # The sum over the mean is the number of SMs.
        "sm_cycles": (("sm__cycles_elapsed.avg", "sm__cycles_elapsed.sum"),),
        "gpc_clock": (("gpc__cycles_elapsed.avg.per_second",),),
        "l1": (L1_TRAFFIC,),
        "l2": (L2_TRAFFIC,),
        "memory": (DRAM_TRAFFIC, DRAM_TRAFFIC_SINCE_BLACKWELL),
    }
)


# Base names that every chip lists, but for those named below: ``ncu --query-metrics`` of 2022.3 for
# Volta to Hopper. Later chips have no list here, and are asked for what they share with these.
_USUAL = (
    "gpu__time_duration",
    "sm__cycles_elapsed",
    "gpc__cycles_elapsed",
    *(base_name(name) for name in (*L1_TRAFFIC, *L2_TRAFFIC, *TEGRA_TRAFFIC)),
    *(base_name(name) for name, work in CUDA_CORE_WORK.items() if work.precision != "fp64"),
)
_WITHOUT_HALF = frozenset({"gv100", "gv11b", "tu102", "ga102", "ad102"})  # …_op_hmma_type_hfma2
_PIPE_TOTAL = "sm__inst_executed_pipe_tensor.sum"


class MetricChoice(NamedTuple):
    """The metrics to ask for, and the roles that the chip has none for."""

    metrics: tuple[str, ...]
    lacking: tuple[Role, ...]


def chip_of(sm: int) -> str | None:
    """The chip of a compute capability (87 is 8.7), as ``ncu`` calls it; None: not known."""
    return _CHIPS.get(sm)


def capability_of(chip: str) -> int | None:
    """The compute capability of a chip; None: not known."""
    return next((sm for sm, name in _CHIPS.items() if name == chip), None)


def usual_metrics(sm: int | None) -> tuple[str, ...]:
    """The metrics to ask for where no list of the chip is at hand. ``sm``: 87 is 8.7.

    Without a capability: those of a card with dedicated memory.
    """
    chip = chip_of(sm or 0) or ""
    if (sm or 0) < SINCE_PACKED:
        instructions = [name for name in TENSOR_INSTRUCTIONS if "dmma" not in name]
        names = [TENSOR_PIPE, _PIPE_TOTAL, *instructions, *DRAM_TRAFFIC]
    else:
        names = [*DRAM_TRAFFIC_SINCE_BLACKWELL]
    listed = {*_USUAL, *map(base_name, names)}
    if chip in _WITHOUT_HALF:
        listed.remove("sm__inst_executed_pipe_tensor_op_hmma_type_hfma2")
    if chip == "gv100":
        listed.remove("sm__inst_executed_pipe_tensor_op_imma")
    total = (_PIPE_TOTAL,) if base_name(_PIPE_TOTAL) in listed else ()
    return (*choose_metrics(chip, listed).metrics, *total)


def counting_command(sm: int | None) -> str:
    """The command line that collects ``usual_metrics``; its PROGRAM is to be filled in."""
    return (
        "ncu --target-processes all --clock-control none --csv --page raw --print-units base "
        f"--log-file counters.csv --metrics {','.join(usual_metrics(sm))} PROGRAM"
    )


def choose_metrics(chip: str, listed: Collection[str]) -> MetricChoice:
    """The smallest set of metrics for ``chip``, out of the base names that it lists."""

    def has(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if base_name(name) in listed)

    chosen: dict[Role, tuple[str, ...]] = {}
    for role, alternatives in _ROLES.items():
        if role == "memory" and chip in TEGRA_CHIPS:
            alternatives = (TEGRA_TRAFFIC,)  # noqa: PLW2901 - of this chip
        chosen[role] = next(
            (alternative for alternative in alternatives if has(alternative) == alternative), ()
        )
    chosen["cuda_core_work"] = has((*CUDA_CORE_WORK, *PACKED_WORK))
    operations = tensor_operations(has(TENSOR_CORE_WORK))
    pipe = has((TENSOR_PIPE,))
    # The pipe's cycles also tell where operations of a kind that no metric counts ran.
    chosen["tensor_core_work"] = (
        (*pipe, *operations) if operations else (*pipe, *has(TENSOR_INSTRUCTIONS)) if pipe else ()
    )
    lacking = tuple(role for role in ROLES if not chosen[role])
    return MetricChoice(tuple(name for role in ROLES for name in chosen[role]), lacking)
