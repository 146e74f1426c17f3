"""A figure for a paper: chosen, drawn and written, with its values and its caption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import polars as pl

from mansard.analytics.pages.paper.caption import caption
from mansard.analytics.pages.paper.content import Content, Kind, titled
from mansard.analytics.pages.paper.drawing import Form, check_font, draw, encoded
from mansard.analytics.pages.paper.gantt import gantt_content
from mansard.analytics.pages.paper.latex import ceiling_frame, latex_table
from mansard.analytics.pages.paper.layers import layers_content
from mansard.analytics.pages.paper.look import DEFAULT_FONT, SIZES_PT, Look, Style
from mansard.analytics.pages.paper.modes import modes_content, pareto_content
from mansard.analytics.pages.paper.roofline import energy_content, roofline_content
from mansard.analytics.pages.paper.selection import Wish, choose_roof
from mansard.analytics.pages.paper.write import (
    Suffix,
    figure_path,
    file_stem,
    marked,
    suffix_of,
    values_file,
)
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.records import Problem, Schedule
from mansard.core.storage.files import write_atomic

_CONTENTS: Mapping[Kind, Callable[[Results, Wish], Content]] = MappingProxyType(
    {
        "roofline": roofline_content,
        "energy": energy_content,
        "pareto": pareto_content,
        "layers": layers_content,
        "modes": modes_content,
    }
)
_WITH_CEILINGS = ("roofline", "energy")


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """A figure of ``kind`` from folders of ``runs``, and where it goes.

    ``models``: networks to show, all by default; of a Gantt chart also the file of a problem.
    ``device``: a part of its name. ``output``: a file that ends in .pdf, .svg, .png or .tex, or a
    folder; by default a PDF here that is named after the device and the mode. Lengths in pt; None:
    those of ``style``. ``fonts``: a folder of fonts beside those of the system. ``with_table``:
    also the ceilings as a LaTeX table; a file in .tex is that table alone.
    """

    kind: Kind
    models: tuple[str, ...] = ()
    runs: tuple[str, ...] = ("runs",)
    output: Path | None = None
    device: str | None = None
    mode: str | None = None
    precisions: tuple[str, ...] = ()
    batch: int | None = None
    style: Style = "paper"
    width_pt: float | None = None
    height_pt: float | None = None
    font: str = DEFAULT_FONT
    fonts: Path | None = None
    font_pt: float | None = None
    has_title: bool = True
    with_table: bool = False

    @property
    def wish(self) -> Wish:
        """What it names of the runs."""
        return Wish(
            models=self.models,
            device=self.device,
            mode=self.mode,
            precisions=self.precisions,
            batch=self.batch,
        )


@dataclass(frozen=True, eq=False)
class DrawnFigure:
    """Files that were written, the figure first; ``frame``: the values that it plots."""

    paths: tuple[Path, ...]
    caption: str
    frame: pl.DataFrame


def check_request(request: FigureRequest) -> None:
    """Raises UsageError for what no runs can give, before any is read."""
    suffix = suffix_of(request.output)
    if request.kind not in _WITH_CEILINGS and (suffix == "tex" or request.with_table):
        raise UsageError(
            "the LaTeX table is of ceilings", fix="write mansard figure roofline --table"
        )
    if suffix != "tex":
        check_font(request.font, request.fonts)


def figure_of_runs(
    results: Results, request: FigureRequest, check: Callable[[Sequence[Path]], object]
) -> DrawnFigure:
    """Draw and write a figure of what was computed from runs; ``check``: see ``_write``."""
    wish = request.wish
    content = _CONTENTS[request.kind](results, wish)
    path = figure_path(request.output, content)
    words = caption(content, results)
    suffix = suffix_of(request.output)
    files: dict[Path, bytes] = {}
    frame = content.frame
    if suffix == "tex" or request.with_table:
        roof = choose_roof(results, wish, "energy" if request.kind == "energy" else "score")
        ceilings = ceiling_frame(results, roof)
        label = file_stem(content, "ceilings")
        files[path.with_suffix(".tex")] = latex_table(results, roof, ceilings, label).encode()
        frame = ceilings if suffix == "tex" else frame
    if suffix != "tex":
        files = {path: _drawn(content, request, suffix), **files}
    return _write(files, path, frame, words, check)


def figure_of_schedule(
    problem: Problem,
    schedule: Schedule,
    request: FigureRequest,
    check: Callable[[Sequence[Path]], object],
) -> DrawnFigure:
    """Draw and write the Gantt chart of a schedule."""
    content = gantt_content(problem, schedule, problem.machine, problem.mode)
    path = figure_path(request.output, content)
    drawn = _drawn(content, request, suffix_of(request.output))
    return _write({path: drawn}, path, content.frame, caption(content, None), check)


def _write(
    files: dict[Path, bytes],
    path: Path,
    frame: pl.DataFrame,
    words: str,
    check: Callable[[Sequence[Path]], object],
) -> DrawnFigure:
    """Write each file whole. ``check`` gets all paths first, and may refuse them."""
    whole = {
        **files,
        path.with_suffix(".csv"): values_file(frame),
        path.with_suffix(".txt"): f"{words}\n".encode(),
    }
    check(tuple(whole))
    for target, content in whole.items():
        write_atomic(target, content)
    return DrawnFigure(tuple(whole), words, frame)


def _drawn(content: Content, request: FigureRequest, suffix: Suffix) -> bytes:
    forms: dict[Suffix, Form] = {"svg": "svg", "pdf": "pdf", "png": "png"}
    form = forms[suffix]
    look = _look(request)
    is_free = request.height_pt is None and request.style == "paper"
    svg = draw(
        lambda inside: (
            content.build(inside).properties(title=titled(content, look.width_px))
            if look.has_title
            else content.build(inside)
        ),
        look,
        content.inner_px if is_free else None,
        may_grow=is_free,
    )
    return marked(encoded(svg, form), suffix)


def _look(request: FigureRequest) -> Look:
    """The size that was asked for, else the style's."""
    width_pt, height_pt, font_pt = SIZES_PT[request.style]
    return Look(
        width_pt=request.width_pt or width_pt,
        height_pt=request.height_pt or height_pt,
        font_pt=request.font_pt or font_pt,
        font=request.font,
        has_title=request.has_title,
    )
