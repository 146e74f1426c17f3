"""``models ncu``: counters of Nsight Compute, read or imported, compared with estimates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics import pages
from mansard.api import results
from mansard.cli.console import TerminalReporter, note, print_json, print_lines, print_whole
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.options import (
    BatchSizesOption,
    BoardOption,
    DimOption,
    DryRunOption,
    InputsOption,
    JsonOption,
    KeptRunsOption,
    PickOption,
    PrecisionsOption,
    ProviderOption,
    parse_dimensions,
    parse_precisions,
    parse_sizes,
)
from mansard.cli.tables import print_tables, without_silent
from mansard.core.errors import UsageError
from mansard.core.hardware import cache_bytes
from mansard.core.precision import parse_precision

_MOST_SHOWN = 15  # kernels of a network


def run_networks(
    models: Annotated[
        list[str], typer.Argument(help="ONNX files, folders of them, or names of shipped networks.")
    ],
    batch: BatchSizesOption = None,
    precision: PrecisionsOption = None,
    dim: DimOption = None,
    inputs: InputsOption = None,
    engine: Annotated[
        str | None,
        typer.Option(help="Engine: ort or tensorrt; tensorrt on a Jetson by default."),
    ] = None,
    provider: ProviderOption = None,
    mode: Annotated[
        str | None, typer.Option(help="Power modes, as for bench; the current mode by default.")
    ] = None,
    pick: PickOption = None,
    calls: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="Calls of each network to count."),
    ] = 1,
    cache: Annotated[
        Literal["all", "none"],
        typer.Option(help="Caches to flush before each kernel."),
    ] = "all",
    ncu: Annotated[
        Path | None,
        typer.Option(help="Path of Nsight Compute; searched by default.", readable=False),
    ] = None,
    chip: Annotated[
        str | None, typer.Option(help="Chip, as in ncu --list-chips; the first card's by default.")
    ] = None,
    runs: KeptRunsOption = Path("runs"),
    board: BoardOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run MODELS under Nsight Compute and keep the counters of each kernel.

    Runs on this machine, without a container. Counters need root, or a driver that allows all
    users. Finished runs are reused.
    """
    settings = api.NetworkSettings(
        engine=engine,
        provider=provider,
        batches=parse_sizes("--batch", batch) if batch else (),
        precisions=parse_precisions(precision),
        dims=parse_dimensions(dim or []),
        inputs=inputs,
        with_layers=False,
    )
    request = api.CountRequest(
        models=tuple(models),
        settings=settings,
        mode=mode,
        pick=pick,
        runs=runs,
        board=board,
        ncu=ncu,
        chip=chip,
        n_calls=calls,
        cache_control=cache,
    )
    if dry_run:
        print_dry_runs(api.dry_run(request, TerminalReporter()), as_json=as_json)
        return
    result = api.count_networks(request, TerminalReporter())
    if as_json:
        print_json("ncu-run", {"networks": result.rows})
    else:
        for one in result.rows:
            _print(one)
    result.check()


def import_exports(
    exports: Annotated[
        list[Path],
        typer.Argument(help="Exports of ncu, as CSV or text, or reports.", readable=False),
    ],
    citation: Annotated[str, typer.Option(help="Where the figures were published.")],
    device: Annotated[str, typer.Option(help="Profiled device.")],
    mode: Annotated[str, typer.Option(help="Power mode.")] = "not said",
    network: Annotated[
        str | None,
        typer.Option(help="Network that ran: a shipped one, or the name of its ONNX file."),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, max=1_000_000, help="Batch size.")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision, such as fp16.")] = None,
    phase: Annotated[
        Literal["inference", "training"], typer.Option(help="Phase of the network.")
    ] = "inference",
    calls: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Calls of the network in each export.")
    ] = None,
    compute_capability: Annotated[
        str | None,
        typer.Option(help="Compute capability, such as 8.7, if the export does not have it."),
    ] = None,
    ncu: Annotated[
        Path | None,
        typer.Option(
            help="Path of Nsight Compute, to read reports; searched by default.", readable=False
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of runs.", readable=False)] = (Path("runs")),
    as_json: JsonOption = False,
) -> None:
    """Import exports of Nsight Compute: time, FLOP and bytes of each kernel.

    Reads the raw page (ncu --csv --page raw), the details page, summaries by kernel, their text,
    tables of metrics, CSV of the GUI and, if ncu is installed, reports (.ncu-rep). Imported
    counters are labelled published; 'mansard models ncu check' compares them with the estimate.
    Exports are imported once; those without FLOP and bytes are refused.
    """
    imported = api.import_counters(
        exports,
        api.ExportOrigin(
            citation=citation,
            device=device,
            mode=mode,
            network=network,
            batch=batch,
            precision=None if precision is None else parse_precision(precision).name,
            phase=phase,
            iterations=calls,
            compute_capability=_capability(compute_capability),
        ),
        runs=runs,
        ncu=ncu,
        reporter=TerminalReporter(),
    )
    if as_json:
        print_json("ncu-import", {"exports": imported})
        return
    for one in imported:
        _print_kernels(f"{one.export.name}: {one.launches} launches, {one.form}", one)
        print_whole(f"{'already imported' if one.was_there else 'saved'}: {one.path}")


def check_estimates(
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="ONNX files of networks that are not shipped.", readable=False),
    ] = None,
    network: Annotated[str | None, typer.Option(help="Only this network.")] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="Batch size, if the counters do not have it."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Precision, such as fp16, if the counters do not have it.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option(help="Last-level cache: a board, or a size such as 4MiB.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of runs with counters.", readable=False)] = (
        Path("runs")
    ),
    as_json: JsonOption = False,
) -> None:
    """Compare the estimate of each network with its counters, layer by layer.

    Kernels match layers by NVTX ranges, else by order and size. Differences above 5 % have a class,
    such as padding to tiles, split sums or cache hits, or "not explained".
    """

    checked = api.check_counters(
        runs,
        network=network,
        models=models or (),
        batch=batch,
        precision=None if precision is None else parse_precision(precision).name,
        cache_bytes=None if cache is None else cache_bytes(cache),
        reporter=TerminalReporter(),
    )
    if as_json:
        print_json("ncu-check", {"networks": checked})
        return
    for one in checked:
        table = pages.checked_table(one)
        print_tables([without_silent(table, table.columns)])
        print_lines([pages.checked_words(one)])


def _capability(text: str | None) -> int | None:
    """``8.7`` as 87; raises UsageError."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a compute capability", fix="write it as 8.7")
    return 10 * int(match[1]) + int(match[2])


def _print(one: results.CountedNetwork) -> None:
    """The kernels of a network, or why there are none."""
    batch = "" if one.row.batch is None else f" × {one.row.batch}"
    name = f"{one.row.model}{batch} {one.row.precision} in {one.mode}"
    if one.row.failure is not None:
        note(f"{name}: not run: {one.row.failure}")
    for line in one.notes:
        note(f"note: {name}: {line}")
    if one.table is not None:
        _print_kernels(f"{name}: {one.launches} launches", one)
        print_whole(f"kept: {one.table}")


def _print_kernels(title: str, one: results.CountedNetwork | results.ImportedExport) -> None:
    print_tables([pages.kernel_table(title, one.kernels[:_MOST_SHOWN])])
    if (left := len(one.kernels) - _MOST_SHOWN) > 0:
        print_lines([f"and {left} more kernels"])
    if one.call is not None:
        print_lines([pages.call_words(one.call)])
