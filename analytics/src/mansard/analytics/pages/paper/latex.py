r"""The ceilings of a mode as a LaTeX table, for \\usepackage{booktabs}."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import fixed, quantity
from mansard.analytics.models.energy.fit import Coefficient
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.analytics.models.roofs.published_rooflines import is_published
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.parameters import roof_devices
from mansard.analytics.pages.figures.plane import shortened_label
from mansard.analytics.pages.paper.caption import (
    DRAWN_BY,
    publication_text,
    run_text,
    system_text,
)
from mansard.analytics.pages.paper.content import short_device, short_name
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.precision import work_unit

_PICO = 1e-12
_UNKNOWN = "--"
_LAST_LATIN = 0x17E  # of Latin Extended-A, the last letter that the encoding utf8 sets
_ESCAPES = MappingProxyType(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': "''",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\u00a0": "~",
        "±": r"$\pm$",
        "µ": r"$\mu$",
        "×": r"$\times$",
        "…": r"\dots{}",
        "–": r"\textendash{}",
        "`": "{`}",  # no ligature with ? or !
    }
)
CEILING_SCHEMA = {
    "quantity": pl.String,
    "name": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "unit": pl.String,
    "n_blocks": pl.Int64,
    "source": pl.String,
}


def escaped(text: str) -> str:
    """``text`` for LaTeX: none of it is read as a command, a comment or a group.

    Letters that pdfLaTeX cannot set without further packages have their code, ``[U+65E5]``.
    """
    plain = "".join(_ESCAPES.get(letter) or _letter(letter) for letter in text)
    return plain.replace("--", "-{}-")


def _letter(letter: str) -> str:
    return letter if ord(letter) <= _LAST_LATIN else f"[U+{ord(letter):04X}]"


def _breakable(escaped_text: str) -> str:
    """Lines may break in paths and long names."""
    return re.sub(r"(/|\\_)(?=\w)", r"\1\\allowbreak ", escaped_text)


def ceiling_frame(results: Results, roof: Roofline) -> pl.DataFrame:
    """Peaks, bandwidths and energies of the mode of ``roof``, in SI units, with 95 % intervals."""
    rows = [*_ceilings(roof), *_energies(results, roof)]
    if not rows:
        raise UsageError(
            f"no ceiling of {display_name(roof.label)} is known", fix="measure it: mansard bench"
        )
    return pl.DataFrame(rows, schema=CEILING_SCHEMA)


def _ceilings(roof: Roofline) -> Iterator[dict[str, object]]:
    bandwidths = [roof.bandwidth(level.name) for level in roof.levels]
    for what, ceilings in (("peak", roof.peaks), ("bandwidth", tuple(bandwidths))):
        for one in ceilings:
            if one.value is not None:
                yield _row(what, one.name, one, one.unit, one.n_blocks, roof.source)


def _energies(results: Results, roof: Roofline) -> Iterator[dict[str, object]]:
    fit = results.energies.get(roof.run_id)
    if fit is None:
        return
    costs = [("energy of work", name, cost) for name, cost in fit.flop_j.items()]
    costs += [("energy of traffic", name, cost) for name, cost in fit.byte_j.items()]
    for what, name, cost in costs:
        unit = f"J/{work_unit(name)}" if what == "energy of work" else "J/byte"
        if cost.value is not None:
            yield _row(what, name, cost, unit, fit.n_points, "modelled")
    if fit.constant_w.value is not None:
        yield _row("constant power", "", fit.constant_w, "W", fit.n_points, "modelled")


def _row(
    what: str, name: str, one: Ceiling | Coefficient, unit: str, n: int, source: str
) -> dict[str, object]:
    return {
        "quantity": what,
        "name": name,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "unit": unit,
        "n_blocks": n,
        "source": source,
    }


def _table_caption(results: Results, roof: Roofline, ceilings: pl.DataFrame) -> str:
    """The device and the mode, its system, the method, and where the values come from."""
    device = roof_devices(results)[roof.label]
    shown = short_name(short_device(device))
    sentences = [f"Ceilings of {shown} in power mode {short_name(roof.mode)}."]
    runs = [run for run in results.dataset.all_manifests if run.run_id == roof.run_id]
    if runs:
        sentences += [system_text(runs), run_text(runs, roof.source)]
        sentences.append("Medians of n blocks of samples.")
    elif is_published(roof.run_id):
        sentences += publication_text(results, device, roof.mode)
    if ceilings["low"].is_not_null().any():
        sentences.append("±: 95 % intervals.")
    if (ceilings["source"] == "modelled").any():
        sentences.append("Energies are fitted to the energy of n kernels.")
    return " ".join(sentences)


def latex_table(results: Results, roof: Roofline, ceilings: pl.DataFrame, label: str) -> str:
    """A table for booktabs: each ceiling with its 95 % interval. ``label``: of letters, digits and
    hyphens."""
    rows, before = [], ""
    has_n = bool((ceilings["n_blocks"] > 0).any())
    for row in ceilings.iter_rows(named=True):
        if before and row["quantity"] != before:
            rows.append("\\midrule")
        name = str(row["quantity"]).capitalize()
        if row["name"]:
            name = f"{name}, {shortened_label(display_name(row['name']))}"
        cells = [name, _value(row), *([str(row["n_blocks"] or _UNKNOWN)] if has_n else [])]
        rows.append(" & ".join(escaped(cell) for cell in cells) + " \\\\")
        before = row["quantity"]
    return "\n".join(
        [
            f"% {DRAWN_BY}. Needs \\usepackage{{booktabs}}.",
            "\\begin{table}",
            "\\centering",
            "\\small",
            "\\setlength{\\tabcolsep}{4pt}",
            "\\setlength{\\belowcaptionskip}{4pt}",
            f"\\caption{{{_breakable(escaped(_table_caption(results, roof, ceilings)))}}}",
            f"\\label{{tab:{label}}}",
            f"\\begin{{tabular}}{{@{{}}lr{'r' if has_n else ''}@{{}}}}",
            "\\toprule",
            f"Ceiling & Value{' & $n$' if has_n else ''} \\\\",
            "\\midrule",
            *rows,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def _value(row: dict[str, object]) -> str:
    """With its interval: ``10.59 ± 0.02 TFLOP/s``, ``1.21 ± 0.04 pJ/FLOP``."""
    value, low, high = (row[name] for name in ("value", "low", "high"))
    numbers = [None if one is None else float(str(one)) for one in (value, low, high)]
    unit = str(row["unit"])
    if unit.startswith("J/"):
        picos = [None if one is None else one / _PICO for one in numbers]
        return fixed(picos[0], f"p{unit}", picos[1], picos[2])
    return quantity(numbers[0], unit, numbers[1], numbers[2])
