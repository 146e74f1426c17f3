"""``mansard measure``: networks on an engine, or a program of the user's, in each mode."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from mansard import api
from mansard.cli.console import TerminalReporter, note
from mansard.cli.measuring.networks import print_networks
from mansard.cli.measuring.programs import print_programs
from mansard.cli.options import (
    BoardOption,
    ContainerEngineOption,
    DimensionOption,
    HostsFileOption,
    ImageOption,
    ImagesOption,
    JsonOption,
    KeptRunsOption,
    OfflineOption,
    PickOption,
    YesOption,
    parse_dimensions,
    parse_precisions,
    parse_sizes,
)
from mansard.core.errors import UsageError
from mansard.core.records import Copies, Waiting

_COMMAND = "mansard command"  # where a context keeps the words after ``--``


class MeasureCommand(TyperCommand):
    """All words after the first ``--`` are the user's command, whatever they look like."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take them away before options are looked for."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


COMMAND_CLASS = MeasureCommand  # app.py


# Options that mean something for one of the two alone.
_OF_PROGRAMS = ("name", "metric", "repeat", "again")
_OF_NETWORKS = (
    *("engine", "provider", "batch", "precision", "dim", "inputs", "threads", "copies", "wait"),
    *("graph", "layers", "processor", "local", "hosts_file", "image", "images", "offline"),
    *("container_engine", "yes"),
)


def measure(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="ONNX files, folders of them, or names of the zoo; or -- COMMAND, a program."
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="Power modes: 15W, MAXN, all, 'gpu=612MHz,cores=4', a TOML grid. By default the "
            "machine as it is."
        ),
    ] = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="How well the time is to be known.")
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    engine: Annotated[str, typer.Option(help="What runs the networks: ort.")] = "ort",
    provider: Annotated[
        Literal["cpu", "cuda", "tensorrt"] | None,
        typer.Option(help="Of the engine; by default the fastest that is there."),
    ] = None,
    batch: Annotated[
        list[str] | None,
        typer.Option(help="Batch sizes: 1,8,32. Repeatable; by default that of the file, else 1."),
    ] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(help="fp32, fp16, int8. Repeatable; that of each file by default."),
    ] = None,
    dim: DimensionOption = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Arrays to feed, .npz; random numbers by default.", readable=False),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the engine; by default the mode's CPUs.")
    ] = None,
    copies: Annotated[
        Copies, typer.Option(help="Copies to and from the host's memory that a call includes.")
    ] = "none",
    wait: Annotated[
        Waiting, typer.Option(help="What threads do while they wait: spin, or block.")
    ] = "spin",
    graph: Annotated[bool, typer.Option("--graph", help="Run it as a CUDA graph.")] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Print the time of each layer as well.")
    ] = False,
    board: BoardOption = None,
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(help="What to run on; by default the GPU where there is one."),
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Measure without a container.")] = False,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Board to measure on: user@board, or a name in hosts.toml. Not for a program."
        ),
    ] = None,
    hosts_file: HostsFileOption = None,
    image: ImageOption = None,
    images: ImagesOption = None,
    offline: OfflineOption = False,
    container_engine: ContainerEngineOption = None,
    yes: YesOption = False,
    name: Annotated[
        str | None, typer.Option(help="What the program is called; by default its command.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Regular expression with one group: a number that the program prints, such as "
            "'tokens/s: ([0-9.]+)'. The last one counts."
        ),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Run the program so often in each mode.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run it also where it was measured before.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure networks, or a program: mansard measure [OPTIONS] MODEL… | -- COMMAND…

    A network is run on an engine: time in a loop and of single calls, energy, layers. Of a program
    the time, CPU time, memory and energy are measured, with all that it starts; its output and exit
    code are its own, and what was measured is on stderr. With --json it is on stdout, and the
    program's output on stderr. Both in each mode, until the time is known; the board is put back.
    """
    command = context.meta.get(_COMMAND, ())
    if bool(command) == bool(models):
        raise UsageError(
            "name networks or a command, and not both",
            fix="mansard measure resnet50, or mansard measure -- python3 my_program.py",
        )
    _check_options(context, _OF_NETWORKS if command else _OF_PROGRAMS, is_program=bool(command))
    if command:
        request = api.ProgramRequest(
            command=command,
            name=name,
            metric=metric,
            mode=mode,
            pick=pick,
            profile=profile,
            runs=runs,
            board=board,
            hosts=tuple(host or ()),
            n_runs=repeat,
            is_again=again,
            stdout=2 if as_json else 1,
        )
        if metric is not None and os.isatty(request.stdout):
            note("--metric reads what the program prints: to it its output is no terminal")
        print_programs(api.measure_program(request, TerminalReporter()), as_json=as_json)
        return
    settings = api.NetworkSettings(
        engine=engine,
        provider=provider,
        batches=parse_sizes("--batch", batch) if batch else (),
        precisions=parse_precisions(precision),
        dims=parse_dimensions(dim or []),
        inputs=inputs,
        threads=threads,
        copies=copies,
        waiting=wait,
        with_graph=graph,
    )
    wanted = api.WantedImage(name=image, table=images, is_offline=offline, engine=container_engine)
    networks = api.MeasureRequest(
        models=tuple(models or ()),
        settings=settings,
        mode=mode,
        pick=pick,
        profile=profile,
        runs=runs,
        board=board,
        processor=processor,
        is_local=local,
        hosts=tuple(host or ()),
        hosts_file=hosts_file,
        wanted_image=wanted,
    )
    result = api.measure_networks(networks, TerminalReporter(is_agreed=yes))
    print_networks(result, runs, with_layers=layers, as_json=as_json)


def _check_options(context: typer.Context, others: Collection[str], *, is_program: bool) -> None:
    """Raises UsageError for an option that means nothing here."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in others and source is not None and source.name == "COMMANDLINE":
            of = "networks, and this is a program" if is_program else "programs, and none is here"
            raise UsageError(f"{parameter.opts[0]} is of {of}", fix="leave it out")
