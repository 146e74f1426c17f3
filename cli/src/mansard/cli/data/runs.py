"""``mansard report``, ``import`` and ``merge``: what folders of runs hold and take in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data.quantities import counted
from mansard.api import results
from mansard.cli.console import TerminalReporter, print_json, print_lines, print_whole
from mansard.cli.data.overview import ceiling_tables, overview_lines, overview_tables
from mansard.cli.data.summary import print_shortened, summary_tables
from mansard.cli.options import (
    REPORT,
    AllOption,
    AllowMixedOption,
    BatchSizesOption,
    BoardOption,
    ForceOption,
    JsonOption,
    RunsOption,
    check_outputs,
    parse_precisions,
    parse_sizes,
)
from mansard.cli.tables import print_tables
from mansard.core.errors import UsageError


def merge(
    places: Annotated[list[str], typer.Argument(help="Folders of runs, or merged datasets.")],
    into: Annotated[
        str, typer.Option(help="Folder or URL of the dataset, such as s3://bucket/boards.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Merge runs into one dataset, in a folder or an object store; report it with --runs.

    Existing runs are not written again. Credentials come from the environment.
    """
    done = api.merge(places, into)
    if as_json:
        print_json("merge", done)
    else:
        counts = f"{done.n_new} new runs, {done.n_grown} that grew, {done.n_same} unchanged"
        print_lines([f"{done.place}: {counts}"])


_Pairs = list[str] | None


def import_tables(
    tables: Annotated[
        list[Path] | None,
        typer.Argument(help="CSV tables, or files of other tools.", readable=False),
    ] = None,
    citation: Annotated[
        str, typer.Option(help="Where the figures were published, printed with them.")
    ] = "",
    hardware: Annotated[
        str | None,
        typer.Option(
            help="Import a board's hardware limits, the peaks and bandwidth of its modes: "
            "'Orin Nano 8GB Super'."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Name of the device; the module's by default.")
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(help="Module, such as agx-orin or p3701-0005, to check the figures."),
    ] = None,
    processor: Annotated[
        Literal["cpu", "gpu"], typer.Option(help="Processor of the figures.")
    ] = "gpu",
    column: Annotated[
        _Pairs,
        typer.Option(help="Name of a column: time_ms=NAME; energy= for none. Repeatable."),
    ] = None,
    fixed: Annotated[
        _Pairs, typer.Option(help="Value of all rows: precision=fp16. Repeatable.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of runs.", readable=False)] = (Path("runs")),
    as_json: JsonOption = False,
) -> None:
    """Import published tables of (mode, GFLOP/s, GB/s) or (mode, network, time, power).

    Also reads files of trtexec, jetson_stats, zeus, llama-bench, vLLM, SGLang, trtllm-bench and
    MLPerf. --fixed adds values that they do not contain: --fixed mode=MAXN --fixed
    network=resnet50 --fixed batch=1.

    Imported figures are labelled published and kept apart from measurements; 'mansard report'
    draws them. Tables are imported once.
    """
    if not tables and hardware is None:
        raise UsageError("there is nothing to import", fix="name a table, or --hardware BOARD")
    imported = api.import_tables(
        tables or (),
        api.TableOrigin(citation=citation, device=device, module=module, processor=processor),
        columns=_pairs("--column", column),
        fixed=_pairs("--fixed", fixed),
        hardware=hardware,
        runs=runs,
        reporter=TerminalReporter(),
    )
    if as_json:
        print_json("import", {"tables": imported})
        return
    for one in imported:
        n_rows, n_modes = one.rates + one.runs + one.layers, len(one.modes)
        what = "rate" if one.rates else "network run" if one.runs else "layer"
        state = "already imported" if one.was_there else "saved"
        print_whole(f"{counted(n_rows, what)} in {counted(n_modes, 'mode')}, {state}: {one.path}")


def _pairs(option: str, texts: _Pairs) -> dict[str, str]:
    """``name=value`` as given, each name once; raises UsageError."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or name.strip() in pairs:
            raise UsageError(f"{option} {text!r} is not a new name=value", fix="say each name once")
        pairs[name.strip()] = value
    return pairs


def report(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="More networks and language models to show. Their scores are kept in the "
            "first folder of runs."
        ),
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(
            help="Precisions to predict MODEL in: fp32, fp16, int8. Repeatable; the file's by "
            "default."
        ),
    ] = None,
    batch: BatchSizesOption = None,
    runs: RunsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; report.html in the first folder of runs by default.",
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="More modes to predict, as for bench, or a CSV table."),
    ] = None,
    board: BoardOption = None,
    allow_mixed: AllowMixedOption = False,
    all_rows: AllOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the report again from the folders of runs; measures nothing."""
    folder, *others = runs or ["runs"]
    check_outputs([output or Path(folder, REPORT)], force=force)
    written = api.report(
        (folder, *others),
        output,
        allow_mixed=allow_mixed,
        modes=mode,
        board=board,
        models=models or (),
        precisions=parse_precisions(precision),
        batches=parse_sizes("--batch", batch) if batch else (),
        reporter=TerminalReporter(),
    )
    print_report(
        written, all_rows=all_rows, as_json=as_json, next_line=written.next_step.line(folder)
    )


def print_report(written: results.Report, *, all_rows: bool, as_json: bool, next_line: str) -> None:
    """Print a report's ceilings and five networks, or all of its tables; then what to do next.

    The tables show its ``run_ids`` and what others published; JSON has all runs.
    """
    if as_json:
        print_json("report", {"report": written.path, "summary": written.summary})
        return
    ratios = pages.ratio_words(written.summary.of_runs(written.run_ids).measured)
    if all_rows:
        print_shortened(summary_tables(written.summary, written.run_ids), ratios)
    else:
        tables = [*written.published, *overview_tables(written.summary, written.run_ids)]
        print_tables(tables, ratios)
        print_lines([*overview_lines(written.summary, written.run_ids), ""])
        print_tables(ceiling_tables(written.summary, written.run_ids))
    print_whole(f"report: {written.path}", f"next: {next_line}")
