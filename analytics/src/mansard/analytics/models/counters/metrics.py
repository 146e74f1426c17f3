"""Time, clocks, FLOP and bytes of a launch, from its metrics, with their formulas.

Each result has its formula; one that is computed from rates and clocks also has its error. The
formulas of the tensor pipe and of a Tegra's memory were checked on recorded kernels whose work is
known (docs/results/counters.md). Bytes at each memory level are computed from the metrics that the
export has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from msgspec.structs import replace

from mansard.analytics.models.counters.launch import ProfiledLaunch
from mansard.analytics.models.counters.pagoda import pagoda_flop
from mansard.analytics.models.counters.rates import TIME, CompletedLaunch, complete
from mansard.analytics.models.counters.tensor_work import executed_instructions, tensor_work
from mansard.core.formats.ncu import (
    CUDA_CORE_WORK,
    DRAM_TRAFFIC,
    DRAM_TRAFFIC_SINCE_BLACKWELL,
    PACKED_WORK,
    SECTOR_BYTES,
    SINCE_PACKED,
    TEGRA_CHIPS,
    TEGRA_TRAFFIC,
    base_name,
    chip_of,
)
from mansard.core.records import MemoryLevel, TrafficCount, WorkCount


def traffic(metrics: Mapping[str, float], sm: int | None) -> Iterator[TrafficCount]:
    """The levels that were counted, and memory in any case. ``sm``: 87 is 8.7."""
    if "l1tex__t_bytes.sum" in metrics:
        yield _level("L1", None, None, metrics["l1tex__t_bytes.sum"], "l1tex__t_bytes")
    l2 = "lts__t_sectors_srcunit_tex_op_{}.sum"
    read, write = (_sectors(metrics, l2.format(way)) for way in ("read", "write"))
    if "lts__t_bytes.sum" in metrics:
        yield _level("L2", read, write, metrics["lts__t_bytes.sum"], "lts__t_bytes")
    elif read is not None and write is not None:
        yield _level(
            "L2", read, write, read + write, "32·lts__t_sectors_srcunit_tex_op_read/_write"
        )
    elif (both := _sectors(metrics, "lts__t_sectors.sum")) is not None:
        yield _level("L2", None, None, both, "32·lts__t_sectors")
    yield _memory(metrics, sm)


def _memory(metrics: Mapping[str, float], sm: int | None) -> TrafficCount:
    """The traffic of the DRAM; of a Tegra that between its L2 cache and the system.

    Exports of a Tegra may have ``dram__*``. A 0 means nothing there; another count is used where
    the traffic of the L2 cache was not counted.
    """
    dram = _dram(metrics)
    if not is_tegra(metrics, sm):
        return dram
    memory = _tegra_memory(metrics)
    return dram if memory.traffic_bytes is None and dram.traffic_bytes else memory


def is_tegra(metrics: Mapping[str, float], sm: int | None) -> bool:
    """Whether the memory is the system's: the metrics of such chips have no ``dram__*``."""
    is_tegra_chip = sm is not None and chip_of(sm) in TEGRA_CHIPS
    return is_tegra_chip or metrics.get("device__attribute_integrated") == 1


def _sectors(metrics: Mapping[str, float], name: str) -> float | None:
    return metrics[name] * SECTOR_BYTES if name in metrics else None


def _level(
    level: MemoryLevel,
    read: float | None,
    write: float | None,
    both: float | None,
    formula: str,
    why: str = "the export does not tell directions apart",
) -> TrafficCount:
    values = {"read_bytes": read, "write_bytes": write, "traffic_bytes": both}
    return TrafficCount(
        level=level,
        read_bytes=read,
        write_bytes=write,
        traffic_bytes=both,
        formula=formula,
        unknown={name: why for name, value in values.items() if value is None},
    )


_NO_DRAM = "the export has no dram__bytes"
_FILL, _WRITE = map(base_name, TEGRA_TRAFFIC)


def _dram(metrics: Mapping[str, float]) -> TrafficCount:
    read, write = (
        metrics.get(before, metrics.get(since))
        for before, since in zip(DRAM_TRAFFIC, DRAM_TRAFFIC_SINCE_BLACKWELL, strict=True)
    )
    if read is None:
        read = _sectors(metrics, "dram__sectors_read.sum")
    if write is None:
        write = _sectors(metrics, "dram__sectors_write.sum")
    both = metrics.get("dram__bytes.sum")
    if both is None and read is not None and write is not None:
        both = read + write
    why = _NO_DRAM if both is None else "the export has dram__bytes of both directions alone"
    return _level("memory", read, write, both, "dram__bytes", why)


