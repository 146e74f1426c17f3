"""Lines of kernels that compute: rate, share of the limit, of cuBLAS, over PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mansard.core.precision import rate_unit
from mansard.core.records import Trial
from mansard.microbench.cuda.sampling import GpuLimits
from tools.card_check import goals
from tools.card_check.lines.rows import (
    clock_note,
    fastest,
    plain,
    rate_of,
    share_of,
)
from tools.card_check.published import published_for
from tools.card_check.table import Criterion, Line

_ORDER = ("fma", "mma", "wgmma", "gemm")


def compute_lines(
    rows: Sequence[Trial], limits: GpuLimits, duels: Mapping[str, Any]
) -> Iterator[Line]:
    """One line for each kernel and precision that was tried."""
    computing = [row for row in plain(rows) if row.family in {"fma", "tensor"}]
    pairs = dict.fromkeys((row.kernel, row.precision) for row in computing)
    order = {kernel: number for number, kernel in enumerate(_ORDER)}
    for kernel, precision in sorted(pairs, key=lambda pair: (order.get(pair[0], 9), pair[1])):
        own = [row for row in computing if (row.kernel, row.precision) == (kernel, precision)]
        best = fastest(own)
        if best is None:
            why = next((why for row in own if (why := row.failure)), "no sample counted")
            yield Line(f"{kernel} {precision}", failure=why)
            continue
        cublas = fastest(
            row for row in computing if row.backend == "cublas" and row.precision == precision
        )
        yield _line(best, limits, cublas, duels.get(f"{kernel} {precision}"))


def _line(row: Trial, limits: GpuLimits, cublas: Trial | None, duel: Any) -> Line:
    gpu, name = limits.gpu, f"{row.kernel} {row.precision}"
    goal = goals.goal_of(row.kernel, row.precision, gpu.sm)
    criteria = []
    share = share_of(row, limits)
    if share is not None:
        most = None if goal == goals.Goal() else goals.EXCESS
        criteria.append(Criterion("the limit", share, goal.of_limit, most))
    if cublas is not None and row.backend != "cublas" and row.family == "tensor":
        criteria.append(Criterion("cuBLAS", rate_of(row) / rate_of(cublas), goal.of_cublas))
    note, unit = clock_note(row), f"T{rate_unit(row.precision)}"
    if duel is not None:
        criteria += peer_criteria(duel)
        note += f"; {peer_note(duel, unit, 1e12)}"
    return Line(
        name,
        f"{rate_of(row) / 1e12:.4g} {unit}",
        tuple(criteria),
        published_for(name, gpu.name, gpu.sm),
        note,
    )


def peer_criteria(duel: Mapping[str, Any]) -> list[Criterion]:
    """Our rate over PyTorch's in the same run, where PyTorch has the operation."""
    return [Criterion("PyTorch", duel["ratio"], goals.PEER)] if "ratio" in duel else []


def peer_note(duel: Mapping[str, Any], unit: str, divisor: float) -> str:
    """What PyTorch reached, or why not."""
    if "why" in duel:
        return f"PyTorch: {duel['why'][:80]}"
    bounds = f"95 %: {duel['low']:.3f} to {duel['high']:.3f}"
    return f"PyTorch {duel['peer_per_s'] / divisor:.4g} {unit} ({bounds})"


def twin_lines(rows: Sequence[Trial]) -> Iterator[Line]:
    """Numba's rate over that of CUDA C++, of each kernel that both have at one size."""
    for row in rows:
        if row.backend != "numba-cuda":
            continue
        name = f"numba {row.kernel} {row.precision}"
        if not row.seconds_s:
            yield Line(name, failure=row.failure or "no sample counted")
            continue
        key = (row.kernel, row.precision, row.working_set_bytes, row.fma_per_element)
        twin = fastest(
            one
            for one in plain(rows)
            if (one.kernel, one.precision, one.working_set_bytes, one.fma_per_element) == key
        )
        if twin is not None:
            ratio = rate_of(row) / rate_of(twin)
            yield Line(name, f"{ratio:.3f}", (Criterion("CUDA C++", ratio, *goals.TWIN),))
