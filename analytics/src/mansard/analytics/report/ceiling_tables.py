"""The ceilings of the report in tables."""

from __future__ import annotations

from mansard.analytics.charts.data import ceiling_text
from mansard.analytics.data.names import shown
from mansard.analytics.data.quantities import UNKNOWN, quantity
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.ceilings import STREAM_KERNELS, Ceiling
from mansard.analytics.roofs.ridge import Ridge


def peak_table(results: Results) -> Table:
    """The compute ceiling of each precision in each mode."""
    rows = [
        [
            shown(roof.label),
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
                    shown(roof.label),
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
        [shown(roof.label), peak.name]
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
