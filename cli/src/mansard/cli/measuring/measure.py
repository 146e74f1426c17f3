"""``mansard measure``: networks on an engine, or a program of the user's, in each mode."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mansard import api
from mansard.cli.console import TerminalReporter, note
from mansard.cli.help import HelpfulCommand
from mansard.cli.measuring.layers import print_layers
from mansard.cli.measuring.networks import print_networks
from mansard.cli.measuring.programs import print_programs
from mansard.cli.options import (
    AllOption,
    BatchSizesOption,
    BoardOption,
    ContainerEngineOption,
    DimOption,
    HostsFileOption,
    ImageOption,
    ImagesOption,
    InputsOption,
    JsonOption,
    KeptRunsOption,
    LocalOption,
    ModeOption,
    OfflineOption,
    PickOption,
    PrecisionsOption,
    ProviderOption,
    YesOption,
    parse_dimensions,
    parse_precisions,
    parse_sizes,
    quantity,
)
from mansard.cli.outputs import ForceOption
from mansard.core.errors import UsageError
from mansard.core.records import Copies, Waiting

_COMMAND = "mansard command"  # where a context keeps the words after ``--``


class MeasureCommand(HelpfulCommand):
    """All words after the first ``--`` are the user's command, whatever they look like."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take them away before options are looked for."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


COMMAND_CLASS = MeasureCommand  # app.py builds the command with it


# Options that mean something for layers that are run alone, for programs, for networks only.
_OF_LAYERS = (
    *("window", "boundary", "rest", "meter_interval", "nn_profiler"),
    *("groups", "transitions", "cpus"),
)
_OF_PROGRAMS = ("name", "metric", "env", "repeat", "again")
_OF_NETWORKS = (
    *("engine", "provider", "batch", "precision", "dim", "inputs", "threads", "copies", "wait"),
    *("data", "labels", "preprocess", "samples", "calibration"),
    *("graph", "layers", "processor", "local", "hosts_file", "image", "images", "offline"),
    *("container_engine", "yes", "dla", "fallback", "dynamic", "opt_level", "workspace"),
    *("each_layer", *_OF_LAYERS),
)


