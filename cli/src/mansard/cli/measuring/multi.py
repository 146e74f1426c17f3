"""``mansard multi``: several networks at once, in stages on several devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.options import (
    BoardOption,
    ContainerEngineOption,
    DimOption,
    HostsFileOption,
    ImageOption,
    ImagesOption,
    InputsOption,
    JsonOption,
    KeptRunsOption,
    OfflineOption,
    PickOption,
    ProviderOption,
    YesOption,
    parse_dimensions,
    parse_precisions,
)
from mansard.cli.tables import Table, print_tables
from mansard.core.errors import UsageError
from mansard.core.records import MultiRun, StageRun, Waiting


def multi(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="ONNX files, folders of them, or names of the zoo; each runs whole."),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            help="Devices that the networks take in turn: gpu, dla0, cpu, cpu:0-3. By default the "
            "GPU where there is one, else the CPU."
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            help='JSON file of mappings, {"resnet50": {"57": "gpu", "122": "dla0"}}: the last node '
            "of each stage and its device; also NN-Profiler's.",
            readable=False,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="How long runs count, after warming up; the meters as long.")
    ] = 30.0,
    pipelined: Annotated[
        bool,
        typer.Option("--pipelined", help="Run the stages of a network side by side, not in turn."),
    ] = False,
    processes: Annotated[
        bool, typer.Option("--processes", help="Run in processes, not in threads of one.")
    ] = False,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Let a device run one stage at a time.")
    ] = False,
    mode: Annotated[
        str | None, typer.Option(help="Power modes, as mansard measure takes them.")
    ] = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="How long it warms up.")
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    engine: Annotated[
        str | None,
        typer.Option(
            help="What runs stages on GPU and DLA: tensorrt or ort; by default as for measure. "
            "Stages on CPUs run on ort."
        ),
    ] = None,
    provider: ProviderOption = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch size; by default that of the file, else 1.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, fp16 or int8; that of each file by default.")
    ] = None,
    dim: DimOption = None,
    inputs: InputsOption = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of each network; by default one for each of its CPUs."),
    ] = None,
    wait: Annotated[
        Waiting, typer.Option(help="What threads of an engine do while they wait: spin, or block.")
    ] = "block",
    board: BoardOption = None,
    local: Annotated[bool, typer.Option("--local", help="Measure without a container.")] = False,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Board to measure on: user@board, or a name in hosts.toml."),
    ] = None,
    hosts_file: HostsFileOption = None,
    image: ImageOption = None,
    images: ImagesOption = None,
    offline: OfflineOption = False,
    container_engine: ContainerEngineOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run several networks at once, again and again: rates, times of stages, energy of all."""
    request = api.MultiRequest(
        settings=api.NetworkSettings(
            engine=engine,
            provider=provider,
            batches=() if batch is None else (batch,),
            precisions=parse_precisions([precision] if precision else None),
            dims=parse_dimensions(dim or []),
            inputs=inputs,
            threads=threads,
            waiting=wait,
        ),
        multi=api.MultiSettings(
            seconds_s=seconds,
            way="processes" if processes else "threads",
            order="pipelined" if pipelined else "in turn",
            is_exclusive=exclusive,
        ),
        mode=mode,
        pick=pick,
        profile=profile,
        runs=runs,
        board=board,
        is_local=local,
        hosts=tuple(host or ()),
        hosts_file=hosts_file,
        wanted_image=api.WantedImage(
            name=image, table=images, is_offline=offline, engine=container_engine
        ),
    )
    if bool(models) == (mapping is not None):
        raise UsageError("name networks or --mapping FILE, and not both", fix="leave one out")
    mappings: Sequence[api.Mapping]
    if mapping is not None:
        mappings = api.read_mappings(mapping)
    else:
        mappings = [api.whole_mapping(models or (), split_devices(devices))]
    result = api.run_mappings(request, mappings, TerminalReporter(is_agreed=yes))
    if as_json:
        print_json({"rows": result.rows})
    else:
        for found in result.rows:
            _print(found)
    result.check()


def split_devices(text: str | None) -> tuple[str, ...]:
    """``gpu,cpu:0-3`` or ``cpu:0,2``: a number behind a comma belongs to the CPUs before it."""
    return tuple(re.split(r",(?![0-9])", text)) if text else ()


def _print(found: api.MeasuredMulti) -> None:
    row = found.row
    title = f"{row.mapping} in {found.mode}"
    if row.failure is not None:
        note(f"{title}: not run: {row.failure}")
        return
    if row.disturbances:
        note(f"{title}: disturbed: {'; '.join(row.disturbances)}")
    print_tables([_table(title, row)])
    if row.energy is None or row.energy.total_j is None or row.window_s is None:
        note(f"{title}: no energy: {row.unknown.get('energy', 'the sensor is too slow')}")
    else:
        n_runs = sum(each.n_runs for each in row.networks)
        note(
            f"{title}: {api.watts(row.energy.total_j / row.window_s)} in the mean, "
            f"{n_runs} runs of all networks"
        )


def _table(title: str, row: MultiRun) -> Table:
    columns = (
        *("network", "stage", "device", "runs", "rate"),
        *("inference", "transfer", "wait", "latency"),
    )
    return f"Networks at once: {title}", columns, [_cells(row, each) for each in row.stages]


def _cells(row: MultiRun, stage: StageRun) -> tuple[str, ...]:
    network = row.networks[stage.network_number]
    is_last = stage.stage == stage.n_stages - 1
    spent_s = (stage.inference_s, stage.transfer_s, stage.wait_s)
    return (
        stage.network,
        f"{stage.stage + 1} of {stage.n_stages}",
        stage.device,
        str(stage.n_runs),
        f"{stage.n_runs / (row.window_s or 1):.4g}/s",
        *(api.seconds(each / stage.n_runs) if stage.n_runs else "unknown" for each in spent_s),
        api.seconds(median(network.latency_s)) if is_last and network.latency_s else "",
    )
