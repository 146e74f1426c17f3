"""Options of the commands that ask about networks in modes: recommend and batch."""

from __future__ import annotations

from typing import Annotated

import typer

from mansard.core.records import Phase

ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(help="ONNX files, names of the zoo, or of networks that were measured."),
]
DimOption = Annotated[list[str] | None, typer.Option(help="Named dimensions: seq=128. Repeatable.")]
PhaseOption = Annotated[Phase, typer.Option(help="What the networks do.")]
DeviceOption = Annotated[str | None, typer.Option(help="Only devices whose name holds this.")]
CalibrateOption = Annotated[
    bool, typer.Option("--calibrate", help="Scale predictions to the measured networks.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
