"""``mansard compare``: what changed between two boards, modes, builds or runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mansard import api
from mansard.analytics.data.quantities import capacity, counted, fixed, joules, quantity, seconds
from mansard.api import results
from mansard.cli.console import note, print_json, print_lines, print_whole
from mansard.cli.deciding.markdown import markdown_lines
from mansard.cli.help import HelpfulCommand
from mansard.cli.options import ForceOption, JsonOption, check_outputs
from mansard.cli.tables import fits, print_fitting, print_tables
from mansard.cli.terminal import columns
from mansard.core.errors import UsageError
from mansard.core.table import Table

_COLUMNS = ("quantity", "first", "second", "second / first", "p, corrected", "verdict")
_WIDE = 10  # high / low of an interval that is not shown: the one of the ratio is enough
_EXIT_CODES = {"worse": 3, "unknown": 4}
_MOST_REASONS = 3  # why quantities have no value; the rest is in --json


class CompareCommand(HelpfulCommand):
    """``--check`` without a value means ``--check default``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the value before the options are parsed."""
        end = args.index("--") if "--" in args else len(args)
        words = []
        for at, word in enumerate(args):
            words.append(word)
            is_last = at + 1 >= end or args[at + 1].startswith("--")
            if word == "--check" and at < end and is_last:
                words.append("default")
        return super().parse_args(ctx, words)


COMMAND_CLASS = CompareCommand  # app.py builds the command with it


def compare(
    first: Annotated[
        Path,
        typer.Argument(help="Folder of runs, one run, or a baseline.", readable=False),
    ],
    second: Annotated[
        Path | None,
        typer.Argument(
            help="The other side; or the same with another mode or label.",
            readable=False,
            show_default=False,
        ),
    ] = None,
    mode: Annotated[str | None, typer.Option(help="Mode of FIRST.")] = None,
    other_mode: Annotated[
        str | None, typer.Option(help="Mode of SECOND; as --mode by default.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label of FIRST, such as a build.")] = None,
    other_label: Annotated[
        str | None, typer.Option(help="Label of SECOND; as --label by default.")
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1000, help="Ignore smaller changes: 0.01 is 1 %."),
    ] = 0.01,
    check: Annotated[
        list[str] | None,
        typer.Option(
            help="Allowed change, such as 'p50 +5%' or 'rate -3%'; without a value, the "
            "default limit of each kind. Exits with 3 if a change is larger, 4 if "
            "undetermined. Repeatable."
        ),
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Compare layers too.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="Baseline file to write from the last side.", readable=False),
    ] = None,
    force: ForceOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, for a merge request.")
    ] = False,
    all_rows: Annotated[bool, typer.Option("--all", help="Show unchanged rows too.")] = False,
    allow_mixed: Annotated[
        bool, typer.Option("--allow-mixed", help="Combine runs across versions.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare FIRST with SECOND: kernels, networks, programs and servers.

    Each ratio has a 95 % interval and a test, corrected for the number of tests. Runs pair by
    processor and mode; a single run on each side always pairs. Without --check the exit code is 0;
    with it 0 means that every change is allowed.
    """
    if as_json and markdown:
        raise UsageError("--json and --markdown are both given", fix="give one of them")
    check_outputs((save,), force=force)
    compared = api.compare(
        first,
        second,
        mode=mode,
        other_mode=other_mode,
        label=label,
        other_label=other_label,
        threshold=threshold,
        allow_mixed=allow_mixed,
        layers=layers,
        checks=tuple(check or ()),
        save=save,
    )
    if as_json:
        print_json("compare", compared)
    elif markdown:
        print_whole(*markdown_lines(_all_tables(compared, all_rows=all_rows), _last(compared)))
    else:
        _print(compared, all_rows=all_rows)
    for where, labels in ((first, compared.only_first), (second, compared.only_second)):
        if labels and not as_json:
            note(f"only in {where}: {', '.join(labels)}")
    _print_saved(save, compared)
    code = _EXIT_CODES.get(compared.verdict, _EXIT_CODES["unknown"] if compared.unsaved else 0)
    if code:
        raise typer.Exit(code)


