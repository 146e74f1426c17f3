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
        help="Board to measure on: user@board, or a name in hosts.toml. Repeatable, or several "
        "separated by commas."
    ),
]


@dataclass(frozen=True)
class ModeGroup:
    """In which modes, how well, which build, and where the runs are kept."""

    mode: ModeOption = None
    pick: PickOption = None
    profile: Annotated[
        Literal["brief", "quick", "full"], typer.Option(help="How well the time is to be known.")
    ] = "quick"
    runs: KeptRunsOption = Path("runs")
    label: LabelOption = ""
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Variable of the environment that changes what is measured; it becomes part of "
            "the run's identity. OMP_NUM_THREADS and others are part of it for programs by "
            "default. Repeatable.",
        ),
    ] = None
    again: AgainOption = False


@dataclass(frozen=True)
class BuildGroup:
    """Which engine networks are run on, in which form, and how its files are built."""

    engine: Annotated[
        str | None,
        typer.Option(
            help="What runs the networks: ort, tensorrt, trtexec. By default TensorRT on a Jetson "
            "that has it, by its Python bindings or trtexec, else ONNX Runtime, which builds no "
            "engine files."
        ),
    ] = None
    batch: BatchSizesOption = None
    precision: PrecisionsOption = None
    dim: DimOption = None
    preprocess: Annotated[
        str | None,
        typer.Option(
            help="How images are fed: imagenet (the default), unit, symmetric, caffe or raw, then "
            "what differs: imagenet,resize=232,mean=0.5/0.5/0.5."
        ),
    ] = None
    calibration: Annotated[
        str | None,
        typer.Option(
            help="Samples that the ranges of int8 are taken from, as --data, or 'random'; some of "
            "--data by default."
        ),
    ] = None
    dla: Annotated[
        int | None,
        typer.Option(
            min=0, max=15, help="Build engine files for this DLA core; by default for the GPU."
        ),
    ] = None
    dla_nodes: Annotated[
        str | None,
        typer.Option(
            help="With --dla: run only these nodes on the DLA, by their index in the score, as "
            "0-56,60; the GPU runs the others, in one engine."
        ),
    ] = None
    fallback: Annotated[
        bool,
        typer.Option(help="With --dla: run layers that a DLA core lacks on the GPU, or refuse."),
    ] = True
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic", help="Build one engine file for all of --batch, not one each."),
    ] = False
    opt_level: Annotated[
        int | None,
        typer.Option(min=0, max=5, help="Optimisation level of TensorRT's builder; its own, 3."),
    ] = None
    workspace: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--workspace", "size", bare="MB", ends=("1MB", "10TB")),
            help="Most memory of a layer's kernel, as 512MB or 1GiB; TensorRT's own: all.",
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
            help="Samples to measure accuracy with: an .npz of arrays by input and labels, or a "
            "folder of images.",
            readable=False,
        ),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(help="Classes of --data, lines IMAGE,CLASS or CLASS.", readable=False),
    ] = None
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000_000, help="Samples of --data to use, evenly spread; all by default."
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=4096, help="Threads of the engine; by default one for each CPU of the mode."
        ),
    ] = None
    copies: Annotated[
        Copies, typer.Option(help="Copies to and from the host's memory that a call includes.")
    ] = "none"
    wait: Annotated[
        Waiting, typer.Option(help="What threads do while they wait: spin, or block.")
    ] = "spin"
    graph: Annotated[bool, typer.Option("--graph", help="Run it as a CUDA graph.")] = False
    layers: Annotated[
        bool, typer.Option("--layers", help="Print the 30 slowest layers of each network.")
    ] = False
    each_layer: Annotated[
        str | None,
        typer.Option(
            help="Also cut the layers out and run each alone: all, stages, or how many of the "
            "slowest: 10."
        ),
    ] = None


@dataclass(frozen=True)
class PartGroup:
    """Which parts of the networks are run alone, and how."""

    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="With --each-layer stages: join them to so many groups of like work.",
        ),
    ] = None
    transitions: Annotated[
        bool,
        typer.Option(
            "--transitions",
            help="With --each-layer stages: what a change of processor costs at each cut, by the "
            "network with an output more there.",
        ),
    ] = False
    cpus: Annotated[
        list[str] | None,
        typer.Option(help="CPUs that the parts are run on: 0, 2-3; each --cpus one partition."),
    ] = None
    window: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--window", "time", bare="s", ends=("50ms", "1h")),
            help="Time that the meters look at each layer, as 5s.",
        ),
    ] = None
    boundary: Annotated[
        float | None,
        typer.Option(
            min=0, max=600, help="Seconds that each layer runs before that; until power settles."
        ),
    ] = None
    rest: Annotated[
        float, typer.Option(min=0, max=600, help="Seconds of rest before each layer.")
    ] = 0.0
    meter_interval: Annotated[
        float | None,
        typer.Option(
            parser=quantity("--meter-interval", "time", bare="ms", ends=("1ms", "10s")),
            help="Time between readings, as 20ms; the meters' own.",
        ),
    ] = None


@dataclass(frozen=True)
class PlaceGroup:
    """Where networks are run."""

    board: BoardOption = None
    processor: Annotated[
        Literal["cpu", "gpu"] | None,
        typer.Option(help="What to run on; by default the GPU where there is one."),
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
            help="Regular expression with one group: a number that the program prints, such as "
            "'tokens/s: ([0-9.]+)'. The last one counts."
        ),
    ] = None


@dataclass(frozen=True)
class IdentityGroup:
    """What a program or a server is called and is, and how often it is measured."""

    name: Annotated[
        str | None,
        typer.Option(
            help="What the program is called, by default its command; or the model of a server."
        ),
    ] = None
    depends: Annotated[
        list[Path] | None,
        typer.Option(
            help="File or folder whose content changes the program, or the server of --start; it "
            "becomes part of its identity. Files among its words are by default. Repeatable.",
            readable=False,
        ),
    ] = None
    repeat: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Runs of the program in each mode, or rounds of requests to a server.",
        ),
    ] = None
    remote_folder: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="With --host: folder there in which the program, or the server of --start, runs; "
            "by default the home of the user who logs in.",
        ),
    ] = None


@dataclass(frozen=True)
class ServerGroup:
    """Which server of a language model, and what it is asked."""

    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Measure the server of a language model there: OpenAI-compatible (vLLM, SGLang), "
            "llama.cpp's, Ollama.",
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Start the server in each mode, and end it: 'llama-server -m a.gguf --port "
            "{port}'.",
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which model of the server; by default its only one."),
    ] = None
    prompt: Annotated[
        str, typer.Option(metavar="TOKENS", help="Lengths of prompts: 128,512,2048.")
    ] = "128,512,2048"
    generate: Annotated[
        str, typer.Option(metavar="TOKENS", help="Tokens of each answer: 128, or 64,256.")
    ] = "128"
    concurrency: Annotated[str, typer.Option(metavar="N", help="Requests at once: 1,4,8.")] = "1"


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
