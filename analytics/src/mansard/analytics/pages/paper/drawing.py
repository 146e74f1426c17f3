"""Charts become files: SVG of exactly the size that was asked for, and PDF or PNG of it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import vl_convert

from mansard.analytics.pages.figures.charting import Chart
from mansard.analytics.pages.figures.figure import drawable, renumbered
from mansard.analytics.pages.figures.plane import TYPE_PX, text_px
from mansard.analytics.pages.paper.look import DEFAULT_FONT, Look, paper_config
from mansard.core.errors import UsageError
from mansard.core.text import printable

Form = Literal["svg", "pdf", "png"]
PIXELS_PER_INCH = 300
_TURNS = 10  # another size changes the labels of axes, which change the size
_NEAR_PX = 0.5
_SAMPLES = ("fp16 tensor 10.59 TFLOP/s", "DRAM 204.8 GB/s", "MAXN", "mobilenet_v2")
_AS_WIDE = f"{DEFAULT_FONT}, Arimo, Arial, Helvetica, Nimbus Sans, sans-serif"
_LEAST_PX = 60.0  # of the inner part of a chart
_FREE_PX = 130  # the height of the inner part for which a figure becomes higher
_SIZE = re.compile(r'<svg([^>]*?) width="([0-9.]+)" height="([0-9.]+)"([^>]*?)viewBox="[^"]*"')
_GROUND = re.compile(r'<rect width="[0-9.]+" height="[0-9.]+"')
_BASE_FONT = re.compile(rb"/BaseFont\s*/([^\s/<>\[\]()]+)")
_STREAM = re.compile(rb"stream\r?\n(.*?)endstream", re.DOTALL)
GENERIC = frozenset({"sans-serif", "serif", "monospace", "cursive", "fantasy", "system-ui"})


class Inside(NamedTuple):
    """The inner part of a chart, px: what its axes enclose. ``share``: see ``letter_share``."""

    width_px: int
    height_px: int
    share: float


def draw(
    build: Callable[[Inside], Chart],
    look: Look,
    inner_px: float | None = None,
    *,
    may_grow: bool = False,
) -> str:
    """``build`` as an SVG as large as ``look`` says; raises UsageError where that is too small.

    ``inner_px``: the height inside the axes, which then sets that of the figure. ``may_grow``: a
    long legend makes the figure higher.
    """
    share = letter_share(look.font)
    inside = Inside(round(0.8 * look.width_px), round(inner_px or 0.7 * look.height_px), share)
    asked_px = look.height_px
    for turn in range(_TURNS):
        svg = _svg(build(inside), look)
        width_px, height_px = _size(svg)
        if inner_px is not None:
            look = replace(look, height_pt=height_px / look.px_per_pt)
        elif may_grow:
            lack_px = _FREE_PX - (inside.height_px + asked_px - height_px)
            look = replace(look, height_pt=(asked_px + max(0.0, lack_px)) / look.px_per_pt)
        more = (look.width_px - width_px, look.height_px - height_px)
        # Labels and legends that change back and forth: rather a margin than a cut figure.
        is_shrinking = turn >= _TURNS // 2
        if min(more) >= -_NEAR_PX and (is_shrinking or max(more) <= _NEAR_PX):
            return _sized(svg, look)
        across, down = (
            round(size + (min(extra, 0.0) if is_shrinking else extra))
            for size, extra in zip(inside, more, strict=False)
        )
        if across < _LEAST_PX or (inner_px is None and down < _LEAST_PX):
            break
        inside = Inside(across, down, share)
    raise UsageError(
        f"{look.width_pt:.4g} × {look.height_pt:.4g} pt is too small for this figure in "
        f"{look.font_pt:.3g} pt type",
        fix="raise --width or --height, or lower --font-size",
    )


@cache
def letter_share(font: str) -> float:
    """The width of text in ``font`` over ``text_px``, the bound for any font; the mean of some."""
    shares = []
    for text in _SAMPLES:
        mark = {"type": "text", "text": text, "fontSize": TYPE_PX, "font": font, "align": "left"}
        spec = {"data": {"values": [{}]}, "width": 1, "height": 1, "padding": 0, "mark": mark}
        spec |= {"encoding": {"x": {"value": 0}}}
        shares.append(_size(vl_convert.vegalite_to_svg(spec))[0] / text_px(text))
    return min(1.0, sum(shares) / len(shares))


def _svg(chart: Chart, look: Look) -> str:
    spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    return renumbered(vl_convert.vegalite_to_svg(drawable(spec), config=paper_config(look)))


def _size(svg: str) -> tuple[float, float]:
    match = _SIZE.search(svg)
    assert match is not None  # noqa: S101 - Vega writes it so
    return float(match[2]), float(match[3])


def _sized(svg: str, look: Look) -> str:
    """``svg`` in points; what is left of a pixel becomes a margin at the right and below."""
    box = f"0 0 {look.width_px:.6g} {look.height_px:.6g}"
    size = f'width="{look.width_pt:.6g}pt" height="{look.height_pt:.6g}pt"'
    svg = _SIZE.sub(lambda match: f'<svg{match[1]} {size}{match[4]}viewBox="{box}"', svg, count=1)
    return _GROUND.sub(f'<rect width="{look.width_px:.6g}" height="{look.height_px:.6g}"', svg, 1)


def encoded(svg: str, form: Form) -> bytes:
    """``svg``, which ``draw`` made, as a file of ``form``; a PDF has its fonts embedded."""
    if form == "svg":
        return _with_metric_fonts(svg).encode()
    # The converters take a number without a unit for points, and points for CSS pixels.
    plain = re.sub(r'="([0-9.]+)pt"', r'="\1"', svg, count=2)
    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(plain))
    return bytes(vl_convert.svg_to_png(plain, ppi=PIXELS_PER_INCH))


def _with_metric_fonts(svg: str) -> str:
    """``svg`` with the fonts that have letters as wide as the default's, for other machines."""
    return svg.replace(f'font-family="{DEFAULT_FONT}"', f'font-family="{_AS_WIDE}"')


def check_font(family: str, folder: Path | None = None) -> None:
    """Raises UsageError where no font of this ``family`` is there: its text would not be drawn.

    ``folder``: more font files than the system's.
    """
    if folder is not None:
        if not folder.is_dir():
            raise UsageError("is not a folder of fonts", where=str(folder), fix="check the path")
        vl_convert.register_font_directory(str(folder.resolve()))
        _embedded.cache_clear()
    if not _NAME.fullmatch(family) or family.casefold() in GENERIC or not _embedded(family):
        raise UsageError(
            f"no font {printable(family, 60)!r} on this machine",
            fix=f"install it, give its folder with --fonts, or use the default, {DEFAULT_FONT}",
        )


_NAME = re.compile(r"[\w .\-]{1,60}")


@cache
def _embedded(family: str) -> tuple[str, ...]:
    """The fonts that a PDF with a word in ``family`` has; none where there is no such font."""
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="12">'
        f'<text x="2" y="10" font-family="{family}" font-size="8">10</text></svg>'
    )
    return fonts_in(bytes(vl_convert.svg_to_pdf(svg)))


def fonts_in(pdf: bytes) -> tuple[str, ...]:
    """The names of the fonts in a PDF, without the mark of a subset."""
    names = set(_BASE_FONT.findall(pdf))
    for stream in _STREAM.findall(pdf):
        try:
            names.update(_BASE_FONT.findall(zlib.decompress(stream)))
        except zlib.error:
            continue
    return tuple(
        sorted(name.partition(b"+")[2].decode("latin-1") or name.decode() for name in names)
    )