def measure(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="ONNX files, folders of them, or names of the zoo; or -- COMMAND, a program."
        ),
    ] = None,
    mode: ModeOption = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="How well the time is to be known.")
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    engine: Annotated[
        str | None,
        typer.Option(
            help="What runs the networks: ort, tensorrt, trtexec. By default TensorRT on a Jetson "
            "that has it, by its Python bindings or trtexec, else ONNX Runtime."
        ),
    ] = None,
    provider: ProviderOption = None,
    batch: BatchSizesOption = None,
    precision: PrecisionsOption = None,
    dim: DimOption = None,
    inputs: InputsOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Samples to measure accuracy with: an .npz of arrays by input and labels, or a "
            "folder of images.",
            readable=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Classes of --data, lines IMAGE,CLASS or CLASS.", readable=False),
    ] = None,
    preprocess: Annotated[
        str | None,
        typer.Option(
            help="How images are fed: imagenet (the default), unit, symmetric, caffe or raw, then "
            "what differs: imagenet,resize=232,mean=0.5/0.5/0.5."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000_000, help="So many of --data, evenly spread; all by default."
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            help="Samples that the ranges of int8 are taken from, as --data, or 'random'; some of "
            "--data by default."
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=4096, help="Threads of the engine; by default one for each CPU of the mode."
        ),
    ] = None,
    copies: Annotated[
        Copies, typer.Option(help="Copies to and from the host's memory that a call includes.")
    ] = "none",
    wait: Annotated[
        Waiting, typer.Option(help="What threads do while they wait: spin, or block.")
    ] = "spin",
    dla: Annotated[
        int | None,
        typer.Option(
            min=0, max=15, help="Build engine files for this DLA core; by default for the GPU."
        ),
    ] = None,
    fallback: Annotated[
        bool,
        typer.Option(help="With --dla: run layers that a DLA core lacks on the GPU, or refuse."),
    ] = True,
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic", help="Build one engine file for all of --batch, not one each."),
    ] = False,
    opt_level: Annotated[
        int | None,
        typer.Option(min=0, max=5, help="Optimisation level of TensorRT's builder; its own, 3."),
    ] = None,
    workspace: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--workspace", "size", bare="MB", ends=("1MB", "10TB")),
            help="Most memory of a layer's kernel, as 512MB or 1GiB; TensorRT's own: all.",
        ),
    ] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Run it as a CUDA graph.")] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Print the 30 slowest layers of each network.")
    ] = False,
    each_layer: Annotated[
        str | None,
        typer.Option(
            help="Also cut the layers out and run each alone: all, stages, or how many of the "
            "slowest: 10."
        ),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="With --each-layer stages: join them to so many groups of like work.",
        ),
    ] = None,
    transitions: Annotated[
        bool,
        typer.Option(
            "--transitions",
            help="With --each-layer stages: what a change of processor costs at each cut, by the "
            "network with an output more there.",
        ),
    ] = False,
    cpus: Annotated[
        list[str] | None,
        typer.Option(help="CPUs that the parts are run on: 0, 2-3; each --cpus one partition."),
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--window", "time", bare="s", ends=("50ms", "1h")),
            help="Time that the meters look at each layer, as 5s.",
        ),
    ] = None,
    boundary: Annotated[
        float | None,
        typer.Option(
            min=0, max=600, help="Seconds that each layer runs before that; until power settles."
        ),
    ] = None,
    rest: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds of rest before each layer.")
    ] = 0.0,
    meter_interval: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--meter-interval", "time", bare="ms", ends=("1ms", "10s")),
            help="Time between readings, as 20ms; the meters' own.",
        ),
    ] = None,
    nn_profiler: Annotated[
        Path | None,
        typer.Option(help="Write all layers in --runs into this folder as NN-Profiler does."),
    ] = None,
    force: ForceOption = False,
    board: BoardOption = None,
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(help="What to run on; by default the GPU where there is one."),
    ] = None,
    local: LocalOption = False,
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
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Variable of the environment that changes the program: part of what it is, as "
            "OMP_NUM_THREADS and others are by default; again for more.",
        ),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Run the program so often in each mode.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run it also where it was measured before.")
    ] = False,
    all_rows: AllOption = False,
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
    if not command:
        _check_options(context, _OF_PROGRAMS, "programs, not for a network", "leave it out")
    else:
        _check_options(context, _OF_NETWORKS, "networks, not for a program", "leave it out")
        request = api.ProgramRequest(
            command=command,
            name=name,
            metric=metric,
            variables=tuple(env or ()),
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
            note(
                "with --metric the output of the program goes through a pipe: the program has no "
                "terminal"
            )
        measured = api.measure_program(request, TerminalReporter())
        print_programs(measured, all_rows=all_rows, as_json=as_json)
        return
    settings = api.NetworkSettings(
        engine=engine,
        provider=provider,
        batches=parse_sizes("--batch", batch) if batch else (),
        precisions=parse_precisions(precision),
        dims=parse_dimensions(dim or []),
        inputs=inputs,
        accuracy=api.AccuracySettings(
            data=data,
            labels=labels,
            preprocess=preprocess,
            n_samples=samples,
            calibration=calibration,
        ),
        threads=threads,
        copies=copies,
        waiting=wait,
        with_graph=graph,
        build=api.BuildSettings(
            optimization_level=opt_level,
            workspace_bytes=None if workspace is None else round(workspace),
            dla_core=dla,
            with_fallback=fallback,
        ),
        is_dynamic=dynamic,
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
    if each_layer is not None:
        kind, slowest = api.parse_each_layer(each_layer)
        alone = api.LayerSettings(
            kind=kind,
            slowest=slowest,
            window_s=window,
            boundary_s=boundary,
            rest_s=rest,
            meter_period_s=meter_interval,
            n_groups=groups,
            with_transitions=transitions,
            partitions=tuple(map(api.parse_cpus, cpus or [])),
        )
        found = api.measure_layers(networks, alone, TerminalReporter(is_agreed=yes))
        written = (
            () if nn_profiler is None else api.write_nn_profiler(runs, nn_profiler, replaces=force)
        )
        print_layers(found, runs, written, with_layers=layers, all_rows=all_rows, as_json=as_json)
        return
    _check_options(context, _OF_LAYERS, "layers that are run alone", "add --each-layer all")
    result = api.measure_networks(networks, TerminalReporter(is_agreed=yes))
    print_networks(result, runs, with_layers=layers, all_rows=all_rows, as_json=as_json)


def _check_options(context: typer.Context, others: Collection[str], what: str, fix: str) -> None:
    """Raises UsageError for an option that means nothing here: one of ``others``."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in others and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]} is an option for {what}", fix=fix)
