"""Lines of memory: bandwidth and latency of each level, and what it takes to start a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mansard.core.caches import dram_low_bytes, latency_windows, scope_of
from mansard.core.records import Gpu, Trial
from mansard.microbench.cuda.sampling import GpuLimits
from tools.card_check import goals
from tools.card_check.lines.compute import peer_criteria, peer_note
from tools.card_check.lines.rows import (
    cycles_of,
    fastest,
    plain,
    rate_of,
    seconds_of,
    share_of,
)
from tools.card_check.published import published_for
from tools.card_check.table import Criterion, Line

_MIB = 1 << 20
_STREAMS = ("read", "triad", "copy")
_LOAD_BYTES = 4  # of one step of a chase


def memory_lines(
    rows: Sequence[Trial], limits: GpuLimits, duels: Mapping[str, Any]
) -> Iterator[Line]:
    """Main memory, L2, L1."""
    streams = [row for row in plain(rows) if row.family == "stream"]
    low_bytes = dram_low_bytes(limits.gpu.l2_bytes or 0)
    for kernel in _STREAMS:
        own = [row for row in streams if row.kernel == kernel and row.scope == "gpu"]
        far = [row for row in own if row.working_set_bytes >= low_bytes]
        if far:
            yield _dram(f"{kernel} DRAM", far, limits, duels.get(f"{kernel} DRAM"))
    reads = [row for row in streams if row.kernel == "read"]
    near = [row for row in reads if row.scope == "gpu" and row.working_set_bytes < low_bytes]
    if near:
        yield _l2(near, limits)
    inside = [row for row in reads if row.scope == "sm"]
    if inside:
        yield _l1(inside, limits)


def _dram(name: str, rows: Sequence[Trial], limits: GpuLimits, duel: Any) -> Line:
    best, gpu = fastest(rows), limits.gpu
    if best is None:
        return Line(name, failure=rows[0].failure or "no sample counted")
    share, criteria, notes = share_of(best, limits), [], []
    if share is not None:
        least = None if gpu.is_integrated else goals.memory_goal(best.kernel, gpu.name)
        criteria.append(Criterion("the limit", share, least, goals.EXCESS if least else None))
    if duel is not None:
        criteria += peer_criteria(duel)
        notes.append(peer_note(duel, "TB/s", 1e12))
    value = f"{rate_of(best) / 1e12:.4g} TB/s"
    published = published_for(name, gpu.name, gpu.sm)
    return Line(name, value, tuple(criteria), published, "; ".join(notes))


def _l2(rows: Sequence[Trial], limits: GpuLimits) -> Line:
    """The best of the sets inside three quarters of L2; all of them in the note, by size."""
    gpu, name = limits.gpu, "read L2"
    best = fastest(rows, lambda row: row.working_set_bytes <= 0.75 * (gpu.l2_bytes or 0))
    if best is None:
        return Line(name, failure=rows[0].failure or "no set inside L2 was measured")
    sizes = ", ".join(
        f"{row.working_set_bytes / _MIB:.3g} MiB {rate_of(row) / 1e12:.3g}"
        for row in sorted(rows, key=lambda row: row.working_set_bytes)
        if row.seconds_s
    )
    least = goals.L2_BYTES_PER_S.get(gpu.sm)
    rate = rate_of(best)
    criteria = () if least is None else (Criterion("the least", rate / least, 1.0),)
    published = published_for(name, gpu.name, gpu.sm)
    return Line(name, f"{rate / 1e12:.4g} TB/s", criteria, published, f"TB/s by size: {sizes}")


def _l1(rows: Sequence[Trial], limits: GpuLimits) -> Line:
    best, name = fastest(rows), "read L1"
    if best is None:
        return Line(name, failure=rows[0].failure or "no sample counted")
    cycles = cycles_of(best)
    criteria: tuple[Criterion, ...] = ()
    if cycles is not None and limits.gpu.sm >= goals.L1_SINCE:
        share = best.traffic_bytes / cycles / (goals.L1_BYTES_PER_CYCLE * limits.gpu.n_sms)
        criteria = (Criterion("the limit", share, goals.L1_SHARE, goals.EXCESS),)
    return Line(name, f"{rate_of(best) / 1e12:.4g} TB/s", criteria)


def latency_lines(rows: Sequence[Trial], limits: GpuLimits) -> Iterator[Line]:
    """Cycles of one dependent load from each level, and of every size that was tried."""
    gpu, by_level, sizes = limits.gpu, dict[str, list[float]](), list[tuple[int, float]]()
    for row in (row for row in rows if row.family == "latency"):
        level, cycles = level_of(row, gpu), cycles_of(row)
        if cycles is None:
            yield Line(f"latency {level}", failure=row.failure or "no sample counted")
            continue
        of_load = cycles / (row.traffic_bytes / _LOAD_BYTES)
        sizes.append((row.working_set_bytes, of_load))
        by_level.setdefault(level, []).append(of_load)
    for level, found in sorted(by_level.items(), key=lambda pair: min(pair[1])):
        bounds = goals.LATENCY_CYCLES.get(gpu.sm, {}).get(level)
        lowest, name = min(found), f"latency {level}"
        criteria = () if bounds is None else (Criterion("", lowest, *bounds),)
        if level != BETWEEN:
            published = published_for(name, gpu.name, gpu.sm)
            yield Line(name, f"{lowest:.0f} cycles", criteria, published)
    shown = ", ".join(f"{size / _MIB:.3g} MiB {cycles:.0f}" for size, cycles in sorted(sizes))
    if shown:
        yield Line("latency by size", "in cycles", note=shown)


BETWEEN = "between levels"


def level_of(row: Trial, gpu: Gpu) -> str:
    """The level that a chase of loads goes through."""
    size = row.working_set_bytes
    for window in latency_windows(gpu):
        is_inside = window.low_bytes < size <= window.high_bytes
        if is_inside and scope_of(window.level) == row.scope:
            return window.name
    is_far = row.scope == "gpu" and size > dram_low_bytes(gpu.l2_bytes or 0)
    return "DRAM" if is_far else BETWEEN


def launch_lines(rows: Sequence[Trial]) -> Iterator[Line]:
    """The time of an empty kernel, launched by itself and in a graph."""
    for row in rows:
        if row.family != "launch":
            continue
        if not row.seconds_s:
            yield Line(row.kernel, failure=row.failure or "no sample counted")
            continue
        time_us = 1e6 * seconds_of(row)
        bounds = goals.LAUNCH_US.get(row.kernel)
        criteria = () if bounds is None else (Criterion("", time_us, *bounds),)
        yield Line(row.kernel, f"{time_us:.3g} us", criteria)
