"""``mansard compare``: what changed between two boards, modes or runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mansard.analytics.decide.compare import Side


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
    all_rows: Annotated[
        bool, typer.Option("--all", help="Show what did not change as well.")
    ] = False,
    mix: Annotated[
        bool, typer.Option("--mix", help="Take runs of different versions together.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Hold FIRST and SECOND against each other: ceilings, costs and measured networks.

    Each ratio has its 95 % interval and a test, corrected for their number. Runs pair by
    processor and mode; one run on each side is a pair whatever its mode. Exit code 0 whether
    or not anything changed.
    """
    from mansard.analytics.decide.compare import compare as compare_sides
    from mansard.analytics.decide.compare import pair_runs
    from mansard.cli.compare_tables import comparison_lines, comparison_tables
    from mansard.cli.console import note, print_json, print_table
    from mansard.core.text import printable

    names = ("", "") if first.resolve() == second.resolve() else (f"{first}: ", f"{second}: ")
    ours = _sides(first, names[0], mode, may_mix=mix)
    theirs = _sides(second, names[1], other_mode or mode, may_mix=mix)
    pairs, only_first, only_second = pair_runs(ours, theirs)
    found = [compare_sides(*pair) for pair in pairs]
    if as_json:
        only = {"only_first": only_first, "only_second": only_second}
        print_json({"comparisons": found, **only})
        return
    for each in found:
        for title, columns, rows in comparison_tables(each, all_rows=all_rows):
            print_table(title, columns, rows)
        for line in comparison_lines(each):
            typer.echo(printable(line.replace("\u00a0", " ")))
    for where, labels in ((first, only_first), (second, only_second)):
        if labels:
            note(f"only in {where}: {', '.join(labels)}")


def _sides(place: Path, name: str, mode: str | None, *, may_mix: bool) -> tuple[Side, ...]:
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.decide.compare import sides_of
    from mansard.core.documents import read_document
    from mansard.core.records import Manifest

    manifest = place / "manifest.json"
    if not manifest.is_file():
        return sides_of(open_runs([place], mix=may_mix), name=name, mode=mode)
    run_id = read_document(manifest, Manifest).run_id
    return sides_of(open_runs([place.resolve().parent], mix=may_mix), name=name, run_id=run_id)
