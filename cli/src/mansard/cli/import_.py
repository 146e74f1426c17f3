"""``mansard import``: a table that others published becomes rooflines or observations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from mansard.analytics.published.importing import Imported, Origin

_Pairs = list[str] | None


def import_(
    tables: Annotated[list[Path], typer.Argument(help="CSV tables.", readable=False)],
    citation: Annotated[str, typer.Option(help="Where it was published; printed beside it.")],
    device: Annotated[
        str | None, typer.Option(help="The device that the figures are of; the module's name.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(help="Its module, such as agx-orin or p3701-0005: figures are checked."),
    ] = None,
    processor: Annotated[
        Literal["cpu", "gpu"], typer.Option(help="Which processor of it.")
    ] = "gpu",
    column: Annotated[
        _Pairs,
        typer.Option(help="Which column is what: time_ms=NAME; energy= for none. Repeatable."),
    ] = None,
    fixed: Annotated[
        _Pairs, typer.Option(help="What holds for all rows: precision=fp16. Repeatable.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of runs to keep it in.", readable=False)] = (
        Path("runs")
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Read TABLES of (mode, GFLOP/s, GB/s) or (mode, network, time, power) that others published.

    They are labelled published and kept apart from what was measured; 'mansard report' draws
    them. A table that was imported before is not imported again.
    """
    from mansard.analytics.published.importing import import_table
    from mansard.analytics.published.rooflines import find_module, limit_notes
    from mansard.cli.console import note

    known = find_module(module) if module is not None else None
    origin = _origin(device or (known.name if known else None), processor, citation)
    said, given = _pairs("--column", column), _pairs("--fixed", fixed)
    # All are read before one is written: a bad table leaves nothing behind.
    imported = [import_table(table, origin, said=said, fixed=given) for table in tables]
    for table, one in zip(tables, imported, strict=True):
        for line in limit_notes(one, known):
            note(f"note: {table}: {line}".replace("\u00a0", " "))
        if one.ignored:
            note(f"note: {table}: not read: {', '.join(one.ignored)}")
    _write(tables, imported, runs, as_json=as_json)


def _origin(device: str | None, processor: Literal["cpu", "gpu"], citation: str) -> Origin:
    from mansard.analytics.published.importing import Origin
    from mansard.core.errors import UsageError

    if not device or not device.strip():
        raise UsageError("the device has no name", fix="say --device NAME, or --module agx-orin")
    if not citation.strip():
        raise UsageError("the citation is empty", fix="say where the table was published")
    return Origin(device=device.strip(), processor=processor, citation=citation.strip())


def _pairs(option: str, texts: _Pairs) -> dict[str, str]:
    """``name=value`` as given, each name once; raises UsageError."""
    from mansard.core.errors import UsageError

    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or name.strip() in pairs:
            raise UsageError(f"{option} {text!r} is not a new name=value", fix="say each name once")
        pairs[name.strip()] = value
    return pairs


def _write(tables: list[Path], imported: list[Imported], runs: Path, *, as_json: bool) -> None:
    from mansard.analytics.published.store import write_published
    from mansard.cli.console import path_text, print_json

    rows = []
    for table, one in zip(tables, imported, strict=True):
        path, was_there = write_published(runs, one)
        rows.append(
            {
                "table": path_text(table),
                "id": one.table_id,
                "rates": len(one.rates),
                "runs": len(one.runs),
                "modes": list(dict.fromkeys(row.mode.name for row in one.rows)),
                "not_read": list(one.ignored),
                "was_there": was_there,
                "path": path_text(path),
            }
        )
        if not as_json:
            typer.echo(_line(one, path, was_there=was_there))
    if as_json:
        print_json(rows)


def _line(one: Imported, path: Path, *, was_there: bool) -> str:
    n_modes = len({row.mode.name for row in one.rows})
    what = "rate" if one.rates else "network's run"
    count = f"{len(one.rows)} {what}{'s' * (len(one.rows) != 1)}"
    modes = f"{n_modes} mode{'s' * (n_modes != 1)}"
    return f"{count} of {modes}, {'was there before' if was_there else 'written'}: {path}"
