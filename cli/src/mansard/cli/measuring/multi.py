"""``mansard multi run`` and ``contention``: several networks, or kernels, at once.

Networks run in stages on several devices; kernels show what processors lose of their memory's
traffic beside one another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import typer
from msgspec.structs import replace

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data import quantities
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, note, print_json, print_lines
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.options import (
    AgainOption,
    BoardOption,
    ContainerEngineOption,
    DimOption,
    DryRunOption,
    HostOption,
    HostsFileOption,
    ImageOption,
    ImagesOption,
    InputsOption,
    JsonOption,
    KeptRunsOption,
    LabelOption,
    LocalOption,
    ModeOption,
    OfflineOption,
    OneEngineOption,
    PickOption,
    ProviderOption,
    YesOption,
    parse_dimensions,
    parse_duration,
    parse_precisions,
    quantity,
)
from mansard.cli.tables import measured_source, print_tables, without_silent
from mansard.cli.terminal import plain
from mansard.core.errors import UsageError
from mansard.core.records import MultiRun, StageRun, Waiting
from mansard.core.table import Table
from mansard.core.text import listed


def contention(
    mode: ModeOption = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"],
        typer.Option(help="Number of demands of each processor: 3, 5 or 10."),
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    label: LabelOption = "",
    again: AgainOption = False,
    dry_run: DryRunOption = False,
    board: BoardOption = None,
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(
            help="gpu: the GPU and the CPUs; cpu: two halves of the CPUs. gpu by default, if "
            "there is one."
        ),
    ] = None,
    local: LocalOption = False,
    host: HostOption = None,
    hosts_file: HostsFileOption = None,
    image: ImageOption = None,
    images: ImagesOption = None,
    offline: OfflineOption = False,
    container_engine: ContainerEngineOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure contention for memory bandwidth between GPU and CPUs, or halves of the CPUs.

    Each side runs at several demands, alone and next to the other. Interrupted runs resume.
    Rooflines do not change.
    """
    request = api.SweepRequest(
        mode=mode,
        pick=pick,
        profile=profile,
        runs=runs,
        label=label,
        is_again=again,
        board=board,
        processor=processor,
        is_local=local,
        hosts=tuple(host or ()),
        hosts_file=hosts_file,
        wanted_image=api.WantedImage(
            name=image, table=images, is_offline=offline, engine=container_engine
        ),
    )
    reporter = TerminalReporter(is_agreed=yes)
    if dry_run:
        print_dry_runs(command_line.dry_run_contention(request, reporter), as_json=as_json)
        return
    done = api.measure_contention(request, reporter)
    if as_json:
        print_json("contention", {"victims": done.contention})
    else:
        tables = map(pages.contention_table, done.contention)
        print_tables(replace(table, columns=[*map(plain, table.columns)]) for table in tables)
        for victim in done.contention:
            print_lines([pages.contention_words(victim)])
            if victim.remark:
                note(f"{victim.victim}, {victim.mode}: {victim.remark}")
    done.check()


