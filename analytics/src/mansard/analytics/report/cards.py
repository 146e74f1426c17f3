"""One card for each power mode, at the top of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, is_symmetric, quantity, relative
from mansard.analytics.figures.tables import clock_text, percent_fine, value_text
from mansard.analytics.results import Results
from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.levels import DRAM
from mansard.analytics.roofs.roofline import Ridge, Roofline

MOST_OPEN = 2  # cards that the page shows; the others open


@dataclass(frozen=True)
class ModeCard:
    """One power mode in a sentence and a few large numbers."""

    label: str
    source: str
    machine: str
    sentence: str
    figures: Sequence[tuple[str, tuple[str, str], str]]  # name, (number, unit), detail
    stable: bool


def mode_cards(results: Results, first: str) -> list[ModeCard]:
    """One card per run: of many the one labelled ``first``, then as their rooflines are ordered."""
    roofs = results.roofs
    if len(roofs) > MOST_OPEN:
        roofs = tuple(sorted(roofs, key=lambda roof: roof.label != first))
    return [
        ModeCard(
            label=display_name(roof.label),
            source=roof.source,
            machine=display_name(roof.full_name),
            sentence=_sentence(roof),
            figures=_figures(roof),
            stable=all(
                each.stable is not False
                for each in (*roof.peaks, *(roof.bandwidth(level.name) for level in roof.levels))
            ),
        )
        for roof in roofs
    ]


def _sentence(roof: Roofline) -> str:
    first = _headline(roof)
    peaks = [f"{value_text(peak)} in {_where(peak)}" for peak in first]
    computes = " and ".join(peaks) if peaks else "an unknown number of operations"
    dram = roof.bandwidth(DRAM)
    no_dram = f"its main memory bandwidth is unknown ({dram.unknown.get('value')})"
    ridge = next((found for peak in first if (found := _ridge(roof, peak))), None)
    if roof.source == "published":
        moved = f"moved {value_text(dram)}" if dram.value else no_dram
        text = f"computed {computes} and {moved} when others measured it."
    else:
        moves = f"moves up to {value_text(dram)} to and from main memory" if dram.value else no_dram
        text = f"computes at most {computes} and {moves}"
        text += (
            "."
            if ridge is None
            else (
                f": below {quantity(ridge.value, 'FLOP', n_digits=3)} per byte, "
                f"a layer in {_where(ridge)} is bound by memory."
            )
        )
    if roof.n_sms is None:
        return f"C{text[1:]}"
    clock = f" at {clock_text(roof.clock_hz)}" if roof.clock_hz else ""
    return f"With {roof.n_sms} SMs{clock} it {text}"


def _where(found: Ceiling | Ridge) -> str:
    precision = found.subject if isinstance(found, Ceiling) else found.precision
    return f"{precision} on tensor cores" if found.family == "tensor" else precision


def _headline(roof: Roofline) -> list[Ceiling]:
    """The most important peaks: all of a CPU, of a GPU single precision and the tensor cores."""
    measured = [peak for peak in roof.peaks if peak.value]
    if roof.processor == "cpu":
        return measured
    chosen = []
    for family, precision in (("fma", "fp32"), ("tensor", "fp16")):
        own = [peak for peak in measured if peak.family == family]
        chosen += [peak for peak in own if peak.subject == precision][:1] or own[:1]
    return chosen


def _ridge(roof: Roofline, peak: Ceiling) -> Ridge | None:
    return roof.ridge(peak.subject, family=peak.family)


def _figures(roof: Roofline) -> list[tuple[str, tuple[str, str], str]]:
    dram = roof.bandwidth(DRAM)
    ridges = [ridge for peak in _headline(roof) if (ridge := _ridge(roof, peak))]
    return [
        *[
            (f"{peak.name} peak", _split(value_text(peak)), _detail(roof, peak))
            for peak in _headline(roof)
        ],
        ("DRAM bandwidth", _split(value_text(dram)), _detail(roof, dram)),
        *[
            (
                f"{ridge.name} ridge",
                _split(quantity(ridge.value, "FLOP/byte", n_digits=3)),
                "peak ÷ DRAM",
            )
            for ridge in ridges
        ],
    ]


def _detail(roof: Roofline, ceiling: Ceiling) -> str:
    """The interval, and on a GPU the share of the limit at the measured clock and SM count."""
    kind = (ceiling.family, ceiling.subject, ceiling.kernel, ceiling.backend)
    for standing in roof.kernel_comparisons:
        own = standing.ceiling
        same = (own.family, own.subject, own.kernel, own.backend) == kind
        if same and standing.share is not None:
            half = _half_width(ceiling)
            return f"{half}; {percent_fine(standing.share)} of limit"
    return _half_width(ceiling)


def _split(text: str) -> tuple[str, str]:
    number, _, unit = text.partition(NBSP)
    return number, unit


def _half_width(ceiling: Ceiling) -> str:
    if ceiling.value is None or ceiling.low is None or ceiling.high is None:
        return ceiling.unknown.get("value") or ceiling.unknown.get("low", "")
    kernel = f", {ceiling.kernel}" if ceiling.unit == "B/s" else ""
    if not is_symmetric(ceiling.value, ceiling.low, ceiling.high):
        return f"{quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)}{kernel}"
    half = max(ceiling.high - ceiling.value, ceiling.value - ceiling.low) / ceiling.value
    return f"± {relative(half)}{kernel}"
