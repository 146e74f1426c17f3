"""The first screen of one mode: what the machine does, and what limits the networks on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import counted, percent, quantity
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.analytics.models.roofs.levels import DRAM
from mansard.analytics.models.roofs.roofline import Ridge, Roofline
from mansard.analytics.pages.figures.parameters import Chosen, mode_labels
from mansard.analytics.pages.figures.tables import ceiling_text
from mansard.analytics.pages.results import Results
from mansard.analytics.pages.tables.modes import settings_words
from mansard.core.precision import work_unit
from mansard.core.text import listed

MOST_ROOFS = 3  # that the first screen tells in sentences
_LIMITS = {
    "compute": "arithmetic",
    "memory": "the bandwidth of main memory",
    "launch": "the start of kernels",
    "power": "the power limit",
}


@dataclass(frozen=True)
class Fact:
    """One sentence of the first screen, its heading, and where its figures come from."""

    heading: str
    sentence: str
    sources: Sequence[str]
    is_stable: bool = True


def is_one_mode(results: Results) -> bool:
    """Whether no device has two modes to choose between."""
    frames = (results.modes, results.predictions)
    keys = {key for each in frames for key in each.select("device", "mode").unique().iter_rows()}
    return len(keys) == len({device for device, _ in keys})


def facts(results: Results, chosen: Chosen) -> list[Fact]:
    """What each roof does, the chosen one first, then what limits the networks under it."""
    roofs = sorted(results.roofs, key=lambda roof: roof.label != chosen.mode)
    return [
        *(_ceilings(results, roof) for roof in roofs[:MOST_ROOFS]),
        *limits(results, chosen),
    ]


def _ceilings(results: Results, roof: Roofline) -> Fact:
    used = (*roof.peaks, *(roof.bandwidth(level.name) for level in roof.levels))
    return Fact(
        heading="What it does",
        sentence=f"{_subject(results, roof)} {_does(roof)}",
        sources=[roof.source],
        is_stable=all(each.stable is not False for each in used),
    )


def _subject(results: Results, roof: Roofline) -> str:
    """``2c (2 CPU cores, clocks as found)``."""
    words = settings_words(results, roof)
    return f"{display_name(roof.label)}{f' ({words})' if words else ''}"


def _does(roof: Roofline) -> str:
    first = headline(roof)
    peaks = [f"{ceiling_text(peak)} in {_where(peak)}" for peak in first]
    computes = listed(peaks) if peaks else "an unknown number of operations"
    dram = roof.bandwidth(DRAM)
    moved = quantity(dram.value, dram.unit, dram.low, dram.high)
    no_dram = f"its main memory bandwidth is unknown ({dram.unknown.get('value')})"
    if roof.source == "published":
        moves = f"moved {moved}" if dram.value else no_dram
        return f"computed {computes} and {moves} when others measured it."
    moves = f"moves up to {moved} to and from main memory" if dram.value else no_dram
    ridge = next((found for peak in first if (found := _ridge(roof, peak))), None)
    turn = "."
    if ridge is not None:
        intensity = quantity(ridge.value, work_unit(ridge.precision), n_digits=3)
        turn = f": below {intensity} per byte, a layer in {_where(ridge)} is bound by memory."
    return f"computes at most {computes} and {moves}{turn}"


def _where(found: Ceiling | Ridge) -> str:
    precision = found.subject if isinstance(found, Ceiling) else found.precision
    return f"{precision} on tensor cores" if found.family == "tensor" else precision


def headline(roof: Roofline) -> list[Ceiling]:
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


def limits(results: Results, chosen: Chosen) -> list[Fact]:
    """What the roofs of the chosen mode limit in each network, and how near those that ran came."""
    rows = results.networks.filter((pl.col("label") == chosen.mode) & pl.col("bound").is_not_null())
    if rows.is_empty():
        return []
    smallest = pl.col("batch").fill_null(0).min().over("model", "model_hash")
    alike = rows.filter(pl.col("batch").fill_null(0) == smallest)
    fastest = alike.sort("time_s").unique(["model", "model_hash"], keep="first")
    bounds = fastest.group_by("bound").len().sort(["len", "bound"], descending=[True, False])
    parts = [
        f"{_LIMITS.get(bound, bound)}{f' {n:,}' if len(bounds) > 1 else ''}"
        for bound, n in bounds.iter_rows()
    ]
    n_all = len(fastest)
    networks = counted(n_all, "network")
    if len(parts) > 1:
        first, *others = parts
        what, _, n = first.rpartition(" ")
        sentence = f"Of {networks}, {what} limits {listed([n, *others])}, by the roofs."
    elif n_all == 1:
        sentence = f"By the roofs {parts[0]} limits {display_name(fastest['network'][0])}."
    else:
        sentence = f"By the roofs {parts[0]} limits all {networks}."
    reached, sources = _reached(results, chosen)
    return [Fact("What limits", f"{sentence}{reached}", ["modelled", *sources])]


def _reached(results: Results, chosen: Chosen) -> tuple[str, list[str]]:
    """The share of the roofs' speed that networks reached where they were run."""
    labels = mode_labels(results)
    ran = [
        (row, row.predicted_s / row.time_s)
        for row in results.measured
        if row.time_s and row.predicted_s and labels.get((row.device, row.mode)) == chosen.mode
    ]
    if not ran:
        return "", []
    shares = sorted(share for _, share in ran)
    names = sorted({row.network for row, _ in ran})
    who = display_name(names[0]) if len(names) == 1 else f"The {len(names)} that were run"
    low, high = percent(shares[0]), percent(shares[-1])
    verb = "reaches" if len(names) == 1 else "reach"
    reached = low if low == high else f"{low.split()[0]} to {high}"
    return (
        f" {who} {verb} {reached} of the speed that the roofs allow.",
        sorted({row.source for row, _ in ran}),
    )
