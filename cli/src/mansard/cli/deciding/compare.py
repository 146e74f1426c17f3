"""``mansard compare``: what changed between two boards, modes or runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from mansard import api
from mansard.analytics.data.quantities import fixed, quantity, seconds
from mansard.api import results
from mansard.cli.console import note, print_json, print_lines
from mansard.cli.options import JsonOption
from mansard.cli.tables import fits, print_fitting
from mansard.cli.terminal import columns
from mansard.core.table import Table

_COLUMNS = ("quantity", "first", "second", "second / first", "p, corrected", "verdict")
# Of which more is better; of times and energies less is.
_RATES = frozenset(("FLOP/s", "OP/s", "B/s"))


def compare(
    first: Annotated[
        Path, typer.Argument(help="A folder of runs, or one run in it.", readable=False)
    ],
    second: Annotated[
        Path, typer.Argument(help="Another one, or the same with another mode.", readable=False)
    ],
    mode: Annotated[str | None, typer.Option(help="Only this mode of the first.")] = None,
    other_mode: Annotated[
        str | None, typer.Option(help="Only this mode of the second; as --mode by default.")
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1000, help="Share that a quantity has to differ by: 0.01 is 1 %."),
    ] = 0.01,
    all_rows: Annotated[
        bool, typer.Option("--all", help="Show what did not change as well.")
    ] = False,
    mix: Annotated[
        bool, typer.Option("--mix", help="Take runs of different versions together.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Hold FIRST and SECOND against each other: ceilings, costs and measured networks.

    Each ratio has its 95 % interval and a test, corrected for their number; scatter counts by the
    samples that are independent. Runs pair by
    processor and mode; one run on each side is a pair whatever its mode. Exit code 0 whether
    or not anything changed.
    """
    compared = api.compare(
        first, second, mode=mode, other_mode=other_mode, threshold=threshold, mix=mix
    )
    if as_json:
        print_json("compare", compared)
        return
    for comparison in compared.comparisons:
        for table in _tables(comparison, all_rows=all_rows):
            print_fitting(table, ("p, corrected",), "--json has it", few=0)
        print_lines(_lines(comparison))
    for where, labels in ((first, compared.only_first), (second, compared.only_second)):
        if labels:
            note(f"only in {where}: {', '.join(labels)}")


def _tables(comparison: results.Comparison, *, all_rows: bool) -> list[Table]:
    """What changed significantly, or all that both sides have."""
    shown = [change for change in comparison.changes if all_rows or change.is_significant]
    if not shown:
        return []
    title = f"{comparison.first} (first) and {comparison.second} (second)"
    whole, brief = (
        Table(
            title,
            _COLUMNS,
            [_row(change, comparison.threshold, with_ends=with_ends) for change in shown],
        )
        for with_ends in (True, False)
    )
    return [whole if fits(whole, columns(sys.stdout)) else brief]


def _row(change: results.Change, threshold: float, *, with_ends: bool) -> tuple[str, ...]:
    """``with_ends``: both values with their intervals; the ratio has one always."""
    first = (change.first_low, change.first_high) if with_ends else (None, None)
    second = (change.second_low, change.second_high) if with_ends else (None, None)
    return (
        change.quantity,
        _value(change.first, *first, change.unit),
        _value(change.second, *second, change.unit),
        _ratio(change),
        _p(change.p_corrected),
        _verdict(change, threshold),
    )


def _value(value: float, low: float | None, high: float | None, unit: str) -> str:
    if unit == "s":
        return seconds(value, low, high)
    if unit.startswith("J/"):
        low, high = (None if end is None else end * 1e12 for end in (low, high))
        return fixed(value * 1e12, f"p{unit}", low, high)
    return quantity(value, unit, low, high)


def _ratio(change: results.Change) -> str:
    if change.ratio_low is None or change.ratio_high is None:
        return f"{change.ratio:.3f}"
    return f"{change.ratio:.3f} ({change.ratio_low:.3f} to {change.ratio_high:.3f})"


def _p(p: float | None) -> str:
    if p is None:
        return "not tested"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _verdict(change: results.Change, threshold: float) -> str:
    """What the second is against the first; within the threshold they are equal."""
    if change.is_significant:
        is_higher = change.ratio > 1
        is_better = is_higher == (change.unit in _RATES)
        return f"{'better' if is_better else 'worse'}: {'higher' if is_higher else 'lower'}"
    if change.is_equal:
        return f"within {_percent(threshold)}"
    if change.is_significant is None:
        return change.unknown["is_significant"]
    return "not told apart"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _lines(comparison: results.Comparison) -> Iterator[str]:
    """The summary, what only one side has, and what else differs."""
    n_tested = sum(change.p is not None for change in comparison.changes)
    n_changed = sum(bool(change.is_significant) for change in comparison.changes)
    yield (
        f"{comparison.first} and {comparison.second}: {n_changed} of {n_tested} quantities that "
        f"were tested differ by more than {_percent(comparison.threshold)} and their scatter "
        "(p < 0.05, Holm's correction)"
    )
    yield from _only(comparison.first, comparison.only_first)
    yield from _only(comparison.second, comparison.only_second)
    if comparison.differences:
        yield f"  also different: {'; '.join(comparison.differences)}"


def _only(label: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"  only in {label}: {', '.join(names)}"
