"""The options of ``mansard measure`` and ``build`` in groups, in the order of their help.

A measurement has the groups that are parameters of its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from mansard.cli.options import (
    AgainOption,
    AllOption,
    BatchSizesOption,
    BoardOption,
    ContainerEngineOption,
    DimOption,
    DryRunOption,
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
    PickOption,
    PrecisionsOption,
    ProviderOption,
    YesOption,
    quantity,
)
from mansard.core.records import Copies, Waiting

_HostOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Board to measure on: user@board or a name in hosts.toml. Repeatable, or "
        "comma-separated."
    ),
]


@dataclass(frozen=True)
class ModeGroup:
    """In which modes, how well, which build, and where the runs are kept."""

    mode: ModeOption = None
    pick: PickOption = None
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="Timing precision.")
    ] = "quick"
    runs: KeptRunsOption = Path("runs")
    label: LabelOption = ""
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable that affects the result. Another value is another run; "
            "OMP_NUM_THREADS and others count for programs by default. Repeatable.",
        ),
    ] = None
    again: AgainOption = False
    dry_run: DryRunOption = False


@dataclass(frozen=True)
class BuildGroup:
    """Which engine networks are run on, in which form, and how its files are built."""

    engine: Annotated[
        str | None,
        typer.Option(
            help="Engine: ort, tensorrt or trtexec. On a Jetson TensorRT by default, if "
            "installed; else ONNX Runtime, which builds no engine files."
        ),
    ] = None
    batch: BatchSizesOption = None
    precision: PrecisionsOption = None
    dim: DimOption = None
    preprocess: Annotated[
        str | None,
        typer.Option(
            help="Preprocessing of images: imagenet (the default), unit, symmetric, caffe or "
            "raw, then changes: imagenet,resize=232,mean=0.5/0.5/0.5."
        ),
    ] = None
    calibration: Annotated[
        str | None,
        typer.Option(
            help="Samples to calibrate int8 with, as --data, or 'random'; part of --data by "
            "default."
        ),
    ] = None
    dla: Annotated[
        int | None,
        typer.Option(min=0, max=15, help="Build for this DLA core; for the GPU by default."),
    ] = None
    dla_nodes: Annotated[
        str | None,
        typer.Option(
            help="With --dla: nodes to run on the DLA, by their index in the score: 0-56,60. "
            "The GPU runs the others in the same engine."
        ),
    ] = None
    fallback: Annotated[
        bool,
        typer.Option(
            help="With --dla: run layers that the DLA does not support on the GPU, or fail."
        ),
    ] = True
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic", help="Build one engine file for all batch sizes."),
    ] = False
    opt_level: Annotated[
        int | None,
        typer.Option(min=0, max=5, help="Optimisation level of TensorRT's builder; 3 by default."),
    ] = None
    workspace: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--workspace", "size", bare="MB", ends=("1MB", "10TB")),
            help="Workspace limit of the builder: 512MB, 1GiB; none by default.",
        ),
    ] = None


@dataclass(frozen=True)
class NetworkGroup(BuildGroup):
    """How networks are run."""

    provider: ProviderOption = None
    inputs: InputsOption = None
    data: Annotated[
        Path | None,
        typer.Option(
            help="Samples to measure accuracy with: an .npz of inputs and labels, or a folder "
            "of images.",
            readable=False,
        ),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels of --data: lines IMAGE,CLASS or CLASS.", readable=False),
    ] = None
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000_000, help="Use N evenly spaced samples of --data; all by default."
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=4096, help="Threads of the engine; one per CPU of the mode by default."
        ),
    ] = None
    copies: Annotated[
        Copies, typer.Option(help="Copies between host and device that a call includes.")
    ] = "none"
    wait: Annotated[Waiting, typer.Option(help="How threads wait.")] = "spin"
    graph: Annotated[bool, typer.Option("--graph", help="Run as a CUDA graph.")] = False
    layers: Annotated[
        bool, typer.Option("--layers", help="Print the 30 slowest layers of each network.")
    ] = False
    each_layer: Annotated[
        str | None,
        typer.Option(help="Also run layers alone: all, stages, or the N slowest."),
    ] = None


@dataclass(frozen=True)
class PartGroup:
    """Which parts of the networks are run alone, and how."""

    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="With --each-layer stages: join the stages to N groups of similar work.",
        ),
    ] = None
    transitions: Annotated[
        bool,
        typer.Option(
            "--transitions",
            help="With --each-layer stages: measure the cost of changing the processor at "
            "each cut.",
        ),
    ] = False
    cpus: Annotated[
        list[str] | None,
        typer.Option(help="CPUs to run the parts on: 0, 2-3. Repeatable: one partition each."),
    ] = None
    window: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--window", "time", bare="s", ends=("50ms", "1h")),
            help="Metering time of each layer: 5s.",
        ),
    ] = None
    boundary: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=600,
            help="Seconds to run each layer before metering; until power settles by default.",
        ),
    ] = None
    rest: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds of idle time before each layer.")
    ] = 0.0
    meter_interval: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--meter-interval", "time", bare="ms", ends=("1ms", "10s")),
            help="Time between readings: 20ms; the meter's period by default.",
        ),
    ] = None


@dataclass(frozen=True)
class PlaceGroup:
    """Where networks are run."""

    board: BoardOption = None
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(help="Processor to run on; the GPU by default, if there is one."),
    ] = None
    local: LocalOption = False
    host: _HostOption = None
    hosts_file: HostsFileOption = None
    image: ImageOption = None
    images: ImagesOption = None
    offline: OfflineOption = False
    container_engine: ContainerEngineOption = None
    yes: YesOption = False


@dataclass(frozen=True)
class MachineGroup:
    """The options of ``PlaceGroup`` for a program or a server, which need no container."""

    board: BoardOption = None
    host: _HostOption = None
    hosts_file: HostsFileOption = None


@dataclass(frozen=True)
class ProgramGroup:
    """What is read from a program."""

    metric: Annotated[
        str | None,
        typer.Option(
            help="Regular expression of a printed number, with one group: 'tokens/s: "
            "([0-9.]+)'. The last match counts."
        ),
    ] = None


@dataclass(frozen=True)
class IdentityGroup:
    """What a program or a server is called and is, and how often it is measured."""

    name: Annotated[
        str | None,
        typer.Option(help="Name of the program, or of a server's model; the command by default."),
    ] = None
    depends: Annotated[
        list[Path] | None,
        typer.Option(
            help="File or folder that the program, or the server of --start, depends on. "
            "Changed content is another run. Files on its command line count by default. "
            "Repeatable.",
            readable=False,
        ),
    ] = None
    repeat: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Runs of the program in each mode, or rounds of requests.",
        ),
    ] = None
    remote_folder: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="With --host: working folder of the program or server; the home folder by "
            "default.",
        ),
    ] = None


@dataclass(frozen=True)
class ServerGroup:
    """Which server of a language model, and what it is asked."""

    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Measure a language model's server: OpenAI-compatible (vLLM, SGLang), "
            "llama.cpp or Ollama.",
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Start and stop the server in each mode: 'llama-server -m a.gguf --port {port}'.",
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Model of the server, if it has several."),
    ] = None
    prompt: Annotated[
        str, typer.Option(metavar="TOKENS", help="Lengths of prompts: 128,512,2048.")
    ] = "128,512,2048"
    generate: Annotated[
        str, typer.Option(metavar="TOKENS", help="Lengths of answers: 128, or 64,256.")
    ] = "128"
    concurrency: Annotated[str, typer.Option(metavar="N", help="Concurrent requests: 1,4,8.")] = "1"


@dataclass(frozen=True)
class OutputGroup:
    """What is printed."""

    all_rows: AllOption = False
    as_json: JsonOption = False


GROUPS = (
    ModeGroup,
    NetworkGroup,
    PartGroup,
    PlaceGroup,
    ProgramGroup,
    ServerGroup,
    IdentityGroup,
    OutputGroup,
)


GroupT = TypeVar("GroupT")


def group_of(group: type[GroupT], options: Mapping[str, Any]) -> GroupT:
    """A group with the values of ``options`` that are its fields."""
    return group(**{name: options[name] for name in get_type_hints(group)})


def grouped_signature(command: Callable[..., None], groups: Iterable[type]) -> Signature:
    """The signature of ``command`` with the fields of ``groups`` in place of ``**options``."""
    *parameters, _ = signature(command, eval_str=True).parameters.values()
    for group in groups:
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in fields(group)
        ]
    return Signature(parameters)
