"""A figure before it is drawn: its chart, the values that it plots, and its sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import altair as alt
import polars as pl

from mansard.analytics.data.names import LONGEST_NAME
from mansard.analytics.pages.figures.charting import LIGHT, Chart, log_scale, plot
from mansard.analytics.pages.figures.figure import Prefix
from mansard.analytics.pages.figures.plane import Window, shortened_label, text_px
from mansard.analytics.pages.paper.drawing import Inside
from mansard.analytics.pages.paper.look import LEGEND_GAP_PX, MARKERS, colours
from mansard.core.hardware.machine_names import machine_words
from mansard.core.text import printable, uncounted

_LEAST_TICKS = 3
_LABEL_PX, _SYMBOL_PX = 150, 22.0  # of a legend: the longest label; a symbol and its gap
Kind = Literal["roofline", "energy", "pareto", "layers", "gantt", "modes"]
TITLES: Mapping[Kind, str] = {
    "roofline": "Roofline",
    "energy": "Energy roofline",
    "pareto": "Pareto front",
    "layers": "Layers",
    "gantt": "Schedule",
    "modes": "Power modes",
}


@dataclass(frozen=True, eq=False)
class Content:
    """A figure of ``kind``. ``frame``: exactly the plotted values, units in the names of columns.

    ``device`` and ``mode`` are for the title, the caption and the name of the file; empty: of
    several or of none. ``subject``: what else the title names. ``run_ids``: the runs behind it.
    ``sources``: what its values are: measured, modelled and so on.
    """

    kind: Kind
    device: str
    mode: str
    frame: pl.DataFrame
    build: Callable[[Inside], Chart]
    sentences: Sequence[str]
    sources: Sequence[str]
    run_ids: Sequence[str] = ()
    subject: str = ""
    n_samples: Mapping[str, int] = field(default_factory=dict)  # by what they are: trials, calls
    inner_px: float | None = None  # the height inside the axes, where it depends on rows

    @property
    def title(self) -> str:
        """``Roofline, Jetson AGX Orin, MAXN``."""
        parts = (TITLES[self.kind], self.subject, short_device(self.device), self.mode)
        return ", ".join(short_name(part) for part in parts if part)


def short_name(text: str) -> str:
    """``text`` on one line of readable length; a cut one ends in an ellipsis alone."""
    return shortened_label(uncounted(printable(text)), LONGEST_NAME)


def short_device(device: str) -> str:
    """``Jetson AGX Orin (simulated)`` of NVIDIA Jetson AGX Orin Developer Kit GPU (simulated)."""
    words = machine_words(device)
    words = re.sub(r"\bDeveloper Kit\b|\bGPU\b", "", words) if "Jetson" in words else words
    return " ".join(words.split()) or device


def titled(content: Content, width_px: float) -> alt.TitleParams:
    """The title in lines that fit into the figure."""
    most = max(20, int(width_px / 6.9))  # of the type's width
    lines = [""]
    for part in content.title.split(", "):
        last = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(last) > most and lines[-1]:
            lines[-1] += ","
            lines.append(shortened_label(part, most))
        else:
            lines[-1] = shortened_label(last, most)
    return alt.TitleParams(text=lines, fontWeight="normal", frame="bounds")


def network_key(names: Sequence[str], n_columns: int = 3) -> dict[str, object]:
    """Colour and shape channels for ``names``, with one legend."""
    labels = list(names)
    legend = alt.Legend(title=None, columns=n_columns, labelLimit=_LABEL_PX)
    return {
        "color": alt.Color(
            "name:N", scale=alt.Scale(domain=labels, range=colours(labels)), legend=legend
        ),
        "shape": alt.Shape(
            "name:N", scale=alt.Scale(domain=labels, range=list(MARKERS)), legend=legend
        ),
    }


def is_hollow(kind: str) -> bool:
    """Whether marks and bars of this kind, as keys name it, are hollow: modelled ones are."""
    return kind.startswith("modelled")


def fills(kinds: Sequence[str], colour: str) -> list[str]:
    """What marks of each kind are filled with: the paper where they are hollow."""
    return [LIGHT.paper if is_hollow(kind) else colour for kind in kinds]


def marker_key(kinds: Sequence[str]) -> Chart:
    """A legend: filled markers are measured, hollow ones modelled. ``kinds`` may repeat."""
    names = sorted(set(kinds), key=is_hollow)
    ink = LIGHT.ink
    legend = alt.Legend(title=None, columns=2, labelLimit=0, symbolStrokeColor=ink)
    fill = alt.Fill("kind:N", scale=alt.Scale(domain=names, range=fills(names, ink)), legend=legend)
    # Marks without a size: only their legend shows.
    return plot(pl.DataFrame({"kind": names})).mark_point(size=0, opacity=0).encode(fill=fill)


def plane_axes(
    seen: Window, height: str, titles: tuple[str, str], prefix: Prefix
) -> tuple[alt.X, alt.Y]:
    """The axes of intensity and of the column ``height``, in 10⁹; ``prefix``: of its unit."""
    x_title, y_title = titles
    x = alt.X(
        "intensity_flop_per_byte:Q",
        scale=log_scale(seen.x_low, seen.x_high),
        axis=alt.Axis(title=x_title, format=".12~g", values=seen.x_ticks),
    )
    y = alt.Y(
        f"{height}:Q",
        scale=log_scale(seen.y_low, seen.y_high),
        axis=alt.Axis(
            title=y_title,
            values=seen.y_ticks,
            labelExpr=prefix.tick,
        ),
    )
    return x, y


def log_ticks(low: float, high: float) -> list[float]:
    """At least three ticks of a logarithmic axis, as round as possible."""
    ticks: list[float] = []
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)):
        every = [float(f"{step}e{power}") for power in powers for step in steps]
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) >= _LEAST_TICKS:
            return ticks
    # Of less than half a decade: even steps.
    power = math.floor(math.log10(high - low))
    for step in (float(f"{digit}e{power - down}") for down in (0, 1) for digit in (5, 2, 1)):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first + 1 >= _LEAST_TICKS:
            return [float(f"{step * at:.9g}") for at in range(first, last + 1)]
    return ticks


def legend_columns(names: Sequence[str], inside: Inside) -> int:
    """As many columns as the longest of ``names`` leaves room for, or nearly so."""
    longest_px = inside.share * max(map(text_px, names), default=0.0)
    column_px = min(longest_px, _LABEL_PX) + _SYMBOL_PX + LEGEND_GAP_PX
    return max(1, min(len(names), int((inside.width_px + 2 * LEGEND_GAP_PX) / column_px)))
