"""Tables of kernels that were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mansard.analytics.data.names import display_text, first_names, kernel_text
from mansard.analytics.data.quantities import NBSP, percent, quantity, seconds
from mansard.analytics.models.counters.by_kernel import CallSum, KernelSum
from mansard.analytics.models.counters.check import CheckedNetwork, CheckedPart
from mansard.analytics.pages.figures.tables import Column, tabulate
from mansard.core.precision import work_unit
from mansard.core.records import Source, TrafficCount
from mansard.core.table import Table

_MOST_PARTS = 40


def kernel_table(caption: str, kernels: Sequence[KernelSum]) -> Table:
    """Kernels by their share of the time of a call."""
    columns = [
        Column("Kernel", lambda row: kernel_text(row.kernel)),
        Column("Launches", lambda row: f"{row.launches:.4g}", is_numeric=True),
        Column("Time", lambda row: seconds(row.time_s), is_numeric=True),
        Column("Share", lambda row: percent(row.share), is_numeric=True),
        Column("Work", lambda row: _at_least(row.work_flop, row.least_flop, row), is_numeric=True),
        *_pagoda_column([(row.work_flop, row.pagoda_flop) for row in kernels]),
        Column("Read", lambda row: quantity(row.read_bytes, "B"), is_numeric=True),
        Column("Written", lambda row: quantity(row.write_bytes, "B"), is_numeric=True),
        Column("Both", lambda row: quantity(row.traffic_bytes, "B"), is_numeric=True),
    ]
    return tabulate(caption, columns, kernels)


_SAME = 0.001  # relative difference of two counts that rounding explains


def _pagoda_column(pairs: Sequence[tuple[float | None, float | None]]) -> list[Column]:
    """Work by Pagoda's rule, where it differs from ours. ``pairs``: ours and theirs."""
    known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
    if all(abs(theirs - ours) <= _SAME * ours for ours, theirs in known):
        return []
    return [Column("Pagoda's rule", lambda row: _work(row.pagoda_flop, row), is_numeric=True)]


def call_words(call: CallSum) -> str:
    """What a call comes to: time, clocks that ran, work by unit and precision, bytes by level."""
    words = [f"a call takes {seconds(call.time_s)} in {call.launches:.4g} launches"]
    words += [f"{name} clock {quantity(hz, 'Hz')}" for name, hz in call.clocks_hz.items()]
    words += [
        f"{w.unit} {w.precision} {quantity(w.flop, work_unit(w.precision))}{_error_text(w.error)}"
        for w in call.work
    ]
    words += [_level_words(level) for level in call.traffic if level.traffic_bytes is not None]
    why = call.unknown.get("work_flop")
    return "; ".join([*words, f"not all work is known: {display_text(why)}"] if why else words)


def _level_words(traffic: TrafficCount) -> str:
    both = f"{traffic.level} {quantity(traffic.traffic_bytes, 'B')}{_error_text(traffic.error)}"
    if traffic.read_bytes is None or traffic.write_bytes is None:
        return both
    read, written = (quantity(n, "B") for n in (traffic.read_bytes, traffic.write_bytes))
    return f"{both} ({read} read, {written} written)"


def _error_text(error: float) -> str:
    """`` (from rates, ± 0.4 %)`` after a value that was not counted directly."""
    return f" (from rates, ±{NBSP}{100 * error:.2g}{NBSP}%)" if error else ""


def checked_table(checked: CheckedNetwork) -> Table:
    """The parts of a network, those whose kernels took longest first: estimated and counted."""
    parts = sorted(checked.parts, key=lambda part: -(part.counted_s or 0))
    columns = [
        Column("Layer", lambda row: display_text(row.name)),
        Column("Kernel", _kernels_text),
        Column("Work", lambda row: _work(row.estimated_flop, row), is_numeric=True),
        Column("Counted", _work_text, is_numeric=True),
        Column("Ratio", lambda row: _ratio_text(row.work_ratio), is_numeric=True),
        *_pagoda_column([(row.counted_flop, row.pagoda_flop) for row in parts]),
        Column("Bytes", lambda row: quantity(row.estimated_bytes, "B"), is_numeric=True),
        Column("Counted", lambda row: quantity(row.counted_bytes, "B"), is_numeric=True),
        Column("Ratio", lambda row: _ratio_text(row.bytes_ratio), is_numeric=True),
        Column("Kernel time", lambda row: seconds(row.counted_s), is_numeric=True),
        Column("Layer time", lambda row: seconds(row.measured_s), is_numeric=True),
        Column("Why", _why_text),
    ]
    shown = parts[:_MOST_PARTS]
    cut = f", the slowest {len(shown)} of {len(parts)}" if len(parts) > len(shown) else ""
    return tabulate(f"{_setting(checked)}: estimate and counters{cut}", columns, shown)


def checked_words(checked: CheckedNetwork) -> str:
    """The sums of a network in a sentence, and how kernels were joined to layers."""
    by = "the nodes of their ranges" if checked.matched == "nodes" else checked.matched
    kind = "fused groups" if checked.is_fused else "single nodes"
    joined = (
        f"{percent(checked.matched_share)} of the kernels' time joined to {kind} by {by}"
        if checked.matched_share is not None
        else f"no kernel joined to a layer: {checked.unknown['matched_share']}"
    )
    words = [
        f"work {_work(checked.estimated_flop, checked)} estimated, {_work_text(checked)} counted",
        f"bytes {quantity(checked.estimated_bytes, 'B')} estimated, "
        f"{quantity(checked.counted_bytes, 'B')} counted",
        joined,
    ]
    if checked.left:
        names = [kernel_text(kernel) for kernel in checked.left]
        words.append(f"of no layer: {first_names(names, 3)}")
    return f"{_setting(checked)}, {checked.source}: {'; '.join(words)}"


def _setting(checked: CheckedNetwork) -> str:
    batch = "" if checked.batch is None else f", batch {checked.batch}"
    precision = f", {checked.precision}" if checked.precision else ""
    return f"{display_text(checked.network)} on {display_text(checked.device)}{batch}{precision}"


def _kernels_text(row: CheckedPart) -> str:
    if not row.kernels:
        return "–"
    more = len(row.kernels) - 1
    return kernel_text(row.kernels[0]) + (f" + {more}" if more else "")


def _work_text(row: CheckedPart | CheckedNetwork) -> str:
    """The counted work; a lower bound where a unit was not counted."""
    return _at_least(row.counted_flop, row.least_flop, row)


def _at_least(
    value: float | None, least: float | None, row: KernelSum | CheckedPart | CheckedNetwork
) -> str:
    return f"≥{NBSP}{_work(least, row)}" if value is None and least else _work(value, row)


def _work(value: float | None, row: KernelSum | CheckedPart | CheckedNetwork) -> str:
    return quantity(value, work_unit(*row.precisions))


def _ratio_text(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.3g}"


def _why_text(row: CheckedPart) -> str:
    """``work: padding to tiles; bytes: split sums``."""
    pairs = (("work", row.work_classes), ("bytes", row.bytes_classes))
    return "; ".join(f"{what}: {', '.join(classes)}" for what, classes in pairs if classes)


@dataclass(frozen=True)
class CountedSection:
    """A network of the page that was counted: its table, and what it comes to."""

    source: Source
    words: str
    citation: str
    table: Table


def sections(checked: Sequence[CheckedNetwork]) -> list[CountedSection]:
    """What the page shows of estimates held against counters."""
    return [
        CountedSection(
            one.source,
            checked_words(one),
            "" if one.citation is None else display_text(one.citation),
            checked_table(one),
        )
        for one in checked
    ]
