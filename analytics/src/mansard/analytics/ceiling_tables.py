"""The ceilings of the report: one card per mode, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mansard.analytics.ceilings import STREAM_KERNELS, Ceiling
from mansard.analytics.chart_data import ceiling_text, value_text
from mansard.analytics.levels import DRAM
from mansard.analytics.names import shown
from mansard.analytics.page_parts import Table
from mansard.analytics.quantities import NBSP, UNKNOWN, quantity, relative
from mansard.analytics.results import Results
from mansard.analytics.roofline import Ridge, Roofline


@dataclass(frozen=True)
class ModeCard:
    """One power mode in a sentence and a few large numbers."""

    label: str
    source: str
    machine: str
    sentence: str
    figures: Sequence[tuple[str, tuple[str, str], str]]  # name, (number, unit), detail
    stable: bool


def mode_cards(results: Results) -> list[ModeCard]:
    """One card per run, in the order of the rooflines."""
    return [
        ModeCard(
            label=shown(roof.label),
            source=roof.source,
            machine=shown(roof.machine),
            sentence=_sentence(roof),
            figures=_figures(roof),
            stable=all(c.stable is not False for c in _used(roof)),
        )
        for roof in results.roofs
    ]


def peak_table(results: Results) -> Table:
    """The compute ceiling of each precision in each mode."""
    rows = [
        [
            shown(roof.label),
            peak.subject,
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
    rows = []
    for roof in results.roofs:
        for level in roof.levels:
            best = roof.bandwidth(level.name)
            cells = {c.kernel: c for c in roof.bandwidths if c.subject == level.name}
            state = _state(best)
            rows.append(
                [
                    shown(roof.label),
                    level.name,
                    *[_bandwidth_text(cells[kernel]) for kernel in STREAM_KERNELS],
                    best.kernel or "none",
                    state,
                ]
            )
    return Table(
        caption="Bandwidths with their 95 % intervals",
        columns=("Mode", "Level", *STREAM_KERNELS, "Roof", "State"),
        rows=rows,
        numeric=frozenset({2, 3, 4, 5}),
    )


def ridge_table(results: Results) -> Table:
    """Ridge points of every precision and level, FLOP/byte."""
    levels = list(dict.fromkeys(level.name for roof in results.roofs for level in roof.levels))
    rows = [
        [shown(roof.label), peak.subject]
        + [_ridge_text(roof.ridge(peak.subject, level)) for level in levels]
        for roof in results.roofs
        for peak in roof.peaks
    ]
    return Table(
        caption="Ridge points in FLOP/byte: the intensity from which on arithmetic is the limit",
        columns=("Mode", "Precision", *levels),
        rows=rows,
        numeric=frozenset(range(2, 2 + len(levels))),
    )


def _sentence(roof: Roofline) -> str:
    peaks = [f"{value_text(peak)} in {peak.subject}" for peak in roof.peaks if peak.value]
    computes = " and ".join(peaks) if peaks else "an unknown number of operations"
    dram = roof.bandwidth(DRAM)
    moves = (
        f"moves up to {value_text(dram)} to and from main memory"
        if dram.value
        else f"its main memory bandwidth is unknown ({dram.unknown['value']})"
    )
    ridge = next((roof.ridge(p.subject) for p in roof.peaks if roof.ridge(p.subject)), None)
    if ridge is None:
        return f"Computes at most {computes} and {moves}."
    return (
        f"Computes at most {computes} and {moves}: "
        f"below {quantity(ridge.value, 'FLOP', n_digits=3)} per byte, "
        f"a layer in {ridge.precision} waits for memory."
    )


def _figures(roof: Roofline) -> list[tuple[str, tuple[str, str], str]]:
    dram = roof.bandwidth(DRAM)
    measured = [peak for peak in roof.peaks if peak.value]
    ridges = [ridge for peak in measured if (ridge := roof.ridge(peak.subject))]
    return [
        *[
            (f"{peak.subject} peak", _split(value_text(peak)), _half_width(peak))
            for peak in measured
        ],
        ("DRAM bandwidth", _split(value_text(dram)), _half_width(dram)),
        *[
            (
                f"{ridge.precision} ridge",
                _split(quantity(ridge.value, "FLOP/byte", n_digits=3)),
                "peak ÷ DRAM",
            )
            for ridge in ridges
        ],
    ]


def _split(text: str) -> tuple[str, str]:
    number, _, unit = text.partition(NBSP)
    return number, unit


def _used(roof: Roofline) -> list[Ceiling]:
    return [*roof.peaks, *(roof.bandwidth(level.name) for level in roof.levels)]


def _half_width(ceiling: Ceiling) -> str:
    if ceiling.value is None or ceiling.low is None or ceiling.high is None:
        return ceiling.unknown.get("value") or ceiling.unknown.get("low", "")
    half = max(ceiling.high - ceiling.value, ceiling.value - ceiling.low) / ceiling.value
    kernel = f", {ceiling.kernel}" if ceiling.unit == "B/s" else ""
    return f"± {relative(half)}{kernel}"


def _state(ceiling: Ceiling) -> str:
    if ceiling.value is None:
        return f"unknown: {ceiling.unknown['value']}"
    left_out = f", {ceiling.n_disturbed} disturbed left out" if ceiling.n_disturbed else ""
    return f"{ceiling.source}{'' if ceiling.stable else ', unstable'}{left_out}"


def _bandwidth_text(ceiling: Ceiling) -> str:
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} (unstable)" if ceiling.stable is False else text


def _ridge_text(ridge: Ridge | None) -> str:
    return UNKNOWN if ridge is None else quantity(ridge.value, "", ridge.low, ridge.high).strip()
