"""Bytes at each level of memory, made of the metrics that an export happens to have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mansard.core.ncu_metrics import (
    DRAM_TRAFFIC,
    DRAM_TRAFFIC_SINCE_BLACKWELL,
    SECTOR_BYTES,
    TEGRA_CHIPS,
    TEGRA_TRAFFIC,
    base_name,
    chip_of,
)
from mansard.core.records import MemoryLevel, TrafficCount


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
    yield _tegra_memory(metrics) if is_tegra(metrics, sm) else _dram(metrics)


def is_tegra(metrics: Mapping[str, float], sm: int | None) -> bool:
    """Whether the memory is the system's: then ``dram__*`` says nothing, 0 included."""
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