# An Orin Nano whose cache has 4 slices (lts__cycles_elapsed: sum over mean) has 8 of these; slices
# run at the clock of the GPCs.
_HALF_SLICES = "device__attribute_l2s_count"


def _tegra_memory(metrics: Mapping[str, float]) -> TrafficCount:
    """Sectors that cross the side of the L2 cache to the system's memory: at least the DRAM's.

    The system's own cache may hold some of them, and a line that is written twice counts twice.
    """
    read, write = (_sectors(metrics, f"{name}.sum") for name in (_FILL, _WRITE))
    formula = f"32·{_FILL}, 32·{_WRITE}: at the L2 cache, an upper bound of the DRAM"
    if read is None:
        # A slice of the cache takes a sector in a cycle at most.
        share = metrics.get(f"{_FILL}.avg.pct_of_peak_sustained_elapsed")
        cycles = metrics.get("lts__cycles_elapsed.sum")
        halves, gpc = (metrics.get(name) for name in (_HALF_SLICES, "gpc__cycles_elapsed.avg"))
        if cycles is None and halves and gpc:
            cycles = halves / 2 * gpc
        if share is not None and cycles is not None:
            read = share / 100 * cycles * SECTOR_BYTES
            formula = f"32·{_FILL} as its share of a sector a cycle and slice, 32·{_WRITE}"
    both = read + write if read is not None and write is not None else None
    why = f"this chip has no counters of DRAM, and the export lacks {_FILL} or {_WRITE}"
    return _level("memory", read, write, both, formula, why)


@dataclass(frozen=True)
class LaunchCounts:
    """What the counters of one launch say; ``unknown`` has the reason of each None."""

    time_s: float | None
    clocks_hz: Mapping[str, float]
    n_sms: int | None
    sm_cycles: float | None
    work: tuple[WorkCount, ...]
    work_flop: float | None
    traffic: tuple[TrafficCount, ...]
    pagoda_flop: float | None
    unknown: Mapping[str, str]


def count(
    launch: ProfiledLaunch,
    *,
    precision: str | None = None,
    sm: int | None = None,
    all_asked: bool = False,
) -> LaunchCounts:
    """The quantities of ``launch``. ``precision``: of the network, where a kernel's name says none.

    ``sm``: the compute capability (87 is 8.7) where the export does not say it. ``all_asked``: all
    metrics that the chip lists were asked for, so that it has no others.
    """
    completed = complete(launch)
    launch = completed.launch
    m = launch.metrics
    sm = launch.compute_capability or sm
    n_sms, cycles = _n_sms(m), _cycles(m)
    unknown: dict[str, str] = {}
    time_s = m.get(TIME)
    if time_s is None:
        unknown["time_s"] = "the export has no gpu__time_duration"
    if n_sms is None:
        unknown["n_sms"] = "the export does not say it"
    if cycles is None:
        unknown["sm_cycles"] = "the export has no sm__cycles_elapsed"
    cuda, no_cuda = _cuda_work(m, precision, has_packed=(sm or 0) >= SINCE_PACKED and not all_asked)
    tensor, no_tensor = tensor_work(launch, precision, sm, n_sms, cycles)
    work = tuple(_with_error(term, completed) for term in (*tensor, *cuda))
    instructions = executed_instructions(launch, precision, sm, n_sms)
    by_pagoda, no_pagoda = pagoda_flop(m, instructions)
    if no_pagoda:
        unknown["pagoda_flop"] = no_pagoda
    missing = [why for why in (no_tensor, no_cuda) if why]
    if missing:
        unknown["work_flop"] = "; ".join(missing)
    return LaunchCounts(
        time_s=time_s,
        clocks_hz=_clocks_hz(m),
        n_sms=n_sms,
        sm_cycles=cycles,
        work=work,
        work_flop=None if missing else float(sum(term.flop for term in work)),
        traffic=tuple(_bytes_with_error(level, completed) for level in traffic(m, sm)),
        pagoda_flop=by_pagoda,
        unknown=unknown,
    )


_OF_UNIT = MappingProxyType(
    {
        "CUDA core": ("sm__sass_thread_inst",),
        "tensor core": ("sm__inst_executed_pipe_tensor", "sm__ops_path_tensor"),
    }
)