def multi(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="ONNX files, folders of them, or names of shipped networks; each runs whole."
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            help="Devices, assigned to the networks in turn: gpu, dla0, cpu, cpu:0-3. The GPU "
            "by default, else the CPU."
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of mappings from the last node of each stage to its device: "
            '{"resnet50": {"57": "gpu", "122": "dla0"}}; also NN-Profiler\'s.',
            readable=False,
        ),
    ] = None,
    duration: Annotated[str, typer.Option(help="Measuring time after warm-up: 30s, 5min.")] = "30s",
    pipelined: Annotated[
        bool,
        typer.Option("--pipelined", help="Overlap the stages of a network."),
    ] = False,
    processes: Annotated[
        bool, typer.Option("--processes", help="Run in processes instead of threads.")
    ] = False,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Run one stage at a time on each device.")
    ] = False,
    power_interval: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--power-interval", "time", bare="ms", ends=("1ms", "10s")),
            help="Time between power samples: 50ms; the meter's period by default.",
        ),
    ] = None,
    one_engine: OneEngineOption = False,
    mode: ModeOption = None,
    pick: PickOption = None,
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="Length of the warm-up.")
    ] = "quick",
    runs: KeptRunsOption = Path("runs"),
    label: LabelOption = "",
    again: AgainOption = False,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engine of stages on GPU and DLA: tensorrt or ort; by default as for "
            "measure. Stages on CPUs run on ort."
        ),
    ] = None,
    provider: ProviderOption = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="Batch size; by default the file's, else 1."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Precision: fp32, fp16 or int8; the file's by default.")
    ] = None,
    dim: DimOption = None,
    inputs: InputsOption = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Threads of each network; one per CPU by default."),
    ] = None,
    wait: Annotated[Waiting, typer.Option(help="How threads wait.")] = "block",
    board: BoardOption = None,
    local: LocalOption = False,
    host: HostOption = None,
    hosts_file: HostsFileOption = None,
    image: ImageOption = None,
    images: ImagesOption = None,
    offline: OfflineOption = False,
    container_engine: ContainerEngineOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run several networks at once, repeatedly: rates, times of stages, total energy."""
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
            seconds_s=parse_duration("--duration", duration),
            way="processes" if processes else "threads",
            order="pipelined" if pipelined else "in turn",
            is_exclusive=exclusive,
            meter_period_s=power_interval,
            is_one_engine=one_engine,
        ),
        mode=mode,
        pick=pick,
        profile=profile,
        runs=runs,
        label=label,
        is_again=again,
        board=board,
        is_local=local,
        hosts=tuple(host or ()),
        hosts_file=hosts_file,
        wanted_image=api.WantedImage(
            name=image, table=images, is_offline=offline, engine=container_engine
        ),
    )
    if bool(models) == (mapping is not None):
        raise UsageError("give networks or --mapping FILE, not both", fix="leave one out")
    if mapping is not None and devices is not None:
        raise UsageError("--mapping FILE names the devices itself", fix="leave --devices out")
    reporter = TerminalReporter(is_agreed=yes)
    if dry_run:
        print_dry_runs(api.dry_run(request, reporter), as_json=as_json)
        return
    mappings = (
        [command_line.whole_mapping(models or (), split_devices(devices))]
        if mapping is None
        else api.read_mappings(mapping)
    )
    result = api.run_mappings(request, mappings, reporter)
    if as_json:
        print_json("multi", {"rows": result.rows})
    else:
        print_mappings(result.rows)
    result.check()


def split_devices(text: str | None) -> tuple[str, ...]:
    """``gpu,cpu:0-3`` or ``cpu:0,2``: a number behind a comma belongs to the CPUs before it."""
    return tuple(re.split(r",(?![0-9])", text)) if text else ()


def print_mappings(rows: Sequence[results.MeasuredMulti]) -> None:
    """Print each mapping that ran, and where the time of its stages went."""
    numbers = {name: at for at, name in enumerate(dict.fromkeys(f.row.mapping for f in rows), 1)}
    for measured in rows:
        row, many = measured.row, len(numbers) > 1
        title = f"Mapping {numbers[row.mapping]}: " if many else ""
        title += (
            f"{quantities.counted(len(row.networks), 'network')} in {measured.mode}, {row.order}"
        )
        title += f", {measured_source(row.source)}" if row.source == "simulated" else ""
        if row.failure is not None:
            note(f"{title}: not run: {row.failure}")
            continue
        if row.energy is not None and row.energy.total_j is not None:
            title += f", {quantities.watts(row.energy.total_j / row.energy.window_s)}"
        else:
            note(f"no power: {row.unknown.get('energy', 'the sensor is too slow')}")
        if row.disturbances:
            note(f"{title}: disturbed: {'; '.join(row.disturbances)}")
            title += ", disturbed"
        few = [part.model for part in row.networks if part.n_runs < _FEW]
        if few:
            note(f"{title}: fewer than {_FEW} runs: {listed(few)}; measure longer (--duration)")
        cells = [_cells(row, part) for part in row.stages]
        print_tables([without_silent(Table(title, _COLUMNS, cells), _COLUMNS[4:7])])
    if any(measured.row.failure is None for measured in rows):
        note("times are means of a run; the latency is a median")


_FEW = 10  # runs: the last one, cut off by the window, is then a tenth of them
_COLUMNS = (
    *("network", "stage", "rate", "inference"),
    *("transfer", "wait for input", "wait for room", "wait for device", "latency"),
)


def _cells(row: MultiRun, stage: StageRun) -> tuple[str, ...]:
    network = row.networks[stage.network_number]
    is_last = stage.stage == stage.n_stages - 1
    waits_s = (stage.input_wait_s, stage.output_wait_s, stage.device_wait_s)
    return (
        stage.network,
        stage.device if is_last else f"{max(stage.nodes)} {stage.device}",  # as in a mapping
        _rate(stage.n_runs, network.batch, row.window_s),
        *(
            ("–" if not each_s else quantities.seconds(each_s / stage.n_runs))
            if stage.n_runs
            else "unknown"
            for each_s in (stage.inference_s, stage.transfer_s, *waits_s)
        ),
        quantities.seconds(median(network.latency_s)) if is_last and network.latency_s else "",
    )


def _rate(n_runs: int, batch: int | None, window_s: float | None) -> str:
    """Items per second, as a schedule has them; runs where the items of one are not known."""
    if not window_s:
        return "unknown"
    unit = "runs/s" if batch is None else "items/s"
    return f"{n_runs * (batch or 1) / window_s:.4g} {unit}"
