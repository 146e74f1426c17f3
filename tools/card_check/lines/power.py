"""Lines of power and energy: the counter's pace, its spread, what kernels and idling draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mansard.core.records import Gpu, Manifest, Trial
from tools.card_check import goals
from tools.card_check.energy import watts_of
from tools.card_check.published import published_for
from tools.card_check.table import Criterion, Line

# Kernels whose constant operands are shown beside the chaotic ones.
_PAIRS = (("fma", "fp32"), ("gemm", "bf16"))
_PUBLISHED = {("fma", "fp32"): "power fp32", ("read", "fp32"): "power DRAM"}


def power_lines(
    rows: Sequence[Trial], manifests: Sequence[Manifest], gpu: Gpu, meter: Any
) -> Iterator[Line]:
    """What the meter says of itself and of the trials; where there is none, why."""
    yield from _meter_lines(meter)
    powers_w = {row.trial_id: watts for row in rows if (watts := watts_of(row.energy))}
    metered = [row for row in rows if row.trial_id in powers_w]
    if not metered:
        reasons = sorted({row.unknown["energy"] for row in rows if "energy" in row.unknown})
        yield Line("energy of the trials", "none", note="; ".join(reasons[:2]))
        return
    wanted = [row for row in rows if row.energy is not None]
    yield Line("energy of the trials", f"{len(metered)} of {len(wanted)}", note="have a total")
    yield _highest(metered, powers_w, manifests, gpu)
    yield from _resting(metered, powers_w, manifests)
    yield from _pairs(metered, powers_w, gpu)


def _meter_lines(meter: Any) -> Iterator[Line]:
    if not meter:
        return
    for rail, pace in (meter.get("pace") or {}).items():
        times = {name: "-" if s is None else f"{1e3 * s:.3g} ms" for name, s in pace.items()}
        if "energy_j" in times:
            power = times.get("power_w", "-")
            yield Line(f"pace of {rail}'s counter", times["energy_j"], note=f"power every {power}")
    if "variation" in meter:
        value, n = meter["variation"], meter["n_windows"]
        criteria = (Criterion("", value, most=goals.ENERGY_CV),)
        yield Line(f"energy of {n} equal windows", f"{100 * value:.2f} % CV", criteria)
    elif "why" in meter:
        yield Line("energy of equal windows", note=meter["why"])


def _highest(
    metered: Sequence[Trial], powers_w: dict[str, float], manifests: Sequence[Manifest], gpu: Gpu
) -> Line:
    highest = max(metered, key=lambda row: powers_w[row.trial_id])
    watts = powers_w[highest.trial_id]
    limits_w = [one.mode_read_back.power_limit_w for one in manifests if one.kind == "kernels"]
    limit_w = next((limit for limit in limits_w if limit is not None), None)
    criteria: tuple[Criterion, ...] = ()
    if limit_w is not None:
        criteria = (Criterion(f"the {limit_w:.0f} W limit", watts / limit_w, *goals.POWER_SHARE),)
    published = published_for("highest power", gpu.name, gpu.sm)
    name = f"{highest.kernel} {highest.precision}"
    return Line("highest power", f"{watts:.0f} W", criteria, published, f"by {name}")


def _resting(
    metered: Sequence[Trial], powers_w: dict[str, float], manifests: Sequence[Manifest]
) -> Iterator[Line]:
    idle = [window for one in manifests if one.kind == "kernels" for window in one.idle or ()]
    idle_w = watts_of(idle)
    stalled = next((row for row in metered if row.family == "stalled"), None)
    if idle_w is not None:
        yield Line("idle", f"{idle_w:.1f} W")
    if stalled is not None:
        watts = powers_w[stalled.trial_id]
        note = "" if idle_w is None else f"{watts / idle_w:.2f} of idle"
        yield Line("stalled kernel", f"{watts:.1f} W", note=note)


def _pairs(metered: Sequence[Trial], powers_w: dict[str, float], gpu: Gpu) -> Iterator[Line]:
    """Power on changing data; on constant data, which switches fewer wires, in the note."""
    for (kernel, precision), figure in {**dict.fromkeys(_PAIRS, ""), **_PUBLISHED}.items():
        by_operands: dict[str, float] = {}
        for row in metered:
            if (row.kernel, row.precision) == (kernel, precision) and row.backend != "numba-cuda":
                watts = powers_w[row.trial_id]
                by_operands[row.operands] = max(watts, by_operands.get(row.operands, 0.0))
        if "chaotic" not in by_operands:
            continue
        constant_w = by_operands.get("constant")
        note = "" if constant_w is None else f"{constant_w:.0f} W on constant data"
        published = published_for(figure, gpu.name, gpu.sm)
        value = f"{by_operands['chaotic']:.0f} W"
        yield Line(f"power of {kernel} {precision}", value, (), published, note)