def _print_saved(save: Path | None, compared: results.Compared) -> None:
    """Note where the baseline is and what it leaves out, or why there is none."""
    if compared.unsaved:
        note(f"no baseline is written: {compared.unsaved}")
    elif save is not None:
        for text in compared.left_out:
            note(f"note: not in the baseline: {text}")
        note(f"baseline: {save}")


def _print(compared: results.Compared, *, all_rows: bool) -> None:
    for comparison in compared.comparisons:
        for table in _tables(comparison, all_rows=all_rows):
            print_fitting(table, ("p, corrected",), "--json has it", few=0)
        print_lines(_lines(comparison))
    print_tables(_check_tables(compared))
    print_lines(_last(compared))


def _all_tables(compared: results.Compared, *, all_rows: bool) -> Iterator[Table]:
    yield from _check_tables(compared)
    for comparison in compared.comparisons:
        yield from _tables(comparison, all_rows=all_rows)


def _check_tables(compared: results.Compared) -> Iterator[Table]:
    """What was checked: first what is worse, then what is undetermined."""
    order = ("worse", "unknown", "within")
    rows = sorted(compared.checks, key=lambda one: order.index(one.verdict))
    if rows:
        columns_ = ("check", "quantity", "second / first", "verdict", "why")
        yield Table("Checks", columns_, [_check_row(one) for one in rows])


def _check_row(one: results.CheckResult) -> tuple[str, ...]:
    more = _more(one.more_first, one.more_second, one.needed_of or "")
    needs = f"; needs {more}" if more else ""
    disturbed = _disturbed(one.disturbed_first, one.disturbed_second)
    needs += f"; {disturbed}" if disturbed and one.verdict == "unknown" else ""
    return (
        one.check,
        one.quantity or "–",
        "–" if one.ratio is None else f"{one.ratio:.3f}",
        {"worse": "worse than allowed", "within": "within", "unknown": "undetermined"}[one.verdict],
        f"{one.why}{needs}",
    )


def _more(first: int | None, second: int | None, unit: str) -> str:
    """``5 more runs of each side``; ``unit``: the plural, as in ``needed_of``."""
    noun = f"more {unit.removesuffix('s')}"
    if first and first == second:
        return f"{counted(first, noun)} of each side"
    return _of_sides(first, second, noun)


def _of_sides(first: int | None, second: int | None, noun: str) -> str:
    """``2 runs of the first and 1 run of the second``; empty without any."""
    sides = ((first, "first"), (second, "second"))
    return " and ".join(f"{counted(n, noun)} of the {side}" for n, side in sides if n)


def _disturbed(first: int, second: int) -> str:
    """``2 runs of the second were disturbed and do not count``; empty without any."""
    runs = _of_sides(first, second, "run")
    verbs = ("was", "does") if first + second == 1 else ("were", "do")
    return f"{runs} {verbs[0]} disturbed and {verbs[1]} not count" if runs else ""


def _last(compared: results.Compared) -> Iterator[str]:
    """The verdict of all checks in a sentence."""
    if not compared.checks:
        return
    n = {name: sum(one.verdict == name for one in compared.checks) for name in _EXIT_CODES}
    of = f"of {len(compared.checks)} checks"
    sentences = {
        "worse": f"worse: {n['worse']} {of} found a significant change above the limit (exit "
        f"code 3); {n['unknown']} undetermined",
        "unknown": f"undetermined: {n['unknown']} {of} (exit code 4){_remedy(compared.checks)}",
        "within": f"within: all {len(compared.checks)} checks pass",
    }
    yield sentences[compared.verdict]


def _remedy(checks: Sequence[results.CheckResult]) -> str:
    """How often to measure again: the most that a check of each side needs."""
    undetermined = [one for one in checks if one.verdict == "unknown"]
    parts = []
    for unit, option in (("runs", "--again"), ("repetitions", "--repeat")):
        of = [one for one in undetermined if one.needed_of == unit]
        more = _more(
            _most(one.more_first for one in of), _most(one.more_second for one in of), unit
        )
        if more:
            parts.append(f"{more} ({option})")
    remedy = f": measure {', and '.join(parts)}" if parts else ""
    disturbed = _disturbed(
        _most(one.disturbed_first for one in undetermined),
        _most(one.disturbed_second for one in undetermined),
    )
    return f"{remedy}; {disturbed}" if disturbed else remedy


