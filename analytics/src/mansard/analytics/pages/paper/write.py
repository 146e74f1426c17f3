"""The files of a figure: the figure itself, its values and its caption, each written whole.

Each file names Mansard, so that a later figure may replace it.
"""

from __future__ import annotations

import re
import struct
import unicodedata
import zlib
from pathlib import Path
from typing import Literal

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.pages.paper.caption import DRAWN_BY
from mansard.analytics.pages.paper.content import Content, short_device
from mansard.core.errors import UsageError
from mansard.core.text import printable

Suffix = Literal["pdf", "svg", "png", "tex"]
SUFFIXES: tuple[Suffix, ...] = ("pdf", "svg", "png", "tex")
_LONGEST_PART = 40  # characters of a device or a mode in a file name
_PNG_HEAD = 33  # bytes: the signature and the first chunk


def file_stem(content: Content, first: str = "") -> str:
    """``roofline-jetson-agx-orin-maxn``: only letters, digits and hyphens.

    ``first``: instead of the kind of the figure.
    """
    device = "".join(filter(str.isprintable, content.device))
    parts = (first or content.kind, _slug(short_device(device)), _slug(content.mode))
    return "-".join(filter(None, parts))


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_PART].strip("-")


def figure_path(output: Path | None, content: Content) -> Path:
    """``output``; where it is a folder or None, a PDF there or in the current folder."""
    name = f"{file_stem(content)}.pdf"
    if output is None:
        return Path(name)
    return output / name if output.is_dir() else output


def suffix_of(output: Path | None) -> Suffix:
    """The format by the ending of a file, PDF for a folder; UsageError for another ending."""
    if output is None or output.is_dir():
        return "pdf"
    asked = output.suffix.lower().removeprefix(".")
    for suffix in SUFFIXES:
        if asked == suffix:
            return suffix
    raise UsageError(
        f"{printable(output.name, 80)!r} is not a figure file",
        fix="end it in .pdf, .svg, .png or .tex, or name a folder that exists",
    )


def values_file(frame: pl.DataFrame) -> bytes:
    """``frame`` as CSV, with plain spaces in its texts."""
    plain = frame.with_columns(
        pl.col(pl.String).str.replace_all("\u00a0", " ").map_elements(_cell, pl.String)
    )
    return plain.write_csv().encode()


def _cell(text: str) -> str:
    """``text`` on one line, behind a quote where a spreadsheet would read it as a formula."""
    shown = display_name(text) if text else text
    return f"'{shown}" if shown[:1] in set("=+-@") else shown


def marked(content: bytes, suffix: Suffix) -> bytes:
    """``content`` with ``DRAWN_BY`` in a comment or as metadata; a LaTeX table has it already."""
    words = DRAWN_BY.encode()
    if suffix == "svg":
        return content.replace(b">", b"><!-- " + words + b" -->", 1)
    if suffix == "pdf":
        return content.rstrip(b"\n") + b"\n% " + words + b"\n"
    if suffix == "png":
        text = b"tEXtSoftware\0" + words
        chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
        return content[:_PNG_HEAD] + chunk + content[_PNG_HEAD:]
    return content
