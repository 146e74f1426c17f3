"""Ceilings in tables: peaks, bandwidths, ridge points, kernels beside their limits, latencies,
launches."""

from __future__ import annotations

from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import UNKNOWN, percent, quantity, seconds
from mansard.analytics.models.roofs.ceilings import STREAM_KERNELS, Ceiling
from mansard.analytics.models.roofs.gpu_kernels import KernelComparison, KernelLaunch, Latency
from mansard.analytics.models.roofs.roofline import Ridge
from mansard.analytics.pages.figures.tables import (
    ceiling_text,
    clock_text,
    percent_fine,
    scaled,
    sets_text,
)
from mansard.analytics.pages.results import Results
from mansard.core.caches import FAR
from mansard.core.precision import unit_title
from mansard.core.table import Table

_UNITS = {"fma": "CUDA cores", "tensor": "tensor cores", "stream": "main memory"}

_STARTS = {"launch": "one by one", "graph": "in a CUDA graph"}


def peak_table(results: Results) -> Table:
    """The compute ceiling of each precision in each mode."""
    rows = [
        [
            display_name(roof.label),
            peak.name,
            ceiling_text(peak),
            _maker(peak),
            str(len(peak.trial_ids)),
            str(peak.n_blocks),
            _state(peak),
        ]
        for roof in results.roofs
        for peak in roof.peaks
    ]
    columns = ("Mode", "Precision", "Peak", "By", "Trials", "Blocks", "State")
    return Table("Peaks with their 95 % intervals", columns, rows, frozenset({2, 4, 5}))


def _maker(peak: Ceiling) -> str:
    """The kernel that reached the peak, with its backend where a library did."""
    if peak.kernel is None or peak.value is None:
        return ""
    of_library = f" of {display_name(peak.backend)}" if peak.backend == "cublas" else ""
    return f"{display_name(peak.kernel)}{of_library}"


def bandwidth_table(results: Results) -> Table:
    """The bandwidth of each kernel at each level, which is the roof, and which prices traffic."""
    measured = [roof for roof in results.roofs if roof.source != "published"]
    known = {one.kernel for roof in measured for one in roof.bandwidths if one.kernel}
    kernels = [kernel for kernel in STREAM_KERNELS if kernel in known or (measured and not known)]
    kernels += sorted(known - set(STREAM_KERNELS))
    others = ["Published"] * (len(measured) < len(results.roofs))
    rows = []
    for roof in results.roofs:
        for level in roof.levels:
            best = roof.bandwidth(level.name)
            cells = {c.kernel: c for c in roof.bandwidths if c.subject == level.name}
            rows.append(
                [
                    display_name(roof.label),
                    level.name,
                    *[_bandwidth_text(cells.get(kernel)) for kernel in kernels],
                    *[_bandwidth_text(best if roof.source == "published" else None)] * len(others),
                    best.kernel or "none",
                    sets_text(best),
                    roof.traffic_bandwidth(level.name).kernel or "none",
                    _state(best),
                ]
            )
    columns = ("Mode", "Level", *kernels, *others, "Roof", "Working sets", "Traffic at", "State")
    numeric = frozenset(range(2, 2 + len(kernels) + len(others)))
    return Table("Bandwidths with their 95 % intervals", columns, rows, numeric)


def ridge_table(results: Results) -> Table:
    """Ridge points of every precision and level, FLOP/byte (integers: OP/byte)."""
    levels = list(dict.fromkeys(level.name for roof in results.roofs for level in roof.levels))
    rows = [
        [display_name(roof.label), peak.name]
        + [_ridge_text(roof.ridge(peak.subject, level, peak.family)) for level in levels]
        for roof in results.roofs
        for peak in roof.peaks
    ]
    columns = ("Mode", "Precision", *levels)
    unit = unit_title("{}/byte", [peak.subject for roof in results.roofs for peak in roof.peaks])
    caption = f"Ridge points in {unit}: the intensity above which arithmetic is the limit"
    return Table(caption, columns, rows, frozenset(range(2, 2 + len(levels))))


def _state(ceiling: Ceiling) -> str:
    if ceiling.value is None:
        return f"unknown: {ceiling.unknown['value']}"
    unstable = "unstable" if ceiling.stable is False else ""
    return ", ".join(filter(None, (ceiling.source, unstable, _left_out(ceiling))))