def _most(numbers: Iterable[int | None]) -> int:
    return max((n or 0 for n in numbers), default=0)


def _tables(comparison: results.Comparison, *, all_rows: bool) -> list[Table]:
    """What changed significantly, or all that both sides have; layers apart, the worst first."""
    title = f"{comparison.first} (first) and {comparison.second} (second)"
    groups = {title: [(change.quantity, change) for change in comparison.changes]}
    for change in sorted(comparison.layers, key=lambda one: one.first - one.second):
        network, _, layer = change.quantity.partition(": ")
        groups.setdefault(f"{network}; {title}", []).append((layer, change))
    tables = []
    for name, changes in groups.items():
        shown = [one for one in changes if all_rows or one[1].is_significant]
        whole, brief = (
            Table(
                name,
                _COLUMNS,
                [
                    (what, *_row(change, comparison.threshold, with_ends=with_ends))
                    for what, change in shown
                ],
            )
            for with_ends in (True, False)
        )
        if shown:
            tables.append(whole if fits(whole, columns(sys.stdout)) else brief)
    return tables


def _row(change: results.Change, threshold: float, *, with_ends: bool) -> tuple[str, ...]:
    """``with_ends``: both values with their intervals; the ratio always has one."""
    first = (change.first_low, change.first_high) if with_ends else (None, None)
    second = (change.second_low, change.second_high) if with_ends else (None, None)
    return (
        _value(change.first, *first, change.unit),
        _value(change.second, *second, change.unit),
        _ratio(change),
        _p(change.p_corrected),
        _verdict(change, threshold),
    )


def _value(value: float, low: float | None, high: float | None, unit: str) -> str:
    if low is not None and high is not None and high > _WIDE * low:  # of two runs
        low = high = None
    if unit == "s":
        return seconds(value, low, high, advise=False)
    if unit == "J":
        return joules(value, low, high, advise=False)
    if unit == "B":
        return capacity(value)
    if not unit:
        return fixed(value, unit, low, high)
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
    """How the second compares with the first; within the threshold they are equal."""
    if change.is_significant:
        way = "higher" if change.ratio > 1 else "lower"
        if change.is_better is None:
            return f"changed: {way}"
        return f"{'better' if change.is_better else 'worse'}: {way}"
    if change.is_equal:
        return f"within {_percent(threshold)}"
    if change.is_significant is None:
        return change.unknown["is_significant"]
    return "no clear difference"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _lines(comparison: results.Comparison) -> Iterator[str]:
    """The summary, what only one side has, and what else differs."""
    for what, changes in (("quantities", comparison.changes), ("layers", comparison.layers)):
        n_tested = sum(change.p is not None for change in changes)
        n_changed = sum(bool(change.is_significant) for change in changes)
        if not n_tested and (changes or what == "quantities"):
            yield f"{comparison.first} and {comparison.second}: {_untested(comparison, what)}"
        elif changes:
            yield (
                f"{comparison.first} and {comparison.second}: {n_changed} of {n_tested} {what} "
                f"that were tested differ by more than {_percent(comparison.threshold)} and their "
                "scatter (p < 0.05, Holm's correction)"
            )
    yield from _only(comparison.first, comparison.only_first)
    yield from _only(comparison.second, comparison.only_second)
    if comparison.differences:
        yield f"  also different: {'; '.join(comparison.differences)}"


def _untested(comparison: results.Comparison, what: str) -> str:
    """Why no quantity could be tested."""
    changes = comparison.changes if what == "quantities" else comparison.layers
    if changes:
        reasons = Counter(one.unknown.get("p", "unknown") for one in changes)
        why = "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
        return f"none of {len(changes)} {what} could be tested: {why}"
    alone = tuple(f"{name}: " for name in (*comparison.only_first, *comparison.only_second))
    unusable = [text for text in comparison.unusable if not alone or text.startswith(alone)]
    if unusable:
        return f"no {what} could be tested: {'; '.join(unusable[:_MOST_REASONS])}"
    return f"no {what} could be tested: the two sides have none in common"


def _only(label: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"  only in {label}: {', '.join(names)}"
