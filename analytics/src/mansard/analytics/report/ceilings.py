"""Ceilings in tables: peaks, bandwidths, ridge points, kernels beside their limits, latencies."""

from __future__ import annotations

from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import UNKNOWN, digits, percent, quantity, seconds
from mansard.analytics.figures.tables import Table, ceiling_text, clock_text, percent_fine
from mansard.analytics.results import Results
from mansard.analytics.roofs.ceilings import STREAM_KERNELS, Ceiling
from mansard.analytics.roofs.latency import Latency
from mansard.analytics.roofs.ridge import Ridge
from mansard.analytics.roofs.standings import Standing


def peak_table(results: Results) -> Table:
    """The compute ceiling of each precision in each mode."""
    rows = [
        [
            display_name(roof.label),
            peak.name,
            ceiling_text(peak),
            str(len(peak.trial_ids)),
            str(peak.n_blocks),
            _state(peak),
        ]
        for roof in results.roofs
        for peak in roof.peaks
    ]
    return Table(
        caption="Peaks with their 95 % intervals",
        columns=("Mode", "Precision", "Peak", "Trials", "Blocks", "State"),
        rows=rows,
        numeric=frozenset({2, 3, 4}),
    )


def bandwidth_table(results: Results) -> Table:
    """The bandwidth of each kernel at each level, and which of them is the roof."""
    measured = [roof for roof in results.roofs if roof.source != "published"]
    known = {ceiling.kernel for roof in measured for ceiling in roof.bandwidths}
    kernels = [kernel for kernel in STREAM_KERNELS if kernel in known or (measured and not known)]
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
                    _state(best),
                ]
            )
    return Table(
        caption="Bandwidths with their 95 % intervals",
        columns=("Mode", "Level", *kernels, *others, "Roof", "State"),
        rows=rows,
        numeric=frozenset(range(2, 2 + len(kernels) + len(others))),
    )


def ridge_table(results: Results) -> Table:
    """Ridge points of every precision and level, FLOP/byte."""
    levels = list(dict.fromkeys(level.name for roof in results.roofs for level in roof.levels))
    rows = [
        [display_name(roof.label), peak.name]
        + [_ridge_text(roof.ridge(peak.subject, level, peak.family)) for level in levels]
        for roof in results.roofs
        for peak in roof.peaks
    ]
    return Table(
        caption="Ridge points in FLOP/byte: the intensity from which on arithmetic is the limit",
        columns=("Mode", "Precision", *levels),
        rows=rows,
        numeric=frozenset(range(2, 2 + len(levels))),
    )


def _state(ceiling: Ceiling) -> str:
    if ceiling.value is None:
        return f"unknown: {ceiling.unknown['value']}"
    left_out = f", {ceiling.n_disturbed} disturbed left out" if ceiling.n_disturbed else ""
    return f"{ceiling.source}{', unstable' if ceiling.stable is False else ''}{left_out}"


def _bandwidth_text(ceiling: Ceiling | None) -> str:
    if ceiling is None:
        return ""  # this kernel shows nothing of the level
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} (unstable)" if ceiling.stable is False else text


def _ridge_text(ridge: Ridge | None) -> str:
    return UNKNOWN if ridge is None else quantity(ridge.value, "", ridge.low, ridge.high).strip()


_UNITS = {"fma": "CUDA cores", "tensor": "tensor cores", "stream": "main memory"}


def backend_table(results: Results) -> Table:
    """Every kernel and backend side by side, with its share of the hardware's limit."""
    rows = [
        [display_name(roof.label), *_standing_cells(standing)]
        for roof in results.roofs
        for standing in roof.standings
    ]
    return Table(
        caption="Kernels and backends beside the limit at the measured clock and SM count",
        columns=(
            *("Mode", "Unit", "Precision", "Kernel", "Backend", "Rate", "Of the best"),
            *("Limit", "Share", "SM clock", "Remark"),
        ),
        rows=rows,
        numeric=frozenset({5, 6, 7, 8, 9}),
    )


def latency_table(results: Results) -> Table:
    """What one dependent load takes from each level."""
    rows = [
        [display_name(roof.label), latency.level, *_latency_cells(latency)]
        for roof in results.roofs
        for latency in roof.latencies
    ]
    return Table(
        caption="Latency of one load",
        columns=("Mode", "Level", "Latency", "SM cycles", "Trials", "Remark"),
        rows=rows,
        numeric=frozenset({2, 3, 4}),
    )


def _standing_cells(standing: Standing) -> list[str]:
    ceiling = standing.ceiling
    return [
        _UNITS[ceiling.family],
        "" if ceiling.family == "stream" else display_name(ceiling.subject),
        display_name(ceiling.kernel or UNKNOWN),
        display_name(ceiling.backend or UNKNOWN),
        quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high),
        UNKNOWN if standing.ratio is None else digits(standing.ratio, 3),
        quantity(standing.limit, ceiling.unit),
        percent_fine(standing.share),
        clock_text(standing.clock_hz),
        _remark(standing),
    ]


def _remark(standing: Standing) -> str:
    ceiling = standing.ceiling
    if ceiling.value is None:
        return display_text(ceiling.unknown["value"])
    remarks = [] if ceiling.stable else ["unstable"]
    if ceiling.n_disturbed:
        remarks.append(f"{ceiling.n_disturbed} disturbed left out")
    if standing.limit is None:
        remarks.append(display_text(standing.unknown["limit"]))
    if standing.share is not None and standing.share > standing.most_share:
        most = percent(standing.most_share)
        remarks.append(f"above {most} of its limit: something is miscounted")
    return "; ".join(remarks)


def _latency_cells(latency: Latency) -> list[str]:
    remarks = [] if latency.value_s is not None else [display_text(latency.unknown["value_s"])]
    if latency.value_s is not None and latency.n_disturbed:
        remarks.append(f"{latency.n_disturbed} disturbed left out")
    return [
        seconds(latency.value_s, latency.low_s, latency.high_s),
        UNKNOWN if latency.cycles is None else f"{latency.cycles:.0f}",
        str(len(latency.trial_ids)),
        "; ".join(remarks),
    ]
