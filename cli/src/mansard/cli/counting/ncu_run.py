"""``mansard ncu run``: networks under Nsight Compute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.cli.console import TerminalReporter, note, print_json, print_lines
from mansard.cli.options import (
    BatchSizesOption,
    BoardOption,
    DimOption,
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
from mansard.cli.tables import print_tables

_MOST_SHOWN = 15  # kernels of a network


def run_networks(
    models: Annotated[
        list[str], typer.Argument(help="ONNX files, folders of them, or names of the zoo.")
    ],
    batch: BatchSizesOption = None,
    precision: PrecisionsOption = None,
    dim: DimOption = None,
    inputs: InputsOption = None,
    engine: Annotated[
        str | None,
        typer.Option(help="What runs the networks: ort or tensorrt; the latter on a Jetson."),
    ] = None,
    provider: ProviderOption = None,
    mode: Annotated[
        str | None, typer.Option(help="Power modes, as for bench; by default the machine as it is.")
    ] = None,
    pick: PickOption = None,
    calls: Annotated[
        int, typer.Option(min=1, help="Calls of each network that are counted; 1 by default.")
    ] = 1,
    cache: Annotated[
        Literal["all", "none"],
        typer.Option(help="Caches to empty before each kernel: all (the default) or none."),
    ] = "all",
    ncu: Annotated[
        Path | None, typer.Option(help="Nsight Compute; found by default.", readable=False)
    ] = None,
    chip: Annotated[
        str | None, typer.Option(help="As ncu --list-chips calls it; by default the first card's.")
    ] = None,
    runs: KeptRunsOption = Path("runs"),
    board: BoardOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run MODELS under Nsight Compute, and keep what it counts of each kernel.

    On this machine, not in a container: reading counters needs root, or a driver that lets
    everybody. What was counted before is not counted again.
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
    result = api.count_networks(request, TerminalReporter())
    if as_json:
        print_json(result.rows)
    else:
        for one in result.rows:
            _print(one)
    result.check()


def _print(one: api.CountedNetwork) -> None:
    """The kernels of a network, or why there are none."""
    batch = "" if one.row.batch is None else f" × {one.row.batch}"
    name = f"{one.row.model}{batch} {one.row.precision} in {one.mode}"
    if one.row.failure is not None:
        note(f"{name}: not run: {one.row.failure}")
        return
    for line in one.notes:
        note(f"note: {name}: {line}")
    table = api.kernel_table(f"{name}: {one.launches} launches", one.kernels[:_MOST_SHOWN])
    print_tables([(table.caption, table.columns, table.rows)])
    if (left := len(one.kernels) - _MOST_SHOWN) > 0:
        typer.echo(f"and {left} more kernels")
    if one.call is not None:
        print_lines([api.call_words(one.call)])
    typer.echo(f"kept: {one.table}")
