"""``mansard models layers``: layers of an engine beside the nodes they run, under the roof."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.analytics import pages
from mansard.api import results
from mansard.cli.console import note, print_json, print_lines, print_whole
from mansard.cli.options import (
    AllOption,
    DimOption,
    ForceOption,
    JsonOption,
    RunsOption,
    check_outputs,
    parse_dimensions,
)
from mansard.cli.tables import print_fitting, without_silent
from mansard.core.errors import UsageError
from mansard.core.precision import parse_precision
from mansard.core.units import parse_optional, parse_quantity

_SHOWN = 15  # layers on one screen
_SHOWN_NOTES = 10
# What a narrow terminal drops, in this order.
_DROPPED = (
    *("Remark", "Joined by", "Bandwidth", "Rate", "FLOP/byte", "Estimate", "Counted", "Runs"),
    *("Bytes", "Work"),
)
_ALWAYS = ("Joined by", "Remark", "Gap", "Of roof", "Bound by", "Counted", "Estimate")
_UNITS: dict[str, Literal["fma", "tensor"]] = {"": "fma", "cuda": "fma", "tensor": "tensor"}


def layers(
    model: Annotated[
        str, typer.Argument(help="ONNX file, or name of a shipped network.")
    ],
    profile: Annotated[
        Path | None,
        typer.Option(
            help="Layer times written by trtexec, TensorRT's IProfiler, cuDLA, ONNX Runtime "
            "or Nsight Compute; measured ones by default.", readable=False),
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(
            "--graph", "--layer-info", help="Layers of the same engine, as written by its "
                "inspector.", readable=False),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Batch size; the graph's by default.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Precision, such as fp16; the graph's by default.")
    ] = None,
    dim: DimOption = None,
    runs: RunsOption = None,
    device: Annotated[
        str | None,
        typer.Option(help="Device of --runs, or part of its name; without --runs a Jetson, whose "
            "hardware limits are the roofs."),
    ] = None,
    mode: Annotated[str | None, typer.Option(help="Power mode of the roofs.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Label of the measurements; the newest by default.")
    ] = None,
    peak: Annotated[
        list[str] | None,
        typer.Option(help="Peak of the device: fp32=19.5TFLOP/s; on tensor cores "
            "fp16:tensor=312TFLOP/s. Repeatable."),
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="Memory bandwidth, with --peak: 1935GB/s.")
    ] = None,
    launch: Annotated[str | None, typer.Option(help="Time of a kernel launch: 3us.")] = None,
    html: Annotated[Path | None, typer.Option(help="HTML page of the layers to write.")] = None,
    force: ForceOption = False,
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Match the layers of an engine to nodes of MODEL, and compare each with its roof.

    Layers with the largest gap to their roof come first. Layers match by node names, then by
    shapes and data flow; guesses are marked. Launches of Nsight Compute match by NVTX ranges, else
    by guess. Roofs come from --runs, from the hardware of --device in --mode, or from --peak and
    --bandwidth.
    """
    check_outputs([html], force=force)
    engines = api.layers(
        model,
        profile=profile,
        description=graph,
        runs=tuple(runs or ()),
        mode=mode,
        device=device,
        label=label,
        batch=batch,
        precision=None if precision is None else parse_precision(precision).name,
        dims=parse_dimensions(dim or []),
        peaks=dict(map(_peak, peak or [])),
        bandwidth=parse_optional("--bandwidth", bandwidth, "bandwidth"),
        launch_s=parse_optional("--launch", launch, "time"),
    )
    for one in engines:
        for line in one.notes[:_SHOWN_NOTES]:
            note(f"note: {one.network}: {line}")
    if html is not None:
        api.write_layers_page(engines, html)
    if as_json:
        print_json("layers", {"networks": engines})
        return
    for one in engines:
        _print(one, show_all=show_all)
    if html is not None:
        print_whole(f"page: {html}")


def _peak(text: str) -> tuple[tuple[str, Literal["fma", "tensor"]], float]:
    """``fp16:tensor=312TFLOP/s``; raises UsageError."""
    name, has_rate, rate = text.partition("=")
    precision, _, unit = name.strip().partition(":")
    if not has_rate or unit not in _UNITS:
        raise UsageError(
            f"--peak {text!r} is not a precision with a rate",
            fix="write fp32=19.5TFLOP/s, or fp16:tensor=312TFLOP/s",
        )
    key = (parse_precision(precision).name, _UNITS[unit])
    return key, parse_quantity("--peak", rate.strip(), "peak")


def _print(one: results.RoofedLayers, *, show_all: bool) -> None:
    most = None if show_all else _SHOWN
    table = without_silent(pages.engine_layer_table(one, most), _ALWAYS)
    print_fitting(table, _DROPPED, "--json or --html has them", few=1)
    print_lines(_lines(one, most))


def _lines(one: results.RoofedLayers, most: int | None) -> Sequence[str]:
    lines = pages.engine_layer_words(one)
    left = 0 if most is None else len(one.layers) - most
    return [f"{left} more engine layers: --all shows them.", *lines] if left > 0 else lines
