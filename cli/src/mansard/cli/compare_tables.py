"""A comparison of two runs as tables and lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mansard.analytics.decide.compare import Change, Comparison

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
_COLUMNS = ("quantity", "first", "second", "second / first", "p, corrected", "verdict")


def comparison_tables(found: Comparison, *, all_rows: bool) -> list[Table]:
    """What changed significantly, or all that both sides have."""
    shown = [change for change in found.changes if all_rows or change.is_significant]
    if not shown:
        return []
    title = f"{found.first} (first) and {found.second} (second)"
    return [(title, _COLUMNS, [_row(change) for change in shown])]


def _row(change: Change) -> tuple[str, ...]:
    cells = (
        change.quantity,
        _value(change.first, change.first_low, change.first_high, change.unit),
        _value(change.second, change.second_low, change.second_high, change.unit),
        _ratio(change),
        _p(change.p_corrected),
        _verdict(change),
    )
    return tuple(cell.replace("\u00a0", " ") for cell in cells)


def _value(value: float, low: float | None, high: float | None, unit: str) -> str:
    from mansard.analytics.data.quantities import digits, quantity, seconds

    if unit == "s":
        return seconds(value, low, high)
    if unit in {"J/FLOP", "J/B"}:
        return f"{digits(value * 1e12)} p{unit}"
    return quantity(value, unit, low, high)


def _ratio(change: Change) -> str:
    if change.ratio_low is None or change.ratio_high is None:
        return f"{change.ratio:.3f}"
    return f"{change.ratio:.3f} ({change.ratio_low:.3f} to {change.ratio_high:.3f})"


def _p(p: float | None) -> str:
    if p is None:
        return "not tested"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _verdict(change: Change) -> str:
    if change.is_significant is None:
        return change.unknown["is_significant"]
    if not change.is_significant:
        return "no difference shown"
    return "second is higher" if change.ratio > 1 else "second is lower"


def comparison_lines(found: Comparison) -> Iterator[str]:
    """The summary, what only one side has, and what else differs."""
    n_tested = sum(change.p is not None for change in found.changes)
    n_changed = sum(bool(change.is_significant) for change in found.changes)
    yield (
        f"{found.first} and {found.second}: {n_changed} of {n_tested} quantities that were tested "
        "differ by more than their scatter (p < 0.05, Holm's correction)"
    )
    yield from _only(found.first, found.only_first)
    yield from _only(found.second, found.only_second)
    if found.differences:
        yield f"  also different: {'; '.join(found.differences)}"


def _only(label: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"  only in {label}: {', '.join(names)}"
