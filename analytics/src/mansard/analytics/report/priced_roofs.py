"""Every precision of every mode whose work, traffic and constant power have a price."""

from __future__ import annotations

from msgspec.structs import replace

from mansard.analytics.charts.energy_data import PricedRoof
from mansard.analytics.data.names import shown
from mansard.analytics.energy.balance import balance
from mansard.analytics.energy.fit import EnergyFit
from mansard.analytics.energy.roof import EnergyRoof
from mansard.analytics.results import Results
from mansard.analytics.roofs.levels import DRAM
from mansard.analytics.roofs.roofline import Roofline


def priced_roofs(results: Results) -> tuple[list[PricedRoof], list[str]]:
    """Every precision of every mode with all three costs, and why others have none."""
    priced: list[PricedRoof] = []
    gaps: list[str] = []
    for roof in results.roofs:
        fit = results.energies.get(roof.run_id)
        if fit is None:
            continue
        found, gap = _priced(roof, fit, cap_w(results, roof))
        priced += found
        if gap and not found:
            gaps.append(f"{shown(roof.label)}: no energy roof, for {gap}.")
    return priced, gaps


def _priced(
    roof: Roofline, fit: EnergyFit, limit_w: float | None
) -> tuple[list[PricedRoof], str | None]:
    dram, byte, constant = roof.bandwidth(DRAM), fit.byte_j.get(DRAM), fit.constant_w
    if dram.value is None:
        return [], f"its bandwidth is unknown ({dram.unknown['value']})"
    if byte is None or byte.value is None:
        return [], "the energy of a byte from main memory is unknown" + _why(byte)
    if constant.value is None:
        return [], "its constant power is unknown" + _why(constant)
    found = []
    gap = None
    for peak in roof.peaks:
        flop = fit.flop_j.get(peak.name)
        if peak.value is None:
            continue
        if flop is None or flop.value is None:
            gap = f"the energy of work in {peak.name} is unknown{_why(flop)}"
            continue
        costs = EnergyRoof(
            peak_flop_per_s=peak.value,
            bandwidth_bytes_per_s=dram.value,
            flop_j=flop.value,
            byte_j=byte.value,
            constant_w=constant.value,
            cap_w=limit_w if limit_w is not None and limit_w > constant.value else None,
            unknown={"cap_w": "the mode names no limit that could bite"},
        )
        if costs.cap_w is not None:
            costs = replace(costs, unknown={})
        points = balance(peak, dram, flop, byte, constant)
        found.append(PricedRoof(roof.label, peak.subject, peak.name, costs, points))
    return found, gap


def _why(found: object) -> str:
    unknown = getattr(found, "unknown", {}).get("value")
    return f" ({unknown})" if unknown else ""


def cap_w(results: Results, roof: Roofline) -> float | None:
    """The limit of power that the mode names, W."""
    for manifest in results.dataset.manifests:
        if manifest.run_id == roof.run_id:
            return manifest.mode_read_back.power_limit_w
    return None
