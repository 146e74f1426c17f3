"""``figure``: a figure for a paper or a slide, from folders of runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from mansard import api
from mansard.cli.console import TerminalReporter, print_json, print_whole
from mansard.cli.options import (
    ForceOption,
    JsonOption,
    RunsOption,
    check_outputs,
    parse_precisions,
    quantity,
)
from mansard.core.errors import UsageError

_parse_width = quantity("--width", "length", bare="pt", ends=("1in", "30in"))
_parse_height = quantity("--height", "length", bare="pt", ends=("1in", "30in"))
_parse_type = quantity("--font-size", "length", bare="pt", ends=("4pt", "48pt"))


def figure(
    kind: Annotated[
        Literal["roofline", "energy", "pareto", "layers", "gantt", "modes"],
        typer.Argument(help="Kind of figure."),
    ],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Networks and ONNX files to show; all networks of the runs by default. gantt also "
            "draws a problem file."
        ),
    ] = None,
    runs: RunsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File in .pdf, .svg, .png or .tex, or a folder; by default a PDF named after the "
            "device and the mode.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Device, or part of its name.")] = None,
    mode: Annotated[str | None, typer.Option(help="Power mode.")] = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(help="Precisions to show: fp32,fp16. Those of the networks by default."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Batch size; the smallest by default.")
    ] = None,
    style: Annotated[
        Literal["paper", "slide"],
        typer.Option(help="paper: 3.5 in, 8 pt font. slide: 9 in, 14 pt font."),
    ] = "paper",
    width: Annotated[
        str | None, typer.Option(help="Width of the figure: 3.5in, 89mm or 252pt.")
    ] = None,
    height: Annotated[str | None, typer.Option(help="Height of the figure: 2.5in.")] = None,
    font: Annotated[
        str | None,
        typer.Option(metavar="FAMILY", help="Font family; Liberation Sans by default."),
    ] = None,
    fonts: Annotated[
        Path | None, typer.Option(help="Folder of font files for --font.", readable=False)
    ] = None,
    font_size: Annotated[str | None, typer.Option(help="Font size: 8pt.")] = None,
    title: Annotated[bool, typer.Option("--title/--no-title", help="Draw the title.")] = True,
    table: Annotated[
        bool, typer.Option("--table", help="Also write the ceilings as a LaTeX table.")
    ] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw a figure for a paper or a slide, with its values (.csv) and its caption (.txt).

    Figures have a light background and an exact size, and name the device and the mode. PDF files
    embed their fonts. A .tex file is a LaTeX table of the ceilings.
    """
    request = api.FigureRequest(
        kind=kind,
        models=tuple(models or ()),
        runs=tuple(runs or ("runs",)),
        output=output,
        device=device,
        mode=mode,
        precisions=parse_precisions(precision),
        batch=batch,
        style=style,
        width_pt=None if width is None else _parse_width(width),
        height_pt=None if height is None else _parse_height(height),
        fonts=fonts,
        font_pt=None if font_size is None else _parse_type(font_size),
        has_title=title,
        with_table=table,
        **({} if font is None else {"font": font}),
    )
    if fonts is not None and font is None:
        raise UsageError("--fonts has no effect without --font", fix="name a family of the folder")
    drawn = api.figure(request, TerminalReporter(), check=partial(check_outputs, force=force))
    if as_json:
        print_json("figure", {"files": drawn.paths, "caption": drawn.caption})
        return
    print_whole(*(str(path) for path in drawn.paths))
