"""The files of a figure: the figure itself, its values and its caption, each written whole.

Each says that Mansard drew it, so that the next figure may take its place.
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
_LONGEST_PART = 40  # characters of a device's or a mode's name in that of a file
_PNG_HEAD = 33  # bytes: the signature and the first chunk


def file_stem(content: Content) -> str:
    """``roofline-jetson-agx-orin-maxn``: letters and digits alone, whatever the names hold."""
    parts = (content.kind, _slug(short_device(content.device)), _slug(content.mode))
    return "-".join(filter(None, parts))


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_PART].strip("-")


def figure_path(output: Path | None, content: Content) -> Path:
    """Where the figure goes: ``output``, in it where it is a folder, else here; a PDF by default.

    Raises UsageError for another kind of file.
    """
    name = f"{file_stem(content)}.pdf"
    if output is None:
        return Path(name)
    return output / name if output.is_dir() else output


def suffix_of(output: Path | None) -> Suffix:
    """The form that the name of a file asks for, PDF of a folder; raises UsageError of others."""
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
    """``text`` on one line; one that a spreadsheet would take for a formula has a quote before."""
    shown = display_name(text) if text else text
    return f"'{shown}" if shown[:1] in set("=+-@") else shown


def marked(content: bytes, suffix: Suffix) -> bytes:
    """A figure with the words that say who drew it; a LaTeX table has them."""
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