def _with_error(work: WorkCount, completed: CompletedLaunch) -> WorkCount:
    """``work`` with the error of the rates that its instructions were computed from."""
    made = completed.derivation(*_OF_UNIT[work.unit])
    if made is None and work.formula.startswith("pipe cycles"):
        made = completed.derivation("sm__cycles_elapsed")
    if made is None:
        return work
    return replace(work, error=made.error, formula=f"{work.formula}; from {made.formula}")


_OF_LEVEL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"L1": ("l1tex__",), "L2": ("lts__t_",), "memory": ("dram__",)}
)


def _bytes_with_error(level: TrafficCount, completed: CompletedLaunch) -> TrafficCount:
    is_tegra_memory = level.level == "memory" and "sysmem" in level.formula
    names = TEGRA_TRAFFIC if is_tegra_memory else _OF_LEVEL[level.level]
    made = completed.derivation(*names)
    has_any = any(v is not None for v in (level.read_bytes, level.write_bytes, level.traffic_bytes))
    if made is None or not has_any:
        return level
    return replace(level, error=made.error, formula=f"{level.formula}; from {made.formula}")


def _first(metrics: Mapping[str, float], *names: str) -> float | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _n_sms(metrics: Mapping[str, float]) -> int | None:
    said = _first(metrics, "device__attribute_multiprocessor_count", "launch__sm_count")
    if said:
        return round(said)
    total, mean = (metrics.get(f"sm__cycles_elapsed.{end}") for end in ("sum", "avg"))
    return round(total / mean) if total and mean else None


def _cycles(metrics: Mapping[str, float]) -> float | None:
    measured = _first(
        metrics, "sm__cycles_elapsed.avg", "smsp__cycles_elapsed.avg", "sm__cycles_elapsed.max"
    )
    total, n_sms = metrics.get("sm__cycles_elapsed.sum"), _n_sms(metrics)
    return measured if measured is not None else total / n_sms if total and n_sms else None


_CLOCKS = MappingProxyType(
    {"gpc": "gpc", "sm": "sm", "l2": "lts", "memory": "dram"}  # by what their metrics begin with
)


def _clocks_hz(metrics: Mapping[str, float]) -> dict[str, float]:
    clocks = {
        name: _first(metrics, f"{prefix}__cycles_elapsed.avg.per_second")
        for name, prefix in _CLOCKS.items()
    }
    return {name: hz for name, hz in clocks.items() if hz}


# CUDA cores.


def _cuda_work(
    metrics: Mapping[str, float], precision: str | None, *, has_packed: bool
) -> tuple[list[WorkCount], str | None]:
    """Thread instructions × FLOP of each; and why the work of a precision is not known."""
    work_counts: list[WorkCount] = []
    missing = None
    terms: dict[str, dict[str, int]] = {}
    for name, work in CUDA_CORE_WORK.items():
        terms.setdefault(work.precision, {})[name] = work.flop
    packed = [name for name in PACKED_WORK if name in metrics]
    if packed or has_packed:
        terms["fp32"] |= {name: work.flop for name, work in PACKED_WORK.items()}
    for counted, flops in terms.items():
        if counted == "fp16" and precision not in ("fp16", "bf16"):
            continue  # in other networks a half instruction moves a constant: it is no work
        counts = {name: metrics.get(name) for name in flops}
        if None in counts.values():
            missing = missing or _why_no_cuda(metrics, counted)
        elif flop := sum((threads or 0) * flops[name] for name, threads in counts.items()):
            formula = " + ".join(f"{n}·{_OP.sub('', base_name(name))}" for name, n in flops.items())
            work_counts.append(
                WorkCount(
                    unit="CUDA core",
                    precision=precision if counted == "fp16" and precision else counted,
                    flop=flop,
                    formula=f"{formula} of sm__sass_thread_inst_executed_op_*_pred_on",
                )
            )
    return work_counts, missing


_OP = re.compile(r"^.*_op_|_pred_on$")


def _why_no_cuda(metrics: Mapping[str, float], precision: str) -> str | None:
    if precision == "fp64":
        return None  # no network has any
    if precision == "fp16":
        ran = [
            value
            for name, value in metrics.items()
            if name.startswith(
                ("sm__inst_executed_pipe_fma_type_fp16", "sm__inst_executed_pipe_fp16")
            )
        ]
        if ran and max(ran) == 0:
            return None
    return f"{precision} instructions of CUDA cores were not counted"