def _bandwidth_text(ceiling: Ceiling | None) -> str:
    if ceiling is None:
        return ""  # this kernel shows nothing of the level
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} (unstable)" if ceiling.stable is False else text


def _ridge_text(ridge: Ridge | None) -> str:
    return UNKNOWN if ridge is None else quantity(ridge.value, "", ridge.low, ridge.high).strip()


def backend_table(results: Results) -> Table:
    """Every kernel and backend side by side, with its share of the hardware's limit."""
    rows = [
        [
            display_name(roof.label),
            _UNITS[ceiling.family],
            "" if ceiling.family == "stream" else display_name(ceiling.subject),
            display_name(ceiling.kernel or UNKNOWN),
            display_name(ceiling.backend or UNKNOWN),
            quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high),
            scaled(comparison.ratio, 1.0, 3),
            quantity(comparison.limit, ceiling.unit),
            percent_fine(comparison.share),
            clock_text(comparison.clock_hz),
            _remark(comparison),
        ]
        for roof in results.roofs
        for comparison in roof.kernel_comparisons
        for ceiling in [comparison.ceiling]
    ]
    columns = (
        *("Mode", "Unit", "Precision", "Kernel", "Backend", "Rate", "Of the best"),
        *("Limit", "Share", "SM clock", "Remark"),
    )
    caption = "Kernels and backends compared with the limit at the measured clock and SM count"
    return Table(caption, columns, rows, frozenset({5, 6, 7, 8, 9}))


def latency_table(results: Results) -> Table:
    """What one dependent load takes from each level."""
    rows = [
        [
            display_name(roof.label),
            latency.level,
            seconds(latency.value_s, latency.low_s, latency.high_s),
            UNKNOWN if latency.cycles is None else f"{latency.cycles:.0f}",
            str(len(latency.trial_ids)),
            _latency_remark(latency),
        ]
        for roof in results.roofs
        for latency in roof.latencies
    ]
    columns = ("Mode", "Level", "Latency", "SM cycles", "Trials", "Remark")
    return Table("Latency of one load", columns, rows, frozenset({2, 3, 4}))


def _latency_remark(latency: Latency) -> str:
    if latency.value_s is None:
        return display_text(latency.unknown["value_s"])
    is_mixed = latency.level.endswith(f" {FAR}")
    mixed = "part of these loads are near: the far partition alone takes longer" if is_mixed else ""
    return ", ".join(filter(None, (mixed, _left_out(latency))))


def launch_table(results: Results) -> Table:
    """What it takes to start an empty kernel, or a tiny node of a network on an engine."""
    rows = [
        [
            display_name(roof.label),
            _STARTS.get(launch.kernel, display_name(launch.kernel)),
            seconds(launch.value_s, launch.low_s, launch.high_s),
            str(len(launch.trial_ids)),
            _launch_remark(launch),
        ]
        for roof in results.roofs
        for launch in roof.launches
    ]
    rows += [
        [
            display_name(f"{launch.device}, {launch.mode}"),
            f"a node of {display_name(launch.engine)}",
            seconds(launch.node_s, launch.node_low_s, launch.node_high_s),
            "2",
            display_text(launch.unknown["node_s"])
            if launch.call_s is None
            else f"plus {seconds(launch.call_s)} for each call",
        ]
        for launch in results.of_runs.models.node_launches
    ]
    columns = ("Mode", "Started", "Launch", "Trials", "Remark")
    return Table("Launch of one kernel or node", columns, rows, frozenset({2, 3}))


def _launch_remark(launch: KernelLaunch) -> str:
    if launch.value_s is None:
        return display_text(launch.unknown["value_s"])
    return ", ".join(filter(None, ("" if launch.stable else "unstable", _left_out(launch))))


def _remark(standing: KernelComparison) -> str:
    ceiling = standing.ceiling
    if ceiling.value is None:
        return display_text(ceiling.unknown["value"])
    remarks = [] if ceiling.stable else ["unstable"]
    remarks += [_left_out(ceiling)] if ceiling.n_disturbed else []
    if standing.limit is None:
        remarks.append(display_text(standing.unknown["limit"]))
    if standing.share is not None and standing.share > standing.most_share:
        most = percent(standing.most_share)
        remarks.append(f"above {most} of its limit: something is miscounted")
    return "; ".join(remarks)


def _left_out(constant: Ceiling | Latency | KernelLaunch) -> str:
    return f"{constant.n_disturbed} disturbed left out" if constant.n_disturbed else ""
